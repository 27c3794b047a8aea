"""Several MySQL servers: the writable one is found, and a replica that is promoted is followed by both programs."""
import time

import pytest

from harness.secured.mariadb import SecuredMariaDB
from harness.stack import until

pytestmark = pytest.mark.turn(2, 7)


@pytest.fixture(scope="module")
def replica(world):
    """A server that follows the world's, by TLS, and refuses to write."""
    made = SecuredMariaDB(world.folder / "replica", world.trusted, "--log-bin=binlog", "--server-id=2").up(world.good)
    made.sql(f"CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT={world.server.port}, MASTER_USER='secured', MASTER_PASSWORD='{world.password}', "
             f"MASTER_SSL=1, MASTER_SSL_CA='{world.trusted.file}', MASTER_LOG_FILE='binlog.000001', MASTER_LOG_POS=4; START SLAVE; SET GLOBAL read_only=1")
    catch_up(world, made)
    yield made
    made.process.stop()
    world.server.sql("SET GLOBAL read_only=0")


def catch_up(world, replica):
    file, position = world.server.sql("SHOW MASTER STATUS")[0][:2]
    assert replica.sql(f"SELECT MASTER_POS_WAIT('{file}', {position}, 200) >= 0") == [["1"]], replica.sql("SHOW SLAVE STATUS")


def promote(world, replica):
    world.server.sql("SET GLOBAL read_only=1")
    catch_up(world, replica)
    replica.sql("STOP SLAVE; SET GLOBAL read_only=0")


def popped(api):
    return [job["id"] for job in api.rest.post("/v1/topics/turn/pop", {"max": 100}).json.get("jobs", [])]


def made(api, key):
    answer = api.rest.put(f"/v1/topics/turn/jobs/{key}", {"delay": 0})
    return answer.status in (200, 201) and answer.json["id"]


def test_without_a_writable_server_each_server_is_named(world, replica):
    servers = world.server, replica
    before = [server.sql("SELECT @@read_only")[0][0] for server in servers]  # the replica may have been promoted
    try:
        for server in servers:
            server.sql("SET GLOBAL read_only=1")
        said = world.program(hosts=f"127.0.0.1:{world.server.port},127.0.0.1:{replica.port}").command("--list-tokens").stderr
    finally:
        for server, value in zip(servers, before):
            server.sql(f"SET GLOBAL read_only={value}")
    assert f"127.0.0.1:{world.server.port} is read-only; 127.0.0.1:{replica.port} is read-only" in said, said


def test_a_promoted_replica_is_followed(world, replica):
    hosts = f"127.0.0.1:1, localhost.invalid, 127.0.0.1:{replica.port}, 127.0.0.1:{world.server.port}"
    settings = {"zookeeper.session_timeout": "PT1S", "log.level": "info"}
    api = world.program(settings, hosts=hosts)
    dispatcher = world.program(settings, dispatcher=True, hosts=hosts).launch()
    api.start()
    try:
        assert api.rest.put("/v1/topics/turn", {"delivery": "pull"}).status in (200, 201)
        before = made(api, "before")
        handed = until(lambda: popped(api), dispatcher.log)
        assert handed == [before]
        waiting = api.rest.make(topic="turn", delay="PT2S")["id"]
        promote(world, replica)
        time.sleep(1.1)  # this account may write on a server that is read-only, so connections ask, but only once a second (mysql/db.h)
        after = until(lambda: made(api, "after"), api.log)
        assert api.rest.get(f"/v1/jobs/{after}").status == 200  # by whatever connection
        until(lambda: handed.extend(popped(api)) or len(handed) == 3, lambda: f"{handed}\n{api.log()}\n{dispatcher.log()}")
        assert sorted(handed) == sorted([before, waiting, after])
        assert [server.sql(f"SELECT COUNT(*) FROM secured.jobs WHERE id = {after}") for server in (replica, world.server)] == [[["1"]], [["0"]]]
    finally:
        codes = api.end(), dispatcher.end()
    assert codes == (0, 0), (api.log(), dispatcher.log())

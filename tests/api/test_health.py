"""Readiness says what can be done now: not that a server answers, and not what was so a while ago."""
import contextlib
import os
import signal

import pymysql
import pytest

from harness.raw import Raw
from harness.servers import redis_clients
from harness.stack import until

pytestmark = pytest.mark.in_turns(3)

ALL = "SELECT, UPDATE, DELETE, EXECUTE, CREATE, DROP, ALTER, INDEX, REFERENCES, LOCK TABLES"


def ready(api):
    return api.get("/readyz").json


def is_well(api):
    return ready(api)["status"] == "ready"


@pytest.fixture
def well(api):
    until(lambda: is_well(api), lambda: api.get("/readyz"))
    yield
    until(lambda: is_well(api), lambda: api.get("/readyz"))


def test_readiness_shows_the_age_of_each_check(api, well):
    ages = lambda: ready(api)["age_ms"]  # noqa: E731
    assert set(ages()) == {"mysql", "redis", "leaders", "kafka"}
    until(lambda: all(0 <= age < 8000 for age in ages().values()), ages)
    info = api.get("/v1/info").json
    assert info["configured"] == {"election": "zookeeper", "due": "redis", "kafka": True}
    health = info["health"]
    assert health["mysql"]["state"] == "ok" and health["redis"]["state"] == "ok" and health["mysql"]["age_ms"] >= 0


def test_dead_leaders_are_not_named(stack, api, db, well):
    until(lambda: all(shard["leader"] for shard in api.get("/v1/info").json["shards"]), "leaders are named")
    stack.refresh()
    stack.kill("dispatcher1")
    try:
        until(lambda: ready(api)["leaders"] == "degraded", lambda: ready(api))
        assert ready(api)["kafka"] == "ok"  # the dispatchers are away, and not Kafka
        assert api.get("/readyz").status == 200
        until(lambda: [shard["leader"] for shard in api.get("/v1/info").json["shards"]] == [None, None], lambda: api.get("/v1/info"))
        until(lambda: db("SELECT COUNT(owner) n, COUNT(last_owner) was FROM v_shards")[0] == {"n": 0, "was": 2}, lambda: db("SELECT * FROM v_shards"))
    finally:
        stack.start("dispatcher1")


def test_leaders_that_stepped_down_without_zookeeper_are_not_named(stack, api, db, well):
    stack.refresh()
    pid = stack.pid("zookeeper")
    os.kill(pid, signal.SIGSTOP)
    try:
        until(lambda: ready(api)["leaders"] == "degraded", lambda: ready(api))
        until(lambda: db("SELECT COUNT(owner) n FROM v_shards")[0]["n"] == 0, lambda: db("SELECT * FROM v_shards"))
    finally:
        os.kill(pid, signal.SIGCONT)


@pytest.mark.parametrize("harm, heal", [("CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0"), ("REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE"),
                                        ("ACL SETUSER default -evalsha", "ACL SETUSER default +@all")])
def test_a_redis_that_refuses_writes_is_degraded(stack, api, well, harm, heal):
    server = redis_clients(stack)[0]
    server.execute_command(*harm.split())
    try:
        until(lambda: ready(api)["redis"] == "degraded", lambda: ready(api))
        assert api.get("/readyz").status == 200
        until(lambda: api.get("/v1/info").json["health"]["redis"]["detail"], lambda: api.get("/v1/info"))
    finally:
        server.execute_command(*heal.split())
    until(lambda: ready(api)["redis"] == "ok", lambda: ready(api))


@pytest.fixture
def limited(own_apis, stack):
    """An API whose account may insert table by table, and somebody who may take that away."""
    one = own_apis("limited")
    root, name = one.connect(), one.database
    one._write({"mysql.user": "limited", "mysql.password": "limited"})
    with root.cursor() as cursor:
        cursor.execute("CREATE USER IF NOT EXISTS limited IDENTIFIED BY 'limited'")
        cursor.execute("CREATE USER IF NOT EXISTS limited@localhost IDENTIFIED BY 'limited'")
        cursor.execute("SHOW TABLES")
        tables = [row[0] if isinstance(row, tuple) else next(iter(row.values())) for row in cursor.fetchall()]
        for account in ("limited", "limited@localhost"):
            cursor.execute(f"GRANT {ALL} ON `{name}`.* TO {account}")
            for table in tables:
                with contextlib.suppress(pymysql.Error):
                    cursor.execute(f"GRANT INSERT ON `{name}`.`{table}` TO {account}")
    one.start()
    yield one, root, name
    root.close()


@pytest.mark.in_turns(3)
def test_a_mysql_that_refuses_inserts_makes_readiness_fail_with_a_reason(limited):
    one, root, name = limited
    until(lambda: one.rest.get("/readyz").status == 200, one.log)
    with root.cursor() as cursor:
        for table in ("jobs", "job_keys", "processes"):
            for account in ("limited", "limited@localhost"):
                cursor.execute(f"REVOKE INSERT ON `{name}`.`{table}` FROM {account}")
            until(lambda: one.rest.get("/readyz").status == 503, table)
            body = one.rest.get("/readyz").body.decode()
            assert ready(one.rest)["mysql"] == "refused"
            assert "limited" not in body and "denied" not in body and "localhost" not in body, body
            for account in ("limited", "limited@localhost"):
                cursor.execute(f"GRANT INSERT ON `{name}`.`{table}` TO {account}")
            until(lambda: one.rest.get("/readyz").status == 200, table)
        cursor.execute("SET GLOBAL read_only = ON")
        try:
            until(lambda: ready(one.rest)["mysql"] == "read-only", lambda: ready(one.rest))
            assert one.rest.get("/readyz").status == 503
        finally:
            cursor.execute("SET GLOBAL read_only = OFF")
        until(lambda: one.rest.get("/readyz").status == 200, one.log)


def test_readiness_reports_that_all_workers_are_busy(own_apis):
    api = own_apis.beside("busy", {"http.workers": 2})
    job = api.rest.make(topic="busy", delay="PT1H")
    until(lambda: ready(api.rest)["workers"] == "ok", lambda: ready(api.rest))
    wires = [Raw(api.url) for _ in range(5)]
    with contextlib.closing(api.connect()) as connection, connection.cursor() as cursor:
        cursor.execute("LOCK TABLES jobs WRITE")
        for wire in wires:
            wire.send(f"GET /v1/jobs/{job['id']} HTTP/1.1\r\nHost: localhost\r\n\r\n")
        until(lambda: ready(api.rest)["workers"] == "busy", lambda: ready(api.rest))
        answer = api.rest.get("/readyz")
        assert answer.status == 200 and answer.json["status"] == "degraded" and answer.json["mysql"] == "ok", answer
        cursor.execute("UNLOCK TABLES")
    assert [wire.answer()[0] for wire in wires] == [200] * 5
    until(lambda: ready(api.rest)["workers"] == "ok", lambda: ready(api.rest))
    for wire in wires:
        wire.socket.close()

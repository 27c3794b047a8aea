"""ZooKeeper with digest authentication: our nodes are ours alone, below a chroot."""
import signal
import sys

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError

from harness.stack import TREE, until

sys.path.insert(0, str(TREE / "deploy"))

from stack import ports  # noqa: E402
from stack.servers.zookeeper import ZooKeeper  # noqa: E402

pytestmark = pytest.mark.turn(5, 7)


@pytest.fixture(scope="module")
def zookeeper(world):
    home = world.folder / "zk"
    home.mkdir()
    made = ZooKeeper(home, ports.choose(set(), home))
    made.start()
    made.wait_ready()
    client = KazooClient(hosts=made.address)
    client.start()
    client.create("/apps")
    yield made, client
    client.stop()
    client.close()
    made.process.stop()


def settings(zookeeper, **more):
    return {"zookeeper.servers": f"{zookeeper.address}/apps", "zookeeper.session_timeout": "PT2S", **{f"zookeeper.{key}": value for key, value in more.items()}}


def everything_below(client, path):
    return [path, *(found for child in client.get_children(path) for found in everything_below(client, f"{path}/{child}"))]


def test_zookeeper_nodes_are_accessible_only_to_us(world, zookeeper, tmp_path):
    server, stranger = zookeeper
    secret = tmp_path / "secret"
    secret.write_text("duetime:zk word\n")
    dispatcher = world.program(settings(server, auth_file=secret), dispatcher=True).launch()
    other = None
    try:
        until(lambda: "took over" in dispatcher.log(), dispatcher.log)
        with pytest.raises(NoAuthError):
            stranger.get_children("/apps/duetime")
        stranger.add_auth("digest", "duetime:zk word")
        nodes = until(lambda: len(found := everything_below(stranger, "/apps/duetime")) > 5 and found, dispatcher.log)
        for node in nodes:
            acls = stranger.get_acls(node)[0]
            assert [(acl.id.scheme, acl.id.id.split(":")[0], acl.perms) for acl in acls] == [("digest", "duetime", 31)], (node, acls)
        put_right = tmp_path / "put-right"
        put_right.write_text("duetime:wrong-word\n")
        other = world.program(settings(server, auth_file=put_right), dispatcher=True).launch()
        until(lambda: "not authenticated" in other.log(), other.log)
        assert "took over" not in other.log()
        put_right.write_text("duetime:zk word\n")
        other.process.send_signal(signal.SIGHUP)
        dispatcher.end()
        until(lambda: "took over" in other.log(), other.log)
        assert len([line for line in other.log().splitlines() if "not authenticated" in line]) <= 2, other.log()
        assert "wrong-word" not in other.log()
    finally:
        codes = dispatcher.end(), other and other.end()
    assert codes == (0, 0), dispatcher.log()
    assert "zk word" not in dispatcher.log()


def test_a_missing_chroot_is_logged_and_used_once_it_exists(world, zookeeper):
    server, client = zookeeper
    dispatcher = world.program({**settings(server), "zookeeper.servers": f"{server.address}/later"}, dispatcher=True).launch()
    try:
        until(lambda: "the chroot of zookeeper.servers does not exist" in dispatcher.log(), dispatcher.log)
        client.create("/later")
        until(lambda: client.exists("/later/duetime"), dispatcher.log)
    finally:
        code = dispatcher.end()
    assert code == 0, dispatcher.log()

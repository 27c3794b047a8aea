"""Sentinels lead to the master, whichever server that is."""
import pytest

from harness.secured.redis import is_indexed, serving
from harness.stack import until

pytestmark = pytest.mark.turn(6, 7)


def test_sentinels_name_the_new_master(world, start):
    master = start("master", "user default on nopass ~* &* +@all")
    other = start("other", f"replicaof 127.0.0.1 {master.port}", "user default on nopass ~* &* +@all", "repl-diskless-sync-delay 0")
    until(lambda: other.client.info("replication")["master_link_status"] == "up", "it follows")
    watch = [f"sentinel monitor mine 127.0.0.1 {master.port} 1", "sentinel down-after-milliseconds mine 1000", "sentinel failover-timeout mine 5000"]
    sentinel = start("sentinel", *watch, sentinel=True)
    until(lambda: sentinel.client.sentinel_slaves("mine"), "the sentinel knows both")
    with serving(world, {"redis.endpoints": "master:mine", "redis.sentinels": f"127.0.0.1:1, {sentinel.address}"}) as api:
        until(lambda: api.rest.get("/readyz").json["redis"] == "ok", api.log)
        assert is_indexed(api, master), api.log()
        sentinel.client.sentinel_failover("mine")
        until(lambda: other.client.info("replication")["role"] == "master", "it is promoted")
        other.client.config_resetstat()
        until(lambda: api.rest.get("/readyz").json["redis"] == "ok" and is_indexed(api, other), api.log)

"""Redis with users, fewer rights and TLS."""
import pytest

from harness.secured.redis import is_indexed, serving
from harness.stack import until

pytestmark = pytest.mark.turn(3, 7)

ALL = ("~*", "&*", "+@all")


def said(api, text):
    return [line for line in api.log().splitlines() if text in line and ("level=warn" in line or "level=error" in line)]


def test_a_redis_user_works_and_a_password_can_change_in_its_file(world, start, tmp_path):
    server = start("one", "user default off")
    server.user("jobs", ">first word", *ALL)
    secret = tmp_path / "secret"
    secret.write_text("first word\n")
    with serving(world, {"redis.endpoints": server.address, "redis.user": "jobs", "redis.password_file": secret}) as api:
        until(lambda: api.rest.get("/readyz").json["redis"] == "ok", api.log)
        assert is_indexed(api, server), api.log()
        server.user("jobs", ">second word", *ALL)
        secret.write_text("second word\n")
        server.kill_clients()
        until(lambda: api.rest.get("/readyz").json["redis"] == "ok" and is_indexed(api, server), api.log)
        assert "word" not in api.log().replace("password", ""), api.log()


def test_a_wrong_redis_password_is_logged_once_and_the_api_still_creates_jobs(world, start):
    server = start("two")
    server.user("jobs", ">right", *ALL)
    with serving(world, {"redis.endpoints": server.address, "redis.user": "jobs", "redis.password": "wrong-one"}) as api:
        until(lambda: api.rest.get("/readyz").json["redis"] == "degraded", api.log)
        for _ in range(20):
            api.rest.make(topic="index", delay="PT10M")
        assert len(said(api, "WRONGPASS")) == 1 and "wrong-one" not in api.log(), api.log()


def test_without_the_right_to_load_scripts_they_are_sent_in_full(world, start):
    server = start("three")
    server.user("jobs", ">right", *ALL, "-script", "-restore", "-config")
    with serving(world, {"redis.endpoints": server.address, "redis.user": "jobs", "redis.password": "right"}) as api:
        until(lambda: api.rest.get("/readyz").json["redis"] == "ok", api.log)
        assert is_indexed(api, server), api.log()
        assert said(api, "scripts are sent whole"), api.log()
        assert "cmdstat_evalsha" not in server.client.info("commandstats")


def test_without_the_right_to_run_scripts_the_missing_right_is_named(world, start):
    server = start("four")
    server.user("jobs", ">right", *ALL, "-script", "-eval", "-evalsha")
    with serving(world, {"redis.endpoints": server.address, "redis.user": "jobs", "redis.password": "right"}) as api:
        until(lambda: api.rest.get("/readyz").json["redis"] == "degraded", api.log)
        assert "eval" in api.rest.get("/v1/info").json["health"]["redis"]["detail"].lower()


def test_a_master_without_sentinels_is_refused(world):
    api = world.program({"redis.endpoints": "master:mine"}).launch()
    assert api.process.wait(120) == 1 and "needs redis.sentinels" in api.log(), api.log()


def test_redis_tls_works_or_fails_with_a_reason(world, start):
    """As the library can: Debian 12's hiredis has none."""
    server = start("secured", tls=(*world.good, world.trusted.file))
    settings = {"redis.endpoints": server.address, "redis.tls": "verify", "redis.ca_file": world.trusted.file, "redis.user": "root", "redis.password": "root"}
    api = world.program(settings).launch()
    until(lambda: "msg=listening" in api.log() or api.process.poll() is not None, api.log)
    if api.process.poll() is not None:
        assert api.process.returncode == 1 and "which has no TLS" in api.log(), api.log()
        return
    api.end()
    with serving(world, settings) as api:
        until(lambda: api.rest.get("/readyz").json["redis"] == "ok", api.log)
        assert is_indexed(api, server), api.log()
    for bad in (world.stranger.issue("strange-redis"), world.trusted.issue("elsewhere-redis", "DNS:elsewhere"), world.trusted.issue("expired-redis", days=-1)):
        other = start(bad[0].stem, tls=(*bad, world.trusted.file)) if bad[0].stem != "strange-redis" else start("strange", tls=(*bad, world.stranger.file))
        with serving(world, {**settings, "redis.endpoints": other.address}) as api:
            until(lambda: said(api, "certificate") or said(api, "mismatch"), api.log)
            until(lambda: api.rest.get("/readyz").json["redis"] == "degraded", api.log)

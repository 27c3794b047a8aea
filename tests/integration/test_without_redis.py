"""Leaders that read what is due from MySQL: an installation without Redis, and one that gives its index up and takes it back while it works.

After each load the independent checker looks at everything: exactly once, never early, nothing lost.
"""
import os
import random

import pytest

from harness.checker import connect, rows
from harness.load import under_load
from harness.rest import Rest
from harness.stack import Stack, until

SHARDS = 4
OPTIONS = ["--apis", "2", "--dispatchers", "2", "--redis", "1", "--shards", str(SHARDS), "--sanitize", "--kafka", os.environ.get("DUETIME_TEST_KAFKA", "3"),
           "--set", "reconcile.period=PT1S", "--set", "reconcile.walk=PT10S", "--set", "dispatch.rest_after=PT2S"]
PROGRAMS = ["api1", "dispatcher1", "api2", "dispatcher2"]
SEED = int(os.environ.get("DUETIME_TEST_SEED") or random.SystemRandom().randrange(1 << 31))
NO_INDEX = {"redis.endpoints": ""}


@pytest.fixture(scope="module")
def with_redis():
    made = Stack(os.environ.get("DUETIME_TEST_STACK", "without-redis"), *OPTIONS)
    yield made.up()
    made.reset()


@pytest.fixture(scope="module")
def stack(with_redis):
    """The same installation, a part poorer."""
    yield with_redis.up_again("--without", "redis")


def homes(stack):
    """Where the sets of shards are, as their leaders say: "" where there is none."""
    return {(row["index_at"] or b"").decode() for row in rows(connect(stack), "SELECT index_at FROM shards")}


def all_led(stack):
    until(lambda: Rest(stack["DUETIME_URL"]).get("/readyz").json["status"] == "ready", 30, stack.logs)


def test_an_installation_gives_redis_up_and_takes_it_back_in_rolling_restarts(with_redis):
    stack = with_redis
    all_led(stack)
    assert homes(stack) == {stack["DUETIME_REDIS"]}
    with under_load(stack, SEED) as run:
        run.goes_on()
        for part in PROGRAMS:
            stack.restart(part, settings=NO_INDEX)
            run.goes_on()
        until(lambda: homes(stack) == {""}, 20, lambda: f"nobody has a set: {homes(stack)}")
        run.goes_on()
        for part in reversed(PROGRAMS):
            stack.restart(part)
            run.goes_on()
        until(lambda: homes(stack) == {stack["DUETIME_REDIS"]}, 20, lambda: f"all sets are back: {homes(stack)}\n{stack.logs()}")
        run.goes_on()


def test_it_says_what_is_there(stack):
    all_led(stack)
    api = Rest(stack["DUETIME_URL"])
    info = api.get("/v1/info").json
    assert info["configured"]["due"] == "mysql"
    assert info["health"]["redis"]["state"] == "none"
    until(lambda: not api.get("/v1/info").json["shard_map"]["moving"], 20, "no shard waits for an index")
    until(lambda: all(shard["waiting_for"] is None for shard in api.get("/v1/info").json["shards"]), 10, "no leader waits for Redis")
    assert api.get("/readyz").json["redis"] == "none"
    assert "DUETIME_PID_REDIS1" not in stack.env
    assert "duetime_api_redis_up" not in api.get("/metrics").body.decode()


def test_everything_is_dispatched_without_an_index(stack):
    all_led(stack)
    with under_load(stack, SEED + 1, edits=True) as run:
        run.goes_on()
        stack.kill("dispatcher1")
        run.goes_on()
        stack.start("dispatcher1")
        run.goes_on()

"""Leaders elected by leases in MySQL: a whole installation without ZooKeeper, and one that gives it up and takes it back while it works.

After each load the independent checker looks at everything: exactly once, never early, nothing lost.
"""
import os
import random
import signal
import time

import pytest

from harness.checker import connect, rows
from harness.harm.detours import Detours
from harness.load import under_load
from harness.rest import Rest
from harness.stack import Stack, until
from harness.takeover import leaders
from harness.harm.zookeeper import logged

SHARDS = 4
OPTIONS = ["--apis", "1", "--dispatchers", "2", "--redis", "1", "--shards", str(SHARDS), "--sanitize", "--kafka", os.environ.get("DUETIME_TEST_KAFKA", "3"),
           "--set", "reconcile.period=PT1S", "--set", "reconcile.walk=PT10S", "--set", "dispatch.rest_after=PT2S",
           "--set", "mysql.io_timeout=PT3S"]
DISPATCHERS = ["dispatcher1", "dispatcher2"]
TIMEOUT = 4.0  # zookeeper.session_timeout of the local stack
SEED = int(os.environ.get("DUETIME_TEST_SEED") or random.SystemRandom().randrange(1 << 31))
LEASES = {"zookeeper.servers": ""}
pytestmark = pytest.mark.turn(3, 5)


@pytest.fixture(scope="module")
def detours():
    """The way of one dispatcher to MySQL."""
    made = Detours([("dispatcher1", "mysql")])
    yield made
    made.end()


@pytest.fixture(scope="module")
def installation(detours):
    made = Stack("leases", *OPTIONS, *detours.options)
    detours.attach(made)
    yield made.up()
    made.reset()


@pytest.fixture
def stack(installation):
    return installation.have("zookeeper", False)


def led_by(stack, *parts):
    """How many shards each of them leads, by MySQL."""
    pids = list(leaders(stack).values())
    return [pids.count(stack.pid(part)) for part in parts]


def balanced(stack):
    until(lambda: led_by(stack, *DISPATCHERS) == [2, 2], lambda: f"two each: {leaders(stack)}\n{stack.logs()}")


def since(stack, part, message, after):
    """When it said so first after that time; None."""
    return next((at for at in logged(stack.log(part), message) if at > after), None)


def epochs(stack):
    return {row["shard"]: row["epoch"] for row in rows(connect(stack), "SELECT shard, epoch FROM shards")}


def test_zookeeper_can_be_removed_and_added_in_rolling_restarts(installation):
    stack = installation.have("zookeeper")
    balanced(stack)
    before = epochs(stack)
    with under_load(stack, SEED) as run:
        run.goes_on()
        stack.restart("dispatcher1", settings=LEASES)
        until(lambda: led_by(stack, "dispatcher2") == [SHARDS], lambda: f"ZooKeeper's leads all: {leaders(stack)}")
        run.goes_on()
        stack.restart("dispatcher2", settings=LEASES)
        balanced(stack)
        run.goes_on()
        assert rows(connect(stack), "SELECT COUNT(*) n FROM leases")[0]["n"] == SHARDS
        stack.restart("dispatcher1")  # back
        until(lambda: led_by(stack, "dispatcher1") == [SHARDS], lambda: f"ZooKeeper's leads all: {leaders(stack)}\n{stack.logs()}")
        run.goes_on()
        stack.restart("dispatcher2")
        balanced(stack)
        run.goes_on()
    after = epochs(stack)
    assert all(after[shard] > before[shard] for shard in before), (before, after)


def test_readiness_and_info_show_which_server_elects_leaders(stack):
    balanced(stack)
    api = Rest(stack["DUETIME_URL"])
    assert api.get("/v1/info").json["configured"]["election"] == "mysql"
    until(lambda: api.get("/readyz").json["leaders"] == "ok", "every shard has a leader")
    assert all(shard["leader"] for shard in api.get("/v1/info").json["shards"])
    assert "DUETIME_PID_ZOOKEEPER" not in stack.env
    assert 'duetime_election{by="mysql"} 1\n' in stack.metrics()


@pytest.fixture
def long_leases(stack):
    """long_leases(seconds) sets the leases of both dispatchers until the test ends. Then the claims about expiry also hold on a busy machine."""
    def last(seconds):
        for part in DISPATCHERS:
            stack.restart(part, settings={"zookeeper.session_timeout": f"PT{seconds}S"})
        balanced(stack)
    yield last
    for part in DISPATCHERS:
        stack.restart(part)


def test_a_dispatcher_cut_off_steps_down_before_another_leads(stack, detours, long_leases):
    long_leases(12)
    with under_load(stack, SEED + 5) as run:
        run.goes_on()
        cut = time.time()
        detours["dispatcher1", "mysql"].hold()
        try:
            down = until(lambda: since(stack, "dispatcher1", "stepping down", cut), "it steps down")
            took = until(lambda: since(stack, "dispatcher2", "took over", cut), "the other takes over")
            until(lambda: led_by(stack, "dispatcher2") == [SHARDS], lambda: f"dispatcher2 leads all: {leaders(stack)}")
        finally:
            detours["dispatcher1", "mysql"].heal()
        print(f"stepped down after {down - cut:.2f} s, taken over after {took - cut:.2f} s")
        run.goes_on(seconds=60)
        balanced(stack)
    assert down < took, (down, took)


def test_a_dispatcher_that_is_stopped_hands_over_without_waiting_for_its_lease(stack, long_leases):
    long_leases(120)
    with under_load(stack, SEED + 3) as run:
        run.goes_on()
        stack.signal("dispatcher1", signal.SIGTERM)
        until(lambda: led_by(stack, "dispatcher2") == [SHARDS], lambda: f"dispatcher2 leads all: {leaders(stack)}", seconds=6)
        run.goes_on()
        until(lambda: not stack.running("dispatcher1"), "it ends")
        stack.start("dispatcher1")
        balanced(stack)


def test_at_rest_the_election_sends_few_statements(stack):
    """Two statements in 0.3 timeouts of each dispatcher: a renewal and a look."""
    balanced(stack)
    connection = connect(stack)

    def renewals():
        return {row["id"]: row["renewals"] for row in rows(connection, "SELECT id, renewals FROM election_members WHERE NOT ended")}
    began, first = time.monotonic(), renewals()
    time.sleep(6)  # what is counted is a rate
    last = renewals()
    rate = sum(last[member] - first[member] for member in first.keys() & last.keys()) / (time.monotonic() - began) / len(DISPATCHERS)
    assert rate <= 1 / (0.3 * TIMEOUT) * 1.1, rate

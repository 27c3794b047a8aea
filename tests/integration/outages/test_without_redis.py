"""Leaders that read what is due from MySQL: an installation without Redis, and one that gives its index up and takes it back while it works.

After each load the independent checker looks at everything: exactly once, never early, nothing lost.
"""
import os
import random
import uuid

import pytest

from harness.checker import connect, rows
from harness.load import under_load
from harness.receiver import Receiver
from harness.rest import Rest
from harness.stack import Stack, until

pytestmark = pytest.mark.turn(2, 5)

SHARDS = 4
OPTIONS = ["--apis", "2", "--dispatchers", "2", "--redis", "1", "--shards", str(SHARDS), "--sanitize", "--kafka", os.environ.get("DUETIME_TEST_KAFKA", "3"),
           "--set", "reconcile.period=PT1S", "--set", "reconcile.walk=PT10S", "--set", "dispatch.rest_after=PT2S"]
PROGRAMS = ["api1", "dispatcher1", "api2", "dispatcher2"]
SEED = int(os.environ.get("DUETIME_TEST_SEED") or random.SystemRandom().randrange(1 << 31))
NO_INDEX = {"redis.endpoints": ""}


@pytest.fixture(scope="module")
def installation():
    made = Stack("without-redis", *OPTIONS)
    yield made.up()
    made.reset()


@pytest.fixture
def stack(installation):
    return installation.have("redis", False)


def execute(stack, sql, *values):
    with connect(stack).cursor() as cursor:
        cursor.execute(sql, values)


def homes(stack):
    """Where the sets of shards are, as their leaders say: "" where there is none."""
    return {(row["index_at"] or b"").decode() for row in rows(connect(stack), "SELECT index_at FROM shards")}


def all_led(stack):
    until(lambda: Rest(stack["DUETIME_URL"]).get("/readyz").json["status"] == "ready", stack.logs)


def test_redis_can_be_removed_and_added_in_rolling_restarts(installation):
    stack = installation.have("redis")
    all_led(stack)
    assert homes(stack) == {stack["DUETIME_REDIS"]}
    with under_load(stack, SEED) as run:
        run.goes_on()
        for part in PROGRAMS:
            stack.restart(part, settings=NO_INDEX)
            run.goes_on()
        until(lambda: homes(stack) == {""}, lambda: f"no shard has a set: {homes(stack)}")
        run.goes_on()
        for part in reversed(PROGRAMS):
            stack.restart(part)
            run.goes_on()
        until(lambda: homes(stack) == {stack["DUETIME_REDIS"]}, lambda: f"all sets are back: {homes(stack)}\n{stack.logs()}")
        run.goes_on()


def test_readiness_and_info_show_that_there_is_no_redis(stack):
    all_led(stack)
    api = Rest(stack["DUETIME_URL"])
    info = api.get("/v1/info").json
    assert info["configured"]["due"] == "mysql"
    assert info["health"]["redis"]["state"] == "none"
    until(lambda: not api.get("/v1/info").json["shard_map"]["moving"], "no shard waits for an index")
    until(lambda: all(shard["waiting_for"] is None for shard in api.get("/v1/info").json["shards"]), "no leader waits for Redis")
    assert api.get("/readyz").json["redis"] == "none"
    assert "DUETIME_PID_REDIS1" not in stack.env
    assert "duetime_api_redis_up" not in api.get("/metrics").body.decode()


def test_every_kind_of_due_job_is_noticed_without_the_reconciler(stack):
    """On an idle stack: leaders claim jobs that are created, moved, run, retried or edited by hand ten minutes before the reconciler would find them."""
    for part in ("dispatcher1", "dispatcher2"):
        stack.restart(part, settings={"reconcile.period": "PT10M"})
    all_led(stack)
    api, topic = Rest(stack["DUETIME_URL"]), f"t-{uuid.uuid4().hex[:8]}"
    api.put(f"/v1/topics/{topic}", {"retry": ["PT1S"], "ack_timeout": "PT1H"})

    def gone(job, attempt=1):
        until(lambda: api.get(f"/v1/jobs/{job['id']}").json["attempt"] == attempt, f"attempt {attempt} of {job}")
    far = [api.make(topic=topic, delay="PT1H") for _ in range(3)]
    gone(api.make(topic=topic, delay=0))
    gone(api.make(topic=topic, delay="PT1S"))
    assert api.patch(f"/v1/jobs/{far[0]['id']}", {"delay": "PT1S"}).status == 200
    gone(far[0])
    assert api.post(f"/v1/jobs/{far[1]['id']}/run-now").status == 200
    gone(far[1])
    assert api.post(f"/v1/jobs/{far[1]['id']}/results", {"attempt": 1, "status": "failed"}).status == 200
    gone(far[1], 2)
    execute(stack, "UPDATE jobs SET next_at = UNIX_TIMESTAMP(NOW(3)) * 1000 WHERE id = %s", far[2]["id"])
    gone(far[2])
    for part in ("dispatcher1", "dispatcher2"):
        stack.restart(part)


def test_a_job_moved_to_the_distant_past_by_hand_is_sent_within_a_period(stack):
    all_led(stack)
    api, topic = Rest(stack["DUETIME_URL"]), f"t-{uuid.uuid4().hex[:8]}"
    job = api.make(topic=topic, delay="PT1H")
    execute(stack, "UPDATE jobs SET next_at = 1 WHERE id = %s", job["id"])
    until(lambda: api.get(f"/v1/jobs/{job['id']}").json["attempt"] == 1, "the job is claimed after a period of a second")


def test_all_jobs_are_dispatched_without_an_index(stack):
    all_led(stack)
    with under_load(stack, SEED + 1, edits=True) as run:
        run.goes_on()
        stack.kill("dispatcher1")
        run.goes_on()
        stack.start("dispatcher1")
        run.goes_on()


@pytest.fixture
def receivers():
    """One that never answers, and one that does."""
    made = Receiver(lambda request: None), Receiver()
    yield made
    for one in made:
        one.end()


def test_a_dead_host_does_not_delay_other_hosts_of_a_topics_jobs(stack, receivers):
    """Its overdue jobs are more than the topic has places, and than a due scan reads at once."""
    all_led(stack)
    api, topic, (silent, alive) = Rest(stack["DUETIME_URL"]), f"t-{uuid.uuid4().hex[:8]}", receivers
    assert api.put(f"/v1/topics/{topic}", {"delivery": "http", "callback_timeout": "PT2S", "ack_timeout": "PT5M", "retry": ["PT1H"]}).status == 201
    api.batch([{"topic": topic, "delay": 0, "callback_url": silent.url} for _ in range(20000)])
    until(lambda: len(silent.log) >= 50, stack.logs)
    jobs = [api.make(topic=topic, delay=0, callback_url=alive.url)["id"] for _ in range(20)]
    until(lambda: all(api.get(f"/v1/jobs/{job}").json["state"] == "succeeded" for job in jobs), stack.logs)
    assert silent.twice() == []
    assert api.delete(f"/v1/topics/{topic}?cancel=true&wait=PT30S").status in (200, 202)

"""GET /v1/overview and /v1/series: figures of all processes together, and what looking at them costs."""
import itertools
import re
import time
import uuid

import pytest

from harness.problems import refused
from harness.receiver import Receiver
from harness.stack import until

pytestmark = pytest.mark.in_turns(2)

RATES = ("created", "dispatched", "succeeded", "failed", "dead", "cancelled")


def overview(api):
    answer = api.get("/v1/overview")
    assert answer.status == 200, answer
    return answer.json


def committed(api):
    """What the process says in /metrics that it committed."""
    return {of: int(n) for of, n in re.findall(r'^duetime_figures_total\{of="(\w+)"\} (\d+)$', api.get("/metrics").text, re.MULTILINE)}


def line(api, topic):
    return next((each for each in overview(api)["topics"] if each["topic"] == topic), None)


def test_commits_of_a_process_are_in_its_metrics(api, topic):
    before = committed(api)
    assert set(before) == set(RATES), before
    made = [api.make(topic=topic, delay="PT1H")["id"] for _ in range(3)]
    assert api.delete(f"/v1/jobs/{made[0]}").status == 200
    until(lambda: (now := committed(api))["created"] >= before["created"] + 3 and now["cancelled"] >= before["cancelled"] + 1, lambda: (before, committed(api)))


@pytest.fixture(scope="module")
def lived(api, api2):
    """A topic whose jobs, made by two APIs, were sent, and ended in each way, in one step of figures."""
    topic = f"lives-{uuid.uuid4().hex[:8]}"
    api.put(f"/v1/topics/{topic}", {"retry": [], "delivery": "pull"})
    jobs = [who.make(topic=topic, delay=0)["id"] for who in (api, api2) for _ in range(5)]
    taken = []
    until(lambda: taken.extend(api.post(f"/v1/topics/{topic}/pop", {"max": 10, "wait": "PT1S"}).json["jobs"]) or len(taken) == len(jobs), lambda: taken)
    for job, outcome in zip(taken, itertools.chain(["failed"] * 3, itertools.repeat("succeeded"))):
        assert api2.post(f"/v1/jobs/{job['id']}/results", {"attempt": job["attempt"], "status": outcome}).status == 200
    ahead = api.make(topic=topic, delay="PT1H")["id"]
    assert api.delete(f"/v1/jobs/{ahead}").status == 200
    return topic


def sums(api, topic):
    answer = api.get(f"/v1/series?topic={topic}&metric={','.join(RATES)}")
    assert answer.status == 200, answer
    seconds = answer.json["step_ms"] / 1000
    return {name: round(sum(answer.json["metrics"][name]) * seconds) for name in RATES}


def test_events_of_all_processes_are_summed_once(api, lived):
    wanted = {"created": 11, "dispatched": 10, "succeeded": 7, "failed": 3, "dead": 3, "cancelled": 1}
    until(lambda: sums(api, lived) == wanted, lambda: sums(api, lived))
    known = {"scheduled": 0, "dispatched": 0, "dead": 3, "overdue": 0, "oldest_overdue_ms": None, "paused": False, "delivery": "pull"}
    until(lambda: {name: line(api, lived)[name] for name in known} == known, lambda: line(api, lived))
    series = api.get("/v1/series?metric=lateness_p50,lateness_p99,created").json
    p50, p99 = series["metrics"]["lateness_p50"], series["metrics"]["lateness_p99"]
    late = [(a, b) for a, b in zip(p50, p99) if a is not None]
    assert late and all(0 < a <= b for a, b in late)


def test_lateness_includes_callbacks(api, db, topic):
    attempts = lambda: int(db("SELECT COALESCE(SUM(attempts), 0) n FROM figures_lateness WHERE step_ms = 5000")[0]["n"])  # noqa: E731
    receiver = Receiver()
    try:
        assert api.put(f"/v1/topics/{topic}", {"delivery": "http", "callback_url": receiver.url}).status == 201
        before = attempts()
        api.batch([{"topic": topic, "delay": 0} for _ in range(50)])
        until(lambda: attempts() >= before + 50, lambda: (before, attempts(), len(receiver.log)))
    finally:
        receiver.end()


def test_overdue_jobs_and_their_topic_come_first(api, topic):
    api.put(f"/v1/topics/{topic}", {"delivery": "pull"})
    api.make(topic=topic, delay=0)
    seen = until(lambda: (found := line(api, topic)) and found["overdue"] == 1 and found, lambda: overview(api))
    assert seen["oldest_overdue_ms"] >= 0 and seen["held"] == 0
    whole = overview(api)
    assert all(each["overdue"] for each in whole["topics"][:[each["topic"] for each in whole["topics"]].index(topic)])
    assert whole["overdue"]["count"] >= 1 and not whole["overdue"]["at_least"] and whole["overdue"]["oldest_ms"] >= 0
    assert api.post(f"/v1/topics/{topic}/pop", {"wait": "PT5S"}).json["jobs"]
    until(lambda: (found := line(api, topic)) and found["overdue"] == 0, lambda: line(api, topic))


def test_jobs_of_a_paused_topic_are_held_and_not_late(api, held, topic, stack):
    for _ in range(3):
        api.make(topic=held, delay=0)
    seen = until(lambda: (found := line(api, held)) and found["held"] == 3 and found, lambda: overview(api))
    assert seen["paused"] and seen["overdue"] == 0 and seen["oldest_overdue_ms"] is None
    whole = overview(api)
    assert whole["held"]["count"] >= 3 and whole["held"]["oldest_ms"] >= 0
    until(lambda: (whole := overview(api))["overdue"]["count"] == sum(each["overdue"] for each in whole["topics"]), lambda: overview(api))
    info = until(lambda: (found := api.get("/v1/info").json)["held"] >= 3 and found, lambda: api.get("/v1/info").text)
    assert sum(shard["held"] for shard in info["shards"]) == info["held"]
    assert all(shard["backlog"] == shard["overdue"] + shard["held"] for shard in info["shards"])
    until(lambda: re.search(r"^duetime_held_jobs [3-9]", stack.metrics(), re.MULTILINE), stack.metrics)
    api.post(f"/v1/topics/{held}/resume")
    until(lambda: (found := line(api, held)) and found["held"] == found["overdue"] == 0, lambda: line(api, held))


def test_parts_processes_and_shards_are_shown(api):
    def is_whole(seen):
        """The overview shows for some seconds what other tests stopped."""
        leads = {shard for process in seen["processes"] for shard in process["leads"]}
        return (seen["status"] == "ready" and all(shard["health"] == "ok" and shard["leader"] for shard in seen["shards"])
                and {part["part"]: part["state"] for part in seen["parts"]} == {"mysql": "ok", "redis": "ok", "kafka": "ok", "zookeeper": "ok", "dispatchers": "ok"}
                and sorted(process["kind"] for process in seen["processes"]) == ["api", "api", "dispatcher"]
                and leads == {shard["shard"] for shard in seen["shards"]} and len({process["version"] for process in seen["processes"]}) == 1)
    until(lambda: is_whole(overview(api)), lambda: overview(api))


def test_the_cost_of_the_overview_does_not_grow_with_its_readers(api, db):
    """300 requests of each kind cost MySQL fewer statements than 60 without caching would, apart from those of all other processes."""
    def asked(what):
        """Returns (statements, seconds) of what()."""
        before, began = int(db("SHOW GLOBAL STATUS LIKE 'Questions'")[0]["Value"]), time.monotonic()
        what()
        return int(db("SHOW GLOBAL STATUS LIKE 'Questions'")[0]["Value"]) - before, time.monotonic() - began

    def look():
        for _ in range(300):
            assert api.get("/v1/overview").status == api.get("/v1/series?metric=created,lateness_p99").status == 200
    (others, pause), (looks, seconds) = asked(lambda: time.sleep(1.5)), asked(look)
    assert looks < 60 * (9 + 5) + 3 * seconds * others / pause, (looks, seconds, others)


def test_a_series_begins_and_ends_with_whole_steps(api):
    answer = api.get("/v1/series?from=2026-01-01T00:00:00Z&to=2026-01-01T02:00:01Z&step=PT7M").json
    assert (answer["from"], answer["to"], answer["step_ms"]) == ("2026-01-01T00:00:00.000Z", "2026-01-01T02:10:00.000Z", 600000)
    assert {name: set(values) for name, values in answer["metrics"].items()} == {name: {0} for name in RATES[:5]}
    assert {len(values) for values in answer["metrics"].values()} == {13}
    answer = api.get("/v1/series?metric=lateness_p50&from=2025-01-01T00:00:00Z&to=2026-01-01T00:00:00Z&step=PT1S").json
    assert 1500 < len(answer["metrics"]["lateness_p50"]) <= 2000 and set(answer["metrics"]["lateness_p50"]) == {None}


@pytest.mark.parametrize("query, pointer", [
    ("metric=created,latency", "?metric"), ("metric=", "?metric"), ("from=yesterday", "?from"), ("to=1", "?to"), ("step=0", "?step"), ("step=soon", "?step"),
    ("from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z", "?from"), ("topic=", "?topic"), ("topic=t&metric=overdue", "?metric")])
def test_an_invalid_series_is_refused(api, query, pointer):
    refused(api.get(f"/v1/series?{query}"), 422, "invalid", pointer)


def test_the_overview_has_the_jobs_of_the_next_hour(api2, topic):
    for _ in range(3):
        api2.make(topic=topic, delay="PT30M")
    until(lambda: overview(api2)["next_hour"]["due"] >= 3, lambda: overview(api2)["next_hour"])

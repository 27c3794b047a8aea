"""Reports that arrive while nobody reads them, shares of the shards, and servers that start in any order. Faults under load are in tests/faults."""
import signal
import threading
import time

import pytest

from harness.checker import connect, now_ms, rows
from harness.rest import Rest
from harness.stack import until

pytestmark = pytest.mark.in_turns(3)
DISPATCHERS = ["dispatcher1", "dispatcher2", "dispatcher3"]


def dispatched(api, consumer, topic, count):
    """Creates `count` jobs and waits until a consumer that does not report yet has all of them."""
    api.put(f"/v1/topics/{topic}", {"retry": ["1s"], "ack_timeout": "PT1H"})
    answers = api.batch([{"topic": topic, "delay": 0} for _ in range(count)])
    assert all(answer["status"] == 201 for answer in answers), answers[:3]
    until(lambda: consumer.count >= count, lambda: f"{consumer.count} of {count} arrive")


def report_all(consumer):
    for arrival in consumer.all():
        consumer.report(arrival.job, arrival.attempt)
    consumer.flush()


def deadlines_pass(stack, topic):
    """Moves the deadline of the jobs to now, after all reports were sent."""
    ends = int(now_ms()) + 500
    rows(connect(stack), "UPDATE jobs SET next_at = %s WHERE topic = %s AND state = 'dispatched'", ends, topic)
    until(lambda: now_ms() > ends + 1000, "all deadlines have passed")


def all_counted(stack, topic, count):
    """No report was stale, and no attempt timed out."""
    def states():
        return {(row["state"], row["attempt"], row["attempt_status"]): row["n"] for row in
                rows(connect(stack), "SELECT state, attempt, attempt_status, COUNT(*) n FROM jobs WHERE topic = %s GROUP BY 1, 2, 3", topic)}
    until(lambda: not any(state == "dispatched" for state, _, _ in states()), states)
    assert states() == {("succeeded", 1, "succeeded"): count}


def test_reports_count_if_they_arrived_while_all_dispatchers_were_down_at_the_deadline(stack, topic, consume, api):
    consumer = consume(topic)
    dispatched(api, consumer, topic, 3000)
    for part in DISPATCHERS:
        stack.kill(part)
    report_all(consumer)
    deadlines_pass(stack, topic)
    for part in DISPATCHERS:
        stack.start(part, ready=False)
    all_counted(stack, topic, 3000)


def test_reports_that_kafka_stored_count_if_kafka_was_down_at_the_deadline(stack, topic, consume, api):
    consumer = consume(topic)
    dispatched(api, consumer, topic, 1000)
    for part in DISPATCHERS:
        stack.signal(part, signal.SIGSTOP)  # nobody reads them before Kafka goes
    report_all(consumer)
    stack.kill("kafka")
    for part in DISPATCHERS:
        stack.signal(part, signal.SIGCONT)
    deadlines_pass(stack, topic)
    stack.start("kafka")
    all_counted(stack, topic, 1000)


def leaders(api):
    return {shard["shard"]: shard["leader"] for shard in api.get("/v1/info").json["shards"]}


def shares(api):
    found = leaders(api)
    names = [name for name in found.values() if name]
    return sorted((names.count(name) for name in set(names)), reverse=True) if len(names) == len(found) else []


def settled(api, wanted):
    """The leaders, once they have these shares and kept them for three seconds: on the way to a balance shards pass through the same shares."""
    seen = []  # (leaders, since when)

    def is_settled():
        found = leaders(api)
        if not seen or seen[-1][0] != found:
            seen.append((found, time.monotonic()))
        return shares(api) == wanted and seen[-1][0] == found and time.monotonic() - seen[-1][1] >= 3
    until(is_settled, lambda: f"{wanted}: {leaders(api)}", seconds=30)
    return seen[-1][0]


@pytest.fixture
def long_sessions(stack):
    """Leadership changes only by commands, not because a process got no core for two seconds."""
    for part in DISPATCHERS:
        stack.restart(part, settings={"zookeeper.session_timeout": "PT10S"})
    yield {"zookeeper.session_timeout": "PT10S"}
    for part in DISPATCHERS:
        stack.restart(part)


def test_shares_are_balanced_and_a_leaving_process_hands_over(stack, api, long_sessions):
    before = settled(api, [2, 1, 1])
    leaver = f":{stack['DUETIME_PID_DISPATCHER2']}"
    stack.stop("dispatcher2")
    after = settled(api, [2, 2])
    assert [s for s in before if before[s] != after[s] and not before[s].endswith(leaver)] == []
    stack.start("dispatcher2", settings=long_sessions)
    assert len([s for s, leader in settled(api, [2, 1, 1]).items() if after[s] != leader]) == 1


def test_any_order_of_starting_leads_to_a_working_system(stack, topic, consume, api):
    servers = ["mysql", "redis1", "redis2", "zookeeper", "kafka"]
    for part in ["api1", "dispatcher1", "dispatcher2", "dispatcher3", *servers]:
        stack.kill(part)
    starting = threading.Thread(target=stack._run, args=("start", "api1"), kwargs={"check": False})
    starting.start()
    for part in [*DISPATCHERS, "kafka", "zookeeper", "redis2", "redis1", "mysql"]:
        stack.start(part)
    starting.join()
    stack.refresh()
    until(lambda: Rest(stack["DUETIME_URL_API1"]).get("/readyz").status == 200, "ready")
    consumer = consume(topic, rule=lambda arrival: {"status": "succeeded"})
    rest = Rest(stack["DUETIME_URL_API1"])
    job = until(lambda: (a := rest.post("/v1/jobs", {"topic": topic, "delay": 500})).status == 201 and a.json, "a create")
    consumer.wait(job["id"], seconds=45)

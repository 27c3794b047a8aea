"""An installation without Kafka: nothing connects to one, nothing waits for one, and what only a Kafka could do says so."""
import pathlib
import time

import pytest

from harness.checker import connect, rows
from harness.rest import Rest
from harness.stack import Stack, until
from harness.takeover import leaders

SHARDS = 2
OPTIONS = ["--apis", "1", "--dispatchers", "1", "--redis", "1", "--shards", str(SHARDS), "--sanitize", "--without", "zookeeper",
           "--set", "reconcile.period=PT1S", "--set", "reconcile.walk=PT10S", "--set", "dispatch.rest_after=PT1S",
           "--set", "zookeeper.session_timeout=PT20S"]  # leadership does not move if a process gets no core for a moment
pytestmark = pytest.mark.turn(1, 3)


@pytest.fixture(scope="module")
def stack():
    made = Stack("no-kafka", *OPTIONS, "--without", "kafka")
    yield made.up()
    made.reset()


@pytest.fixture(scope="module")
def api(stack):
    rest = Rest(stack["DUETIME_URL"])
    yield rest
    rest.close()


@pytest.fixture(scope="module")
def mysql(stack):
    return connect(stack)


def led(stack):
    """Every shard has a leader, and no leader waits."""
    shards = lambda: Rest(stack["DUETIME_URL"]).get("/v1/info").json["shards"]  # noqa: E731
    until(lambda: list(leaders(stack).values()) == [stack.pid("dispatcher1")] * SHARDS and all(shard["waiting_for"] is None for shard in shards()),
          lambda: f"all are led: {shards()}\n{stack.logs()}")


def test_without_kafka_readiness_succeeds_and_info_says_so(stack, api):
    led(stack)
    ready = until(lambda: (answer := api.get("/readyz").json)["status"] == "ready" and answer, lambda: api.get("/readyz").body)
    assert ready["kafka"] == "none" and ready["leaders"] == "ok", ready
    assert api.get("/v1/info").json["configured"]["kafka"] is False
    assert "DUETIME_PID_KAFKA" not in stack.env and stack["DUETIME_KAFKA"] == ""


def test_without_kafka_no_librdkafka_handle_is_created(stack):
    """Each has threads of its own, whose names begin with rdk."""
    tasks = pathlib.Path(f"/proc/{stack.pid('dispatcher1')}/task").glob("*/comm")
    names = [task.read_text().strip() for task in tasks]
    assert "results" in names and not [name for name in names if name.startswith("rdk")], names


def test_an_idle_shard_has_nothing_to_close_and_is_not_taken_over_again(stack, api, mysql):
    """With a Kafka it closes its producers after dispatch.rest_after, and is taken over anew for the next due job."""
    led(stack)
    before = rows(mysql, "SELECT shard, epoch FROM shards ORDER BY shard")
    time.sleep(2.5)  # a leader with a Kafka would be idle now
    api.put("/v1/topics/idle", {"paused": True})
    job = api.post("/v1/jobs", {"topic": "idle", "payload": 1, "delay": 0}).json["id"]
    until(lambda: api.get(f"/v1/jobs/{job}").json["waiting_for"] == "paused", "it is due")
    assert rows(mysql, "SELECT shard, epoch FROM shards ORDER BY shard") == before
    assert api.delete(f"/v1/jobs/{job}").status == 200


def popped(api, topic):
    return until(lambda: api.post(f"/v1/topics/{topic}/pop", {}).json["jobs"], f"{topic} has a due job")[0]


def test_without_kafka_attempts_time_out_and_reports_arrive_by_rest(api, mysql):
    """With a Kafka a timeout waits until the results topic has been read up to the deadline."""
    job = api.post("/v1/jobs", {"topic": "timeouts", "payload": 1, "delay": 0, "ack_timeout": "PT1S", "retry": [0]}).json["id"]
    first, second = popped(api, "timeouts"), popped(api, "timeouts")
    assert [(one["id"], one["attempt"]) for one in (first, second)] == [(job, 1), (job, 2)]
    assert rows(mysql, "SELECT finished_at - dispatched_at ms FROM attempts WHERE job_id = %s AND attempt = 1", job)[0]["ms"] >= 1000
    assert api.post(f"/v1/jobs/{job}/results", {"attempt": 2, "status": "succeeded"}).json["outcome"] == "applied"
    assert [attempt["status"] for attempt in api.get(f"/v1/jobs/{job}/attempts").json["attempts"]] == ["timed_out", "succeeded"]


def test_dead_jobs_are_listed_by_rest_and_leave_no_dead_letter(api, mysql):
    """By a report, and by a timeout that a leader judges."""
    told = api.post("/v1/jobs", {"topic": "dying", "payload": 1, "delay": 0, "retry": []}).json["id"]
    popped(api, "dying")
    assert api.post(f"/v1/jobs/{told}/results", {"attempt": 1, "status": "failed", "error": {"code": "c"}}).status == 200
    silent = api.post("/v1/jobs", {"topic": "dying", "payload": 1, "delay": 0, "retry": [], "ack_timeout": 500}).json["id"]
    popped(api, "dying")
    until(lambda: api.get(f"/v1/jobs/{silent}").json["state"] == "dead", "it times out")
    assert {job["id"] for job in api.get("/v1/jobs?topic=dying&state=dead").json["jobs"]} == {told, silent}
    assert rows(mysql, "SELECT COUNT(*) n FROM messages")[0]["n"] == 0


def test_without_kafka_jobs_of_a_kafka_topic_wait_with_a_reason_and_an_alarm(stack, api, mysql):
    """Kafka was taken away before its topic got another delivery."""
    led(stack)
    api.put("/v1/topics/of.kafka", {"paused": True})
    job = api.post("/v1/jobs", {"topic": "of.kafka", "payload": 1, "delay": 0}).json["id"]
    rows(mysql, "UPDATE topics SET delivery = 'kafka', paused = 0 WHERE name = 'of.kafka'")
    rows(mysql, "UPDATE installation SET topics_version = topics_version + 1")
    until(lambda: api.get(f"/v1/jobs/{job}").json["waiting_for"] == "kafka", lambda: api.get(f"/v1/jobs/{job}").body)
    shard = next(shard for shard in api.get("/v1/info").json["shards"] if shard["waiting_for"])
    assert "of.kafka" in shard["detail"] and "there is no Kafka" in shard["detail"], shard
    until(lambda: api.get("/readyz").json["kafka"] == "degraded", lambda: api.get("/readyz").body)
    assert 'duetime_outage_alarm{of="kafka"} 1\n' in stack.metrics()
    assert "jobs wait for a Kafka that is not configured" in stack.log("dispatcher1")
    assert api.delete(f"/v1/jobs/{job}").status == 200  # nothing has been sent, and nothing will be
    until(lambda: api.get("/readyz").json["kafka"] == "none", lambda: api.get("/readyz").body)


def test_without_kafka_a_shard_with_attempts_in_flight_waits_with_a_reason(stack, api, mysql):
    """Its leader was killed between a claim and the ledger, and Kafka was taken away: whether it was sent nobody can tell."""
    stack.stop("dispatcher1")
    rows(mysql, "UPDATE shards SET inflight = '[[4711,1,1000]]', send_n = 1 WHERE shard = 1")
    stack.start("dispatcher1", ready=False)

    def told():
        shard = api.get("/v1/info").json["shards"][1]
        return shard["waiting_for"] == "kafka" and "1 attempts in flight" in (shard["detail"] or "")
    until(told, lambda: api.get("/v1/info").body)
    assert 'duetime_outage_alarm{of="kafka"} 1\n' in stack.metrics()
    assert leaders(stack)[0] == stack.pid("dispatcher1"), "the other shard is led"
    rows(mysql, "UPDATE shards SET inflight = '[]', send_n = 0 WHERE shard = 1")  # an operator has looked
    led(stack)
    stack.restart("dispatcher1")  # so that it logs the next outage as a new one

"""What becomes of jobs: dispatch, results of every kind, retries, dead letters."""
import datetime
import json
import uuid

from harness.checker import connect, now_ms, rows
from harness.soak import rfc3339
from harness.stack import until


def state_of(api, job_id):
    return api.get(f"/v1/jobs/{job_id}").json


def wait_state(api, job_id, state, seconds=15):
    return until(lambda: (job := state_of(api, job_id))["state"] == state and job, lambda: f"{state}: {state_of(api, job_id)}", seconds=seconds)


def due_ms(arrival):
    return datetime.datetime.fromisoformat(arrival.scheduled).timestamp() * 1000


def attempts(api, job_id):
    return api.get(f"/v1/jobs/{job_id}/attempts").json["attempts"]


def test_a_posted_job_arrives_as_a_cloud_event_and_ends_with_its_result(api, topic, consume):
    consumer = consume(topic, rule=lambda arrival: {"status": "succeeded"})
    due = int(now_ms()) + 1500
    payload = '{ "order" : 42, "amount": 1.10e2 }'
    answer = api.post("/v1/jobs", '{"topic":"%s","key":"order-42","run_at":"%s","partition_key":"customer-7","headers":{"traceparent":"00-ab"},"payload":%s}'
                      % (topic, rfc3339(due), payload))
    assert answer.status == 201, answer
    job = answer.json
    assert answer.headers["Location"] == f"/v1/jobs/{job['id']}" and answer.headers["ETag"] == '"1"'
    assert job["waiting_for"] == "time"
    arrival = consumer.wait(job["id"])
    assert arrival.received_ms >= due - 1
    assert arrival.value.decode() == payload
    assert arrival.key == b"customer-7"
    assert arrival.scheduled == rfc3339(due)
    expected = {"ce_specversion": "1.0", "ce_id": f"{job['id']}/1", "ce_source": "/duetime/duetime", "ce_type": topic, "ce_jobid": job["id"],
                "ce_jobkey": "order-42", "ce_attempt": "1", "content-type": "application/json", "traceparent": "00-ab"}
    assert {name: arrival.headers.get(name) for name in expected} == expected
    done = wait_state(api, job["id"], "succeeded")
    assert done["attempt"] == 1 and done["next_at"] is None and done["waiting_for"] is None
    [attempt] = attempts(api, job["id"])
    assert attempt["status"] == "succeeded" and attempt["lateness_ms"] >= 0 and attempt["error"] is None


def test_without_a_partition_key_a_message_has_no_key(api, topic, consume):
    consumer = consume(topic)
    job = api.make(topic=topic, key="order-42", delay=0)
    assert consumer.wait(job["id"]).key is None
    assert state_of(api, job["id"])["waiting_for"] == "ack"


def test_a_binary_payload_arrives_as_its_bytes(api, topic, consume):
    consumer = consume(topic)
    job = api.make(topic=topic, delay=0, payload_base64="AAH/gA==", content_type="application/x-thing")
    arrival = consumer.wait(job["id"])
    assert arrival.value == b"\x00\x01\xff\x80" and arrival.headers["content-type"] == "application/x-thing"


def test_failures_follow_the_schedule_and_end_in_a_dead_letter(api, topic, consume):
    consumer = consume(topic, rule=lambda arrival: {"status": "failed", "error": {"code": "E1", "message": f"no {arrival.attempt}"}})
    dead = consume("duetime.dead")
    job = api.make(topic=topic, delay=0, retry=[300, "1s"], payload={"n": 1})
    first, second, third = (consumer.wait(job["id"], n) for n in (1, 2, 3))
    due = [due_ms(arrival) for arrival in (first, second, third)]
    assert due[1] - due[0] >= 300 and due[2] - due[1] >= 1000 and second.received_ms >= due[1] and third.received_ms >= due[2]
    done = wait_state(api, job["id"], "dead")
    assert (done["attempt"], done["failures"], done["max_attempts"]) == (3, 3, 3)
    assert done["last_error"]["code"] == "E1" and done["last_error"]["message"] == "no 3"
    history = attempts(api, job["id"])
    assert [(a["attempt"], a["status"], a["error"]["message"]) for a in history] == [(n, "failed", f"no {n}") for n in (1, 2, 3)]
    letter = until(lambda: [a for a in dead.all() if a.headers["ce_id"] == f"{job['id']}/3/dead"], "the dead letter")[0]
    assert json.loads(letter.value)["payload"] == {"n": 1} and json.loads(letter.value)["state"] == "dead"


def test_a_redriven_job_starts_without_failures_and_its_attempts_continue(api, topic, consume):
    consumer = consume(topic, rule=lambda arrival: {"status": "gave_up" if arrival.attempt == 1 else "succeeded"})
    job = api.make(topic=topic, delay=0)
    wait_state(api, job["id"], "dead")
    answer = api.post(f"/v1/jobs/{job['id']}/redrive")
    assert answer.status == 200 and answer.json["failures"] == 0 and answer.json["attempt"] == 1
    consumer.wait(job["id"], 2)
    wait_state(api, job["id"], "succeeded")
    assert [a["status"] for a in attempts(api, job["id"])] == ["gave_up", "succeeded"]


def test_a_missing_report_is_a_failure_and_a_late_success_still_counts(api, topic, consume):
    consumer = consume(topic)
    job = api.make(topic=topic, delay=0, ack_timeout="PT1S", retry=["1h"])
    consumer.wait(job["id"])
    waiting = until(lambda: (j := state_of(api, job["id"]))["state"] == "scheduled" and j, "the timeout")
    assert waiting["failures"] == 1 and waiting["last_error"]["code"] == "ack_timeout"
    assert attempts(api, job["id"])[0]["status"] == "timed_out"
    consumer.report(job["id"], 1, "failed")
    consumer.report(job["id"], 1, "succeeded")
    assert wait_state(api, job["id"], "succeeded")["attempt"] == 1
    assert attempts(api, job["id"])[0]["status"] == "succeeded"


def test_a_timeout_leads_to_the_next_attempt(api, topic, consume):
    consumer = consume(topic)
    job = api.make(topic=topic, delay=0, ack_timeout="PT0.7S", retry=[100])
    first, second = consumer.wait(job["id"], 1), consumer.wait(job["id"], 2)
    assert due_ms(second) - due_ms(first) >= 800 and second.received_ms >= due_ms(second)


def test_a_snoozed_job_runs_again_without_a_failure(api, topic, consume):
    consumer = consume(topic, rule=lambda a: {"status": "snoozed", "retry_after": "PT0.4S"} if a.attempt < 3 else {"status": "succeeded"})
    job = api.make(topic=topic, delay=0, retry=[])
    consumer.wait(job["id"], 3)
    done = wait_state(api, job["id"], "succeeded")
    assert (done["attempt"], done.get("failures", 0), done["max_attempts"]) == (3, 0, 1)
    assert [a["status"] for a in attempts(api, job["id"])] == ["snoozed", "snoozed", "succeeded"]


def test_a_report_of_an_extension_renews_the_deadline(api, topic, consume):
    consumer = consume(topic)
    consumer.wait(api.make(topic=topic, delay=0)["id"])  # from now on it reads the topic
    job = api.make(topic=topic, delay=0, ack_timeout="PT8S", retry=["1h"])
    consumer.wait(job["id"])
    body = {"attempt": 1, "status": "extended", "retry_after": "PT1H"}
    before = state_of(api, job["id"])["next_at"]
    answer = api.post(f"/v1/jobs/{job['id']}/results", body)
    assert answer.status == 200 and answer.json["outcome"] == "applied"
    assert answer.json["state"] == "dispatched" and answer.json["next_at"] > before
    other = api.make(topic=topic, delay=8300)
    consumer.wait(other["id"])  # the old deadline is over by now
    assert state_of(api, job["id"])["state"] == "dispatched"


def test_results_are_idempotent_and_late_or_forged_ones_are_stale(api, topic, consume):
    consumer = consume(topic)
    job = api.make(topic=topic, delay=0)
    consumer.wait(job["id"])
    path = f"/v1/jobs/{job['id']}/results"
    outcome = lambda **body: api.post(path, body).json["outcome"]  # noqa: E731
    assert outcome(attempt=2, status="succeeded") == "stale"
    assert outcome(attempt=1, status="succeeded") == "applied"
    assert outcome(attempt=1, status="succeeded") == "duplicate"
    assert outcome(attempt=1, status="failed") == "stale"
    assert state_of(api, job["id"])["state"] == "succeeded"


def test_a_message_that_cannot_be_parsed_is_written_to_the_rejected_topic_with_the_reason(api, topic, consume):
    consumer = consume(topic, rule=None)
    rejected = consume("duetime.results.rejected")
    marker = uuid.uuid4().hex
    consumer.raw(f'{{"job_id":"1","attempt":0,"status":"{marker}"}}', key=marker)
    consumer.raw(f"not json {marker}", key=marker)
    found = until(lambda: len(f := [a for a in rejected.all() if a.key == marker.encode()]) == 2 and f, "both rejected")
    assert any("/attempt" in a.headers["reason"] and "/status" in a.headers["reason"] for a in found)
    job = api.make(topic=topic, delay=0)
    consumer.wait(job["id"])
    consumer.report(job["id"], 1)
    wait_state(api, job["id"], "succeeded")


def test_a_cancelled_job_never_arrives_and_a_dispatched_job_cannot_be_cancelled(api, topic, consume):
    consumer = consume(topic)
    sent = api.make(topic=topic, delay=0)
    consumer.wait(sent["id"])
    late = api.delete(f"/v1/jobs/{sent['id']}")
    assert late.status == 409 and late.json["type"].endswith("/problems/too-late")
    assert late.json["state"] == "dispatched" and late.json["attempt"] == 1
    api.put(f"/v1/topics/{topic}", {"paused": True})  # the job stays, even if the next requests are slow
    doomed = api.make(topic=topic, delay=300)
    assert api.delete(f"/v1/jobs/{doomed['id']}").json["state"] == "cancelled"
    assert api.post(f"/v1/jobs/{doomed['id']}/cancel").status == 200
    api.post(f"/v1/topics/{topic}/resume")
    after = api.make(topic=topic, delay=600)
    consumer.wait(after["id"])
    assert consumer.of(doomed["id"]) == []


def test_a_job_three_years_ahead_moved_to_now_arrives(api, topic, consume):
    consumer = consume(topic)
    job = api.make(topic=topic, delay="P1095D", payload=1)
    due = now_ms() + 1000
    moved = api.patch(f"/v1/jobs/{job['id']}", {"delay": "PT1S", "payload": 2})
    assert moved.status == 200 and moved.json["version"] == 2
    arrival = consumer.wait(job["id"])
    assert arrival.value == b"2" and arrival.received_ms >= due - 1


def test_a_job_moved_earlier_wakes_its_leader(api, topic, consume):
    consumer = consume(topic)
    warm = api.make(topic=topic, delay=0)
    consumer.wait(warm["id"])
    job = api.make(topic=topic, delay="PT30M")
    assert api.post(f"/v1/jobs/{job['id']}/run-now").status == 200
    consumer.wait(job["id"])


def test_jobs_of_a_shard_are_sent_in_order_of_their_time(api, topic, consume, stack):
    consumer = consume(topic)
    api.put(f"/v1/topics/{topic}", {})
    assert api.post(f"/v1/topics/{topic}/pause").status == 200
    lines = api.batch([{"topic": topic, "run_at": rfc3339(int(now_ms()) + 1000 - 7 * (i % 90)), "partition_key": "one", "payload": i}
                       for i in range(300)])
    ids = [line["id"] for line in lines]
    until(lambda: rows(connect(stack), f"SELECT MAX(next_at) < UNIX_TIMESTAMP(NOW(3))*1000 late FROM jobs WHERE topic = '{topic}'")[0]["late"],
          "all overdue")
    api.post(f"/v1/topics/{topic}/resume")
    consumer.wait_count(300, 30)
    from harness.checker import shard_of
    for shard in range(4):
        times = [a.scheduled for a in sorted(consumer.all(), key=lambda a: a.offset) if a.job in ids and shard_of(int(a.job), 4) == shard]
        assert times == sorted(times)


def test_a_paused_topic_waits_and_others_do_not(api, topic, consume):
    other = topic + "-other"
    consumer = consume(topic, other)
    api.put(f"/v1/topics/{topic}", {"retry": ["1s"]})
    assert api.post(f"/v1/topics/{topic}/pause").json["paused"] is True
    held = api.make(topic=topic, delay=0)
    free = api.make(topic=other, delay=300)
    consumer.wait(free["id"])
    assert consumer.of(held["id"]) == [] and state_of(api, held["id"])["waiting_for"] == "paused"
    assert api.post(f"/v1/topics/{topic}/resume").json["paused"] is False
    consumer.wait(held["id"])


def test_finished_jobs_are_deleted_after_their_retention_and_counted(api, topic, consume, stack):
    consumer = consume(topic, rule=lambda a: {"status": "succeeded"})
    assert api.put(f"/v1/topics/{topic}", {"retention": "PT1S"}).status in (200, 201)
    job = api.make(topic=topic, key="k", delay=0)
    consumer.wait(job["id"])
    # Makes the job a minute old: a job younger than half a minute is kept.
    rows(connect(stack), "UPDATE jobs SET created_at = created_at - 60000 WHERE id = %s", job["id"])
    until(lambda: api.get(f"/v1/jobs/{job['id']}").status == 404, "the job is gone")
    assert api.get(f"/v1/topics/{topic}/jobs/k").status == 404
    removed = rows(connect(stack), "SELECT removed FROM removed_jobs WHERE topic = %s", topic)
    assert removed[0]["removed"] == 1
    assert api.make(topic=topic, key="k", delay="PT1H")["id"] != job["id"]

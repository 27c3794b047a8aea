"""Reports over REST, and the history of attempts."""

import pytest

from harness.problems import refused
from harness.stack import until


@pytest.fixture
def report(api):
    """report(job, attempt, status, …) -> the answer, which must be 200."""
    def send(job, attempt, status, **more):
        answer = api.post(f"/v1/jobs/{job['id']}/results", {"attempt": attempt, "status": status, **more})
        assert answer.status == 200, answer
        return answer.json
    return send


def attempts(api, job):
    return api.get(f"/v1/jobs/{job['id']}/attempts").json["attempts"]


def wait(api, job, attempt):
    path = f"/v1/jobs/{job['id']}"
    return until(lambda: (now := api.get(path).json)["attempt"] == attempt and now["state"] == "dispatched" and now, lambda: api.get(path))


def test_a_dispatched_job_waits_for_its_report(api, topic, dispatched):
    job = dispatched(topic=topic)
    assert (job["attempt"], job["waiting_for"]) == (1, "ack")
    [attempt] = attempts(api, job)
    assert (attempt["attempt"], attempt["status"], attempt["finished_at"], attempt["error"]) == (1, "dispatched", None, None)
    assert attempt["dispatched_at"] >= job["run_at"] and attempt["lateness_ms"] >= 0


def test_success_ends_the_job_and_the_answer_is_the_job(api, topic, dispatched, report):
    job = dispatched(topic=topic, payload={"a": 1})
    done = report(job, 1, "succeeded")
    assert done.pop("outcome") == "applied"
    assert (done["state"], done["next_at"], done["waiting_for"], done["payload"], done["version"]) == ("succeeded", None, None, {"a": 1}, job["version"] + 1)
    assert api.get(f"/v1/jobs/{job['id']}").json == done
    [attempt] = attempts(api, job)
    assert attempt["status"] == "succeeded" and attempt["finished_at"] >= attempt["dispatched_at"]


def test_a_failed_job_is_retried_after_the_scheduled_delay(api, topic, dispatched, report):
    job = dispatched(topic=topic, retry=[200, "1h"])
    failed = report(job, 1, "failed", error={"code": "E1", "message": "ä"})
    assert (failed["outcome"], failed["state"], failed["failures"], failed["attempt"]) == ("applied", "scheduled", 1, 1)
    assert failed["last_error"]["code"] == "E1" and failed["last_error"]["message"] == "ä" and failed["last_error"]["at"]
    assert failed["run_at"] == job["run_at"]
    wait(api, job, 2)
    failed = report(job, 2, "failed")
    assert (failed["state"], failed["failures"], failed["waiting_for"]) == ("scheduled", 2, "time")
    assert [(a["attempt"], a["status"]) for a in attempts(api, job)] == [(1, "failed"), (2, "failed")]
    assert attempts(api, job)[0]["error"]["code"] == "E1"


def test_after_the_last_failure_the_job_is_dead(api, topic, dispatched, report):
    job = dispatched(topic=topic, retry=[])
    dead = report(job, 1, "failed", error={"code": "E", "message": "m"})
    assert (dead["state"], dead["next_at"], dead["failures"], dead["waiting_for"]) == ("dead", None, 1, None)
    refused(api.patch(f"/v1/jobs/{job['id']}", {"payload": 1}), 409, "too-late")
    refused(api.delete(f"/v1/jobs/{job['id']}"), 409, "too-late")


@pytest.mark.parametrize("length", ["PT1H", 3600000, 3600000.0, "1h", 3599999.5])
def test_retry_after_is_a_duration_in_every_form(api, topic, dispatched, report, length):
    job = dispatched(topic=topic)
    snoozed = report(job, 1, "snoozed", retry_after=length)
    assert (snoozed["outcome"], snoozed["state"]) == ("applied", "scheduled") and snoozed["next_at"] > job["next_at"]


def test_a_report_may_have_the_members_of_a_kafka_report(api, topic, dispatched, report):
    job = dispatched(topic=topic)
    assert report(job, 1, "succeeded", job_id=job["id"], finished_at="2026-11-21T10:30:00+01:00", error=None)["outcome"] == "applied"


@pytest.mark.parametrize("body, pointers", [
    ({}, ["/attempt", "/status"]), ({"attempt": 0, "status": "succeeded"}, ["/attempt"]), ({"attempt": 1.5, "status": "failed"}, ["/attempt"]),
    ({"attempt": "1", "status": "failed"}, ["/attempt"]), ({"attempt": 1, "status": "done"}, ["/status"]), ({"attempt": 1, "status": "timed_out"}, ["/status"]),
    ({"attempt": 1, "status": "undeliverable"}, ["/status"]), ({"attempt": 4294967296, "status": "failed"}, ["/attempt"]),
    ({"attempt": 1, "status": "succeeded", "retry_after": "1m"}, ["/retry_after"]), ({"attempt": 1, "status": "failed", "error": {"text": ""}}, ["/error"]),
    ({"attempt": 1, "status": "failed", "a/b~c": 1}, ["/a~1b~0c"]),
    ({"attempt": 1, "status": "dispatched"}, ["/status"]), ({"attempt": 1, "status": "snoozed"}, ["/retry_after"]),
    ({"attempt": 1, "status": "snoozed", "retry_after": "P1Y"}, ["/retry_after"]), ({"attempt": 1, "status": "failed", "retry_after": -1}, ["/retry_after"]),
    ({"attempt": 1, "status": "failed", "job_id": "5", "x": 1}, ["/job_id", "/x"]), ({"attempt": 1, "status": "failed", "job_id": 5}, ["/job_id"]),
    ({"attempt": 1, "status": "failed", "error": "boom"}, ["/error"]), ({"attempt": 1, "status": "failed", "error": {"code": 5, "message": []}}, ["/error/code", "/error/message"]),
    ({"attempt": 1, "status": "failed", "finished_at": "now"}, ["/finished_at"]), ({"attempt": 1, "status": "failed", "http": 1}, ["/http"]), ([], [""]), ("x", [""])])
def test_an_invalid_report_is_refused_with_a_pointer(api, topic, body, pointers):
    job = api.make(topic=topic, delay="PT1H")
    text = f'"{body}"' if isinstance(body, str) else body
    refused(api.post(f"/v1/jobs/{job['id']}/results", text), 422, "invalid", *pointers)
    assert api.get(f"/v1/jobs/{job['id']}").json == job


def test_a_report_with_invalid_json_is_refused(api, topic):
    job = api.make(topic=topic, delay="PT1H")
    path = f"/v1/jobs/{job['id']}/results"
    for text in ("", "{", '{"attempt":1,"attempt":1,"status":"failed"}', b'{"attempt":1,"status":"failed","error":{"message":"\xff"}}'):
        refused(api.post(path, text), 400, "malformed")
    refused(api.post(path, {"attempt": 1, "status": "failed"}, content_type="text/plain"), 415, "unsupported-media-type")


def test_a_report_on_an_unknown_job_is_404(api):
    refused(api.post("/v1/jobs/123456789/results", {"attempt": 1, "status": "succeeded"}), 404, "not-found")
    refused(api.post("/v1/jobs/123456789/results", {"attempt": 1, "status": "succeeded", "job_id": "5"}), 422, "invalid", "/job_id")

"""One job is changed, cancelled, made due, driven again: what is answered, and what the version says."""
import pytest

from harness.problems import refused
from harness.stack import until

HOUR = "PT1H"


def url(job):
    return f"/v1/jobs/{job['id']}"


def dispatched(api, job):
    return until(lambda: (now := api.get(url(job)).json)["state"] == "dispatched" and now, 20, lambda: api.get(url(job)))


@pytest.mark.parametrize("id", ["0", "x", "01", "-1", "1.0", "1e3", "99999999999999999999", "12345", "%20"])
def test_what_is_no_job_is_404_for_every_request(api, id):
    for method, path, body in (("GET", "", None), ("PATCH", "", {}), ("DELETE", "", None), ("POST", "/cancel", None), ("POST", "/run-now", None),
                               ("POST", "/redrive", None), ("GET", "/attempts", None), ("POST", "/results", {"attempt": 1, "status": "succeeded"})):
        refused(api.ask(method, f"/v1/jobs/{id}{path}", body), 404, "not-found")


# ---- PATCH ----

def test_a_patch_replaces_whole_members_and_raises_the_version(api, topic):
    job = api.make(topic=topic, delay=HOUR, payload={"a": 1, "b": 2}, headers={"a": "1", "b": "2"})
    answer = api.patch(url(job), {"run_at": "2027-06-01T00:00:00Z", "payload": {"a": 3}, "headers": {"c": "3"}, "retry": ["1s", 1500], "ack_timeout": 5000,
                                  "partition_key": "p"})
    assert answer.status == 200 and answer.headers["ETag"] == '"2"', answer
    now = answer.json
    assert now["run_at"] == now["next_at"] == "2027-06-01T00:00:00.000Z"
    assert (now["payload"], now["headers"], now["retry"], now["ack_timeout"], now["partition_key"], now["version"]) == \
        ({"a": 3}, {"c": "3"}, ["1s", "PT1.5S"], "PT5S", "p", 2)
    assert api.get(url(job)).json == now


def test_null_is_the_topics_default_and_missing_is_unchanged(api, topic):
    assert api.put(f"/v1/topics/{topic}", {"retry": ["7s"], "ack_timeout": "PT7S"}).status == 201
    job = api.make(topic=topic, delay=HOUR, retry=[], ack_timeout="PT1S", headers={"a": "b"}, partition_key="p", payload=1)
    now = api.patch(url(job), {"retry": None, "ack_timeout": None, "headers": None, "partition_key": None}).json
    assert now["retry"] == ["7s"] and now["ack_timeout"] == "PT7S" and now["payload"] == 1 and not {"headers", "partition_key"} & set(now)
    assert api.patch(url(job), {"payload": None}).json["payload"] is None


def test_a_patch_that_changes_nothing_keeps_the_version(api, topic):
    job = api.make(topic=topic, delay=HOUR, payload={"a": 1})
    for body in ({}, {"payload": {"a": 1}}, {"run_at": job["run_at"]}, {"retry": None, "ack_timeout": "5m", "headers": None}):
        answer = api.patch(url(job), body)
        assert answer.status == 200 and answer.json["version"] == 1 and answer.headers["ETag"] == '"1"', (body, answer)


def test_a_past_time_becomes_now(api, topic):
    api.put(f"/v1/topics/{topic}", {"paused": True})
    job = api.make(topic=topic, delay=HOUR)
    now = api.patch(url(job), {"run_at": "2001-01-01T00:00:00Z"}).json
    assert job["created_at"] <= now["run_at"] == now["next_at"] <= now["updated_at"] or now["run_at"][:16] == now["updated_at"][:16]


def test_if_match_decides_only_about_scheduled_jobs(api, topic):
    job = api.make(topic=topic, delay=HOUR)
    for tag in ('"9"', 'W/"1"', '1', '"x"', '', '"7", "8"'):
        body = refused(api.patch(url(job), {"payload": 1}, headers={"If-Match": tag}), 412, "version-mismatch")
        assert body["version"] == 1, tag
    for n, tag in enumerate(('"1"', '*', '"9", "3" , W/"4"')):
        assert api.patch(url(job), {"payload": n}, headers={"If-Match": tag}).status == 200, tag
    api.delete(url(job))
    refused(api.patch(url(job), {"payload": 1}, headers={"If-Match": '"9"'}), 409, "too-late")


@pytest.mark.parametrize("body, expected", [({"topic": "x"}, ["/topic"]), ({"key": "x", "state": "dead", "y": 1}, ["/key", "/state", "/y"]),
                                            ({"run_at": None}, ["/run_at"]), ({"delay": 1, "run_at": "2027-01-01T00:00:00Z"}, ["/run_at", "/delay"]),
                                            ({"delay": "P3660D"}, ["/delay"]), ({"ack_timeout": 0, "retry": ["?"]}, ["/ack_timeout", "/retry/0"]), ([], [""])])
def test_a_patch_points_at_what_is_wrong_and_changes_nothing(api, topic, body, expected):
    job = api.make(topic=topic, delay=HOUR)
    refused(api.patch(url(job), body), 422, "invalid", *expected)
    assert api.get(url(job)).json == job


def test_a_patch_of_a_dispatched_job_is_too_late_and_says_so(api, topic):
    job = api.make(topic=topic, delay=0)
    dispatched(api, job)
    body = refused(api.patch(url(job), {"payload": 1}), 409, "too-late")
    assert (body["id"], body["state"], body["attempt"]) == (job["id"], "dispatched", 1)


# ---- cancel, run-now, redrive ----

def test_cancel_gives_the_same_answer_again(api, topic):
    job = api.make(topic=topic, delay=HOUR)
    first = api.post(f"{url(job)}/cancel")
    assert first.status == 200 and first.json["state"] == "cancelled" and first.json["next_at"] is None and first.json["waiting_for"] is None
    assert first.json["version"] == 2
    for answer in (api.post(f"{url(job)}/cancel"), api.delete(url(job)), api.post(f"{url(job)}/cancel", {})):
        assert answer.status == 200 and answer.json == first.json, answer


def test_a_dispatched_job_is_too_late_to_cancel_but_not_its_further_attempts(api, topic):
    job = api.make(topic=topic, delay=0)
    dispatched(api, job)
    body = refused(api.delete(url(job)), 409, "too-late")
    assert (body["state"], body["attempt"]) == ("dispatched", 1)
    answer = api.post(f"{url(job)}/cancel?retries=true")
    assert answer.status == 200 and answer.json["state"] == "dispatched", answer
    ended = api.post(f"{url(job)}/results", {"attempt": 1, "status": "failed"}).json
    assert ended["outcome"] == "applied" and ended["state"] == "cancelled"


def test_success_after_a_cancel_of_further_attempts_is_success(api, topic):
    job = api.make(topic=topic, delay=0)
    dispatched(api, job)
    assert api.post(f"{url(job)}/cancel?retries=true").status == 200
    ended = api.post(f"{url(job)}/results", {"attempt": 1, "status": "succeeded"}).json
    assert ended["state"] == "succeeded"
    refused(api.delete(url(job)), 409, "too-late")


def test_run_now_makes_a_scheduled_job_due(api, topic):
    job = api.make(topic=topic, delay=HOUR)
    answer = api.post(f"{url(job)}/run-now")
    assert answer.status == 200 and answer.json["run_at"] < job["run_at"] and answer.json["version"] == 2, answer
    dispatched(api, job)
    assert refused(api.post(f"{url(job)}/run-now"), 409, "too-late")["attempt"] == 1


def test_only_a_dead_job_is_driven_again(api, topic):
    job = api.make(topic=topic, delay=0, retry=[])
    refused(api.post(f"{url(api.make(topic=topic, delay=HOUR))}/redrive"), 409, "not-dead")
    dispatched(api, job)
    assert api.post(f"{url(job)}/results", {"attempt": 1, "status": "failed", "error": {"code": "x"}}).json["state"] == "dead"
    refused(api.post(f"{url(job)}/run-now"), 409, "too-late")
    again = api.post(f"{url(job)}/redrive")
    assert again.status == 200 and again.json["state"] in ("scheduled", "dispatched") and again.json["attempt"] >= 1, again
    assert until(lambda: (now := api.get(url(job)).json)["attempt"] == 2 and now, 20, "the second attempt")["failures"] == 0


def test_a_key_that_moved_on_stays_with_the_newer_job(api, topic):
    job = api.make(topic=topic, key="k", delay=HOUR)
    assert api.get(f"/v1/topics/{topic}/jobs/k").json["id"] == job["id"]


@pytest.mark.parametrize("query", ["retries=maybe", "retries=", "retries=1", "retries=true&retries=true", "force=true"])
def test_cancel_takes_no_other_query(api, topic, query):
    job = api.make(topic=topic, delay=HOUR)
    refused(api.post(f"{url(job)}/cancel?{query}"), 422, "invalid", "?" + query.split("=")[0])
    assert api.get(url(job)).json["state"] == "scheduled"


def test_requests_without_a_body_take_none_and_conditions_only_where_they_are_looked_at(api, topic):
    job = api.make(topic=topic, delay=HOUR)
    for path in ("/cancel", "/run-now", "/redrive"):
        refused(api.post(url(job) + path, {"reason": "x"}), 422, "invalid")
        refused(api.post(url(job) + path, headers={"If-Match": '"1"'}), 422, "invalid")
    assert api.get(url(job)).json == job


# ---- results ----

def test_results_are_applied_once_and_late_ones_are_stale(api, topic):
    job = api.make(topic=topic, delay=0)
    dispatched(api, job)

    def report(**body):
        answer = api.post(f"{url(job)}/results", {"attempt": 1, **body})
        assert answer.status == 200, answer
        return answer.json
    assert report(status="succeeded", attempt=2)["outcome"] == "stale"
    extended = report(status="extended", retry_after="PT2H")
    assert extended["outcome"] == "applied" and extended["state"] == "dispatched"
    assert report(status="extended")["outcome"] == "applied"
    failed = report(status="failed", error={"code": "E", "message": "m" * 2000}, retry_after=HOUR, job_id=job["id"], finished_at="2026-11-21T10:30:00Z")
    assert (failed["outcome"], failed["state"], failed["failures"]) == ("applied", "scheduled", 1)
    assert failed["last_error"]["code"] == "E" and len(failed["last_error"]["message"]) == 1000
    assert report(status="failed")["outcome"] == "duplicate"
    assert report(status="gave_up")["outcome"] == "stale"
    late = report(status="succeeded")
    assert (late["outcome"], late["state"], late["next_at"]) == ("applied", "succeeded", None)
    assert report(status="succeeded")["outcome"] == "duplicate"
    assert [a["status"] for a in api.get(f"{url(job)}/attempts").json["attempts"]] == ["succeeded"]


def test_a_snooze_spends_nothing(api, topic):
    job = api.make(topic=topic, delay=0, retry=[])
    dispatched(api, job)
    now = api.post(f"{url(job)}/results", {"attempt": 1, "status": "snoozed", "retry_after": HOUR}).json
    assert (now["outcome"], now["state"]) == ("applied", "scheduled") and now.get("failures", 0) == 0 and now["run_at"] < now["next_at"]


@pytest.mark.parametrize("body, expected", [({}, ["/attempt", "/status"]), ({"attempt": 0, "status": "succeeded"}, ["/attempt"]),
                                            ({"attempt": 1, "status": "done"}, ["/status"]), ({"attempt": "1", "status": "failed"}, ["/attempt"]),
                                            ({"attempt": 1, "status": "snoozed"}, ["/retry_after"]), ({"attempt": 1, "status": "timed_out"}, ["/status"]),
                                            ({"attempt": 1, "status": "succeeded", "retry_after": 5}, ["/retry_after"]),
                                            ({"attempt": 1, "status": "failed", "job_id": "5", "x": 1}, ["/job_id", "/x"]),
                                            ({"attempt": 1, "status": "failed", "error": "boom"}, ["/error"]),
                                            ({"attempt": 1, "status": "failed", "finished_at": "now"}, ["/finished_at"])])
def test_a_report_that_is_wrong_is_pointed_at(api, topic, body, expected):
    job = api.make(topic=topic, delay=HOUR)
    refused(api.post(f"{url(job)}/results", body), 422, "invalid", *expected)

"""One job is changed, cancelled, made due, driven again: what is answered, and what the version says."""
import concurrent.futures

import pytest

from harness.operations import ended
from harness.problems import refused
from harness.stack import until

HOUR = "PT1H"


def url(job):
    return f"/v1/jobs/{job['id']}"


def dispatched(api, job):
    return until(lambda: (now := api.get(url(job)).json)["state"] == "dispatched" and now, lambda: api.get(url(job)))


@pytest.mark.parametrize("id", ["0", "x", "01", "-1", "1.0", "1e3", "99999999999999999999", "12345", "%20"])
def test_an_unknown_id_is_404_for_every_request(api, id):
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


def test_null_sets_the_topics_default_and_an_omitted_member_is_unchanged(api, topic):
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


def test_if_match_applies_only_to_scheduled_jobs(api, topic):
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
def test_an_invalid_patch_points_at_the_fault_and_changes_nothing(api, topic, body, expected):
    job = api.make(topic=topic, delay=HOUR)
    refused(api.patch(url(job), body), 422, "invalid", *expected)
    assert api.get(url(job)).json == job


def test_a_patch_of_a_dispatched_job_is_too_late_and_says_so(api, topic):
    job = api.make(topic=topic, delay=0)
    dispatched(api, job)
    body = refused(api.patch(url(job), {"payload": 1}), 409, "too-late")
    assert (body["id"], body["state"], body["attempt"]) == (job["id"], "dispatched", 1)


# ---- cancel, run-now, redrive ----

def test_a_repeated_cancel_gets_the_same_answer(api, topic):
    job = api.make(topic=topic, delay=HOUR)
    first = api.post(f"{url(job)}/cancel")
    assert first.status == 200 and first.json["state"] == "cancelled" and first.json["next_at"] is None and first.json["waiting_for"] is None
    assert first.json["version"] == 2
    for answer in (api.post(f"{url(job)}/cancel"), api.delete(url(job)), api.post(f"{url(job)}/cancel", {})):
        assert answer.status == 200 and answer.json == first.json, answer


def test_a_dispatched_job_cannot_be_cancelled_but_its_further_attempts_can(api, topic):
    job = api.make(topic=topic, delay=0)
    dispatched(api, job)
    body = refused(api.delete(url(job)), 409, "too-late")
    assert (body["state"], body["attempt"]) == ("dispatched", 1)
    answer = api.post(f"{url(job)}/cancel?retries=true")
    assert answer.status == 200 and answer.json["state"] == "dispatched", answer
    ended = api.post(f"{url(job)}/results", {"attempt": 1, "status": "failed"}).json
    assert ended["outcome"] == "applied" and ended["state"] == "cancelled"


def test_run_now_makes_a_scheduled_job_due(api, topic):
    job = api.make(topic=topic, delay=HOUR)
    answer = api.post(f"{url(job)}/run-now")
    assert answer.status == 200 and answer.json["run_at"] < job["run_at"] and answer.json["version"] == 2, answer
    dispatched(api, job)
    assert refused(api.post(f"{url(job)}/run-now"), 409, "too-late")["attempt"] == 1


def test_only_a_dead_job_can_be_redriven(api, topic):
    job = api.make(topic=topic, delay=0, retry=[])
    refused(api.post(f"{url(api.make(topic=topic, delay=HOUR))}/redrive"), 409, "not-dead")
    dispatched(api, job)
    assert api.post(f"{url(job)}/results", {"attempt": 1, "status": "failed", "error": {"code": "x"}}).json["state"] == "dead"
    refused(api.post(f"{url(job)}/run-now"), 409, "too-late")
    again = api.post(f"{url(job)}/redrive")
    assert again.status == 200 and again.json["state"] in ("scheduled", "dispatched") and again.json["attempt"] >= 1, again
    assert until(lambda: (now := api.get(url(job)).json)["attempt"] == 2 and now, "the second attempt")["failures"] == 0


@pytest.mark.parametrize("query", ["retries=maybe", "retries=", "retries=1", "retries=true&retries=true", "force=true"])
def test_cancel_refuses_unknown_query_parameters(api, topic, query):
    job = api.make(topic=topic, delay=HOUR)
    refused(api.post(f"{url(job)}/cancel?{query}"), 422, "invalid", "?" + query.split("=")[0])
    assert api.get(url(job)).json["state"] == "scheduled"


def test_unexpected_bodies_and_conditions_are_refused(api, topic):
    job = api.make(topic=topic, delay=HOUR)
    for path in ("/cancel", "/run-now", "/redrive"):
        refused(api.post(url(job) + path, {"reason": "x"}), 422, "invalid")
        refused(api.post(url(job) + path, headers={"If-Match": '"1"'}), 422, "invalid")
    schedule = {"topic": topic, "cron": "@daily"}
    for method, path, body in (("PUT", f"/v1/topics/{topic}", {}), ("PUT", f"/v1/topics/{topic}/jobs/k", {"delay": 1}), ("PUT", f"/v1/schedules/{topic}", schedule),
                               ("POST", "/v1/jobs", {"topic": topic, "delay": 1}), ("POST", "/v1/jobs:batch", []), ("POST", f"/v1/topics/{topic}/pause", None),
                               ("POST", "/v1/jobs:cancel", {"filter": {"topic": topic}}), ("PATCH", "/v1/tokens/none", {"pending_jobs": 1}), ("GET", url(job), None)):
        refused(api.ask(method, path, body, headers={"If-Match": '"1"'}), 422, "invalid")
    assert api.get(url(job)).json == job


def test_a_binary_payload_can_replace_a_json_payload_and_vice_versa(api, topic):
    job = api.make(topic=topic, delay=HOUR, payload={"a": 1})
    now = api.patch(url(job), {"payload_base64": "AAH/", "content_type": "a/b"}).json
    assert (now["payload_base64"], now["content_type"]) == ("AAH/", "a/b") and "payload" not in now
    now = api.patch(url(job), {"payload": {"b": 2}}).json
    assert now["payload"] == {"b": 2} and not {"payload_base64", "content_type"} & set(now) and now["version"] == 3
    assert api.get(url(job)).json == now


def test_a_patch_refuses_what_a_create_refuses(api, topic):
    job = api.make(topic=topic, delay=HOUR)
    refused(api.patch(url(job), "{"), 400, "malformed")
    refused(api.patch(url(job), '{"payload":1,"payload":2}'), 400, "malformed")
    refused(api.patch(url(job), {"payload": "x" * 900000}), 413, "too-large", "/payload")
    refused(api.patch(url(job), {"headers": {"a": "x" * 8192}}), 413, "too-large", "/headers")
    refused(api.patch(url(job), {}, content_type="application/merge-patch+json"), 415, "unsupported-media-type")
    refused(api.patch(url(job), {"delay": None, "payload_base64": "A", "headers": {"ce_id": "x"}}), 422, "invalid", "/delay", "/payload_base64", "/content_type", "/headers/ce_id")
    assert api.get(url(job)).json == job


def test_one_of_two_patches_with_the_same_condition_wins(api, api2, topic):
    job = api.make(topic=topic, delay=HOUR)
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda n: (api, api2)[n % 2].patch(url(job), {"payload": n}, headers={"If-Match": '"1"'}).status, range(16)))
    assert sorted(answers) == [200] + [412] * 15


def test_cancelling_the_retries_of_a_scheduled_job_cancels_it(api, topic):
    job = api.make(topic=topic, delay=HOUR)
    assert api.delete(f"{url(job)}?retries=true").json["state"] == "cancelled"


# ---- numbers at their end ----

LAST = 1999999999  # the CHECK numbers_can_rise
CHANGES = {
    "a patch": (("PATCH", "", {"delay": "PT2H"}), "scheduled"), "a patch of the payload": (("PATCH", "", {"payload": 1}), "scheduled"), "run-now": (("POST", "/run-now", None), None),
    "a cancel": (("POST", "/cancel", None), "cancelled"), "a cancel of retries": (("POST", "/cancel?retries=true", None), "dispatched"),
    "a success": (("POST", "/results", {"attempt": LAST, "status": "succeeded"}), "succeeded"),
    "a failure": (("POST", "/results", {"attempt": LAST, "status": "failed"}), "dead"),
    "a snooze": (("POST", "/results", {"attempt": LAST, "status": "snoozed", "retry_after": "PT1H"}), "scheduled"),
    "an extension": (("POST", "/results", {"attempt": LAST, "status": "extended"}), "dispatched"), "a redrive": (("POST", "/redrive", None), None)}
OF_DISPATCHED = ("a cancel of retries", "a success", "a failure", "a snooze", "an extension", "a redrive")


@pytest.mark.parametrize("change", CHANGES)
def test_a_job_whose_counters_are_at_their_maximum_can_be_changed(api, topic, db, change):
    (method, path, body), state = CHANGES[change]
    job = api.make(topic=topic, delay=0 if change in OF_DISPATCHED else HOUR, retry=[])
    if change in OF_DISPATCHED:
        dispatched(api, job)
    if change == "a redrive":
        assert api.post(f"{url(job)}/results", {"attempt": 1, "status": "gave_up"}).status == 200
    db(f"UPDATE jobs SET attempt = IF(attempt > 0, {LAST}, 0), failures = {LAST}, version = {LAST} WHERE id = %s", job["id"])
    answer = api.ask(method, url(job) + path, body)
    assert answer.status == 200, answer
    now = api.get(url(job)).json
    assert now["version"] == LAST and (state is None or now["state"] == state), now


@pytest.mark.parametrize("kind", ["cancel", "redrive", "reschedule", "reschedule each"])
def test_operations_change_jobs_whose_counters_are_at_their_maximum(api, topic, db, kind):
    due = kind == "redrive"
    jobs = [api.make(topic=topic, delay=0 if due else HOUR, retry=[]) for _ in range(3)]
    for job in jobs if due else []:
        dispatched(api, job)
        assert api.post(f"{url(job)}/results", {"attempt": 1, "status": "gave_up"}).status == 200
    db(f"UPDATE jobs SET attempt = IF(attempt > 0, {LAST}, 0), failures = {LAST}, version = {LAST} WHERE id IN (%s, %s)", jobs[0]["id"], jobs[2]["id"])
    more = {"reschedule": {"run_at": "2031-01-01T00:00:00Z"}, "reschedule each": {"shift": "P1D"}}.get(kind, {})
    done = ended(api, api.post(f"/v1/jobs:{kind.split()[0]}", {"filter": {"topic": topic}, "wait": "PT1M", **more}))
    assert done["changed"] == 3, done


def test_a_topic_whose_version_is_at_its_maximum_can_be_changed(api, topic, db):
    assert api.put(f"/v1/topics/{topic}", {}).status == 201
    db("UPDATE topics SET version = 9223372036854775807 WHERE name = %s", topic)
    assert api.put(f"/v1/topics/{topic}", {"ack_timeout": "PT7S"}).json["ack_timeout"] == "PT7S"
    assert api.post(f"/v1/topics/{topic}/pause").json["paused"]
    assert api.delete(f"/v1/topics/{topic}").status in (200, 202, 204)

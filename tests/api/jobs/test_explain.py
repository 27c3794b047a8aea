"""GET /v1/jobs/{id}/explain: a sentence for each reason why a job is where it is, and what can be done about it."""
import pytest

from harness.problems import refused
from harness.stack import until

pytestmark = pytest.mark.in_turns(3)


def explain(api, job):
    answer = api.get(f"/v1/jobs/{job}/explain")
    assert answer.status == 200, answer
    return answer.json


def when(api, job, **members):
    """The explanation, as soon as these members are so."""
    return until(lambda: (seen := explain(api, job)) and all(seen[name] == value for name, value in members.items()) and seen, lambda: explain(api, job))


def test_a_future_job_says_when_it_is_due(api, topic):
    job = api.make(topic=topic, key="k", delay="PT3H")
    seen = until(lambda: (each := when(api, job["id"], waiting_for="time"))["shard"]["leader"] and each, lambda: explain(api, job["id"]))
    assert seen["reason"].startswith("It is due in 3 h, at ") and seen["action"] is None
    assert (seen["id"], seen["topic"], seen["key"], seen["attempt"], seen["next_at"]) == (job["id"], topic, "k", 0, job["next_at"])
    facts = {fact["what"]: fact["value"] for fact in seen["facts"]}
    assert facts["why"] == seen["reason"] and "what to do" not in facts and facts["shard"].endswith(seen["shard"]["leader"])


def test_a_paused_topic_is_named_with_the_command_that_resumes_it(api, held):
    seen = when(api, api.make(topic=held, delay=0)["id"], waiting_for="paused")
    assert "its topic is paused" in seen["reason"] and seen["action"] == f"duetime topics resume {held}"
    assert seen["index"] == {"state": "not-needed", "at": None}, "its leader holds it back with the others of the topic"
    api.post(f"/v1/topics/{held}/resume")
    seen = when(api, seen["id"], waiting_for="ack")
    assert seen["reason"].startswith("Attempt 1 was sent at ") and "was not reported yet" in seen["reason"]


def test_an_offered_job_says_that_no_client_pops_it(api, topic):
    api.put(f"/v1/topics/{topic}", {"delivery": "pull"})
    seen = when(api, api.make(topic=topic, delay=0)["id"], waiting_for="pop")
    assert "no worker has popped it yet" in seen["reason"] and f"duetime pop {topic}" in seen["action"] and seen["index"]["state"] == "not-needed"


def test_a_topic_at_its_limit_is_named_with_the_command_that_raises_it(api, topic):
    api.put(f"/v1/topics/{topic}", {"max_in_flight": 1})
    jobs = [api.make(topic=topic, delay=0)["id"] for _ in range(2)]
    seen = until(lambda: next((each for job in jobs if (each := explain(api, job))["waiting_for"] == "limit"), None), lambda: [explain(api, job) for job in jobs])
    assert "its topic is at its limit" in seen["reason"] and f"duetime topics set {topic} --max-in-flight" in seen["action"]
    assert api.put(f"/v1/topics/{topic}", {}).status == 200


def test_a_shard_without_a_leader_is_named_with_the_way_to_start_one(api, stack, topic):
    job = api.make(topic=topic, delay="PT1H")["id"]
    stack.stop("dispatcher1")
    try:
        assert api.post(f"/v1/jobs/{job}/run-now").status == 200
        seen = until(lambda: (each := explain(api, job))["shard"]["health"] == "no-dispatcher" and each["waiting_for"] == "leader" and each, lambda: explain(api, job))
        assert f"no dispatcher runs, so its shard {seen['shard']['shard']} has no leader" in seen["reason"] and "duetime-dispatcher" in seen["action"]
    finally:
        stack.start("dispatcher1")
    when(api, job, waiting_for="ack")


def test_a_dead_job_shows_its_last_error_and_the_command_that_redrives_it(api, dispatched, topic):
    job = dispatched(topic=topic, retry=[])["id"]
    api.post(f"/v1/jobs/{job}/results", {"attempt": 1, "status": "failed", "error": {"code": "gone", "message": "no such order"}})
    seen = explain(api, job)
    assert "given up after attempt 1" in seen["reason"] and seen["reason"].endswith("because of gone: no such order.")
    assert f"duetime jobs redrive {job}" in seen["action"] and seen["next_at"] is None and seen["index"] == {"state": "not-needed", "at": None}


def test_explain_reads_the_entry_in_the_index(api, stack, topic):
    job = api.make(topic=topic, delay="PT50M")  # index.horizon is an hour
    assert when(api, job["id"])["index"]["state"] in ("there", "missing")
    seen = until(lambda: (each := explain(api, job["id"]))["index"]["state"] == "there" and each, lambda: explain(api, job["id"]))
    assert seen["index"]["at"] == job["next_at"]
    far = api.make(topic=topic, delay="P300D")["id"]
    assert explain(api, far)["index"] == {"state": "not-needed", "at": None}
    assert api.delete(f"/v1/jobs/{far}").status == 200
    assert explain(api, far)["reason"].startswith("It was cancelled, at ")


@pytest.mark.parametrize("job", ["1", "x"])
def test_a_missing_job_is_404(api, job):
    refused(api.get(f"/v1/jobs/{job}/explain"), 404, "not-found")

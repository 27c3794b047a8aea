"""Dead jobs by topic and error: what failed for good, and why."""
import time
from urllib.parse import urlencode

import pytest

from harness.operations import ended
from harness.problems import refused
from harness.soak import rfc3339
from harness.stack import until

HOUR_MS = 3_600_000


@pytest.fixture
def dead(api, topic):
    """Three jobs that died of E1, and one without a code."""
    assert api.put(f"/v1/topics/{topic}", {"delivery": "pull", "retry": []}).status == 201
    api.batch([{"topic": topic, "key": f"k{n}", "delay": 0} for n in range(4)])
    reports = {f"k{n}": {"code": "E1", "message": "it was \u00e9"} for n in range(3)}
    left = set(reports) | {"k3"}

    def all_reported():
        for job in api.post(f"/v1/topics/{topic}/pop", {"max": 4, "wait": "PT1M"}).json["jobs"]:
            error = {"error": reports[job["key"]]} if job["key"] in reports else {}
            assert api.post(f"/v1/jobs/{job['id']}/results", {"attempt": 1, "status": "gave_up", **error}).json["outcome"] == "applied"
            left.discard(job["key"])
        return not left
    until(all_reported, lambda: left)
    return topic


def letters(api, **query):
    answer = api.get("/v1/dead-letters?" + urlencode(query))
    assert answer.status == 200, answer
    return answer.json


def numbers(answer):
    return [(group["error_code"], group["message"], group["jobs"]) for group in answer["groups"]]


def test_dead_jobs_are_counted_by_topic_and_error(api, dead):
    found = letters(api, topic=dead)
    assert (found["jobs"], found["newest"], found["groups_more"]) == (4, False, 0)
    assert numbers(found)[0] == ("E1", "it was \u00e9", 3) and found["groups"][1]["jobs"] == 1 and {group["topic"] for group in found["groups"]} == {dead}
    one = api.get(f"/v1/jobs/{found['groups'][0]['job_id']}").json
    assert (one["state"], one["topic"], one["last_error"]["code"]) == ("dead", dead, "E1") and one["last_error"]["at"] <= found["groups"][0]["last_at"]
    now = int(time.time() * 1000)
    assert letters(api, topic=dead, failed_from=rfc3339(now - HOUR_MS), failed_to=rfc3339(now + HOUR_MS))["jobs"] == 4
    assert letters(api, topic=dead, failed_to=rfc3339(now - HOUR_MS))["groups"] == letters(api, topic=dead, failed_from=rfc3339(now + HOUR_MS))["groups"] == []
    assert ("E1", "it was \u00e9", 3) in numbers({"groups": [group for group in letters(api)["groups"] if group["topic"] == dead]})


def test_a_redriven_job_is_no_longer_counted(api, dead):
    assert letters(api, topic=dead)["jobs"] == 4
    assert api.post(f"/v1/topics/{dead}/pause").status == 200
    assert ended(api, api.post("/v1/jobs:redrive", {"filter": {"topic": dead, "error_code": "E1"}, "wait": "PT1M"}))["changed"] == 3
    until(lambda: letters(api, topic=dead)["jobs"] == 1, lambda: letters(api, topic=dead))


@pytest.mark.parametrize("query, member", [({"failed_from": "yesterday"}, "failed_from"), ({"failed_to": "1"}, "failed_to"), ({"topic": "a b"}, "topic"),
                                           ({"failed_from": "2030-01-02T00:00:00Z", "failed_to": "2030-01-01T00:00:00Z"}, "failed_from")])
def test_invalid_parameters_are_refused_by_name(api, query, member):
    refused(api.get("/v1/dead-letters?" + urlencode(query)), 422, "invalid", f"?{member}")

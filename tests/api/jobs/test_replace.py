"""PUT ?replace=true: what becomes of the job that has the key."""
import collections
import concurrent.futures

import pytest

from harness.problems import refused
from harness.rest import Rest


def path(topic, key="k", query="?replace=true"):
    return f"/v1/topics/{topic}/jobs/{key}{query}"


def test_a_replace_with_a_free_key_creates_a_job(api, topic):
    made = api.put(path(topic), {"delay": "PT1H", "payload": 1})
    assert made.status == 201 and made.headers["Location"] == f"/v1/jobs/{made.json['id']}", made
    assert api.get(path(topic, query="")).json == made.json


def test_a_replace_gives_a_scheduled_job_the_whole_new_body(api, topic):
    first = api.put(path(topic), {"delay": "PT1H", "payload": 1, "partition_key": "p", "headers": {"a": "b"}, "retry": ["1m"]}).json
    again = api.put(path(topic), {"run_at": "2031-01-01T00:00:00Z", "payload": 2, "ack_timeout": "PT9M"})
    assert again.status == 200 and again.headers["ETag"] == '"2"', again
    job = again.json
    assert job["id"] == first["id"] and job["payload"] == 2 and job["ack_timeout"] == "PT9M" and job["run_at"] == "2031-01-01T00:00:00.000Z"
    assert "partition_key" not in job and "headers" not in job and len(job["retry"]) == 9, job
    assert api.get(f"/v1/jobs/{job['id']}").json == job
    assert api.put(path(topic, query=""), {"run_at": "2031-01-01T00:00:00Z", "payload": 2, "ack_timeout": "PT9M"}).json == job
    assert refused(api.put(path(topic, query="?replace=false"), {"delay": "PT1H", "payload": 1}), 409, "key-conflict")["id"] == job["id"]


@pytest.mark.parametrize("end", ["cancelled", "succeeded", "dead"])
def test_a_replace_of_a_finished_job_creates_a_new_one_with_its_key(api, topic, dispatched, end):
    body = {"delay": 0, "payload": 1, "retry": []}
    job = dispatched(topic=topic, key="k", **body) if end != "cancelled" else api.make(topic=topic, key="k", delay="PT1H")
    if end == "cancelled":
        api.delete(f"/v1/jobs/{job['id']}")
    else:
        api.post(f"/v1/jobs/{job['id']}/results", {"attempt": 1, "status": "succeeded" if end == "succeeded" else "gave_up"})
    assert api.get(f"/v1/jobs/{job['id']}").json["state"] == end
    new = api.put(path(topic), {"delay": "PT1H", "payload": 1})
    assert new.status == 201 and new.json["id"] != job["id"], new
    assert api.get(path(topic, query="")).json["id"] == new.json["id"] and api.get(f"/v1/jobs/{job['id']}").json["state"] == end
    if end == "dead":
        assert api.post(f"/v1/jobs/{job['id']}/redrive").status == 200
        assert api.get(path(topic, query="")).json["id"] == new.json["id"], "a key that moved on stays with the newer job"


def test_an_invalid_body_replaces_nothing(api, topic):
    first = api.put(path(topic), {"delay": "PT1H"}).json
    refused(api.put(path(topic), {"delay": "never"}), 422, "invalid", "/delay")
    refused(api.put(path(topic, query="?replace=yes"), {"delay": "PT1H"}), 422, "invalid", "?replace")
    assert api.get(path(topic, query="")).json == first


def test_concurrent_replaces_of_a_free_key_make_one_job(stack, topic, db):
    def replace(i):
        rest = Rest(stack[f"DUETIME_URL_API{1 + i % 2}"])
        answer = rest.put(path(topic), {"delay": "PT1H", "payload": i})
        rest.close()
        return answer
    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(replace, range(24)))
    assert collections.Counter(answer.status for answer in answers) == {200: 23, 201: 1}, answers
    assert len({answer.json["id"] for answer in answers}) == 1
    job, = db("SELECT payload, version FROM jobs WHERE topic = %s", topic)
    last, = [answer.json for answer in answers if answer.json["version"] == 24]
    assert int(job["payload"]) == last["payload"] and job["version"] == 24

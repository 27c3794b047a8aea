"""Keys: PUT and POST with a key are idempotent creates; what counts as equal; concurrent requests make one job."""
import json
import threading
import urllib.parse

import pytest

from harness.problems import refused
from harness.rest import Rest


def path(topic, key):
    return f"/v1/topics/{topic}/jobs/{urllib.parse.quote(key, safe='')}"


def test_put_makes_the_job_once(api, api2, topic):
    body = {"delay": "PT1H", "payload": {"a": 1}}
    first = api.put(path(topic, "k"), body)
    assert first.status == 201 and (first.json["topic"], first.json["key"]) == (topic, "k"), first
    assert first.headers["Location"] == f"/v1/jobs/{first.json['id']}" and first.headers["ETag"] == '"1"'
    for again in (api2.put(path(topic, "k"), body), api.post("/v1/jobs", {"topic": topic, "key": "k", **body})):
        assert again.status == 200 and again.json == first.json and again.headers["ETag"] == '"1"', again
    assert api.get(path(topic, "k")).json == first.json


def test_a_different_request_with_the_same_key_gets_a_conflict_with_the_job(api, topic, db):
    job = api.make(topic=topic, key="k", delay="PT1H", payload=1)
    for answer in (api.put(path(topic, "k"), {"delay": "PT1H", "payload": 2}), api.post("/v1/jobs", {"topic": topic, "key": "k", "delay": "PT1H", "payload": 2})):
        assert refused(answer, 409, "key-conflict")["id"] == job["id"]
    assert api.get(f"/v1/jobs/{job['id']}").json == job
    assert db("SELECT COUNT(*) n FROM jobs WHERE topic = %s", topic)[0]["n"] == 1


BASE = {"run_at": "2031-01-01T00:00:00Z", "payload": {"a": 1}, "retry": ["1m"], "ack_timeout": "PT1M", "headers": {"a": "1", "b": "2"}, "partition_key": "p"}
EQUAL = [{"run_at": "2031-01-01T02:00:00.000+02:00"}, {"retry": ["60s"]}, {"retry": [60000]}, {"ack_timeout": 60000}, {"ack_timeout": "60s"}, {"headers": {"b": "2", "a": "1"}}]
OTHER = [{"run_at": "2031-01-01T00:00:00.001Z"}, {"payload": {"a": 2}}, {"retry": ["1m", "1m"]}, {"retry": []}, {"ack_timeout": "PT2M"}, {"headers": {"a": "1"}},
         {"partition_key": "q"}, {"run_at": None, "delay": "PT1H"}]


@pytest.mark.parametrize("change", EQUAL, ids=json.dumps)
def test_bodies_that_mean_the_same_are_equal(api, topic, change):
    first = api.put(path(topic, "k"), BASE)
    again = api.put(path(topic, "k"), {**BASE, **change})
    assert (first.status, again.status) == (201, 200) and again.json["id"] == first.json["id"]


@pytest.mark.parametrize("change", OTHER, ids=json.dumps)
def test_a_body_that_differs_in_one_member_conflicts(api, topic, change):
    first = api.put(path(topic, "k"), BASE).json
    body = {name: value for name, value in {**BASE, **change}.items() if value is not None}
    assert refused(api.put(path(topic, "k"), body), 409, "key-conflict")["id"] == first["id"]


@pytest.mark.parametrize("member, default", [("retry", ["15s", "3m", "10m", "30m", "30m", "1h", "2h", "6h", "15h"]), ("ack_timeout", "PT5M"), ("headers", {})])
def test_an_omitted_member_differs_from_its_default_value(api, topic, member, default):
    api.put(path(topic, "k"), {"delay": "PT1H"})
    refused(api.put(path(topic, "k"), {"delay": "PT1H", member: default}), 409, "key-conflict")


def test_delays_compare_as_durations_and_payloads_by_their_bytes(api, topic):
    def put(text):
        return api.put(path(topic, "k"), text).status
    assert put('{"delay":"PT1M","payload":{"a": 1}}') == 201
    assert put('{ "payload" : {"a": 1}, "delay" : 60000 }') == 200
    assert put('{"delay":"60s","payload":{"a": 1}}') == 200
    assert put('{"delay":"PT1M","payload":{"a":1}}') == 409
    assert put('{"delay":"PT1M","payload":{"\\u0061": 1}}') == 409


def test_a_binary_payload_is_not_the_same_as_the_json_of_its_bytes(api, topic):
    binary = {"delay": "PT1H", "payload_base64": "MQ==", "content_type": "application/json"}
    assert api.put(path(topic, "k"), binary).status == 201
    assert api.put(path(topic, "k"), binary).status == 200
    refused(api.put(path(topic, "k"), {**binary, "content_type": "text/plain"}), 409, "key-conflict")


def test_a_repeated_create_matches_even_if_the_job_was_changed(api, topic):
    body = {"delay": "PT1H", "payload": 1}
    job = api.put(path(topic, "k"), body).json
    changed = api.patch(f"/v1/jobs/{job['id']}", {"payload": 2, "delay": "PT2H"}).json
    again = api.put(path(topic, "k"), body)
    assert again.status == 200 and again.json == changed
    refused(api.put(path(topic, "k"), {"delay": "PT2H", "payload": 2}), 409, "key-conflict")


def test_finished_jobs_keep_their_key(api, topic):
    body = {"delay": "PT1H"}
    job = api.put(path(topic, "k"), body).json
    api.delete(f"/v1/jobs/{job['id']}")
    again = api.put(path(topic, "k"), body)
    assert again.status == 200 and again.json["id"] == job["id"] and again.json["state"] == "cancelled"
    refused(api.put(path(topic, "k"), {"delay": "PT2H"}), 409, "key-conflict")


def test_keys_compare_byte_for_byte_and_within_their_topic(api, topic):
    keys = ["k", "K", "k ", " k", "ḱ", "k\u0301", "k\t", "k/k", "k%2Fk", "k\u0000", "k\u0000k", "ß", "ss", "x" * 255, "é" * 127]
    ids = {key: api.make(topic=topic, key=key, delay="PT1H", payload=n)["id"] for n, key in enumerate(keys)}
    assert len(set(ids.values())) == len(keys)
    assert api.make(topic=topic + "x", key="k", delay="PT1H", payload=1)["id"] not in ids.values()
    for key in keys:
        if "\u0000" not in key:
            found = api.get(path(topic, key))
            assert found.status == 200 and (found.json["id"], found.json["key"]) == (ids[key], key), (key, found)


def test_an_unknown_key_is_404(api, topic):
    refused(api.get(path(topic, "k")), 404, "not-found")
    api.make(topic=topic, key="k", delay="PT1H")
    refused(api.get(path(topic, "k2")), 404, "not-found")


def test_topic_and_key_in_path_and_body_must_agree(api, topic, nothing_made):
    for body, pointers in (({"topic": "other"}, ["/topic"]), ({"key": "other"}, ["/key"]), ({"topic": "other", "key": "K"}, ["/topic", "/key"])):
        refused(api.put(path(topic, "k"), {"delay": 0, **body}), 422, "invalid", *pointers)


def test_topic_and_key_may_be_in_path_and_body(api, topic):
    both = api.put(path(topic, "k"), {"delay": "PT1H", "topic": topic, "key": "k"})
    for other in (api.put(path(topic, "k"), {"delay": "PT1H"}), api.put(path(topic, "k"), {"delay": "PT1H", "key": "k"}),
                  api.post("/v1/jobs", {"delay": "PT1H", "topic": topic, "key": "k"})):
        assert (both.status, other.status) == (201, 200) and other.json["id"] == both.json["id"]


def test_an_absent_payload_is_null(api, topic):
    made = api.put(path(topic, "k"), {"delay": "PT1H"})
    again = api.put(path(topic, "k"), {"delay": "PT1H", "payload": None})
    assert (made.status, again.status) == (201, 200) and again.json["id"] == made.json["id"] and again.json["payload"] is None


@pytest.mark.parametrize("key", ["x" * 256, "é" * 128])
def test_a_key_in_the_path_has_at_most_255_bytes(api, topic, nothing_made, key):
    refused(api.put(path(topic, key), {"delay": 0}), 422, "invalid", "/key")


def test_a_path_with_invalid_utf_8_or_escapes_is_refused(api, topic, nothing_made):
    refused(api.put(f"/v1/topics/{topic}/jobs/%FF", {"delay": 0}), 422, "invalid", "/key")
    for bad in ("%", "%4", "%zz"):
        refused(api.put(f"/v1/topics/{topic}/jobs/{bad}", {"delay": 0}), 400, "malformed")


def test_put_refuses_what_post_refuses(api, topic, nothing_made):
    refused(api.put(path(topic, "k"), {"delay": "x", "nope": 1}), 422, "invalid", "/delay", "/nope")
    refused(api.put(path(topic, "k"), '{"delay":0,"delay":0}'), 400, "malformed")
    refused(api.put(path(topic, "k"), "delay=0", content_type="application/x-www-form-urlencoded"), 415, "unsupported-media-type")
    refused(api.put(path("a%20b", "k"), {"delay": 0}), 422, "invalid", "/topic")


def at_once(count, ask):
    """Runs ask(n) in as many threads, all let go together; their answers."""
    answers, gate = [None] * count, threading.Barrier(count)

    def run(n):
        gate.wait()
        answers[n] = ask(n)
    threads = [threading.Thread(target=run, args=(n,)) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    return answers


def requests(stack, topic, payload):
    """PUT and POST in turn, at both APIs in turn."""
    def ask(n):
        rest = Rest(stack["DUETIME_URL_API1" if n // 2 % 2 else "DUETIME_URL_API2"])
        try:
            body = {"delay": "PT1H", "payload": payload(n)}
            return rest.put(path(topic, "k"), body) if n % 2 else rest.post("/v1/jobs", {"topic": topic, "key": "k", **body})
        finally:
            rest.close()
    return ask


@pytest.mark.parametrize("turn", range(5))
def test_the_same_request_to_two_apis_at_once_creates_one_job(stack, db, topic, turn):
    answers = at_once(32, requests(stack, topic, lambda n: 1))
    assert sorted(answer.status for answer in answers) == [200] * 31 + [201], answers
    assert len({answer.json["id"] for answer in answers}) == 1
    assert db("SELECT COUNT(*) n FROM jobs WHERE topic = %s", topic)[0]["n"] == 1


@pytest.mark.parametrize("turn", range(5))
def test_different_requests_with_one_key_at_once_create_one_job(stack, db, topic, turn):
    answers = at_once(32, requests(stack, topic, lambda n: n))
    assert sorted(answer.status for answer in answers) == [201] + [409] * 31, answers
    [made] = [answer.json["id"] for answer in answers if answer.status == 201]
    assert {refused(answer, 409, "key-conflict")["id"] for answer in answers if answer.status == 409} == {made}
    assert db("SELECT COUNT(*) n FROM jobs WHERE topic = %s", topic)[0]["n"] == 1

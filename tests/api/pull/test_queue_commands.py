"""The commands of the delay-queue literature: add, pop, finish, delete."""
import concurrent.futures
import time
import uuid

import pytest

from harness.checker import now_ms
from harness.problems import refused
from harness.stack import until


@pytest.fixture
def name():
    """An id of the test's own."""
    return f"id-{uuid.uuid4().hex[:10]}"


@pytest.fixture
def send(api):
    """send(command, …) -> its answer, which must be 200."""
    def ask(command, **members):
        answer = api.post("/v1/commands", {"command": command, **members})
        assert answer.status == 200, answer
        return answer.json
    return ask


@pytest.fixture
def popped(send):
    """popped(topic, …) -> the answer of the pop that got something."""
    def wait(topic, seconds=20, **members):
        return until(lambda: (answer := send("pop", topic=topic, **members)).get("id") and answer, f"nothing is ready in {topic}", seconds=seconds)
    return wait


def job_of(db, name):
    [row] = db("SELECT j.* FROM command_ids c JOIN jobs j ON j.id = c.job_id WHERE c.id = %s", name)
    return row


def test_a_job_is_added_popped_and_finished(api, send, popped, topic, name, db):
    assert send("add", topic=topic, id=name, delay=0, TTR=60, body='{"order":42} ä') == {"success": True, "id": name}
    assert api.get(f"/v1/topics/{topic}").json["delivery"] == "pull"
    row = job_of(db, name)
    job = api.get(f"/v1/jobs/{row['id']}").json
    assert (job["topic"], job["key"], job["ack_timeout"], job["max_attempts"], job["content_type"]) == (topic, name, "PT1M", 10, "text/plain")
    assert set(job["retry"]) == {"0s"} and row["payload"] == '{"order":42} ä'.encode()
    assert popped(topic) == {"success": True, "id": name, "value": '{"order":42} ä'}
    assert send("pop", topic=topic) == {"success": True}
    assert send("finish", id=name) == {"success": True, "id": name}
    assert job_of(db, name)["state"] == "succeeded"
    assert send("finish", id=name) == {"success": True, "id": name}


def test_a_delay_is_in_seconds(send, topic, name, db):
    for more, delay, ttr in (("", 1800, 60), ("x", 1800.5, 0.25)):
        before = now_ms()
        assert send("add", topic=topic, id=name + more, delay=delay, TTR=ttr)["success"]
        row = job_of(db, name + more)
        assert before - 100 <= row["run_at"] - delay * 1000 <= now_ms() + 100 and row["ack_timeout_ms"] == ttr * 1000 and row["payload"] == b"", row
    assert send("pop", topic=topic) == {"success": True}


def test_an_equal_add_succeeds_and_a_different_one_fails(api, send, popped, topic, name):
    add = {"topic": topic, "id": name, "delay": 0, "body": "x"}
    assert send("add", **add)["success"] and send("add", **add) == {"success": True, "id": name}
    for other in ({"body": "y"}, {"delay": 1}, {"TTR": 5}, {"topic": f"{topic}.other"}):
        answer = send("add", **{**add, **other})
        assert answer["success"] is False and answer["id"] == name and "a different add" in answer["error"], other
    assert popped(topic)["id"] == name and send("finish", id=name)["success"]
    assert send("add", **add)["success"] and send("pop", topic=topic) == {"success": True}


def test_a_command_id_is_unique_over_all_topics_and_separate_from_keys(api, send, topic, name, db):
    assert api.make(topic=topic, key=name, delay="PT1H")["key"] == name
    assert send("add", topic=topic, id=name, delay=3600)["success"]
    assert db("SELECT COUNT(*) n FROM jobs WHERE topic = %s", topic)[0]["n"] == 2
    assert not send("add", topic=topic + ".b", id=name, delay=3600)["success"]
    assert send("add", topic=topic + ".b", id=name.upper(), delay=3600)["success"]


def test_concurrent_adds_with_one_id_create_one_job(api, api2, send, topic, name, db):
    def add(n):
        rest = api if n % 2 else api2
        return rest.post("/v1/commands", {"command": "add", "topic": f"{topic}.{n % 4}", "id": name, "delay": 3600}).json["success"]
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        successes = sum(pool.map(add, range(32)))
    assert successes == 8 and db("SELECT COUNT(*) n FROM jobs WHERE job_key = %s", name)[0]["n"] == 1


def test_an_id_is_free_again_when_its_job_was_deleted(send, topic, name, db):
    assert send("add", topic=topic, id=name, delay=3600, body="x")["success"]
    db("DELETE FROM jobs WHERE job_key = %s", name)
    assert "no job" in send("finish", id=name)["error"]
    assert send("add", topic=topic, id=name, delay=3600, body="y")["success"]
    assert job_of(db, name)["payload"] == b"y"


def test_a_job_with_a_failed_finish_is_ready_again_at_once(send, popped, topic, name, db):
    assert send("add", topic=topic, id=name, delay=0, TTR=0.3)["success"]
    attempts = [popped(topic)["id"] == name and job_of(db, name)["attempt"] for _ in range(3)]
    assert attempts[0] < attempts[1] < attempts[2], attempts
    assert send("finish", id=name)["success"] and job_of(db, name)["state"] == "succeeded"


def test_the_tenth_attempt_is_the_last(send, topic, name, db):
    """An attempt that expires before its pop is answered reaches no client, but counts as one of the ten."""
    assert send("add", topic=topic, id=name, delay=0, TTR=0.2)["success"]
    got = []
    until(lambda: got.append(send("pop", topic=topic).get("id")) or job_of(db, name)["state"] == "dead", lambda: got)
    assert set(got) == {name, None} and got.count(name) <= 10 and job_of(db, name)["attempt"] == 10
    assert not send("finish", id=name)["success"] or job_of(db, name)["state"] == "dead"


def test_finish_ends_the_attempt_that_was_popped_last(send, popped, topic, name, db):
    assert "not popped" in (send("add", topic=topic, id=name, delay=0, TTR=0.5) and send("finish", id=name))["error"]
    popped(topic)
    until(lambda: job_of(db, name)["state"] == "scheduled", "its time is over")
    assert send("finish", id=name)["success"]
    assert job_of(db, name)["state"] == "succeeded" and send("pop", topic=topic) == {"success": True}


def test_delete_cancels_a_waiting_job(send, topic, name, db):
    send("add", topic=topic, id=name, delay=3600)
    assert send("delete", id=name) == {"success": True, "id": name} == send("delete", id=name)
    assert job_of(db, name)["state"] == "cancelled"
    assert not send("finish", id=name)["success"]


def test_a_popped_job_that_is_deleted_gets_no_further_attempt(send, popped, topic, name, db):
    send("add", topic=topic, id=name, delay=0, TTR=0.5)
    popped(topic)
    attempt = job_of(db, name)["attempt"]
    assert send("delete", id=name)["success"]
    until(lambda: job_of(db, name)["state"] == "cancelled", "cancelled")
    assert send("pop", topic=topic) == {"success": True} and job_of(db, name)["attempt"] == attempt


def test_a_deleted_job_that_was_popped_may_still_be_finished(send, popped, topic, name, db):
    send("add", topic=topic, id=name, delay=0, TTR=60)
    popped(topic)
    assert send("delete", id=name)["success"] and send("finish", id=name)["success"]
    assert job_of(db, name)["state"] == "succeeded" and "ended" in send("delete", id=name)["error"]


def test_many_jobs_are_popped_at_once(send, topic, name, db):
    answer = send("pop", topic=topic, max=5)
    assert answer["success"] is False and "topic" in answer["error"]
    for n in range(7):
        send("add", topic=topic, id=f"{name}-{n}", delay=0, body=str(n))
    got = []

    def pop():
        answer = send("pop", topic=topic, max=5)
        assert answer["success"] and len(answer["jobs"]) <= 5 and set(answer) == {"success", "jobs"}
        got.extend(answer["jobs"])
        return len(got) == 7
    until(pop, "seven")
    assert sorted((job["id"], job["value"]) for job in got) == [(f"{name}-{n}", str(n)) for n in range(7)]
    assert send("pop", topic=topic, max=5) == {"success": True, "jobs": []}


@pytest.mark.parametrize("most", [1, 5])
def test_a_pop_waits_for_a_job_to_become_ready(send, topic, name, most):
    send("add", topic=topic, id=name + "-later", delay=3600)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        began = time.monotonic()
        waiting = [pool.submit(send, "pop", topic=topic, wait=60, max=most) for _ in range(2)]
        send("add", topic=topic, id=name, delay=0.5, body="x")
        send("add", topic=topic, id=name + "2", delay=0.5, body="x")
        answers = [one.result() for one in waiting]  # with room for several one of them may get both
    assert time.monotonic() - began > 0.4
    jobs = answers if most == 1 else [{"success": True, **job} for answer in answers for job in answer["jobs"]]
    assert sorted(jobs, key=lambda job: job["id"]) == [{"success": True, "id": one, "value": "x"} for one in (name, name + "2")]
    assert send("finish", id=name)["success"] and send("finish", id=name + "2")["success"]


def test_a_wait_without_jobs_is_a_success(api, send, topic, name):
    send("add", topic=topic, id=name, delay=3600)
    began = time.monotonic()
    assert send("pop", topic=topic, wait=0.6) == {"success": True} and time.monotonic() - began > 0.5
    assert send("pop", topic=topic, wait=0.2, max=3) == {"success": True, "jobs": []}
    [answer] = api.post("/v1/commands", [{"command": "pop", "topic": topic, "wait": 5}]).json
    assert answer["success"] is False and "/wait" in answer["error"]


def test_jobs_created_without_a_command_are_popped_by_job_id(api, send, popped, topic, db):
    assert api.put(f"/v1/topics/{topic}", {"delivery": "pull"}).status == 201
    text = api.make(topic=topic, delay=0, key="k", payload={"a": "ü"})
    assert popped(topic) == {"success": True, "id": text["id"], "value": '{"a": "\\u00fc"}'}
    assert send("finish", id=text["id"])["success"] and api.get(f"/v1/jobs/{text['id']}").json["state"] == "succeeded"
    raw = api.make(topic=topic, delay=0, payload_base64="//4=", content_type="application/octet-stream")
    assert popped(topic) == {"success": True, "id": raw["id"], "value_base64": "//4="}
    assert send("delete", id=raw["id"])["success"]


def test_a_command_for_a_missing_job_gets_not_found(send, topic, name):
    for command in ("finish", "delete"):
        answer = send(command, id=name)
        assert answer["success"] is False and answer["id"] == name and "no job" in answer["error"]
    assert "no such topic" in send("pop", topic=topic)["error"]


def test_a_topic_of_another_delivery_is_not_popped_from(api, send, topic):
    assert api.put(f"/v1/topics/{topic}", {"delivery": "kafka"}).status == 201
    assert "delivery" in send("pop", topic=topic)["error"]


def test_an_invalid_element_does_not_affect_others(api, topic, name, db):
    answer = api.post("/v1/commands", [
        {"command": "add", "topic": topic, "id": name, "delay": 3600}, {"command": "fly", "id": name}, {"command": "add", "topic": "a b", "id": "x", "y": 1},
        {"command": "add", "topic": topic, "id": name + "b", "delay": -1}, 5, {"command": "finish", "id": name, "topic": topic},
        {"command": "delete", "id": name}, {"command": "add", "topic": topic, "id": name + "c"}, {"command": "delete", "id": name + "c"}, {"command": "delete", "id": "?"}])
    assert answer.status == 200, answer
    assert [one["success"] for one in answer.json] == [True, False, False, False, False, False, True, True, True, False]
    assert "/topic" in answer.json[2]["error"] and "/y" in answer.json[2]["error"]
    assert [row["state"] for row in db("SELECT state FROM jobs WHERE topic = %s", topic)] == ["cancelled", "cancelled"]
    assert api.post("/v1/commands", []).json == []


def test_commands_of_an_array_see_the_effects_of_earlier_ones(api, send, topic, name, db):
    adds = [{"command": "add", "topic": topic, "id": f"{name}-{n}", "body": str(n)} for n in range(600)]
    assert all(one["success"] for one in api.post("/v1/commands", adds).json)
    got = []

    def pop():
        answers = api.post("/v1/commands", [{"command": "pop", "topic": topic, "max": 250}] * 3).json
        got.extend(job["id"] for answer in answers for job in answer["jobs"])
        return len(got) == 600
    until(pop, lambda: f"{len(got)} popped")
    assert len(set(got)) == 600
    finishes = [{"command": "finish", "id": one} for one in got]
    assert all(one["success"] for one in api.post("/v1/commands", finishes + finishes[:300]).json)
    assert db("SELECT COUNT(*) n FROM jobs WHERE topic = %s AND state = 'succeeded'", topic)[0]["n"] == 600


@pytest.mark.parametrize("body, pointers", [
    ({}, ["/command"]), ({"command": "fly"}, ["/command"]), ({"command": 5}, ["/command"]), ({"command": "add"}, ["/topic", "/id"]),
    ({"command": "add", "topic": "a b", "id": "", "delay": "5", "TTR": 0, "body": {}}, ["/topic", "/id", "/delay", "/TTR", "/body"]),
    ({"command": "add", "topic": "t", "id": "x" * 256, "delay": -1, "ttr": 5}, ["/id", "/delay", "/ttr"]), ({"command": "add", "topic": "t", "id": "x", "delay": 1e12}, ["/delay"]),
    ({"command": "pop"}, ["/topic"]), ({"command": "pop", "topic": "t", "max": 0, "wait": 61}, ["/max", "/wait"]), ({"command": "pop", "topic": "t", "id": "x"}, ["/id"]),
    ({"command": "pop", "topic": "t", "max": 1001}, ["/max"]), ({"command": "finish"}, ["/id"]), ({"command": "delete", "id": 5}, ["/id"]), ({"command": "finish", "id": "x", "max": 1}, ["/max"])])
def test_an_invalid_command_is_refused_with_a_pointer(api, nothing_made, body, pointers):
    refused(api.post("/v1/commands", body), 422, "invalid", *pointers)


def test_a_body_that_cannot_be_parsed_is_refused_whole(api, nothing_made):
    for body in ("", "{", '[{"command":"pop"},]', '{"command":"pop","command":"pop"}', b'{"command":"add","topic":"t","id":"\xff"}'):
        refused(api.post("/v1/commands", body), 400, "malformed")
    refused(api.post("/v1/commands", "5"), 422, "invalid", "")
    refused(api.post("/v1/commands", [{"command": "finish", "id": "x"}] * 1001), 413, "too-large")
    refused(api.post("/v1/commands", "[" + "5," * 9000 + "5]"), 413, "too-large")
    refused(api.post("/v1/commands", {"command": "add", "topic": "t", "id": "x", "body": "x" * 900001}), 413, "too-large")
    refused(api.post("/v1/commands", "[]", content_type="application/x-ndjson"), 415, "unsupported-media-type")

"""Callbacks: topics whose delivery is `http`, on real servers, judged by what the receiver has read."""
import os
import signal
import time

import pytest

from harness.checker import connect, rows
from harness.receiver import SECRET, Receiver, example
from harness.rest import Rest
from harness.stack import Stack, until

pytestmark = pytest.mark.in_turns(2)

OPTIONS = ["--apis", "1", "--dispatchers", "2", "--redis", "1", "--shards", "4", "--sanitize", "--kafka", os.environ.get("DUETIME_TEST_KAFKA", "3"),
           "--set", "reconcile.period=PT1S", "--set", "dispatch.rest_after=PT2S", "--set", "callbacks.enabled=true",
           "--set", "callbacks.allow_networks=127.0.0.0/8"]


@pytest.fixture(scope="module")
def stack():
    made = Stack(os.environ.get("DUETIME_TEST_STACK", "callbacks"), *OPTIONS)
    yield made.up()
    made.reset()


@pytest.fixture
def api(stack):
    rest = Rest(stack["DUETIME_URL"])
    yield rest
    rest.close()


@pytest.fixture
def receiver():
    made = Receiver()
    yield made
    made.end()


def make_topic(api, name, receiver, **settings):
    answer = api.put(f"/v1/topics/{name}", {"delivery": "http", "callback_url": receiver.url, **settings})
    assert answer.status in (200, 201), answer
    return answer.json


def state_of(api, job):
    return api.get(f"/v1/jobs/{job}").json


def test_a_job_is_called_back_with_a_signature_and_succeeds(stack, api, receiver):
    make_topic(api, "orders", receiver, callback_secret=SECRET, callback_headers={"x-tenant": "blue"})
    made = api.make(topic="orders", key="k-1", delay=0, payload={"n": 1}, headers={"x-own": "red"})
    until(lambda: state_of(api, made["id"])["state"] == "succeeded", 20, stack.logs)
    (request,) = receiver.of(int(made["id"]))
    headers = {name.lower(): value for name, value in request.headers.items()}
    assert example().fault(example().keys_of(SECRET), headers, request.body, request.at) is None
    assert request.body == b'{"n": 1}' and headers["content-type"] == "application/json"
    assert headers["x-tenant"] == "blue" and headers["x-own"] == "red"
    assert headers["idempotency-key"] == f"{made['id']}/1" and headers["ce-type"] == "orders"
    assert rows(connect(stack), "SELECT COUNT(*) n FROM hands")[0]["n"] == 0


def attempts_of(api, job):
    return [(attempt["attempt"], attempt["status"]) for attempt in api.get(f"/v1/jobs/{job}/attempts").json["attempts"]]


def failures(stack, job):
    return rows(connect(stack), "SELECT failures FROM jobs WHERE id = %s", job)[0]["failures"]


def in_hands(stack):
    return rows(connect(stack), "SELECT COUNT(*) n FROM hands")[0]["n"]


def held_up(stack, api, receiver, topic, jobs):
    """Jobs that the receiver has read and does not answer."""
    receiver.rule = lambda request: None
    make_topic(api, topic, receiver, callback_timeout="PT60S", ack_timeout="PT5M")
    made = [int(api.make(topic=topic, delay=0)["id"]) for _ in range(jobs)]
    until(lambda: len(receiver.log) == jobs, 20, stack.logs)
    return made


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_callbacks_of_a_process_that_is_gone_are_lost_and_the_next_attempts_follow_once(stack, api, receiver, number):
    jobs = held_up(stack, api, receiver, f"gone-{number}", 20)
    gone = {row["name"].decode() for row in rows(connect(stack), "SELECT DISTINCT o.name FROM hand_owners o JOIN hands h ON h.owner = o.owner")}
    victim = next(part for part in ("dispatcher1", "dispatcher2") if any(name.endswith(f":{stack.pid(part)}") for name in gone))
    receiver.rule = lambda request: (204, {}, b"")
    stack.signal(victim, number)
    began = time.monotonic()
    until(lambda: any(len(receiver.of(job)) == 2 for job in jobs), 30, stack.logs)
    print(f"the first next attempt came after {time.monotonic() - began:.1f} s")
    if number == signal.SIGSTOP:
        time.sleep(3)
        stack.signal(victim, signal.SIGCONT)
    else:
        stack.start(victim)
    until(lambda: all(state_of(api, job)["state"] in ("succeeded", "dispatched") for job in jobs), 30, stack.logs)
    time.sleep(3)
    assert receiver.twice() == []
    for job in jobs:
        seen = attempts_of(api, job)
        assert seen in ([(1, "lost"), (2, "succeeded")], [(1, "dispatched")]), seen
        assert failures(stack, job) == 0
    assert any(attempts_of(api, job)[0] == (1, "lost") for job in jobs)


def test_a_process_that_ends_in_order_waits_for_what_is_under_way(stack, api, receiver):
    receiver.rule = lambda request: time.sleep(2) or (204, {}, b"")
    make_topic(api, "in-order", receiver)
    jobs = [int(api.make(topic="in-order", delay=0)["id"]) for _ in range(20)]
    until(lambda: len(receiver.log) == 20, 20, stack.logs)
    for part in ("dispatcher1", "dispatcher2"):
        stack.restart(part)
    until(lambda: all(state_of(api, job)["state"] == "succeeded" for job in jobs), 30, stack.logs)
    assert receiver.twice() == [] and [attempts_of(api, job) for job in jobs] == [[(1, "succeeded")]] * 20


def test_each_answer_has_its_outcome(stack, api, receiver):
    report = {"content-type": "application/vnd.duetime.result+json"}
    said = {"ok": (200, {}, b"fine"), "gone": (410, {}, b"never again"), "busy": (503, {"retry-after": "3600"}, b"later"), "moved": (302, {"location": "/ok"}, b""),
            "taken": (202, {}, b""), "snoozed": (200, report, b'{"status":"snoozed","retry_after":"PT5M"}'), "garbled": (200, report, b"{")}
    receiver.rule = lambda request: said[request.path[1:]]
    jobs = {}
    for name in said:
        assert api.put(f"/v1/topics/answers.{name}", {"delivery": "http", "callback_url": receiver.url + name}).status in (200, 201)
        jobs[name] = int(api.make(topic=f"answers.{name}", delay=0)["id"])
    until(lambda: len(receiver.log) == len(said) and in_hands(stack) == 0, 20, stack.logs)
    states = {name: state_of(api, job) for name, job in jobs.items()}
    assert {name: state["state"] for name, state in states.items()} == {
        "ok": "succeeded", "gone": "dead", "busy": "scheduled", "moved": "scheduled", "taken": "dispatched", "snoozed": "scheduled", "garbled": "scheduled"}
    assert [states[name]["last_error"]["code"] for name in ("gone", "busy", "moved", "garbled")] == ["http_410", "http_503", "http_302", "http_report"]
    assert states["gone"]["last_error"]["message"] == "never again" and failures(stack, jobs["snoozed"]) == 0
    delay = rows(connect(stack), "SELECT next_at - finished_at ms FROM jobs WHERE id = %s", jobs["busy"])[0]["ms"]
    assert delay == 3600_000
    shown = api.get(f"/v1/jobs/{jobs['busy']}/attempts").json["attempts"][0]
    assert shown["http_status"] == 503 and shown["duration_ms"] >= 0
    assert api.post(f"/v1/jobs/{jobs['taken']}/results", {"attempt": 1, "status": "succeeded"}).status == 200
    assert state_of(api, jobs["taken"])["state"] == "succeeded"


def test_a_dead_receiver_costs_its_own_topic_only(stack, api, receiver):
    silent = Receiver(lambda request: None)
    try:
        make_topic(api, "dead-end", silent, callback_timeout="PT60S", ack_timeout="PT5M")
        make_topic(api, "alive", receiver)
        api.batch([{"topic": "dead-end", "delay": 0} for _ in range(1000)])
        until(lambda: len(silent.log) >= 50, 30, stack.logs)
        began = time.monotonic()
        jobs = [int(api.make(topic="alive", delay=0)["id"]) for _ in range(50)]
        until(lambda: all(receiver.of(job) for job in jobs), 20, stack.logs)
        print(f"50 callbacks beside a dead receiver took {time.monotonic() - began:.1f} s; {len(silent.log)} are held there")
        assert len(silent.log) <= 200 and silent.twice() == []
    finally:
        api.post("/v1/topics/dead-end/pause")
        silent.end()


def test_more_jobs_than_places_all_go(stack, api, receiver):
    receiver.rule = lambda request: time.sleep(0.05) or (204, {}, b"")
    make_topic(api, "many", receiver)
    began = time.monotonic()
    api.batch([{"topic": "many", "delay": 0} for _ in range(3000)])
    until(lambda: api.get("/v1/topics/many").json["counts"]["succeeded"] == 3000, 60, stack.logs)
    print(f"3,000 callbacks of 50 ms took {time.monotonic() - began:.1f} s")
    assert receiver.twice() == [] and len(receiver.log) == 3000

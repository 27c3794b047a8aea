"""Callbacks: topics whose delivery is `http`, on real servers, judged by what the receiver has read."""
import os
import signal
import threading
import time
import uuid

import pytest

from harness.checker import connect, rows
from harness.receiver import SECRET, Receiver, example
from harness.stack import Stack, until

pytestmark = pytest.mark.turn(2, 3)

OPTIONS = ["--apis", "1", "--dispatchers", "2", "--redis", "1", "--shards", "4", "--sanitize", "--kafka", os.environ.get("DUETIME_TEST_KAFKA", "3"),
           "--set", "reconcile.period=PT1S", "--set", "dispatch.rest_after=PT2S", "--set", "callbacks.enabled=true",
           "--set", "zookeeper.session_timeout=PT6S",  # a process that gets no core for two seconds keeps its callbacks
           "--set", "callbacks.allow_networks=127.0.0.0/8"]


@pytest.fixture(scope="module")
def stack():
    made = Stack("callbacks", *OPTIONS)
    yield made.up()
    made.reset()


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
    until(lambda: state_of(api, made["id"])["state"] == "succeeded", stack.logs)
    (request,) = receiver.of(int(made["id"]))
    headers = {name.lower(): value for name, value in request.headers.items()}
    assert example().fault(example().keys_of(SECRET), headers, request.body, request.at) is None
    assert request.body == b'{"n": 1}' and headers["content-type"] == "application/json"
    assert headers["x-tenant"] == "blue" and headers["x-own"] == "red"
    assert headers["idempotency-key"] == f"{made['id']}/1" and headers["ce-type"] == "orders"
    assert in_hands(stack, "orders") == 0


def attempts_of(api, job):
    return [(attempt["attempt"], attempt["status"]) for attempt in api.get(f"/v1/jobs/{job}/attempts").json["attempts"]]


def failures(stack, job):
    return rows(connect(stack), "SELECT failures FROM jobs WHERE id = %s", job)[0]["failures"]


def in_hands(stack, topics):
    """Returns the number of callbacks in progress for topics whose names begin with this."""
    return rows(connect(stack), "SELECT COUNT(*) n FROM hands h JOIN jobs j ON j.id = h.job_id WHERE j.topic LIKE %s", f"{topics}%")[0]["n"]


def held_by(stack, jobs):
    """Returns {dispatcher: those of the jobs whose callbacks it holds}."""
    held = rows(connect(stack), "SELECT h.job_id job, o.name FROM hands h JOIN hand_owners o ON o.owner = h.owner WHERE h.job_id IN %s", jobs)
    return {part: [row["job"] for row in held if row["name"].decode().endswith(f":{stack.pid(part)}")] for part in ("dispatcher1", "dispatcher2")}


def led_again(stack, api, receiver, part):
    """The process sends callbacks again, as before."""
    topic = f"again-{uuid.uuid4().hex[:8]}"
    make_topic(api, topic, receiver)
    sends = lambda: rows(connect(stack), "SELECT COUNT(*) n FROM shards WHERE owner LIKE %s", f"%:{stack.pid(part)}")[0]["n"]  # noqa: E731
    until(sends, lambda: f"{part} leads\n{stack.logs()}")
    jobs = [int(api.make(topic=topic, delay=0)["id"]) for _ in range(20)]
    until(lambda: all(state_of(api, job)["state"] == "succeeded" for job in jobs), stack.logs)


def test_a_process_stopped_between_lease_check_and_write_sends_nothing_later(stack, api, receiver):
    stack.stop("dispatcher1")
    stack.start("dispatcher1", env={"DUETIME_FAIL": "callbacks.let_through=stop@1"})
    try:
        make_topic(api, "stopped-there", receiver)
        jobs = [int(api.make(topic="stopped-there", delay=0)["id"]) for _ in range(40)]
        until(lambda: all(state_of(api, job)["state"] == "succeeded" for job in jobs), stack.logs)
    finally:
        stack.signal("dispatcher1", signal.SIGCONT)
    lost = [job for job in jobs if attempts_of(api, job)[0] == (1, "lost")]
    led_again(stack, api, receiver, "dispatcher1")  # any wrong write would happen before that
    stack.restart("dispatcher1")
    seen = {job: [request.attempt for request in receiver.of(job)] for job in lost}
    assert lost and all(attempts == [2] for attempts in seen.values()), seen
    assert receiver.twice() == []


def test_a_stopping_process_waits_for_running_callbacks(stack, api, receiver):
    receiver.rule = lambda request: time.sleep(2) or (204, {}, b"")
    make_topic(api, "in-order", receiver)
    jobs = [int(api.make(topic="in-order", delay=0)["id"]) for _ in range(20)]
    until(lambda: len(receiver.log) == 20, stack.logs)
    for part in ("dispatcher1", "dispatcher2"):
        [living] = rows(connect(stack), "SELECT owner FROM hand_owners WHERE name LIKE %s AND renewed_at + timeout_ms > UNIX_TIMESTAMP(SYSDATE(3)) * 1000", f"%:{stack.pid(part)}")
        stack.stop(part)
        assert not rows(connect(stack), "SELECT owner FROM hand_owners WHERE owner = %s", living["owner"]), "it has left"
        stack.start(part)
    until(lambda: all(state_of(api, job)["state"] == "succeeded" for job in jobs), stack.logs)
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
    until(lambda: len(receiver.log) == len(said) and in_hands(stack, "answers.") == 0, stack.logs)
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


def test_more_jobs_than_places_are_all_called_back(stack, api, receiver):
    receiver.rule = lambda request: time.sleep(0.05) or (204, {}, b"")
    make_topic(api, "many", receiver)
    api.batch([{"topic": "many", "delay": 0} for _ in range(3000)])
    until(lambda: api.get("/v1/topics/many").json["counts"]["succeeded"] == 3000, stack.logs)
    assert receiver.twice() == [] and len(receiver.log) == 3000


def misfits(answer):
    assert answer.status == 422, answer
    return [fault["pointer"] for fault in answer.json["errors"]]


def test_a_job_is_called_back_at_a_url_of_its_own_however_it_was_made(stack, api, receiver):
    assert api.put("/v1/topics/own", {"delivery": "http", "callback_url": None}).status in (200, 201)
    url = receiver.url + "mine"
    jobs = [api.make(topic="own", delay=0, callback_url=url)["id"],
            api.put("/v1/topics/own/jobs/k", {"delay": 0, "callback_url": url}).json["id"],
            *[line["id"] for line in api.batch([{"topic": "own", "delay": 0, "callback_url": url}])],
            *[element["id"] for element in api.post("/v1/jobs:batch", [{"topic": "own", "delay": 0, "callback_url": url}]).json]]
    made = api.make(topic="own", delay="PT1H", callback_url=receiver.url + "theirs")
    patched = api.patch(f"/v1/jobs/{made['id']}", {"callback_url": url, "delay": 0})
    assert patched.status == 200 and patched.json["callback_url"] == url
    jobs.append(made["id"])
    schedule = api.put("/v1/schedules/own", {"topic": "own", "every": "PT1S", "callback_url": url})
    assert schedule.status == 201 and schedule.json["callback_url"] == url
    until(lambda: all(state_of(api, job)["state"] == "succeeded" for job in jobs), stack.logs)
    until(lambda: len(receiver.log) > len(jobs), stack.logs)
    assert api.delete("/v1/schedules/own").status == 200
    assert {request.path for request in receiver.log} == {"/mine"} and receiver.twice() == []
    assert state_of(api, jobs[0])["callback_url"] == url
    again = api.put("/v1/topics/own/jobs/k", {"delay": 0, "callback_url": url})
    assert (again.status, again.json["id"]) == (200, jobs[1])
    assert api.put("/v1/topics/own/jobs/k", {"delay": 0, "callback_url": url + "/else"}).status == 409


def test_members_that_do_not_fit_the_delivery_of_a_topic_are_refused(stack, api, receiver):
    assert api.put("/v1/topics/no-url", {"delivery": "http"}).status in (200, 201)
    make_topic(api, "has-url", receiver, callback_timeout="PT20S")
    own = {"callback_url": receiver.url}
    assert misfits(api.post("/v1/jobs", {"topic": "no-url", "delay": 0})) == ["/callback_url"]
    assert misfits(api.post("/v1/jobs", {"topic": "by-kafka", "delay": 0, **own})) == ["/callback_url"]
    assert misfits(api.post("/v1/jobs", {"topic": "has-url", "delay": 0, "callback_url": "ftp://a/"})) == ["/callback_url"]
    assert misfits(api.post("/v1/jobs", {"topic": "has-url", "delay": 0, "ack_timeout": "PT20S"})) == ["/ack_timeout"]
    assert misfits(api.post("/v1/jobs", {"topic": "has-url", "delay": 0, "headers": {"x": "1", "Webhook-Id": "2"}})) == ["/headers/Webhook-Id"]
    said = api.batch([{"topic": "no-url", "delay": "PT1H"}, {"topic": "no-url", "delay": "PT1H", **own}])
    assert [element["status"] for element in said] == [422, 201]
    assert misfits(api.put("/v1/schedules/no-url", {"topic": "no-url", "every": "PT1H"})) == ["/callback_url"]
    job = said[1]["id"]
    assert misfits(api.patch(f"/v1/jobs/{job}", {"callback_url": None})) == ["/callback_url"]
    assert misfits(api.patch(f"/v1/jobs/{job}", {"ack_timeout": "PT1S"})) == ["/ack_timeout"]
    assert misfits(api.patch(f"/v1/jobs/{job}", {"headers": {"host": "h"}})) == ["/headers/host"]
    assert misfits(api.put("/v1/topics/no-url/jobs/r?replace=true", {"delay": "PT1H"})) == ["/callback_url"]
    assert api.put("/v1/topics/no-url/jobs/r?replace=true", {"delay": "PT1H", **own}).status == 201
    replaced = api.put("/v1/topics/no-url/jobs/r?replace=true", {"delay": "PT2H", "callback_url": receiver.url + "r"})
    assert (replaced.status, replaced.json["callback_url"]) == (200, receiver.url + "r")
    plain = api.make(topic="by-kafka", delay="PT1H", headers={"host": "h"})
    assert misfits(api.patch(f"/v1/jobs/{plain['id']}", own)) == ["/callback_url"]
    assert api.patch(f"/v1/jobs/{plain['id']}", {"headers": {"webhook-id": "2"}, "ack_timeout": 5}).status == 200


def test_a_job_without_a_url_fails_with_a_reason_and_is_retried_when_there_is_one(stack, api, receiver):
    make_topic(api, "bare", receiver)
    jobs = [int(api.make(topic="bare", delay="PT1H", retry=["PT1S", "PT1H"])["id"]) for _ in range(3)]
    assert api.put("/v1/topics/bare", {"delivery": "http"}).status == 200
    for job in jobs:
        assert api.post(f"/v1/jobs/{job}/run-now").status == 200
    until(lambda: all(failures(stack, job) == 2 for job in jobs), stack.logs)
    assert {state_of(api, job)["last_error"]["code"] for job in jobs} == {"http_url"}
    assert receiver.log == [] and in_hands(stack, "bare") == 0
    make_topic(api, "bare", receiver)
    for job in jobs:
        assert api.post(f"/v1/jobs/{job}/run-now").status == 200
    until(lambda: all(state_of(api, job)["state"] == "succeeded" for job in jobs), stack.logs)
    assert [attempts_of(api, job) for job in jobs] == [[(1, "failed"), (2, "failed"), (3, "succeeded")]] * 3


def test_a_dead_host_does_not_stop_the_other_hosts_of_a_topic_whose_jobs_name_them(stack, api, receiver):
    silent = Receiver(lambda request: None)
    try:
        assert api.put("/v1/topics/hosts", {"delivery": "http", "callback_timeout": "PT10M", "ack_timeout": "PT1H"}).status in (200, 201)
        api.batch([{"topic": "hosts", "delay": 0, "callback_url": silent.url} for _ in range(4000)])  # more a shard than there are places
        until(lambda: len(silent.log) >= 50, stack.logs)
        jobs = [int(api.make(topic="hosts", delay=0, callback_url=receiver.url)["id"]) for _ in range(20)]
        until(lambda: all(state_of(api, job)["state"] == "succeeded" for job in jobs), stack.logs)
        assert len(silent.log) <= 200 and silent.twice() == []
    finally:
        api.post("/v1/topics/hosts/pause")
        silent.end()


def test_a_damaged_secret_fails_attempts_and_sends_nothing(stack, api, receiver):
    make_topic(api, "spoiled", receiver, callback_secret=SECRET)
    connection = connect(stack)
    with connection.cursor() as cursor:
        cursor.execute("UPDATE topics SET callback_secret = 'whsec_?' WHERE name = 'spoiled'")
        cursor.execute("UPDATE installation SET topics_version = topics_version + 1")
    connection.commit()
    job = int(api.make(topic="spoiled", delay=0, retry=[])["id"])
    until(lambda: state_of(api, job)["state"] == "dead", stack.logs)
    assert state_of(api, job)["last_error"]["code"] == "http_secret" and receiver.log == []
    assert attempts_of(api, job) == [(1, "failed")]


def test_a_job_that_waits_for_a_callback_place_says_so(stack, api):
    silent = Receiver(lambda request: None)
    try:
        make_topic(api, "no-place", silent, callback_timeout="PT10M", ack_timeout="PT1H")
        api.batch([{"topic": "no-place", "delay": 0} for _ in range(600)])
        until(lambda: len(silent.log) >= 50, stack.logs)
        words = lambda: {job["waiting_for"] for job in api.list(topic="no-place", state="scheduled")}
        until(lambda: words() == {"limit"}, lambda: f"{words()} {api.get('/v1/info').text} {stack.logs()}")
        waits = api.list(topic="no-place", state="scheduled")[0]["id"]
        assert rows(connect(stack), "SELECT waiting_for w FROM v_live WHERE id = %s", waits)[0]["w"] == "limit"
        why = rows(connect(stack), f"CALL dt_explain({waits})")[0]["value"]
        assert "places for callbacks are taken" in (why.decode() if isinstance(why, bytes) else why)
    finally:
        api.post("/v1/topics/no-place/pause")
        silent.end()


def test_jobs_wait_until_callbacks_are_enabled(stack, api, receiver):
    make_topic(api, "disabled", receiver)
    for part in ("dispatcher1", "dispatcher2"):
        stack.restart(part, settings={"callbacks.enabled": "false"})
    try:
        job = int(api.make(topic="disabled", delay=0)["id"])
        until(lambda: state_of(api, job)["waiting_for"] == "limit", lambda: f"{state_of(api, job)} {stack.logs()}")
        assert (state_of(api, job)["attempt"], receiver.log) == (0, [])
    finally:
        for part in ("dispatcher1", "dispatcher2"):
            stack.restart(part)
    until(lambda: state_of(api, job)["state"] == "succeeded", stack.logs)
    assert attempts_of(api, job) == [(1, "succeeded")]


class Gauge:
    """A receiver's rule that counts how many requests are with it at once, and answers them when they may go."""

    def __init__(self, seconds=0.3):
        self.lock, self.now, self.peak, self.seconds, self.go = threading.Lock(), 0, 0, seconds, None

    def __call__(self, request):
        with self.lock:
            self.now += 1
            self.peak = max(self.peak, self.now)
        if self.go:
            self.go.wait()
        else:
            time.sleep(self.seconds)
        with self.lock:
            self.now -= 1
        return 204, {}, b""


def done(api, topic, jobs):
    return api.get(f"/v1/topics/{topic}").json["counts"]["succeeded"] == jobs


def test_callbacks_keep_within_max_in_flight_and_use_it(stack, api, receiver):
    receiver.rule = gauge = Gauge()
    make_topic(api, "narrow", receiver, max_in_flight=5)
    api.batch([{"topic": "narrow", "delay": 0} for _ in range(60)])
    until(lambda: "limit" in {job["waiting_for"] for job in api.list(topic="narrow", state="scheduled")}, stack.logs)
    until(lambda: len(receiver.log) >= 30, stack.logs)
    assert gauge.peak == 5
    make_topic(api, "narrow", receiver, max_in_flight=12)
    until(lambda: done(api, "narrow", 60), stack.logs)
    assert 5 <= gauge.peak <= 12 and receiver.twice() == []


def test_callbacks_keep_within_rate_limit(stack, api, receiver):
    make_topic(api, "paced", receiver, rate_limit="5/s")
    api.batch([{"topic": "paced", "delay": 0} for _ in range(60)])
    until(lambda: done(api, "paced", 60), stack.logs)
    at = sorted(row["at"] for row in rows(connect(stack), "SELECT dispatched_at at FROM jobs WHERE topic = 'paced'"))
    most = max(sum(begin <= other < begin + 10_000 for other in at) for begin in at)
    print(f"60 callbacks at 5 a second took {(at[-1] - at[0]) / 1000:.1f} s; {most} in ten seconds at most")
    assert most <= 55 and receiver.twice() == []


def test_a_lost_attempt_beyond_the_limit_waits_for_room(stack, api, receiver):
    receiver.rule = gauge = Gauge()
    gauge.go = threading.Event()
    settings = {"callback_timeout": "PT10M", "ack_timeout": "PT1H"}
    make_topic(api, "lost-narrow", receiver, **settings)
    jobs = [int(api.make(topic="lost-narrow", delay=0)["id"]) for _ in range(16)]
    until(lambda: len(receiver.log) == 16, stack.logs)
    make_topic(api, "lost-narrow", receiver, max_in_flight=1, **settings)
    victim, lost = next((part, held) for part, held in held_by(stack, jobs).items() if held)
    try:
        stack.signal(victim, signal.SIGKILL)
        if len(lost) < 16:  # those of the other one are in flight, so there is no room
            until(lambda: all(attempts_of(api, job) == [(1, "lost")] for job in lost), stack.logs)
            assert {state_of(api, job)["state"] for job in lost} == {"scheduled"} and {failures(stack, job) for job in lost} == {0}
            until(lambda: {state_of(api, job)["waiting_for"] for job in lost} == {"limit"}, stack.logs)
    finally:
        stack.start(victim)
        gauge.go.set()
    until(lambda: done(api, "lost-narrow", 16), stack.logs)
    assert receiver.twice() == []
    assert {tuple(attempts_of(api, job)) for job in lost} == {((1, "lost"), (2, "succeeded"))}


def test_a_deleted_topic_is_removed_after_its_last_callback_was_answered(api, receiver):
    go = threading.Event()
    receiver.rule = lambda request: (500, {}, b"no") if go.wait(600) else None
    make_topic(api, "leaving", receiver, retry=["1s"] * 3, callback_timeout="PT10M", ack_timeout="PT1H")
    out, waits = api.make(topic="leaving", delay=0), api.make(topic="leaving", delay="PT1H")
    until(lambda: receiver.of(int(out["id"])), "it is called")
    where = api.delete("/v1/topics/leaving?cancel=true&wait=PT0S").headers["Location"]
    until(lambda: state_of(api, waits["id"])["state"] == "cancelled", "the waiting job is cancelled")
    assert api.get("/v1/topics/leaving").status == 200 and api.get(where).json["state"] == "running"
    go.set()
    until(lambda: api.get("/v1/topics/leaving").status == 404, lambda: api.get(where))
    assert state_of(api, out["id"])["state"] == "cancelled" and len(receiver.of(int(out["id"]))) == 1


def test_silent_receivers_of_many_topics_of_an_owner_leave_places_to_another_owner(stack, api, receiver):
    receiver.rule = lambda request: None if request.headers["ce-type"].startswith("flood.") else (204, {}, b"")
    for part in ("dispatcher1", "dispatcher2"):
        stack.restart(part, settings={"callbacks.max_in_flight": "24"})
    try:
        for i in range(80):
            make_topic(api, f"flood.{i}", receiver, callback_timeout="PT10M", ack_timeout="PT1H", retry=["1h"])
        api.batch([{"topic": f"flood.{i % 80}", "delay": 0} for i in range(320)])
        until(lambda: in_hands(stack, "flood.") == 2 * 21, stack.logs)  # all but an eighth
        make_topic(api, "served.orders", receiver)
        began = time.monotonic()
        jobs = [int(api.make(topic="served.orders", delay=0)["id"]) for _ in range(40)]
        until(lambda: done(api, "served.orders", 40), stack.logs)
        print(f"40 callbacks beside 42 that are silent took {time.monotonic() - began:.1f} s")
        assert {tuple(attempts_of(api, job)) for job in jobs} == {((1, "succeeded"),)} and in_hands(stack, "flood.") == 2 * 21
    finally:
        receiver.ended.set()  # what is silent ends
        for part in ("dispatcher1", "dispatcher2"):
            stack.restart(part)

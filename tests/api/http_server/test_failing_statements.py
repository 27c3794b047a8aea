"""Each call of the database fails once, in every request. A read says so. A change that is answered 2xx was made, and one that is refused was
not: neither half of it, nor all of it with an answer that could not be read afterwards. The next request is served.

The API is nth_api (support/nth/nth_call.c); what its other threads ask of the database does not fail. No dispatcher works beside it, so that
nothing but the request changes anything.
"""
import contextlib
import http.client
import itertools
import json
import re
import time

import openapi
import pymysql
import pytest
from harness.harm import nth
from harness.program import PATIENT, OwnApi

DOCUMENT = openapi.load()
MOST = 60  # calls of a request
DELAY = "P30D"
WAIT = "PT0.2S"  # for an operation, which nobody but the request goes on with
MEMORY_STEPS = (*range(1, 10), *range(10, 60, 3), *range(60, 400, 20))  # calls for memory of a request, or of what works beside it
REFUSED = (500, 503)
CLOCK = "/v1/admin/clock"
numbers = itertools.count(1)

# What callers see, and times alone that a request sets.
TABLES = {"jobs": "id, state, version, IFNULL(next_at, -1), no_retries, topic, payload", "job_keys": "topic, job_key, job_id", "command_ids": "id, job_id",
          "topics": "name, version, paused, IFNULL(deletion, 0)", "operations": "id, state, matched, changed", "operation_jobs": "operation, job_id",
          "job_events": "id, action", "api_tokens": "name, scopes, IFNULL(pending_jobs, -1)", "schedules": "name, topic, paused, version",
          "schedule_fires": "name, next_fire_at, IFNULL(last_fire_at, 0)", "pop_queue": "topic, job_id",
          "deferred_results": "job_id", "alerts": "id, IFNULL(silenced_until, 0)", "installation": "shards", "test_clock": "version"}


class Served:
    """An API with its own database, and what requests are about."""

    def __init__(self, own, knobs):
        self.own, self.knobs = own, knobs

    def assert_alive(self, what):
        code = self.own.process.poll()
        assert code is None, f"{what}: the API ended with {code}\n{self.own.log()[-3000:]}"

    def told(self):
        """What callers see of all tables."""
        sums = ", ".join(f"(SELECT CONCAT(COUNT(*), ' ', IFNULL(SUM(CRC32(CONCAT_WS('|', {columns}))), 0)) FROM {table}) {table}" for table, columns in TABLES.items())
        return self.own.rows(f"SELECT {sums}")[0]

    def did(self, method, path, body=None):
        """What comes before the request."""
        answer = self.own.rest.ask(method, path, body)
        assert answer.status in (200, 201, 202), answer
        return answer.json

    def a_job(self, **members):
        return self.own.rest.make(**{"topic": "failing", "delay": DELAY, "payload": 1, **members})["id"]

    def a_topic(self, **settings):
        return self.did("PUT", f"/v1/topics/failing.{next(numbers)}", settings)["name"]

    def a_topic_with_jobs(self):
        topic = self.a_topic()
        for _ in range(2):
            self.a_job(topic=topic)
        return topic

    def a_schedule(self, **members):
        return self.did("PUT", f"/v1/schedules/s{next(numbers)}", {**schedule(), **members})["name"]

    def an_offer(self, retry=()):
        """A job that a pop gets."""
        return self.a_job(topic="pulled", delay=0, retry=list(retry))

    def an_attempt(self, *retry):
        """A job that was popped."""
        self.an_offer(retry)
        [job] = self.did("POST", "/v1/topics/pulled/pop", {"max": 1})["jobs"]
        return job["id"]

    def a_dead_job(self):
        job = self.an_attempt()
        self.did("POST", f"/v1/jobs/{job}/results", {"attempt": 1, "status": "gave_up"})
        return job

    def a_command(self, delay):
        number = key()
        self.did("POST", "/v1/commands", {"command": "add", "topic": "pulled", "id": number, "delay": delay, "TTR": 600, "body": "1"})
        return number

    def a_running_operation(self):
        return self.did("POST", "/v1/jobs:cancel", {"filter": {"topic": self.a_topic_with_jobs()}, "wait": 0})["id"]

    def a_running_deletion(self):
        return self.did("DELETE", f"/v1/topics/{self.a_topic_with_jobs()}?cancel=true&wait=PT0S")["id"]

    def a_token(self):
        return self.did("POST", "/v1/tokens", {"name": f"t{next(numbers)}", "scopes": ["read"]})["name"]

    def an_alert(self):
        self.own.rows("INSERT INTO alerts (topic, kind, value, bound, began_at) VALUES (%s, 'backlog', 2, 1, 1)", f"alert.{next(numbers)}")
        return self.own.rows("SELECT MAX(id) id FROM alerts")[0]["id"]

    def judged_elsewhere(self):
        """A process that never ends judges alerts: those of the tests would end otherwise, because no topic has them."""
        self.own.rows("INSERT INTO processes (id, kind, name, started_at, seen_at) VALUES (1, 'dispatcher', 'none', 1, 9000000000000)")
        self.own.rows("REPLACE INTO alert_judge (only_row, process) VALUES (1, 1)")

    def end_operations(self):
        """Nobody carries them out, and not many may run."""
        self.own.rows("UPDATE operations SET state = 'stopped', look_at = NULL, finished_at = started_at WHERE state = 'running'")

    def end_connections(self):
        """MySQL ends those of the API, which looks at a connection that was idle for a second before it is used."""
        for connection in self.own.rows("SELECT id FROM information_schema.processlist WHERE db = DATABASE() AND id <> CONNECTION_ID()"):
            with contextlib.suppress(pymysql.Error):  # it has ended
                self.own.rows("KILL %s", connection["id"])
        time.sleep(1.1)

    def another_number_of_shards(self):
        return 5 - self.own.rows("SELECT shards FROM installation")[0]["shards"]


def schedule():
    return {"every": "PT1H", "topic": "failing", "payload": 1, "paused": True}


def job(**more):
    return {"topic": "failing", "delay": DELAY, "payload": {"a": 1}, **more}


def key():
    return f"k{next(numbers)}"


def a_set(served, **more):
    return {"filter": {"topic": served.a_topic_with_jobs()}, "wait": WAIT, **more}


def dead_ones(served):
    served.a_dead_job()
    return {"filter": {"topic": "pulled"}, "wait": WAIT}


def with_secret(served):
    """A topic whose secret is put back as it was shown."""
    setting = {"delivery": "http", "callback_url": "http://127.0.0.1:9/", "callback_secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}
    return served.a_topic(**setting), {**setting, "callback_secret": "***", "retry": [f"{next(numbers)}s"]}


READS = {
    "a job": "/v1/jobs/{job}", "its attempts": "/v1/jobs/{job}/attempts", "its explanation": "/v1/jobs/{job}/explain", "its events": "/v1/jobs/{job}/events",
    "jobs": "/v1/jobs?topic=failing&limit=2&include=payload", "jobs of a state": "/v1/jobs?state=cancelled&limit=2", "topics": "/v1/topics", "a topic": "/v1/topics/failing",
    "operations": "/v1/operations", "an operation": "/v1/operations/{operation}", "alerts": "/v1/alerts", "schedules": "/v1/schedules", "a schedule": "/v1/schedules/failing",
    "its next fires": "/v1/schedules/failing/next", "events": "/v1/events", "a forecast": "/v1/forecast", "spikes": "/v1/forecast/spikes", "usage": "/v1/usage",
    "tokens": "/v1/tokens", "series": "/v1/series?metric=created",
}
LAST_KNOWN = ("a job",)  # what it waits for is as it was known last where topics cannot be read again
# Changes: the route of openapi.yaml, and what is asked, made anew for each try: (path, body).
CHANGES = {
    "a new job": ("POST /v1/jobs", lambda _: ("/v1/jobs", job())),
    "a new job with a key": ("POST /v1/jobs", lambda _: ("/v1/jobs", job(key=key()))),
    "a new job of a batch": ("POST /v1/jobs:batch", lambda _: ("/v1/jobs:batch", [job()])),
    "a job by its key": ("PUT /v1/topics/{topic}/jobs/{key}", lambda _: (f"/v1/topics/failing/jobs/{key()}", {"delay": DELAY, "payload": 1})),
    "a job in place of another": ("PUT /v1/topics/{topic}/jobs/{key}", lambda s: in_place(s, key())),
    "a patch": ("PATCH /v1/jobs/{id}", lambda s: (f"/v1/jobs/{s.a_job()}", {"delay": "P2D", "payload": 2})),
    "a deletion": ("DELETE /v1/jobs/{id}", lambda s: (f"/v1/jobs/{s.a_job()}", None)),
    "a cancel": ("POST /v1/jobs/{id}/cancel", lambda s: (f"/v1/jobs/{s.a_job()}/cancel", None)),
    "a cancel of retries": ("POST /v1/jobs/{id}/cancel", lambda s: (f"/v1/jobs/{s.an_attempt('1h')}/cancel?retries=true", None)),
    "run-now": ("POST /v1/jobs/{id}/run-now", lambda s: (f"/v1/jobs/{s.a_job()}/run-now", None)),
    "a redrive": ("POST /v1/jobs/{id}/redrive", lambda s: (f"/v1/jobs/{s.a_dead_job()}/redrive", None)),
    "a result": ("POST /v1/jobs/{id}/results", lambda s: (f"/v1/jobs/{s.an_attempt()}/results", {"attempt": 1, "status": "succeeded"})),
    "a failure that is tried again": ("POST /v1/jobs/{id}/results", lambda s: (f"/v1/jobs/{s.an_attempt('1h')}/results", {"attempt": 1, "status": "failed"})),
    "a result of a batch": ("POST /v1/results", lambda s: ("/v1/results", [{"job_id": s.an_attempt(), "attempt": 1, "status": "failed"}])),
    "a pop": ("POST /v1/topics/{topic}/pop", lambda s: s.an_offer() and ("/v1/topics/pulled/pop", {"max": 1})),
    "a pop of several topics": ("POST /v1/pop", lambda s: s.an_offer() and ("/v1/pop", {"max": 1, "topics": ["pulled", "pulled.too"]})),
    "an add": ("POST /v1/commands", lambda _: command("add", topic="pulled", id=key(), delay=600, TTR=60, body="1")),
    "a delete": ("POST /v1/commands", lambda s: command("delete", id=s.a_command(600))),
    "a pop by command": ("POST /v1/commands", lambda s: s.a_command(0) and command("pop", topic="pulled")),
    "a finish": ("POST /v1/commands", lambda s: command("finish", id=popped_by_command(s))),
    "a command of many": ("POST /v1/commands", lambda s: ("/v1/commands", [command("delete", id=s.a_command(600))[1]])),
    "a topic": ("PUT /v1/topics/{topic}", lambda _: ("/v1/topics/failing", {"retry": [f"{next(numbers)}s"]})),
    "a new topic": ("PUT /v1/topics/{topic}", lambda _: (f"/v1/topics/failing.{next(numbers)}", {"retry": ["5s"]})),
    "a topic with a limit": ("PUT /v1/topics/{topic}", lambda _: ("/v1/topics/limited", {"max_in_flight": next(numbers)})),
    "a topic with its secret": ("PUT /v1/topics/{topic}", lambda s: in_path("/v1/topics/{}", *with_secret(s))),
    "a topic that goes": ("DELETE /v1/topics/{topic}", lambda s: (f"/v1/topics/{s.a_topic()}", None)),
    "a topic that goes with its jobs": ("DELETE /v1/topics/{topic}", lambda s: (f"/v1/topics/{s.a_topic_with_jobs()}?cancel=true&wait={WAIT}", None)),
    "a pause": ("POST /v1/topics/{topic}/pause", lambda s: (f"/v1/topics/{s.a_topic()}/pause", None)),
    "its end": ("POST /v1/topics/{topic}/resume", lambda s: (f"/v1/topics/{s.a_topic(paused=True)}/resume", None)),
    "an operation": ("POST /v1/jobs:cancel", lambda s: ("/v1/jobs:cancel", a_set(s))),
    "an operation on listed jobs": ("POST /v1/jobs:cancel", lambda s: ("/v1/jobs:cancel", {"filter": {"ids": [s.a_job()]}, "wait": WAIT})),
    "a reschedule": ("POST /v1/jobs:reschedule", lambda s: ("/v1/jobs:reschedule", a_set(s, shift="P1D"))),
    "redrives": ("POST /v1/jobs:redrive", lambda s: ("/v1/jobs:redrive", dead_ones(s))),
    "many at once": ("POST /v1/jobs:run-now", lambda s: ("/v1/jobs:run-now", a_set(s))),
    "the stop of an operation": ("POST /v1/operations/{id}/stop", lambda s: (f"/v1/operations/{s.a_running_operation()}/stop", None)),
    "the stop of a deletion": ("POST /v1/operations/{id}/stop", lambda s: (f"/v1/operations/{s.a_running_deletion()}/stop", None)),
    "a silence": ("POST /v1/alerts/{id}/silence", lambda s: (f"/v1/alerts/{s.an_alert()}/silence", {"for": "PT1H"})),
    "a schedule": ("PUT /v1/schedules/{name}", lambda _: (f"/v1/schedules/s{next(numbers)}", schedule())),
    "a change of a schedule": ("PUT /v1/schedules/{name}", lambda s: (f"/v1/schedules/{s.a_schedule()}", {**schedule(), "every": "PT2H", "paused": False})),
    "a schedule that goes": ("DELETE /v1/schedules/{name}", lambda s: (f"/v1/schedules/{s.a_schedule(paused=False)}", None)),
    "a pause of a schedule": ("POST /v1/schedules/{name}/pause", lambda s: (f"/v1/schedules/{s.a_schedule(paused=False)}/pause", None)),
    "the end of a schedule's pause": ("POST /v1/schedules/{name}/resume", lambda s: (f"/v1/schedules/{s.a_schedule()}/resume", None)),
    "a fire by hand": ("POST /v1/schedules/{name}/run-now", lambda _: ("/v1/schedules/failing/run-now", None)),
    "a token": ("POST /v1/tokens", lambda _: ("/v1/tokens", {"name": f"t{next(numbers)}", "scopes": ["read"]})),
    "a token's quota": ("PATCH /v1/tokens/{name}", lambda _: ("/v1/tokens/failing", {"pending_jobs": next(numbers)})),
    "a token that goes": ("DELETE /v1/tokens/{name}", lambda s: (f"/v1/tokens/{s.a_token()}", None)),
    "the number of shards": ("POST /v1/admin/shards", lambda s: ("/v1/admin/shards", {"count": s.another_number_of_shards()})),
}
# Requests that look as if they changed something, and never do.
PREVIEWS = {
    "a preview of an operation": ("POST /v1/jobs:cancel", lambda _: ("/v1/jobs:cancel", {"filter": {"topic": "failing"}, "dry_run": True})),
    "a preview of a schedule": ("POST /v1/schedules:preview", lambda _: ("/v1/schedules:preview", schedule())),
}
# Of an installation with a test clock.
CLOCK_CHANGES = {
    "a freeze": ("POST " + CLOCK, lambda s: s.did("POST", CLOCK, {"freeze": False}) and (CLOCK, {"freeze": True})),
    "a clock that goes on": ("POST " + CLOCK, lambda s: s.did("POST", CLOCK, {"freeze": True}) and (CLOCK, {"freeze": False})),
    "an advance": ("POST " + CLOCK, lambda s: s.did("POST", CLOCK, {"freeze": False}) and (CLOCK, {"advance": "PT1H", "wait": 0})),
    "an advance of a frozen clock": ("POST " + CLOCK, lambda s: s.did("POST", CLOCK, {"freeze": True}) and (CLOCK, {"advance": "PT1H", "wait": 0})),
}
PARTLY = ("an advance", "an advance of a frozen clock")  # more than one transaction: what broke off on the way is answered outcome-unknown


def in_path(path, name, body):
    return path.format(name), body


def in_place(served, name):
    served.a_job(key=name)
    return f"/v1/topics/failing/jobs/{name}?replace=true", {"delay": DELAY, "payload": 2}


def command(name, **members):
    return "/v1/commands", {"command": name, **members}


def popped_by_command(served):
    served.a_command(0)
    return served.did("POST", "/v1/commands", {"command": "pop", "topic": "pulled"})["id"]


@contextlib.contextmanager
def serving(stack, tmp_path_factory, name, **settings):
    knobs = nth.Knobs(tmp_path_factory.mktemp("nth") / "knobs")
    own = OwnApi(stack, tmp_path_factory.mktemp(name), name, {"shards.count": 2, **PATIENT, **settings}, program=nth.program("api"), variables=knobs.environment).start()
    try:
        assert not re.search(r"level=(warn|error)", own.log()), own.log()  # a start that nothing ails
        made = Served(own, knobs)
        made.judged_elsewhere()
        yield made
    finally:
        code = own.end()
    nth.no_report(own.log(), "the end")
    assert code == 0, own.log()[-3000:]


@contextlib.contextmanager
def shop(stack, tmp_path_factory, name):
    """With what the requests are about."""
    with serving(stack, tmp_path_factory, name, **{"callbacks.enabled": "true", "callbacks.allow_networks": "127.0.0.0/8"}) as made:
        made.job = made.a_job()
        made.did("PUT", "/v1/schedules/failing", schedule())
        made.own.rest.token = made.did("POST", "/v1/tokens", {"name": "boss", "scopes": ["admin", "read", "write", "report"]})["token"]
        made.did("POST", "/v1/tokens", {"name": "failing", "scopes": ["read"]})
        for topic in ("pulled", "pulled.too"):
            made.did("PUT", f"/v1/topics/{topic}", {"delivery": "pull"})
        made.operation = made.did("POST", "/v1/jobs:cancel", {"filter": {"topic": "nobody"}})["id"]
        yield made


@pytest.fixture(scope="module")
def served(stack, tmp_path_factory):
    with shop(stack, tmp_path_factory, "failing_statements") as made:
        yield made
    assert "MySQL is not ready" not in made.own.log()  # a statement that fails is no outage of the server


@pytest.fixture(scope="module")
def starved(stack, tmp_path_factory):
    with shop(stack, tmp_path_factory, "failing_memory") as made:
        yield made


@pytest.fixture(scope="module")
def clocked(stack, tmp_path_factory):
    with serving(stack, tmp_path_factory, "failing_clock", **{"installation.test_clock": "true"}) as made:
        yield made


def failing(served, n, method, path, body, kind="statement"):
    """(whether the n-th call failed, the answer)"""
    served.knobs.arm(kind, n)
    try:
        answer = served.own.rest.ask(method, path, body)
    finally:
        fired = served.knobs.disarm(kind)
    return fired, answer


def which(served):
    return [line for line in served.own.log().splitlines() if line.startswith("nth: ")][-1]


def assert_problem(answer, what):
    assert answer.status in REFUSED, f"{what}: {answer}"
    assert answer.headers["Content-Type"].startswith("application/problem+json"), f"{what}: {answer.headers}"
    assert json.loads(answer.body)["status"] == answer.status, what


@pytest.mark.parametrize("name", READS)
def test_a_read_whose_statement_fails_is_answered_with_an_error(served, name):
    path = READS[name].format(job=served.job, operation=served.operation)
    for n in range(1, MOST):
        fired, answer = failing(served, n, "GET", path, None)
        if not fired:
            assert answer.status == 200, answer
            break
        if name not in LAST_KNOWN or answer.status != 200:
            assert_problem(answer, f"{name}, call {n}: {which(served)}")
    assert 1 < n < MOST - 1, f"{name} has {n - 1} calls"
    print(f"{name}: {n - 1} calls")


def says_done(answer):
    """What the answer says of one change: of a batch, of the one element."""
    said = answer.json if answer.status < 300 else {"status": answer.status}
    if isinstance(said, list):
        [said] = said
    if "success" in said:
        return said["success"] and "id" in said
    if "jobs" in said:
        return len(said["jobs"]) > 0
    return said.get("status", 200) < 300


def is_unknown(answer):
    return answer.status == 503 and answer.json["type"].endswith("/outcome-unknown")


def judge(answer, before, after, what, may_be_unknown):
    """It was done, and the answer says so; or nothing was, and the answer is a problem."""
    if answer.status >= 300:
        assert_problem(answer, what)
    if may_be_unknown and is_unknown(answer):
        return
    assert not is_unknown(answer), f"{what}: {answer}"
    assert says_done(answer) == (after != before), f"{what}: {answer}"


def try_each(served, name, route, ask):
    method, template = route.split()
    served.end_operations()
    for n in range(1, MOST):
        path, body = ask(served)
        assert re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", template), path.partition("?")[0]), path
        before = served.told()
        fired, answer = failing(served, n, method, path, body)
        what = f"{name}, call {n}: {which(served) if fired else 'none failed'}"
        judge(answer, before, served.told(), what, name in PARTLY)
        if not fired:
            assert says_done(answer), answer
            break
    assert 1 < n < MOST - 1, f"{name} has {n - 1} calls"
    print(f"{name}: {n - 1} calls")


@pytest.mark.in_turns(3)
@pytest.mark.parametrize("name", CHANGES)
def test_a_change_whose_statement_fails_is_either_made_and_shown_or_refused_and_not_made(served, name):
    try_each(served, name, *CHANGES[name])


def test_a_result_is_answered_by_its_outcome_after_mysql_ended_the_connections(served):
    def ask(made):
        request = CHANGES["a result"][1](made)
        made.end_connections()
        return request
    try_each(served, "a result", CHANGES["a result"][0], ask)


@pytest.mark.in_turns(3)
@pytest.mark.parametrize("name", CHANGES)
def test_a_change_that_runs_out_of_memory_answers_success_refusal_or_an_unknown_outcome(starved, name):
    route, ask = CHANGES[name]
    starved.end_operations()
    for n in MEMORY_STEPS:
        path, body = ask(starved)
        before = starved.told()
        try:
            fired, answer = failing(starved, n, route.split()[0], path, body, kind="memory")
        except (OSError, http.client.HTTPException):  # closed without an answer
            starved.assert_alive(f"{name}, call for memory {n}")
            continue
        judge(answer, before, starved.told(), f"{name}, call for memory {n}", True)
        if not fired:
            break


@pytest.mark.parametrize("name", CLOCK_CHANGES)
def test_a_change_of_the_clock_whose_statement_fails_is_either_made_and_shown_or_refused(clocked, name):
    try_each(clocked, name, *CLOCK_CHANGES[name])


@pytest.mark.parametrize("name", PREVIEWS)
def test_a_preview_whose_statement_fails_changes_nothing(served, name):
    route, ask = PREVIEWS[name]
    path, body = ask(served)
    before = served.told()
    for n in range(1, MOST):
        fired, answer = failing(served, n, route.split()[0], path, body)
        assert served.told() == before
        if not fired:
            assert answer.status == 200, answer
            break
        assert_problem(answer, f"{name}, call {n}")


def test_every_request_that_changes_something_has_a_case():
    known = {route for routes in (CHANGES, PREVIEWS, CLOCK_CHANGES) for route, _ in routes.values()}
    there = {f"{verb.upper()} {path}" for path, verbs in DOCUMENT["paths"].items() for verb in verbs if verb in ("post", "put", "patch", "delete")}
    assert known == there


def failures(rest):
    return rest.metric("duetime_outage_failures_total", missing=0, of="mysql")


def test_a_fault_of_the_request_is_not_reported_as_an_outage(served):
    rest, before = served.own.rest, failures(served.own.rest)
    refused = [rest.get("/v1/jobs/9223372036854775807"), rest.patch("/v1/jobs/9223372036854775807", {"delay": 1}), rest.post("/v1/jobs", {"topic": "failing", "delay": "soon"}),
               rest.get("/v1/schedules/nobody"), rest.delete("/v1/tokens/nobody"), rest.post(f"/v1/jobs/{served.job}/redrive"),
               rest.patch(f"/v1/jobs/{served.job}", {"payload": 1}, headers={"If-Match": '"9"'}), rest.delete("/v1/topics/nobody")]
    assert [answer.status for answer in refused] == [404, 404, 422, 404, 404, 409, 412, 404]
    assert failures(rest) == before
    assert failing(served, 2, "GET", "/v1/jobs", None)[1].status in REFUSED and failures(rest) > before

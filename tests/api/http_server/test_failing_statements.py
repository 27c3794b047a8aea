"""Each call of the database fails once, in every request: who asked is told so, nothing of a change is there, and the next request is served.

The API is nth_api (support/nth/nth_call.c); what its other threads ask of the database does not fail.
"""
import itertools
import json
import re

import pytest
from harness.harm import nth
from harness.program import OwnApi

MOST = 60  # calls of a request
DELAY = "P30D"
REFUSED = (500, 503)
numbers = itertools.count(1)

TABLES = {"jobs": "id, state, version, IFNULL(next_at, -1), no_retries, topic, payload", "job_keys": "topic, job_key, job_id", "topics": "name, paused, retry",
          "operations": "id, state, matched, changed", "operation_jobs": "operation, job_id", "job_events": "id, action", "api_tokens": "name, scopes",
          "schedules": "name, topic, paused", "deferred_results": "job_id"}


class Served:
    def __init__(self, own, knobs):
        self.own, self.knobs = own, knobs
        self.job = own.rest.make(topic="failing", delay=DELAY, payload=1)["id"]
        assert own.rest.put("/v1/schedules/failing", schedule()).status in (200, 201)
        own.rest.token = own.rest.post("/v1/tokens", {"name": "boss", "scopes": ["admin", "read", "write"]}).json["token"]
        assert own.rest.post("/v1/tokens", {"name": "failing", "scopes": ["read"]}).status == 201
        self.operation = own.rest.post("/v1/jobs:cancel", {"filter": {"topic": "nobody"}}).json["id"]

    def told(self):
        """What callers see of all tables."""
        sums = ", ".join(f"(SELECT CONCAT(COUNT(*), ' ', IFNULL(SUM(CRC32(CONCAT_WS('|', {columns}))), 0)) FROM {table}) {table}" for table, columns in TABLES.items())
        return self.own.rows(f"SELECT {sums}")[0]

    def a_job(self):
        return self.own.rest.make(topic="failing", delay=DELAY, payload=1)["id"]


def schedule():
    return {"every": "PT1H", "topic": "failing", "payload": 1, "paused": True}


def job(**more):
    return {"topic": "failing", "delay": DELAY, "payload": {"a": 1}, **more}


def key():
    return f"k{next(numbers)}"


READS = {
    "a job": "/v1/jobs/{job}", "its attempts": "/v1/jobs/{job}/attempts", "its explanation": "/v1/jobs/{job}/explain", "its events": "/v1/jobs/{job}/events",
    "jobs": "/v1/jobs?topic=failing&limit=2&include=payload", "jobs of a state": "/v1/jobs?state=cancelled&limit=2", "topics": "/v1/topics", "a topic": "/v1/topics/failing",
    "operations": "/v1/operations", "an operation": "/v1/operations/{operation}", "alerts": "/v1/alerts", "schedules": "/v1/schedules", "a schedule": "/v1/schedules/failing",
    "its next fires": "/v1/schedules/failing/next", "events": "/v1/events", "a forecast": "/v1/forecast", "spikes": "/v1/forecast/spikes", "usage": "/v1/usage",
    "tokens": "/v1/tokens", "series": "/v1/series?metric=created",
}
# Changes: what is asked, made anew for each try.
CHANGES = {
    "a new job": lambda _: ("POST", "/v1/jobs", job()),
    "a new job with a key": lambda _: ("POST", "/v1/jobs", job(key=key())),
    "a job by its key": lambda _: ("PUT", f"/v1/topics/failing/jobs/{key()}", {"delay": DELAY, "payload": 1}),
    "a patch": lambda s: ("PATCH", f"/v1/jobs/{s.a_job()}", {"delay": "P2D", "payload": 2}),
    "a cancel": lambda s: ("DELETE", f"/v1/jobs/{s.a_job()}", None),
    "run-now": lambda s: ("POST", f"/v1/jobs/{s.a_job()}/run-now", None),
    "a topic": lambda _: ("PUT", "/v1/topics/failing", {"retry": [f"{next(numbers)}s"]}),
    "a new topic": lambda _: ("PUT", f"/v1/topics/failing.{next(numbers)}", {"retry": ["5s"]}),
    "a pause": lambda _: ("POST", "/v1/topics/failing/pause", None),
    "its end": lambda _: ("POST", "/v1/topics/failing/resume", None),
    "an operation": lambda _: ("POST", "/v1/jobs:cancel", {"filter": {"topic": "nobody"}}),
    "its preview": lambda _: ("POST", "/v1/jobs:cancel", {"filter": {"topic": "failing"}, "dry_run": True}),
    "a schedule": lambda _: ("PUT", f"/v1/schedules/s{next(numbers)}", schedule()),
    "a pause of a schedule": lambda _: ("POST", "/v1/schedules/failing/pause", None),
    "a fire by hand": lambda _: ("POST", "/v1/schedules/failing/run-now", None),
    "a token": lambda _: ("POST", "/v1/tokens", {"name": f"t{next(numbers)}", "scopes": ["read"]}),
    "a token's quota": lambda _: ("PATCH", "/v1/tokens/failing", {"pending_jobs": next(numbers)}),
    "a result": lambda s: ("POST", f"/v1/jobs/{s.a_job()}/results", {"attempt": 1, "status": "succeeded"}),
}
USUAL = {"a result": (200, 202, 404, 409)}
SERVED = ("a cancel", "an operation")  # also where nobody can say whether an attempt is under way, or the operation did not begin to run at once
READ_BEHIND = ("an operation", "a topic", "a new topic", "a pause", "its end", "a fire by hand")  # what is shown of it is read when it is there already


@pytest.fixture(scope="module")
def served(stack, tmp_path_factory):
    knobs = nth.Knobs(tmp_path_factory.mktemp("nth") / "knobs")
    own = OwnApi(stack, tmp_path_factory.mktemp("failing"), "failing_statements", program=nth.program("api"), variables=knobs.environment).start()
    try:
        assert not re.search(r"level=(warn|error)", own.log()), own.log()  # a start that nothing ails
        yield Served(own, knobs)
        assert "MySQL is not ready" not in own.log()  # a statement that fails is no outage of the server
    finally:
        code = own.end()
    nth.no_report(own.log(), "the end")
    assert code == 0, own.log()[-3000:]


def failing(served, n, method, path, body):
    """(whether the n-th call failed, the answer)"""
    served.knobs.arm("statement", n)
    try:
        answer = served.own.rest.ask(method, path, body)
    finally:
        fired = served.knobs.disarm("statement")
    return fired, answer


def which(served):
    return [line for line in served.own.log().splitlines() if line.startswith("nth: ")][-1]


def told_of(served, answer, what):
    assert answer.status in REFUSED, f"{what}: {answer}"
    assert answer.headers["Content-Type"].startswith("application/problem+json"), f"{what}: {answer.headers}"
    assert json.loads(answer.body)["status"] == answer.status, what


@pytest.mark.parametrize("name", READS)
def test_a_read_whose_statement_fails_says_so(served, name):
    path = READS[name].format(job=served.job, operation=served.operation)
    for n in range(1, MOST):
        fired, answer = failing(served, n, "GET", path, None)
        if not fired:
            assert answer.status == 200, answer
            break
        told_of(served, answer, f"{name}, call {n}: {which(served)}")
    assert 1 < n < MOST - 1, f"{name} has {n - 1} calls"
    print(f"{name}: {n - 1} calls")


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_whose_statement_fails_says_so_and_changes_nothing(served, name):
    usual, behind = USUAL.get(name, (200, 201, 202, 204)), False
    for n in range(1, MOST):
        asked = CHANGES[name](served)
        before = served.told()
        fired, answer = failing(served, n, *asked)
        if not fired:
            assert answer.status in usual, answer
            break
        if name in SERVED and answer.status in usual:
            continue
        told_of(served, answer, f"{name}, call {n}: {which(served)}")
        behind = behind or (name in READ_BEHIND and served.told() != before)
        assert behind or served.told() == before, f"{name}, call {n}: {which(served)}"
    assert 1 < n < MOST - 1, f"{name} has {n - 1} calls"
    print(f"{name}: {n - 1} calls")


def failures(rest):
    found = re.search(r'^duetime_outage_failures_total{of="mysql"} (\d+)', rest.get("/metrics").text, re.MULTILINE)
    return int(found[1]) if found else 0


def test_what_the_request_is_to_blame_for_is_no_outage(served):
    rest, before = served.own.rest, failures(served.own.rest)
    refused = [rest.get("/v1/jobs/9223372036854775807"), rest.patch("/v1/jobs/9223372036854775807", {"delay": 1}), rest.post("/v1/jobs", {"topic": "failing", "delay": "soon"}),
               rest.get("/v1/schedules/nobody"), rest.delete("/v1/tokens/nobody"), rest.post(f"/v1/jobs/{served.job}/redrive")]
    assert [answer.status for answer in refused] == [404, 404, 422, 404, 404, 409]
    assert failures(rest) == before
    assert failing(served, 2, "GET", "/v1/jobs", None)[1].status in REFUSED and failures(rest) > before

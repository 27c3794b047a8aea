"""The number of statements does not depend on the number of jobs: at most ten for a thousand."""
import json
import time

import pytest

from harness.checker import connect, now_ms, rows
from harness.soak import rfc3339
from harness.stack import until

JOBS = 50000
AT_MOST = 10 * JOBS // 1000


class Counted:
    """Statements that the server was asked meanwhile, less what the stack asks at rest in the same time."""

    def __init__(self, stack, at_rest):
        self.connection = connect(stack)
        self.at_rest = at_rest
        self.own = 1

    def questions(self):
        return int(rows(self.connection, "SHOW GLOBAL STATUS LIKE 'Questions'")[0]["Value"])

    def ask(self, sql, *values):
        self.own += 1
        return rows(self.connection, sql, *values)

    def __enter__(self):
        self.began, self.start = time.monotonic(), self.questions()
        return self

    def __exit__(self, *_):
        asked = self.questions() - self.start - self.own
        self.count = asked - self.at_rest * (time.monotonic() - self.began)


def rate_for_a_while(stack):
    end = time.monotonic() + 3
    with Counted(stack, 0) as counted:
        until(lambda: time.monotonic() > end, "three seconds of rest")
    return counted.count / (time.monotonic() - counted.began)


def rate_at_rest(stack):
    """Statements a second of a stack with nothing to do, once it falls no more: after a start everything is looked through once."""
    before, now = rate_for_a_while(stack), rate_for_a_while(stack)
    while now < 0.9 * before:
        before, now = now, rate_for_a_while(stack)
    return now


@pytest.fixture
def usual_period(stack):
    """The reconciler's own period: at the suite's short one it looks at 50,000 overdue jobs over and over meanwhile."""
    stack.up_again("--set", "reconcile.period=")
    yield
    stack.up_again("--set", "reconcile.period=PT1S")


def statements_of(stack, api, consumer, topic, done):
    """What inserting, claiming and reporting JOBS jobs cost, of which `done` have gone before."""
    at_rest = rate_at_rest(stack)
    due_ms = int(now_ms()) + 15000
    due = rfc3339(due_ms)
    body = "".join(json.dumps({"topic": topic, "run_at": due, "payload": {"n": n}}) + "\n" for n in range(JOBS))
    with Counted(stack, at_rest) as insert:
        lines = api.post("/v1/jobs:batch", body, content_type="application/x-ndjson").lines
    assert len(lines) == JOBS and all(line["status"] == 201 for line in lines)
    until(lambda: now_ms() > due_ms - 2000, "the jobs are nearly due")  # the fewer idle seconds, the less guessed
    with Counted(stack, at_rest) as claim:
        consumer.wait_count(done + JOBS + 1, 120)
    for line in lines:
        consumer.report(line["id"], 1)
    with Counted(stack, at_rest) as result:
        consumer.flush()
        until(lambda: result.ask("SELECT COUNT(*) n FROM jobs WHERE topic = %s AND state = 'succeeded'", topic)[0]["n"] == done + JOBS,
              "all reported", every=0.5, seconds=120)
    return insert.count, claim.count, result.count


@pytest.mark.in_turns(3)
def test_inserting_claiming_and_reporting_cost_few_statements(stack, usual_period, api, topic, consume):
    """The least of up to three rounds: on a busy machine batches are less full, and what the stack asks at rest is guessed."""
    consumer = consume(topic)
    api.put(f"/v1/topics/{topic}", {"ack_timeout": "PT1H"})
    consumer.wait(api.make(topic=topic, delay=0)["id"])
    rounds = []
    while len(rounds) < 3 and not (rounds and max(map(min, zip(*rounds))) <= AT_MOST):
        rounds.append(statements_of(stack, api, consumer, topic, JOBS * len(rounds)))
    print(f"statements for {JOBS} jobs, inserted, claimed, reported: {[[round(n) for n in counts] for counts in rounds]}")
    assert all(min(counts) <= AT_MOST for counts in zip(*rounds))

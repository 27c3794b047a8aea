"""The number of statements does not depend on the number of jobs: at most ten for a thousand."""
import json

from harness.checker import connect, now_ms, rows
from harness.soak import rfc3339
from harness.stack import until

JOBS = 50000
AT_MOST = 10 * JOBS // 1000


class Counted:
    def __init__(self, stack):
        self.stack = stack

    def questions(self):
        return int(rows(connect(self.stack), "SHOW GLOBAL STATUS LIKE 'Questions'")[0]["Value"])

    def __enter__(self):
        self.start = self.questions()
        return self

    def __exit__(self, *_):
        self.count = self.questions() - self.start


def test_inserting_claiming_and_reporting_cost_few_statements(stack, api, topic, consume):
    consumer = consume(topic)
    api.put(f"/v1/topics/{topic}", {"ack_timeout": "PT1H"})
    api.post(f"/v1/topics/{topic}/pause")
    body = "".join(json.dumps({"topic": topic, "delay": "PT15S", "payload": {"n": n}}) + "\n" for n in range(JOBS))
    with Counted(stack) as insert:
        answer = api.post("/v1/jobs:batch", body, content_type="application/x-ndjson")
    lines = answer.lines
    assert len(lines) == JOBS and all(line["status"] == 201 for line in lines)
    due = now_ms() + 16000
    until(lambda: now_ms() > due, 30, "all due")
    with Counted(stack) as claim:
        api.post(f"/v1/topics/{topic}/resume")
        consumer.wait_count(JOBS, 120)
    for line in lines:
        consumer.report(line["id"], 1)
    with Counted(stack) as result:
        consumer.flush()
        connection = connect(stack)
        polls = []

        def finished():
            polls.append(1)
            return rows(connection, "SELECT COUNT(*) n FROM jobs WHERE topic = %s AND state = 'succeeded'", topic)[0]["n"] == JOBS
        until(finished, 120, "all reported", every=0.5)
    print(f"statements for {JOBS} jobs: insert {insert.count}, claim {claim.count}, result {result.count - len(polls)}")
    assert insert.count <= AT_MOST
    assert claim.count <= AT_MOST
    assert result.count - len(polls) <= AT_MOST


__all__ = ["rfc3339"]

"""The number of statements does not depend on the number of jobs: at most ten for a thousand."""
import contextlib
import json

import pytest

from harness.checker import connect, now_ms, rows
from harness.soak import rfc3339
from harness.stack import until

JOBS = 50000
AT_MOST = 10 * JOBS // 1000
# Statements that change jobs, or lock them for a change. An idle stack executes none.
CHANGES = (r"command_type IN ('Query', 'Execute') AND argument REGEXP '\\b(jobs|job_keys|attempts|outbox|job_counts)\\b'"
           r" AND argument REGEXP '^\\s*(INSERT|UPDATE|DELETE|REPLACE)|FOR UPDATE'")


class Counted:
    """Counts the statements in the server's log that change jobs meanwhile."""

    def __init__(self, stack):
        self.connection = connect(stack)

    def __enter__(self):
        for statement in ("SET GLOBAL log_output = 'TABLE'", "TRUNCATE mysql.general_log", "SET GLOBAL general_log = ON"):
            rows(self.connection, statement)
        return self

    def __exit__(self, *_):
        rows(self.connection, "SET GLOBAL general_log = OFF")
        self.count = rows(self.connection, f"SELECT COUNT(*) n FROM mysql.general_log WHERE {CHANGES}")[0]["n"]
        with contextlib.suppress(Exception):
            self.connection.close()


def statements_of(stack, api, consumer, topic):
    """Counts the statements that insert, claim and report JOBS jobs."""
    body = "".join(json.dumps({"topic": topic, "run_at": rfc3339(int(now_ms()) + 15000), "payload": {"n": n}}) + "\n" for n in range(JOBS))
    api.put(f"/v1/topics/{topic}", {"ack_timeout": "PT1H", "paused": True})
    with Counted(stack) as insert:
        lines = api.post("/v1/jobs:batch", body, content_type="application/x-ndjson").lines
    assert len(lines) == JOBS and all(line["status"] == 201 for line in lines)
    connection = connect(stack)
    until(lambda: rows(connection, "SELECT COUNT(*) n FROM jobs WHERE topic = %s AND next_at > %s", topic, int(now_ms()))[0]["n"] == 0, "all are due", seconds=30)
    with Counted(stack) as claim:
        api.post(f"/v1/topics/{topic}/resume")
        consumer.wait_count(JOBS + 1, 120)
    for line in lines:
        consumer.report(line["id"], 1)
    with Counted(stack) as result:
        consumer.flush()
        until(lambda: rows(connection, "SELECT COUNT(*) n FROM jobs WHERE topic = %s AND state = 'succeeded'", topic)[0]["n"] == JOBS, "all reported",
              every=0.5, seconds=120)
    connection.close()
    return insert.count, claim.count, result.count


@pytest.mark.in_turns(3)
def test_inserting_claiming_and_reporting_cost_few_statements(stack, api, topic, consume):
    consumer = consume(topic)
    consumer.wait(api.make(topic=topic, delay=0)["id"])  # the topic is in Kafka
    counts = statements_of(stack, api, consumer, topic)
    print(f"statements for {JOBS} jobs, inserted, claimed, reported: {counts}")
    assert all(0 < count <= AT_MOST for count in counts), counts

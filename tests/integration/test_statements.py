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
CHANGES = (r"command_type IN ('Query', 'Execute') AND argument REGEXP '\\b(jobs|job_keys|attempts|messages|job_counts)\\b'"
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
        found = rows(self.connection, f"SELECT REGEXP_SUBSTR(argument, '[A-Z]+') verb, COUNT(*) n FROM mysql.general_log WHERE {CHANGES} GROUP BY 1")
        self.by_verb = {row["verb"].decode() if isinstance(row["verb"], bytes) else row["verb"]: row["n"] for row in found}
        with contextlib.suppress(Exception):
            self.connection.close()


@pytest.mark.in_turns(3)
def test_inserting_claiming_and_reporting_cost_few_statements(stack, api, topic, consume):
    consumer = consume(topic, rule=lambda arrival: {"status": "succeeded"})
    consumer.wait(api.make(topic=topic, delay=0)["id"])  # the topic is in Kafka
    api.put(f"/v1/topics/{topic}", {"ack_timeout": "PT1H"})
    connection, due = connect(stack), rfc3339(int(now_ms()) + 20000)  # full batches are claimed if all jobs are there before
    body = "".join(json.dumps({"topic": topic, "run_at": due, "payload": {"n": n}}) + "\n" for n in range(JOBS))
    with Counted(stack) as counted:
        lines = api.post("/v1/jobs:batch", body, content_type="application/x-ndjson").lines
        assert len(lines) == JOBS and all(line["status"] == 201 for line in lines)
        until(lambda: rows(connection, "SELECT COUNT(*) n FROM jobs WHERE topic = %s AND state = 'succeeded'", topic)[0]["n"] == JOBS + 1,
              "all succeed", every=0.5, seconds=120)
    connection.close()
    print(f"statements for {JOBS} jobs: {counted.by_verb}")
    assert 0 < counted.by_verb["INSERT"] and 0 < counted.by_verb["UPDATE"] and sum(counted.by_verb.values()) <= 3 * AT_MOST, counted.by_verb

"""commands by message: how many creates a second become jobs, beside NDJSON in turn"""
import json
import statistics
import time

from harness.checker import connect, rows
from harness.commands import Commander
from harness.stack import until

import clients

MESSAGES = 100000


def backlog(stack, account, commander, topic, count):
    """Creates a second: from the first message on until the last one is a job. The producer works beside it, on the same machine."""
    connection = connect(stack)
    began = time.monotonic()
    for n in range(count):
        key = f"{topic}-{n}"
        commander.send(f'{{"action":"create","topic":"{topic}","key":"{key}","delay":"PT50M","payload":{json.dumps({"text": clients.TEXT})}}}'.encode(), key=key)
    commander.flush()
    until(lambda: rows(connection, "SELECT COALESCE(SUM(scheduled), 0) n FROM job_counts WHERE topic = %s", topic)[0]["n"] >= count, "all are jobs", seconds=180)
    account.accepted(topic, count)
    return count / (time.monotonic() - began)


def measure(bench):
    stack = bench.stack("--shards", "2")
    account = bench.account(stack)
    commander = Commander(stack["DUETIME_KAFKA"])
    count = bench.count(MESSAGES, MESSAGES // 5)
    for topic in ("plain", "commands-warm"):
        clients.make_topic(stack, topic)
    load = clients.Ndjson(stack, "plain", bench.count(50000, 20000))
    load.post(1)
    backlog(stack, account, commander, "commands-warm", count // 5)
    pairs = []
    for n in range(bench.count(3, 1)):
        clients.make_topic(stack, f"commands-{n}")
        pairs.append((backlog(stack, account, commander, f"commands-{n}", count), load.post(1, clients.BULK_CLIENTS)))
    account.accepted("plain", load.accepted)
    bench.figure(None, f"creates by message, {count:,} at once", [ours for ours, _ in pairs], "messages/s",
                 f"NDJSON in the same run {statistics.median(plain for _, plain in pairs):,.0f}/s")

"""100,000 schedules at rest, and all of them firing within one minute"""
import http.client
import json
import threading
import time

from harness.checker import connect, rows
from harness.soak import rfc3339
from harness.stack import until

import clients
from rest import usage, wait

SCHEDULES = 100000
MAKERS = 8
MINUTE_MS = 60000
SAMPLE = 500     # schedules that tell how long all of them take to be made
WARM_MS = 4000   # of the minute, in which the consumer begins
REST_MS = 60000  # at most, from when the last one is made until the first fire


def put_all(stack, topic, names, first_ms):
    """Each fires once a day, the first time within the minute that begins at first_ms; returns how many were made a second."""
    host, port = stack["DUETIME_URL"].removeprefix("http://").split(":")

    def client(part):
        connection = http.client.HTTPConnection(host, int(port), timeout=60)
        for n in part:
            at = rfc3339(int(first_ms + n * MINUTE_MS / len(names)))
            body = json.dumps({"topic": topic, "every": "P1D", "starts_at": at, "payload": {"text": clients.TEXT}})
            connection.request("PUT", f"/v1/schedules/{names[n]}", body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            assert answer.status == 201, answer.read()
            answer.read()
    threads = [threading.Thread(target=client, args=(range(part, len(names), MAKERS),)) for part in range(MAKERS)]
    began = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return len(names) / (time.monotonic() - began)


def at_rest(bench, stack):
    connection = connect(stack)
    parts = {part: stack.pid(part) for part in stack.parts() if part.startswith(("api", "dispatcher"))}
    asked = lambda: int(rows(connection, "SHOW GLOBAL STATUS LIKE 'Questions'")[0]["Value"])  # noqa: E731
    wait(15, "quiet")
    before, began, first = {part: usage(pid) for part, pid in parts.items()}, time.monotonic(), asked()
    wait(bench.seconds(30, 10), "rest")
    took, statements = time.monotonic() - began, asked() - first - 1
    cpu = {part: f"{(usage(pid)[1] - before[part][1]) / took * 100:.1f} %" for part, pid in parts.items()}
    return statements / took, ", ".join(f"{part} {share}" for part, share in cpu.items())


def measure(bench):
    count = bench.count(SCHEDULES, SCHEDULES // 10)
    stack = bench.stack("--shards", "2")
    account = bench.account(stack)
    clients.make_topic(stack, "fires")
    load = clients.Ndjson(stack, "plain", 20000)
    load.post(1)
    alone, shares = at_rest(bench, stack)
    clients.make_topic(stack, "sample")
    guess = put_all(stack, "sample", [f"sample{n}" for n in range(SAMPLE)], clients.now() + 86400000)
    first_ms = int(clients.now() + 2 * count / guess * 1000 + REST_MS)  # twice as long as they should take, and then at rest for a while
    rate = put_all(stack, "fires", [f"s{n}" for n in range(count)], first_ms)
    rest, cpu = at_rest(bench, stack)
    bench.figure(None, f"{count:,} schedules made by PUT, each with the job of its first fire", rate, "schedules/s", f"NDJSON in the same run {load.post(1, clients.BULK_CLIENTS):,.0f} jobs/s")
    account.accepted("plain", load.accepted)
    bench.figure(None, f"statements at rest with {count:,} schedules", rest, "a second", f"{alone:.1f} without; of a core: {cpu}, without {shares}")
    assert clients.now() < first_ms, "the schedules were made too slowly"
    until(lambda: clients.now() > first_ms, "the first fire", every=.05, seconds=(first_ms - clients.now()) / 1000 + 10)
    before = clients.lateness_buckets(stack)
    wait(WARM_MS / 2000, "the first messages")  # Kafka has the topic since then
    reporter = clients.Reporter(stack, "fires", count, since=first_ms + WARM_MS)
    seen = reporter.end()
    p99 = clients.percentile_ms(before, clients.lateness_buckets(stack), .99)
    bench.figure(None, f"{count:,} fires within a minute, lateness p99 to the commit", p99, "ms", f"to the consumer p50 {seen['p50']} ms, p99 {seen['p99']} ms; the next fires are made beside them")
    next_fires = "SELECT COUNT(*) n FROM jobs WHERE topic = 'fires'"
    until(lambda: rows(connect(stack), next_fires)[0]["n"] == 2 * count, lambda: rows(connect(stack), next_fires), every=1, seconds=300)
    account.accepted("fires", 2 * count)
    account.accepted("sample", SAMPLE)

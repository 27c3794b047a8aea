"""rows of job_inbox: how many a second become jobs, beside NDJSON in turn; 20 connections whose commits overlap, and how soon each row is a job"""
import random
import statistics
import threading
import time

from harness.checker import connect, rows
from harness.stack import until

import clients

ROWS = 100000
WRITERS = 20
RATE = 5000     # rows a second that they insert together: half of what an installation takes
AT_ONCE = 500
SQL = "INSERT INTO job_inbox (topic, job_key, delay_ms, payload) VALUES "
PAYLOAD = f'{{"text":"{clients.TEXT}"}}'


def insert(cursor, topic, keys):
    cursor.execute(SQL + ",".join(["(%s,%s,3000000,%s)"] * len(keys)), [cell for key in keys for cell in (topic, key, PAYLOAD)])


def is_empty(connection):
    return not rows(connection, "SELECT 1 FROM job_inbox WHERE error IS NULL LIMIT 1")


def backlog(stack, account, topic, count):
    """Rows a second: a backlog that one transaction commits, until the last row is a job."""
    connection, watcher = connect(stack), connect(stack)
    with connection.cursor() as cursor:
        cursor.execute("BEGIN")
        for first in range(0, count, AT_ONCE):
            insert(cursor, topic, [f"{topic}-{n}" for n in range(first, min(count, first + AT_ONCE))])
        cursor.execute("COMMIT")
    began = time.monotonic()
    account.accepted(topic, count)
    until(lambda: is_empty(watcher), "the inbox is empty", seconds=120)
    return count / (time.monotonic() - began)


def write(stack, topic, name, count, committed):
    """Transactions of one to nine rows, some of which stay open for a while; when each was committed, by MySQL's clock."""
    connection, chance, n, began = connect(stack), random.Random(name), 0, time.monotonic()
    with connection.cursor() as cursor:
        while n < count:
            keys = [f"{name}-{n + i}" for i in range(min(chance.randint(1, 9), count - n))]
            cursor.execute("BEGIN")
            insert(cursor, topic, keys)
            if chance.random() < .05:
                time.sleep(chance.random() * .2)
            cursor.execute("COMMIT")
            at = time.time() * 1000
            committed.extend((key, at) for key in keys)
            n += len(keys)
            time.sleep(max(0, began + n * WRITERS / RATE - time.monotonic()))
    connection.close()


def overlap(stack, account, topic, count):
    """[ms from a row's commit until its job was made], rows a second that were offered meanwhile."""
    committed = [[] for _ in range(WRITERS)]
    threads = [threading.Thread(target=write, args=(stack, topic, f"w{n}", count // WRITERS, committed[n])) for n in range(WRITERS)]
    began = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    rate = count / (time.monotonic() - began)
    account.accepted(topic, count)
    connection = connect(stack)
    until(lambda: is_empty(connection), "the inbox is empty")
    made = {row["job_key"].decode(): row["at"] for row in rows(connection, "SELECT job_key, created_at at FROM jobs WHERE topic = %s", topic)}
    return [made[key] - at for part in committed for key, at in part], rate


def percentile(values, share):
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def measure(bench):
    stack = bench.stack("--shards", "2")
    account = bench.account(stack)
    count = bench.count(ROWS, ROWS // 5)
    for topic in ("plain", "inbox-warm", "inbox-overlap"):
        clients.make_topic(stack, topic)
    load = clients.Ndjson(stack, "plain", bench.count(50000, 20000))
    load.post(1)
    backlog(stack, account, "inbox-warm", count // 5)
    pairs = []
    for n in range(bench.count(3, 1)):
        clients.make_topic(stack, f"inbox-{n}")
        pairs.append((backlog(stack, account, f"inbox-{n}", count), load.post(1, clients.BULK_CLIENTS)))
    account.accepted("plain", load.accepted)
    bench.figure(None, f"rows of job_inbox, a backlog of {count:,}", [ours for ours, _ in pairs], "rows/s",
                 f"NDJSON in the same run {statistics.median(plain for _, plain in pairs):,.0f}/s")
    late, rate = overlap(stack, account, "inbox-overlap", count)
    bench.figure(None, f"commit → job, {WRITERS} connections that overlap, p99", percentile(late, .99), "ms",
                 f"p50 {percentile(late, .5):.0f} ms, worst {max(late):.0f} ms; {count:,} rows at {rate:,.0f}/s, none overlooked")

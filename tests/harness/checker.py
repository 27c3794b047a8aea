"""The oracles O1-O7, from what was answered, what Kafka, MySQL and Redis say themselves. Shares no code with the product.

  O1 every id answered 2xx is in MySQL          O5 nothing in flight, Redis = MySQL within the horizon
  O2 each (job, attempt) at most once           O6 never before run_at
  O3 every due job sent, every attempt present  O7 (work goes on by itself: whoever waits for arrivals sees that)
  O4 ledger = topics, both ways
"""
import json
import threading
import time
import zlib
from collections import Counter
from dataclasses import dataclass, field

import pymysql
import redis

from .consumer import arrival_of, read_all
from .stack import until


def connect(stack):
    return pymysql.connect(unix_socket=stack["DUETIME_MYSQL_SOCKET"], user=stack["DUETIME_MYSQL_USER"],
                           password=stack["DUETIME_MYSQL_PASSWORD"], database=stack["DUETIME_MYSQL_DATABASE"], autocommit=True,
                           cursorclass=pymysql.cursors.DictCursor)


def rows(connection, sql, *values):
    with connection.cursor() as cursor:
        cursor.execute(sql, values or None)
        return cursor.fetchall()


@dataclass
class Asked:
    due_ms: float
    cancelled: bool = False   # the answer to a cancel was "cancelled"
    too_late: int = 0         # … was "too late, attempt n"
    fuzzy: bool = False       # changed in ways that make its time unclear (hand edits): O6 looks at ce_scheduledtime only


@dataclass
class Journal:
    """What callers were told. Thread-safe."""
    jobs: dict = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def made(self, job_id, due_ms):
        with self.lock:
            self.jobs[job_id] = Asked(due_ms)

    def moved(self, job_id, due_ms):
        with self.lock:
            self.jobs[job_id].due_ms = due_ms

    def cancelled(self, job_id):
        with self.lock:
            self.jobs[job_id].cancelled = True

    def too_late(self, job_id, attempt):
        with self.lock:
            self.jobs[job_id].too_late = attempt


def jump_hash(key, buckets):
    """Lamping and Veach, 2014."""
    b, j = -1, 0
    while j < buckets:
        b = j
        key = (key * 2862933555777941757 + 1) & 0xFFFFFFFFFFFFFFFF
        j = int(float(b + 1) * (float(1 << 31) / float((key >> 33) + 1)))
    return b


def shard_of(job_id, shards):
    return jump_hash(zlib.crc32(str(job_id).encode()) % 1024, shards)


def at_most_once(arrivals):
    counts = Counter((arrival.job, arrival.attempt) for arrival in arrivals)
    return [f"O2: {job}/{attempt} arrived {n} times" for (job, attempt), n in counts.items() if n > 1]


def never_early(arrivals, journal):
    problems = []
    for arrival in arrivals:
        asked = journal.jobs.get(arrival.job)
        if asked and not asked.fuzzy and arrival.attempt == 1 and arrival.received_ms < asked.due_ms - 1:
            problems.append(f"O6: {arrival.job}/1 arrived {asked.due_ms - arrival.received_ms:.0f} ms early")
    return problems


def answers_hold(arrivals, journal):
    """`cancelled` means never; `too_late, attempt n` means that n was sent."""
    seen = {(arrival.job, arrival.attempt) for arrival in arrivals}
    jobs = {job for job, _ in seen}
    problems = [f"O3: {job} was answered cancelled, and arrived" for job, asked in journal.jobs.items() if asked.cancelled and job in jobs]
    return problems + [f"O3: {job} was answered too late with attempt {asked.too_late}, which did not arrive"
                       for job, asked in journal.jobs.items() if asked.too_late and (job, asked.too_late) not in seen]


def nothing_lost(table, arrivals, journal):
    """table: {id: row}. O1, and O3: the attempts that MySQL counts are exactly those that arrived."""
    problems = [f"O1: {job} was answered, and is not in MySQL" for job in journal.jobs if int(job) not in table]
    seen = {(int(arrival.job), arrival.attempt) for arrival in arrivals}
    for job, row in table.items():
        for attempt in range(1, row["attempt"] + 1):
            if (job, attempt) not in seen and attempt not in row["undeliverable"]:
                problems.append(f"O3: {job}/{attempt} was claimed, and never arrived")
        if row["state"] == "scheduled" and row["next_at"] < row["now"] - 5000 and not row["paused"]:
            problems.append(f"O3: {job} is overdue by {row['now'] - row['next_at']} ms")
    return problems + [f"O3: {job}/{attempt} arrived, and MySQL does not know it" for job, attempt in seen
                       if job not in table or attempt > table[job]["attempt"]]


def ledger_equals_topics(ledger, arrivals):
    """ledger: {(job, attempt): times recorded}."""
    seen = {(int(arrival.job), arrival.attempt) for arrival in arrivals}
    return ([f"O4: {job}/{attempt} is {n} times in the ledger" for (job, attempt), n in ledger.items() if n > 1] +
            [f"O4: {job}/{attempt} is in the ledger, not in its topic" for job, attempt in ledger if (job, attempt) not in seen] +
            [f"O4: {job}/{attempt} is in its topic, not in the ledger" for job, attempt in seen if (job, attempt) not in ledger])


class Checker:
    def __init__(self, stack, horizon_ms=3600000, installation="duetime"):
        self.stack = stack
        self.horizon_ms = horizon_ms
        self.installation = installation
        self.brokers = stack["DUETIME_KAFKA"]

    # ---- what is there ----

    def table(self, topics):
        """The rows of these topics by id, each with its undeliverable attempts."""
        connection = connect(self.stack)
        now = self._now(connection)
        table = {row["id"]: {**row, "undeliverable": set(), "now": now} for row in rows(
            connection, "SELECT j.id, j.topic, j.state, j.next_at, j.attempt, j.attempt_status, COALESCE(t.paused, 0) paused"
            " FROM jobs j LEFT JOIN topics t ON t.name = j.topic WHERE j.topic IN %s", tuple(topics))}
        for row in rows(connection, "SELECT job_id, attempt FROM attempts WHERE status = 'undeliverable'"):
            if row["job_id"] in table:
                table[row["job_id"]]["undeliverable"].add(row["attempt"])
        for row in table.values():
            if row["attempt_status"] == "undeliverable":
                row["undeliverable"].add(row["attempt"])
        return table

    @staticmethod
    def _now(connection):
        return int(rows(connection, "SELECT CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 AS SIGNED) now")[0]["now"])

    def arrivals(self, topics):
        return [arrival_of(message, message.timestamp()[1]) for topic in topics for message in read_all(self.brokers, topic)]

    def ledger(self, jobs):
        """How often each (job, attempt) of these jobs stands in the ledger."""
        records = Counter()
        for message in read_all(self.brokers, f"{self.installation}.ledger"):
            if message.key() == b"batch":
                records.update((entry[0], entry[1]) for entry in json.loads(message.value())["list"] if entry[0] in jobs)
        return records

    def _entries(self, shard):
        for endpoint in self.stack["DUETIME_REDIS"].split(","):
            host, port = endpoint.split(":")
            client = redis.Redis(host, int(port))
            name = f"{self.installation}:{{{shard}}}:due"
            if client.exists(name):
                return {int(member): int(score) for member, score in client.zrange(name, 0, -1, withscores=True)
                        if not member.startswith(b"!")}
        return {}

    def index_problems(self):
        """O5: for what is due within 9/10 of the horizon and not held back, the entries are exactly what MySQL says."""
        connection = connect(self.stack)
        problems = [f"O5: shard {row['shard']} has {row['inflight'][:80]} in flight" for row in
                    rows(connection, "SELECT shard, inflight FROM shards WHERE LENGTH(inflight) > 2")]
        shards = rows(connection, "SELECT shards FROM installation")[0]["shards"]
        limit = self._now(connection) + self.horizon_ms * 9 // 10
        expected = {row["id"]: row["next_at"] for row in rows(
            connection, "SELECT j.id, j.next_at FROM jobs j JOIN topics t ON t.name = j.topic WHERE j.next_at < %s"
            " AND j.state IN ('scheduled', 'dispatched') AND NOT t.paused", limit)}
        found = {}
        for shard in range(shards):
            for job, score in self._entries(shard).items():
                if shard_of(job, shards) != shard:
                    problems.append(f"O5: {job} is in the set of shard {shard}")
                found[job] = score
        problems += [f"O5: {job} is due {due} and not in Redis" for job, due in expected.items() if job not in found]
        problems += [f"O5: {job} is due {expected[job]}, Redis says {score}" for job, score in found.items()
                     if job in expected and expected[job] != score]
        live = {row["id"] for row in rows(connection, "SELECT id FROM jobs WHERE state IN ('scheduled', 'dispatched')")}
        return problems + [f"O5: Redis has {job}, which is finished or unknown" for job in found if job not in live]

    # ---- the verdict ----

    def check(self, journal, topics, settle_seconds=30):
        """All of O1-O6 after things are quiet; raises with everything that is wrong."""
        until(lambda: not self.index_problems(), settle_seconds,
              lambda: "quiet with Redis = MySQL; instead:\n" + "\n".join(self.index_problems()[:20]), every=0.3)
        arrivals = self.arrivals(topics)
        table = self.table(topics)
        jobs = set(table) | {int(arrival.job) for arrival in arrivals}
        problems = (at_most_once(arrivals) + never_early(arrivals, journal) + answers_hold(arrivals, journal) +
                    nothing_lost(table, arrivals, journal) + ledger_equals_topics(self.ledger(jobs), arrivals))
        if problems:
            raise AssertionError(f"{len(problems)} problems:\n" + "\n".join(problems[:40]))
        return arrivals


def lateness(arrivals, journal):
    """ms from the time asked for to the consumer's receipt, of first attempts, sorted."""
    return sorted(arrival.received_ms - journal.jobs[arrival.job].due_ms for arrival in arrivals
                  if arrival.attempt == 1 and arrival.job in journal.jobs)


def summary(values):
    if not values:
        return "no arrivals"
    at = lambda p: values[min(len(values) - 1, int(len(values) * p))]  # noqa: E731
    return f"lateness ms: p50 {at(.5):.0f}, p90 {at(.9):.0f}, p99 {at(.99):.0f}, worst {values[-1]:.0f} of {len(values)}"


def now_ms():
    return time.time() * 1000

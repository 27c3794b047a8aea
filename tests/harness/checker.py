"""The oracles O1-O7, from what was answered, what Kafka, MySQL and Redis say themselves. Shares no code with the product.

  O1 every id answered 2xx is in MySQL          O5 nothing in flight, Redis = MySQL within the horizon
  O2 each (job, attempt) at most once           O6 never before run_at
  O3 every due job sent, every attempt present  O7 (work goes on by itself: whoever waits for arrivals sees that)
  O4 ledger = topics, both ways                 O8 never over a topic's limit

And what was answered holds: "cancelled" is the end, "too late, attempt n" means n, a refused create made nothing, a further
attempt follows a failure only, no deadline passes early, what died has its letter.
"""
import json
import time
import zlib
from collections import Counter

import pymysql
import redis
from confluent_kafka import Consumer, TopicPartition

from .consumer import Seen, base_config
from .deliveries.account import nothing_in_hands, nothing_offered
from .index import entries_of
from .journal import Asked, Journal  # noqa: F401  (as they were always imported from here)
from .stack import PATIENCE, until

LATE_MS = 5000  # what is overdue for longer is lost
FAILED = ("failed", "timed_out", "snoozed", "gave_up", "undeliverable", "lost")  # a further attempt may follow


def connect(stack):
    return pymysql.connect(unix_socket=stack["DUETIME_MYSQL_SOCKET"], user=stack["DUETIME_MYSQL_USER"],
                           password=stack["DUETIME_MYSQL_PASSWORD"], database=stack["DUETIME_MYSQL_DATABASE"], autocommit=True,
                           cursorclass=pymysql.cursors.DictCursor)


def rows(connection, sql, *values):
    """Runs one statement, and returns its rows. A statement that MySQL ends because of a deadlock is run again, unless it is part of a transaction."""
    alone = not connection.server_status & pymysql.constants.SERVER_STATUS.SERVER_STATUS_IN_TRANS
    while True:
        try:
            with connection.cursor() as cursor:
                cursor.execute(sql, values or None)
                return cursor.fetchall()
        except pymysql.err.OperationalError as error:
            if error.args[0] != pymysql.constants.ER.LOCK_DEADLOCK or not alone:
                raise


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
        if asked and not asked.fuzzy and arrival.attempt == asked.due_attempt and arrival.received_ms < asked.due_ms - 1:
            problems.append(f"O6: {arrival.job}/{arrival.attempt} arrived {asked.due_ms - arrival.received_ms:.0f} ms early")
    return problems


def answers_hold(arrivals, journal, table=None):
    """`cancelled` means never again; `too_late, attempt n` means that n was sent, or recorded as undeliverable."""
    table = table or {}
    seen = {(arrival.job, arrival.attempt) for arrival in arrivals}
    problems = []
    for job, attempt in seen:
        asked = journal.jobs.get(job)
        if asked and asked.cancelled is not None and attempt > asked.cancelled:
            problems.append(f"O3: {job} was answered cancelled after {asked.cancelled} attempts, and attempt {attempt} arrived")
        if asked and asked.ended and attempt > asked.ended:
            problems.append(f"O3: {job} succeeded with attempt {asked.ended}, and attempt {attempt} arrived")
    for job, asked in journal.jobs.items():
        row = table.get(int(job))
        if asked.too_late and (job, asked.too_late) not in seen and asked.too_late not in (row or {}).get("undeliverable", ()):
            problems.append(f"O3: {job} was answered too late with attempt {asked.too_late}, which did not arrive")
        if row and asked.cancelled is not None and not asked.fuzzy and row["state"] != "cancelled":
            problems.append(f"O1: {job} was answered cancelled, and is {row['state']}")
        if row and asked.ended and not asked.fuzzy and row["state"] != "succeeded":
            problems.append(f"O1: {job} was answered succeeded, and is {row['state']}")
    return problems


def nothing_lost(table, arrivals, journal):
    """table: {id: row}. O1, and O3: the attempts that MySQL counts are exactly those that arrived."""
    problems = [f"O1: {job} was answered, and is not in MySQL" for job in journal.jobs if int(job) not in table]
    seen = {(int(arrival.job), arrival.attempt) for arrival in arrivals}
    for job, row in table.items():
        for attempt in range(1, row["attempt"] + 1):
            if (job, attempt) not in seen and attempt not in row["undeliverable"]:
                problems.append(f"O3: {job}/{attempt} was claimed, and never arrived")
        if row["state"] in ("scheduled", "dispatched") and row["next_at"] < row["now"] - LATE_MS and not row["paused"]:
            problems.append(f"O3: {job}, {row['state']}, is overdue by {row['now'] - row['next_at']} ms")
    return problems + [f"O3: {job}/{attempt} arrived, and MySQL does not know it" for job, attempt in seen
                       if job not in table or attempt > table[job]["attempt"]]


def only_what_was_asked_for(table, journal):
    """O1 the other way round: a row that no answer explains was asked for, once, and not refused."""
    problems = []
    counts = Counter((row["topic"], row["serial"]) for row in table.values() if row["serial"] is not None)
    problems += [f"O1: the request {serial} made {n} jobs" for (_, serial), n in counts.items() if n > 1]
    for job, row in table.items():
        if row["serial"] in journal.refused:
            problems.append(f"O1: {job} exists, and its create (serial {row['serial']}) was refused")
        elif str(job) not in journal.jobs and not journal.adopt(str(job), row["serial"]):
            problems.append(f"O1: {job} exists, and nobody asked for it")
    return problems


def attempts_follow_failures(table, journal):
    """A new attempt comes only from the retry policy, and no deadline passes before its time."""
    problems = []
    for job, row in table.items():
        asked = journal.jobs.get(str(job))
        if asked is None or asked.fuzzy:
            continue
        for past in row["past"]:
            if past["status"] not in FAILED:
                problems.append(f"O2: {job}/{past['attempt']} is {past['status']}, and another attempt followed")
        for past in [*row["past"], {"status": row["attempt_status"], "attempt": row["attempt"], "finished_at": row["finished_at"],
                                    "dispatched_at": row["dispatched_at"]}]:
            if past["status"] == "timed_out" and past["finished_at"] < past["dispatched_at"] + row["ack_timeout_ms"]:
                problems.append(f"O6: {job}/{past['attempt']} timed out {past['dispatched_at'] + row['ack_timeout_ms'] - past['finished_at']} ms early")
    return problems


def letters_left(table, letters):
    """letters: the ce_id of every message in the dead letter topic."""
    return [f"O3: {job} is dead after attempt {row['attempt']}, and no letter says so" for job, row in table.items()
            if row["state"] == "dead" and f"{job}/{row['attempt']}/dead" not in letters]


def ledger_equals_topics(ledger, arrivals):
    """ledger: {(job, attempt): times recorded}."""
    seen = {(int(arrival.job), arrival.attempt) for arrival in arrivals}
    return ([f"O4: {job}/{attempt} is {n} times in the ledger" for (job, attempt), n in ledger.items() if n > 1] +
            [f"O4: {job}/{attempt} is in the ledger, not in its topic" for job, attempt in ledger if (job, attempt) not in seen] +
            [f"O4: {job}/{attempt} is in its topic, not in the ledger" for job, attempt in seen if (job, attempt) not in ledger])


def caught_up(live, arrivals, seconds=3):
    """What live() gives once it has all of the arrivals, or does not get them."""
    wanted, end = {(arrival.job, arrival.attempt) for arrival in arrivals}, time.monotonic() + seconds * PATIENCE
    while True:
        seen = live()
        if wanted <= {(arrival.job, arrival.attempt) for arrival in seen} or time.monotonic() > end:
            return seen
        time.sleep(0.1)


def the_same_was_seen_live(live, arrivals):
    """Who read along saw exactly what a second reader finds from the beginning."""
    first, second = {(a.job, a.attempt) for a in live}, {(a.job, a.attempt) for a in arrivals}
    return ([f"O2: {job}/{attempt} was read as committed, and is not in its topic" for job, attempt in first - second] +
            [f"O3: {job}/{attempt} is in its topic, and who read along did not get it" for job, attempt in second - first])


def nothing_in_flight(leaders):
    """leaders: the rows of the shards whose list is not empty."""
    return [f"O5: shard {row['shard']} has {row['inflight'][:80]} in flight" for row in leaders]


def index_equals_table(sets, expected, live):
    """sets: the entries (job, time) of each shard, in order; expected: {job: next_at} of what must be there; live: what may be."""
    entries = [(shard, job, ms) for shard, of_shard in enumerate(sets) for job, ms in of_shard]
    found = {job: ms for _, job, ms in entries}
    return ([f"O5: {job} is in the set of shard {shard}" for shard, job, _ in entries if shard_of(job, len(sets)) != shard] +
            [f"O5: {job} is {n} times in Redis" for job, n in Counter(job for _, job, _ in entries).items() if n > 1] +
            [f"O5: {job} is due {due} and not in Redis" for job, due in expected.items() if job not in found] +
            [f"O5: {job} is due {expected[job]}, Redis says {ms}" for _, job, ms in entries if job in expected and expected[job] != ms] +
            [f"O5: Redis has {job}, which is finished or unknown" for job in found if job not in live])


class Tape:
    """Reads a topic with read_committed from its beginning, and later on from where it was."""

    def __init__(self, brokers, topic):
        self._brokers, self._topic = brokers, topic
        self._next = {}

    def read(self, seconds=60):
        """Every committed message between the last read and the end that the topic has now."""
        consumer = Consumer({**base_config(self._brokers), "enable.partition.eof": True})
        try:
            metadata = consumer.list_topics(self._topic, 60).topics[self._topic]
            if metadata.error is not None or not metadata.partitions:
                return
            still = set(metadata.partitions)
            consumer.assign([TopicPartition(self._topic, partition, self._next.get(partition, 0)) for partition in still])
            end = time.monotonic() + seconds * PATIENCE
            while still:
                if time.monotonic() > end:
                    raise AssertionError(f"{self._topic} was not read to its end within {seconds * PATIENCE} s")
                for message in consumer.consume(1000, 0.2):
                    if message.error() is None:
                        self._next[message.partition()] = message.offset() + 1
                        yield message
                    elif message.error().name() == "_PARTITION_EOF":
                        still.discard(message.partition())
                    else:
                        raise AssertionError(f"{self._topic}: {message.error()}")
        finally:
            consumer.close()


def batch_of(message):
    """The batch that a record of the ledger tells of; None: another kind of record, or not one of ours."""
    try:
        record = json.loads(message.value() or b"") if message.key() == b"batch" else None
    except ValueError:
        return None
    return record if isinstance(record, dict) and "installation" in record else None


class Ledger:
    """How often each (job, attempt) stands in the ledger; reads on with every look."""

    def __init__(self, brokers, installation="duetime"):
        self._tape = Tape(brokers, f"{installation}.ledger")
        self._counts = Counter()

    def of(self, jobs):
        for message in self._tape.read():
            if record := batch_of(message):
                self._counts.update(job << 12 | attempt for job, attempt, *_ in record["list"])
        return {(entry >> 12, entry & 4095): n for entry, n in self._counts.items() if entry >> 12 in jobs}


class Checker:
    """Of one stack. May be asked again and again: the ledger is read on, not anew."""

    def __init__(self, stack, horizon_ms=3600000, installation="duetime"):
        self.stack = stack
        self.horizon_ms = horizon_ms
        self.installation = installation
        self.brokers = stack["DUETIME_KAFKA"]
        self._ledger = Ledger(self.brokers, installation)
        self._letter_tape = Tape(self.brokers, f"{installation}.dead")
        self._letters = set()

    # ---- what is there ----

    def table(self, topics):
        """The rows of these topics by id, each with its serial, its earlier attempts and those that were undeliverable."""
        connection = connect(self.stack)
        now = self._now(connection)
        table = {row["id"]: {**row, "undeliverable": set(), "past": [], "now": now} for row in rows(
            connection, "SELECT j.id, j.topic, j.state, j.next_at, j.attempt, j.attempt_status, j.dispatched_at, j.finished_at,"
            " j.ack_timeout_ms, j.failures, NULLIF(j.http_status, 0) http_status, j.error_code, IF(j.payload LIKE '{%%', CAST(JSON_VALUE(CONVERT(j.payload USING utf8mb4), '$.serial') AS SIGNED), NULL) serial,"
            " COALESCE(t.paused, 0) paused FROM (SELECT topic, id, state, next_at, attempt, attempt_status, dispatched_at, finished_at, ack_timeout_ms,"
            " failures, http_status, error_code, payload FROM jobs WHERE topic IN %s UNION ALL SELECT topic, id, state, NULL, attempt, attempt_status, dispatched_at, finished_at, ack_timeout_ms,"
            " failures, http_status, error_code, payload FROM history WHERE topic IN %s) j LEFT JOIN topics t ON t.name = j.topic", tuple(topics), tuple(topics))}
        for past in rows(connection, "SELECT a.job_id, a.attempt, a.status, a.dispatched_at, a.finished_at, a.http_status, a.error_code FROM attempts a"
                         " JOIN jobs j ON j.id = a.job_id WHERE j.topic IN %s UNION ALL SELECT a.job_id, a.attempt, a.status, a.dispatched_at, a.finished_at, a.http_status, a.error_code"
                         " FROM history_attempts a JOIN history h ON h.id = a.job_id AND h.part = a.part WHERE h.topic IN %s",
                         tuple(topics), tuple(topics)):
            table[past["job_id"]]["past"].append(past)
            if past["status"] == "undeliverable":
                table[past["job_id"]]["undeliverable"].add(past["attempt"])
        for row in table.values():
            if row["attempt_status"] == "undeliverable":
                row["undeliverable"].add(row["attempt"])
        return table

    @staticmethod
    def _now(connection):
        return int(rows(connection, "SELECT CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 AS SIGNED) now")[0]["now"])

    def arrivals(self, topics):
        """What the topics hold, by the time that the messages themselves carry."""
        if not self.brokers:
            return []
        return [Seen(headers.get("ce_jobid", b"").decode(), int(headers.get("ce_attempt", 0)), message.timestamp()[1])
                for topic in topics for message in Tape(self.brokers, topic).read() for headers in [dict(message.headers() or [])]]

    def ledger(self, jobs):
        """How often each (job, attempt) of these jobs stands in the ledger."""
        if not self.brokers:
            return {}
        return self._ledger.of(jobs)

    def letters(self):
        self._letters.update(dict(message.headers() or []).get("ce_id", b"").decode() for message in self._letter_tape.read())
        return self._letters

    def _entries(self, shard):
        """(id, time) of all entries of the shard's set where its leader has it: on an endpoint that it has left, entries are nobody's."""
        home = rows(connect(self.stack), "SELECT index_at FROM shards WHERE shard = %s", shard)
        if not home or not home[0]["index_at"]:
            return []
        host, port = home[0]["index_at"].decode().split(":")
        return entries_of(redis.Redis(host, int(port)), f"{self.installation}:{{{shard}}}:due")

    def _has_index(self, connection, shards):
        """Some leader says that its set is on an endpoint; an installation may do without Redis."""
        return any(row["index_at"] for row in rows(connection, "SELECT index_at FROM shards WHERE shard < %s", shards))

    def unrest(self, topics):
        """What must have come to an end by itself before anything is judged."""
        return self.index_problems() + self.untold() + self.in_hands(topics)

    def in_hands(self, topics):
        """Callbacks of the topics that nobody has ended, and offers that no pop will take: a walk takes those away."""
        connection = connect(self.stack)
        return (nothing_in_hands(rows(connection, "SELECT h.job_id, h.attempt, h.owner FROM hands h JOIN jobs j ON j.id = h.job_id"
                                      " WHERE j.topic IN %s LIMIT 20", tuple(topics))) +
                nothing_offered(rows(connection, "SELECT q.job_id FROM pop_queue q LEFT JOIN jobs j ON j.id = q.job_id"
                                     " WHERE q.topic IN %s AND (j.state IS NULL OR j.state <> 'scheduled') LIMIT 20", tuple(topics))))

    def untold(self):
        """Letters that wait. Whose wake-up was lost with a Redis is found by the next look at all outboxes, seconds later."""
        return [f"O3: the letter of {row['job_id']}/{row['attempt']} waits in the outbox of shard {row['sender']}" for row in
                rows(connect(self.stack), "SELECT sender, job_id, attempt FROM messages WHERE kind = 'dead' ORDER BY id LIMIT 20")]

    def index_problems(self):
        """O5: for what is due within 9/10 of the horizon and not held back, the entries are exactly what MySQL says, where there is an index."""
        connection = connect(self.stack)
        leaders = rows(connection, "SELECT shard, inflight FROM shards WHERE LENGTH(inflight) > 2")
        shards = rows(connection, "SELECT shards FROM installation")[0]["shards"]
        if not self._has_index(connection, shards):
            return nothing_in_flight(leaders)
        limit = self._now(connection) + self.horizon_ms * 9 // 10
        expected = {row["id"]: row["next_at"] for row in rows(
            connection, "SELECT j.id, j.next_at FROM jobs j JOIN topics t ON t.name = j.topic WHERE j.due_band < 2 AND j.next_at < %s"
            " AND j.state IN ('scheduled', 'dispatched') AND NOT t.paused", limit)}
        sets = [self._entries(shard) for shard in range(shards)]
        live = {row["id"] for row in rows(connection, "SELECT id FROM jobs WHERE due_band < 2 AND state IN ('scheduled', 'dispatched')")}
        return nothing_in_flight(leaders) + index_equals_table(sets, expected, live)

    # ---- the verdict ----

    def check(self, journal, topics, settle_seconds=30, live=None, skip=(), ways=None):
        """All of O1-O6 after things are quiet; raises with everything that is wrong. `live`: gives what a consumer that read along has
        received, by its own clock, which is better than the messages' where a producer's clock may be wrong; it may be a moment behind.
        `skip`: oracles ("O4", or "letters") that what was done to the servers made meaningless; `ways`: what saw callbacks and pops."""
        until(lambda: not self.unrest(topics),
              lambda: "quiet with Redis = MySQL; instead:\n" + "\n".join(self.unrest(topics)[:20]), every=0.3, seconds=settle_seconds)
        arrivals = self.arrivals(topics)
        seen = live and caught_up(live, arrivals)
        problems = [problem for problem in self.problems(journal, topics, arrivals, seen, ways, "letters" not in skip) if not problem.startswith(tuple(skip))]
        if problems:
            raise AssertionError(f"{len(problems)} problems:\n" + "\n".join(problems[:40]))
        return arrivals

    def problems(self, journal, topics, arrivals, live=None, ways=None, letters=True):
        table = self.table(topics)
        jobs = set(table) | {int(arrival.job) for arrival in arrivals}
        problems = only_what_was_asked_for(table, journal) if journal.serials else []
        problems += ledger_equals_topics(self.ledger(jobs), arrivals) + attempts_follow_failures(table, journal)
        problems += letters_left(table, self.letters()) if letters and self.brokers else []
        other = ways.seen() if ways else []
        if ways:
            ways.forgive(table, journal)
            problems += ways.problems(table, journal) + never_early(other, journal)
        everything = arrivals + other
        problems += at_most_once(everything) + nothing_lost(table, everything, journal) + answers_hold(everything, journal, table)
        if live is None:
            return problems + never_early(arrivals, journal)
        return problems + the_same_was_seen_live(live, arrivals) + at_most_once(live) + never_early(live, journal)


def lateness(arrivals, journal):
    """ms from the time asked for to the consumer's receipt, of first attempts, sorted."""
    return sorted(arrival.received_ms - asked.due_ms for arrival in arrivals for asked in [journal.jobs.get(arrival.job)]
                  if asked and arrival.attempt == 1 and not asked.fuzzy)


def summary(values):
    if not values:
        return "no arrivals"
    at = lambda p: values[min(len(values) - 1, int(len(values) * p))]  # noqa: E731
    return f"lateness ms: p50 {at(.5):.0f}, p90 {at(.9):.0f}, p99 {at(.99):.0f}, worst {values[-1]:.0f} of {len(values)}"


def now_ms():
    return time.time() * 1000

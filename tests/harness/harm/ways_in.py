"""Every other way in, beside a load: rows of the inbox, messages, schedules and operations, each with a client that keeps a journal of
what it asked for and of what it was answered. What has become of it is compared at the end:

  inbox       each committed row has had one effect, and of a transaction whose COMMIT had no answer all rows have, or none has
  messages    each message that Kafka took has had one effect, in the order of its key, and none was refused
  schedules   each fire has one job, which was sent once
  operations  each has changed each job of its set once

Jobs of the first two are due in a day, so that their versions count what was done to them, or at once, and then are sent once. Topics
of this load are its own; nobody reports results, and no acknowledgement is due before the end.
"""
import datetime
import http.client
import json
import random
import threading
from collections import Counter

import pymysql
from confluent_kafka import Producer

from ..checker import Tape, connect, now_ms, rows
from ..commands import Messages, header
from ..rest import Rest
from ..stack import until

DAY_MS = 86400000
HOUR_MS = 3600000
SOON_MS = 300
SET = 1000       # jobs that operations move
TOLD_SECONDS = 150  # a message that Kafka has not taken by then counts as not sent


def insistent(ask, seconds=120):
    """The first answer that is not a 5xx, however often it takes."""
    def once():
        try:
            answer = ask()
        except (OSError, http.client.HTTPException):
            return None
        return answer if answer.status < 500 else None
    return until(once, "an API answers", every=0.2, seconds=seconds)


class Wanted:
    """What each key may have come to: (state, version) or None for no job, and the keys that are due at once."""

    def __init__(self):
        self.lock, self.of, self.soon, self.unsure = threading.Lock(), {}, set(), 0

    def put(self, key, *allowed, soon=False):
        with self.lock:
            self.of[key] = set(allowed)
            self.unsure += len(allowed) > 1
            if soon:
                self.soon.add(key)


def story(chance):
    """(number of changes, whether it is cancelled, whether it is due at once instead)."""
    if chance.random() < 0.3:
        return 0, False, True
    return chance.randrange(4), chance.random() < 0.3, False


def end_of(changes, cancelled):
    return "cancelled" if cancelled else "scheduled", 1 + changes + cancelled


class Inbox:
    """Transactions with a job and its changes, or with the job alone and then another with its changes; some are rolled back."""

    def __init__(self, stack, topic, wanted, counts, end):
        self._stack, self._topic, self._wanted, self._counts, self._end = stack, topic, wanted, counts, end

    def write(self, chance, name):
        connection, n = None, 0
        while not self._end.wait(0.02 + chance.random() * 0.05):
            n += 1
            try:
                connection = connection or connect(self._stack)
                self._one(connection, chance, f"{name}-{n}")
            except pymysql.err.MySQLError:
                connection = None

    def _one(self, connection, chance, key):
        changes, cancelled, soon = story(chance)
        first = [("create", SOON_MS if soon else DAY_MS)]
        rest = [("change", (n + 2) * DAY_MS) for n in range(changes)] + ([("cancel", None)] if cancelled else [])
        if chance.random() < 0.5:
            first, rest = first + rest, []
        if chance.random() < 0.1:
            self._wanted.put(key, None)
            self._transaction(connection, key, first, "ROLLBACK")
            return
        before, after = None, end_of(0, False) if rest else end_of(changes, cancelled)
        self._commit(connection, key, first, before, after, soon)
        if rest:
            self._commit(connection, key, rest, after, end_of(changes, cancelled), False)

    def _commit(self, connection, key, actions, before, after, soon):
        self._wanted.put(key, before, after, soon=soon)  # until it is answered
        try:
            self._transaction(connection, key, actions, "COMMIT")
        except _Before:
            self._wanted.put(key, before, soon=soon)
            raise
        self._wanted.put(key, after, soon=soon)
        self._counts["rows of the inbox"] += len(actions)

    def _transaction(self, connection, key, actions, last):
        with connection.cursor() as cursor:
            try:
                cursor.execute("BEGIN")
                for action, delay in actions:
                    cursor.execute("INSERT INTO job_inbox (action, topic, job_key, delay_ms, payload) VALUES (%s, %s, %s, %s, %s)",
                                   (action, self._topic, key, delay, "1" if action == "create" else None))
            except pymysql.err.MySQLError as failure:
                raise _Before(*failure.args) from failure
            cursor.execute(last)


class _Before(pymysql.err.MySQLError):
    """The transaction failed before its COMMIT was sent."""


class Sender:
    """The same by message: creates, changes and cancels of a key lie in one partition."""

    def __init__(self, stack, topic, wanted, counts, end):
        self._topic, self._wanted, self._counts, self._end = topic, wanted, counts, end
        self._commands, self._lost = "duetime.commands", set()
        self._producer = Producer({"bootstrap.servers": stack["DUETIME_KAFKA"], "enable.idempotence": True, "linger.ms": 5,
                                   "message.timeout.ms": TOLD_SECONDS * 1000, "topic.metadata.refresh.interval.ms": 1000})

    def write(self, chance, name):
        n = 0
        while not self._end.wait(0.01 + chance.random() * 0.03):
            n += 1
            self._one(chance, f"{name}-{n}")
            self._producer.poll(0)
        left = self._producer.flush(TOLD_SECONDS)
        assert left == 0, f"{left} commands were neither taken nor refused by Kafka"
        for key in self._lost:  # whether they lie in the topic, nobody knows
            self._wanted.of.pop(key, None)
        self._counts["keys of messages in doubt"] += len(self._lost)

    def _one(self, chance, key):
        changes, cancelled, soon = story(chance)
        self._send(key, {"action": "create", "delay": SOON_MS if soon else DAY_MS, "payload": 1})
        for n in range(changes):
            self._send(key, {"action": "change", "delay": (n + 2) * DAY_MS})
        if cancelled:
            self._send(key, {"action": "cancel"})
        self._wanted.put(key, end_of(changes, cancelled), soon=soon)
        self._counts["messages"] += 1 + changes + cancelled

    def _send(self, key, command):
        value = json.dumps({**command, "topic": self._topic, "key": key})
        self._producer.produce(self._commands, value=value, key=key, on_delivery=lambda error, _, key=key: error and self._lost.add(key))


class Operations:
    """Moves a set of jobs by an hour, again and again, one operation after the other."""

    def __init__(self, urls, topic, counts, end):
        self._rests, self._topic, self._counts, self._end = [Rest(url, timeout=8) for url in urls], topic, counts, end

    def make(self):
        lines = "".join(json.dumps({"topic": self._topic, "key": f"k{n:05}", "delay": "P9D", "payload": n}) + "\n" for n in range(SET))
        answer = self._rests[0].post("/v1/jobs:batch", lines, content_type="application/x-ndjson")
        assert answer.body.count(b'"status":201') == SET, answer

    def write(self, chance, _name):
        while not self._end.wait(0.2):
            rest = chance.choice(self._rests)
            try:
                answer = rest.post("/v1/jobs:reschedule", {"filter": {"topic": self._topic}, "shift": "PT1H", "wait": 0,
                                                          **({"rate": f"{SET // 2}/s"} if chance.random() < 0.3 else {})})
            except (OSError, http.client.HTTPException):
                continue  # whether it was begun, MySQL knows
            if answer.status in (200, 202):
                self._counts["operations"] += 1
                self._await(rest, answer.headers.get("Location") or f"/v1/operations/{answer.json['id']}")

    def _await(self, rest, path):
        while not self._end.wait(0.2):
            try:
                answer = rest.get(path)
            except (OSError, http.client.HTTPException):
                continue
            if answer.status == 200 and answer.json["state"] != "running":
                return


class WaysIn:
    """All of them. `end` is called while the stack is whole; it checks everything, and gives the topics that jobs were sent to."""

    def __init__(self, stack, name, seed, schedules=3):
        self.stack, self.seed, self.counts, self._end = stack, seed, Counter(), threading.Event()
        self.urls = [stack["DUETIME_URL_API1"], stack["DUETIME_URL_API2"]]
        self.inbox, self.messages, self.set = f"inbox-{name}", f"messages-{name}", f"set-{name}"
        self.fires = [f"fires-{n}-{name}" for n in range(schedules)]
        self.of_inbox, self.of_messages = Wanted(), Wanted()
        self._threads, self._failures, self._rest = [], [], Rest(self.urls[0], timeout=8)

    def begin(self):
        for topic in (self.inbox, self.messages, self.set, *self.fires):
            answer = insistent(lambda topic=topic: self._rest.put(f"/v1/topics/{topic}", {"ack_timeout": "P1D"}))
            assert answer.status in (200, 201), answer
        operations = Operations(self.urls, self.set, self.counts, self._end)
        operations.make()
        self.from_ms = int(now_ms() // 1000 + 3) * 1000
        at = datetime.datetime.fromtimestamp(self.from_ms / 1000, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        for name in self.fires:
            body = {"topic": name, "every": "PT1S", "starts_at": at, "catch_up": "PT30M", "payload": 1}
            assert insistent(lambda name=name, body=body: self._rest.put(f"/v1/schedules/{name}", body)).status in (200, 201), name
        for n in range(2):
            self._party(Inbox(self.stack, self.inbox, self.of_inbox, self.counts, self._end).write, f"inbox{n}")
            self._party(Sender(self.stack, self.messages, self.of_messages, self.counts, self._end).write, f"message{n}")
        self._party(operations.write, "operations")
        return self

    def _party(self, work, name):
        def run():
            try:
                work(random.Random(f"{self.seed}/{name}"), name)
            except BaseException as failure:  # noqa: BLE001
                self._failures.append(failure)
                raise
        thread = threading.Thread(target=run, name=name, daemon=True)
        thread.start()
        self._threads.append(thread)

    def stop(self):
        """Nothing more is asked for."""
        self._end.set()

    def end(self):
        self.stop()
        for thread in self._threads:
            thread.join(TOLD_SECONDS + 30)
            assert not thread.is_alive(), thread.name
        if self._failures:
            raise self._failures[0]
        connection = connect(self.stack)
        until_ms = self._no_more_fires(connection)
        self._empty(connection)
        problems = self._of_keys(connection, self.inbox, self.of_inbox) + self._of_keys(connection, self.messages, self.of_messages)
        problems += self._of_rejected() + self._of_operations(connection) + self._of_fires(connection, until_ms)
        problems += self._of_sent(connection)
        assert not problems, "\n".join(problems[:30])
        return [self.inbox, self.messages, *self.fires]

    # ---- the end of it ----

    def _no_more_fires(self, connection):
        until_ms = int(now_ms() // 1000) * 1000 - 1000
        until(lambda: all(self._made(connection, name, until_ms) for name in self.fires),
              lambda: {name: len(self._fires_of(connection, name)) for name in self.fires}, seconds=120)
        for name in self.fires:
            assert insistent(lambda name=name: self._rest.delete(f"/v1/schedules/{name}?cancel=true")).status in (200, 204, 404), name
        return until_ms

    def _made(self, connection, name, until_ms):
        return max(self._fires_of(connection, name), default=0) >= until_ms - 1000

    @staticmethod
    def _fires_of(connection, name):
        return [int(row["job_key"].decode().rpartition("@")[2]) for row in rows(connection, "SELECT job_key FROM jobs WHERE topic = %s", name)]

    def _empty(self, connection):
        """Everything that was asked for has been done."""
        until(lambda: not rows(connection, "SELECT 1 FROM job_inbox WHERE topic = %s LIMIT 1", self.inbox),
              lambda: rows(connection, "SELECT id, job_key, action, error FROM job_inbox WHERE topic = %s LIMIT 9", self.inbox), seconds=120)
        until(lambda: not rows(connection, "SELECT 1 FROM operations WHERE state = 'running' AND topic_from = %s LIMIT 1", self.set),
              lambda: rows(connection, "SELECT * FROM operations WHERE topic_from = %s AND state = 'running'", self.set), seconds=120)
        until(lambda: not self._missing(connection), lambda: self._missing(connection)[:9], seconds=120)
        until(lambda: not self._unsent(connection), lambda: self._unsent(connection), seconds=120)

    def _missing(self, connection):
        found = self._found(connection, self.messages)
        return [key for key, allowed in self.of_messages.of.items() if not self._is(found.get(key), allowed, key in self.of_messages.soon)]

    def _unsent(self, connection):
        return rows(connection, "SELECT id, topic, state FROM jobs WHERE topic IN %s AND state = 'scheduled' AND run_at < %s AND attempt = 0 LIMIT 9",
                    (self.inbox, self.messages, *self.fires), now_ms() - 1000)

    @staticmethod
    def _found(connection, topic):
        found = {}
        for row in rows(connection, "SELECT job_key, state, version FROM jobs WHERE topic = %s", topic):
            found.setdefault(row["job_key"].decode(), []).append((row["state"], row["version"]))
        return found

    @staticmethod
    def _is(found, allowed, soon):
        if not found:
            return None in allowed
        if len(found) > 1:
            return False
        return found[0][0] == "dispatched" if soon else found[0] in allowed

    # ---- what is wrong ----

    def _of_keys(self, connection, topic, wanted):
        found = self._found(connection, topic)
        self.counts[f"jobs of {topic.partition('-')[0]}"] += len(found)
        self.counts["transactions in doubt"] += wanted.unsure and sum(len(allowed) > 1 for allowed in wanted.of.values())
        return [f"{topic}: {key} is {found.get(key)}, and may be {allowed}" for key, allowed in wanted.of.items()
                if not self._is(found.get(key), allowed, key in wanted.soon)]

    def _of_rejected(self):
        refused = Messages(self.stack["DUETIME_KAFKA"], "duetime.commands.rejected", beginning=True)
        for _ in range(10):
            refused.more(0.2)
        mine = [message for message in refused.seen if json.loads(message.value() or b"{}").get("topic") == self.messages]
        refused.close()
        return [f"refused: {message.value()} {header(message, 'problem')}" for message in mine]

    def _of_operations(self, connection):
        done = rows(connection, "SELECT state, changed, refused FROM operations WHERE topic_from = %s", self.set)
        moved = rows(connection, "SELECT version, ROUND((run_at - created_at - %s) / %s) hours, COUNT(*) n FROM jobs WHERE topic = %s GROUP BY 1, 2", 9 * DAY_MS, HOUR_MS, self.set)
        self.counts["jobs moved by operations"] += sum(row["changed"] for row in done)
        problems = [f"an operation: {row}" for row in done if (row["state"], row["changed"], row["refused"]) != ("done", SET, 0)]
        wanted = [(len(done) + 1, len(done), SET)]
        found = [(row["version"], row["hours"], row["n"]) for row in moved]
        return problems + ([f"{len(done)} operations left (version, hours, jobs) {found} instead of {wanted}"] if found != wanted else [])

    def _of_fires(self, connection, until_ms):
        problems = []
        for name in self.fires:
            made = Counter(at for at in self._fires_of(connection, name) if at < until_ms)
            self.counts["fires"] += len(made)
            wanted = set(range(self.from_ms, until_ms, 1000))
            problems += [f"{name}: {n} jobs of the fire {at}" for at, n in made.items() if n > 1]
            problems += [f"{name}: no job of the fires {sorted(wanted - set(made))[:5]}"] if wanted - set(made) else []
            problems += [f"{name}: nobody asked for the fires {sorted(set(made) - wanted)[:5]}"] if set(made) - wanted else []
        return problems

    def _of_sent(self, connection):
        """What MySQL says was sent lies in Kafka, once, and nothing else does."""
        problems = []
        for topic in (self.inbox, self.messages, *self.fires):
            seen = Counter()
            for message in Tape(self.stack["DUETIME_KAFKA"], topic).read(120):
                headers = dict(message.headers() or [])
                seen[int(headers["ce_jobid"]), int(headers["ce_attempt"])] += 1
            sent = {(row["id"], n) for row in rows(connection, "SELECT id, attempt FROM jobs WHERE topic = %s AND attempt > 0", topic) for n in range(1, row["attempt"] + 1)}
            self.counts["attempts sent"] += len(seen)
            problems += [f"{topic}: {one} came {n} times" for one, n in seen.items() if n > 1]
            problems += [f"{topic}: {one} is in one of MySQL and Kafka only" for one in list(sent ^ set(seen))[:5]]
        return problems

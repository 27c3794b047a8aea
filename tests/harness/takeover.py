"""How long a shard stands still: after kill -9 or SIGTERM of its leader, and after Redis was emptied.

A steady stream of jobs is due, in every shard one each few milliseconds, so that the first arrival of a shard after the fault
tells when its new leader dispatched first. Arrivals are what a `read_committed` consumer gets, timed on receipt.
"""
import re
import signal
import threading
import time

from confluent_kafka import Consumer

from .checker import Tape, batch_of, connect, rows, shard_of
from .consumer import base_config
from .journal import Journal
from .rest import Rest
from .servers import redis_clients
from . import index
from .soak import flush_redis, rfc3339
from .stack import changed, until

SOON = 300   # ms in which what a leader sent before it was harmed has arrived
AHEAD = 3.0  # seconds that the stream is written ahead of its time


class Stream(threading.Thread):
    """Writes jobs that are due one after the other, `rate` a second, by NDJSON, always a few seconds ahead."""

    def __init__(self, url, topic, rate):
        super().__init__(daemon=True)
        self.rest, self.topic, self.rate, self.journal = Rest(url), topic, rate, Journal()
        self._end = threading.Event()
        self.failure = None
        self.start()

    def run(self):
        try:
            due = time.time() + AHEAD
            while not self._end.is_set():
                times = [int((due + n / self.rate) * 1000) for n in range(self.rate // 2)]
                lines = self.rest.batch([{"topic": self.topic, "run_at": rfc3339(ms), "ack_timeout": "P1D"} for ms in times])
                for ms, line in zip(times, lines):
                    self.journal.made(line["id"], ms)
                due += 0.5
                self._end.wait(max(0, due - AHEAD - time.time()))
        except Exception as failure:
            self.failure = failure
            raise

    def end(self):
        self._end.set()
        self.join(30)
        if self.failure:
            raise self.failure


class Watcher(threading.Thread):
    """(time of receipt in ms, shard, job) of every arrival, as soon as it is there."""

    def __init__(self, brokers, topic, shards):
        super().__init__(daemon=True)
        self._consumer = Consumer(base_config(brokers))
        self._topic, self._shards = topic, shards
        self._changed = threading.Condition()
        self.seen = []
        self._end = threading.Event()
        self.start()

    def run(self):
        self._consumer.subscribe([self._topic])
        while not self._end.is_set():
            message = self._consumer.poll(0.2)
            if message is None or message.error() is not None:
                continue
            job = next(value.decode() for name, value in message.headers() if name == "ce_jobid")
            with self._changed:
                self.seen.append((time.time() * 1000, shard_of(int(job), self._shards), job))
                self._changed.notify_all()
        self._consumer.close()

    def first_after(self, ms, shard, seconds):
        """When the first job of the shard came after that time."""
        with self._changed:
            return changed(self._changed, lambda: next((at for at, of, _ in self.seen[-5000:] if of == shard and at > ms), None),
                           f"a message of shard {shard} arrives", seconds)

    def end(self):
        self._end.set()
        self.join(10)


def leaders(stack):
    """{shard: pid of its leader, None without one}, by MySQL: the API's view is a second old at times."""
    found = rows(connect(stack), "SELECT shard, owner FROM shards")
    return {row["shard"]: int(owner.rsplit(":", 1)[1]) if (owner := text_of(row["owner"])) else None for row in found}


def text_of(value):
    return value.decode() if isinstance(value, bytes) else value or ""


class Takeovers:
    def __init__(self, stack, rate=400, topic="takeover", say=print):
        self.stack, self.say = stack, say
        self.dispatchers = [name[12:].lower() for name in sorted(stack.env) if re.fullmatch(r"DUETIME_PID_DISPATCHER\d+", name)]
        self.rest = Rest(stack["DUETIME_URL"])
        self.shards = len(leaders(stack))
        self.stream = Stream(stack["DUETIME_URL"], topic, rate)
        self.clients = redis_clients(stack)
        self.watcher = Watcher(stack["DUETIME_KAFKA"], topic, self.shards)
        self.topic = topic

    def steady(self):
        """Every dispatcher leads its share, and every shard's jobs arrive without delay."""
        want = sorted(self.shards // len(self.dispatchers) + (n < self.shards % len(self.dispatchers)) for n in range(len(self.dispatchers)))

        def balanced():
            pids = list(leaders(self.stack).values())
            return None not in pids and sorted(pids.count(pid) for pid in set(pids)) == want
        until(balanced, lambda: f"shares: {leaders(self.stack)}")
        now = time.time() * 1000
        for shard in range(self.shards):
            self.watcher.first_after(now, shard, 20)

    def _led_by(self, part):
        pid = self.stack.pid(part)
        return [shard for shard, leader in leaders(self.stack).items() if leader == pid]

    def _each(self, times, what, harm):
        harmed = []  # (time, shard)
        for n in range(times):
            victim = self.dispatchers[n % len(self.dispatchers)]
            self.steady()
            led, at = self._led_by(victim), time.time() * 1000
            harm(victim)
            until(lambda: not self.stack.running(victim), f"{victim} ends")  # noqa: B023
            for shard in led:
                self.watcher.first_after(at + SOON, shard, 30)
            self.stack.start(victim)
            harmed += [(at, shard) for shard in led]
            self.say(f"  {what} {n + 1}: {victim}")
        self.steady()
        return self._first_dispatches(harmed)

    def _first_dispatches(self, harmed):
        """ms from each (time, shard) to the first arrival that a later leader sent: the ledger knows who sent what."""
        seen, epochs = list(self.watcher.seen), {}
        for message in Tape(self.stack["DUETIME_KAFKA"], "duetime.ledger").read():
            if record := batch_of(message):
                epochs.update((str(entry[0]), record["epoch"]) for entry in record["list"])
        sent = {shard: [] for shard in range(self.shards)}
        for ms, shard, job in seen:
            sent[shard].append((ms, epochs[job]))
        found = []
        for at, shard in harmed:
            before = max(epoch for ms, epoch in sent[shard] if ms <= at)
            found.append(min(ms for ms, epoch in sent[shard] if epoch > before) - at)
            self.say(f"  shard {shard}, {rfc3339(int(at))}: {found[-1]:.0f} ms to the first dispatch after epoch {before}")
        return sorted(found)

    def kills(self, times):
        """kill -9: ms from the kill to the first dispatch by the next leader; a figure for each shard and kill."""
        return self._each(times, "kill -9", self.stack.kill)

    def stops(self, times):
        """SIGTERM: ms from the signal to the first dispatch by the next leader; a figure for each shard and signal."""
        return self._each(times, "SIGTERM", lambda part: self.stack.signal(part, signal.SIGTERM))

    def flush(self, pending):
        """Redis is emptied with so many jobs within the horizon: (ms to the first dispatch in each shard, s until the index is whole)."""
        self.fill(pending)
        return self.emptied(pending)

    def emptied(self, pending):
        """The same of jobs that are there already."""
        self.steady()
        at = time.time() * 1000
        flush_redis(self.stack)
        first = [self.watcher.first_after(at + 1, shard, 60) - at for shard in range(self.shards)]
        return sorted(first), self._whole_after(at / 1000, pending)

    def come_to_rest(self):
        """No job of the stream comes any more."""
        self.stream.end()
        until(lambda: {job for _, _, job in self.watcher.seen} >= set(self.stream.journal.jobs), "every job of the stream arrived")

    def emptied_at_rest(self, pending):
        """s until the index is whole, with nothing due."""
        at = time.time()
        flush_redis(self.stack)
        return self._whole_after(at, pending)

    def _whole_after(self, at, pending):
        until(self._whole, "the sets are whole", every=0.02, seconds=180)
        seconds = time.time() - at
        assert self._indexed() >= pending, f"{self._indexed()} of {pending} in Redis"
        return seconds

    def fill(self, pending):
        start = int(time.time() * 1000) + 30 * 60 * 1000
        self.say(f"  {pending} jobs due between 30 and 50 minutes from now")
        for first in range(0, pending, 20000):
            body = "".join(f'{{"topic":"{self.topic}-later","run_at":"{rfc3339(start + n * 1200000 // pending)}"}}\n'
                           for n in range(first, min(pending, first + 20000)))
            answer = self.rest.post("/v1/jobs:batch", body, content_type="application/x-ndjson")
            assert answer.status == 200 and b'"status":4' not in answer.body and b'"status":5' not in answer.body, answer
        until(lambda: self._indexed() >= pending, lambda: f"{self._indexed()} of {pending} in Redis", every=0.5, seconds=180)

    def _whole(self):
        return all(any(index.is_whole(client, due_set(shard)) for client in self.clients) for shard in range(self.shards))

    def _indexed(self):
        return sum(index.count(client, due_set(shard)) for client in self.clients for shard in range(self.shards))

    def end(self):
        try:
            self.come_to_rest()
        finally:
            self.watcher.end()
        jobs = [job for _, _, job in self.watcher.seen]
        assert len(jobs) == len(set(jobs)), "a job arrived twice"
        assert rows(connect(self.stack), "SELECT COUNT(*) n FROM shards WHERE halted IS NOT NULL")[0]["n"] == 0
        return len(jobs)


def due_set(shard):
    return f"duetime:{{{shard}}}:due"


def percentile(values, share):
    return values[min(len(values) - 1, int(len(values) * share))]

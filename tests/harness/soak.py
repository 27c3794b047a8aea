"""Many jobs, dispatchers that are killed, and the account afterwards. Used by tests/soak and by the integration suite."""
import datetime
import random
import re
import threading
import time

from .checker import Checker, Journal, connect, lateness, now_ms, rows, summary
from .consumer import TestConsumer
from .rest import Rest
from .servers import redis_clients
from .stack import until

TOOK_OVER = re.compile(r'^time=(\S+) .*msg="took over" shard=(\d+) epoch=(\d+) settled=(\d+) in_flight=(\d+)', re.M)
LEAD = 3000  # the first job is due so long after the first is written


def write_jobs(stack, journal, topic, count, seconds, seed, chunk=1000):
    """`count` jobs spread evenly over `seconds`, over both APIs, by NDJSON; the time of the first."""
    chance = random.Random(seed)
    clients = [Rest(stack[name]) for name in sorted(stack.env) if re.fullmatch(r"DUETIME_URL_API\d+", name)]
    start = now_ms() + LEAD
    for first in range(0, count, chunk):
        due = [int(start + (first + i) * seconds * 1000 / count) for i in range(min(chunk, count - first))]
        lines = chance.choice(clients).batch([{"topic": topic, "run_at": rfc3339(ms), "payload": {"n": first + i}} for i, ms in enumerate(due)])
        for ms, line in zip(due, lines):
            assert line["status"] == 201, line
            journal.made(line["id"], ms)
    return start


def rfc3339(ms):
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(ms // 1000)) + f".{ms % 1000:03d}Z"


def takeovers(stack, dispatchers, shards=False):
    """(time in s, jobs in flight) of every takeover, from the logs; with `shards` (time, shard)."""
    found = [match for part in dispatchers for match in TOOK_OVER.finditer(stack.log(part))]
    return sorted((datetime.datetime.fromisoformat(match[1].replace("Z", "+00:00")).timestamp(), int(match[2]) if shards else int(match[4]) + int(match[5])) for match in found)


def kills_that_hit(kill_times, found):
    """How many kills left a batch between its claim and its settling: the next leader of a shard found it in flight."""
    hit = {max((kill for kill in kill_times if kill <= at), default=None) for at, in_flight in found if in_flight > 0}
    return len(hit - {None})


class Killer(threading.Thread):
    """Kills one dispatcher after the other, at random moments, and starts it again."""

    def __init__(self, stack, dispatchers, every, seed):
        super().__init__(daemon=True)
        self.stack, self.dispatchers, self.every = stack, dispatchers, every
        self.chance = random.Random(seed)
        self.times = []
        self.failure = None
        self._end = threading.Event()

    def run(self):
        try:
            while not self._end.wait(self.every * self.chance.uniform(0.7, 1.3)):
                victim = self.chance.choice(self.dispatchers)
                self.times.append(time.time())
                self.stack.kill(victim)
                self.stack.start(victim)
        except Exception as failure:
            self.failure = failure

    def end(self):
        self._end.set()
        self.join()
        if self.failure:
            raise self.failure


def soak(stack, *, jobs, seconds, seed, topic="soak", kill_once=False, kill_every=0, flush=False, say=print, dispatchers=None):
    """Runs it and checks everything; (kills that hit, kills)."""
    dispatchers = dispatchers or [name[12:].lower() for name in sorted(stack.env) if name.startswith("DUETIME_PID_DISPATCHER")]
    journal = Journal()
    consumer = TestConsumer(stack["DUETIME_KAFKA"], [topic], rule=lambda arrival: {"status": "succeeded"})
    killer = None
    try:
        start = write_jobs(stack, journal, topic, jobs, seconds, seed)
        say(f"{jobs} jobs over {seconds} s, seed {seed}, dispatchers {' '.join(dispatchers)}")
        middle = start + seconds * 500
        if kill_every:
            killer = Killer(stack, dispatchers, kill_every, seed)
            killer.start()
        until(lambda: now_ms() > middle, "the middle of the run", seconds=seconds + 30)
        kill_times = []
        if kill_once:
            kill_times.append(time.time())
            stack.kill(dispatchers[0])
        if flush:
            flush_redis(stack)
        consumer.wait_count(jobs, seconds + 120)
        if killer:
            killer.end()
        for part in dispatchers if kill_once else []:
            stack.start(part)
        consumer.flush()
        until(lambda: all_finished(stack, topic), "every result applied")
        Checker(stack).check(journal, [topic], settle_seconds=60)
        got = consumer.all()
        assert len(got) == len({(a.job, a.attempt) for a in got}), "the running consumer saw repeats"
        kill_times = killer.times if killer else kill_times
        found = takeovers(stack, dispatchers)
        hits = kills_that_hit(kill_times, found)
        say(f"{len(got)} arrivals, each (job, attempt) once, none early, none missing; {summary(lateness(got, journal))}; "
            f"{len(kill_times)} kills, {hits} of them hit between a claim and its settling, {len(found)} takeovers so far")
        return hits, len(kill_times)
    finally:
        if killer:
            killer._end.set()
        consumer.end()


def all_finished(stack, topic):
    return rows(connect(stack), "SELECT COUNT(*) n FROM jobs WHERE topic = %s AND state IN ('scheduled', 'dispatched')", topic)[0]["n"] == 0


def flush_redis(stack):
    for client in redis_clients(stack):
        client.flushall()

"""Faults of every kind, mixed at random, on a stack whose programs go through proxies.

  plan(seed, seconds)        what happens when, for how long, to whom: pure, so that a run can be repeated
  Nemesis(stack, …).run(…)   does it; each fault is begun, lasts, and is healed, up to three at a time, one a part

A fault is a generator: up to its `yield` it does its harm, after it it heals. What else is broken at that moment it must bear:
it waits for nothing but its own part's end.
"""
import contextlib
import http.client
import random
import signal
import subprocess
import threading
import time
from collections import Counter

import pymysql

from . import zookeeper
from ..checker import connect, rows
from .proxy import REPLY, REQUEST
from ..servers import redis_clients
from ..shards import ask_for
from ..stack import PRESET, TREE

PROGRAMS = ("api1", "api2", "dispatcher1", "dispatcher2")
DISPATCHERS = ("dispatcher1", "dispatcher2")
REDIS = ("redis1", "redis2")
PAIRS = [(part, "mysql") for part in PROGRAMS] + [(part, server) for part in DISPATCHERS for server in ("kafka", "zookeeper")]
HOUR_MS = 3600 * 1000
AT_ONCE = 3
FAULTS = {}  # kind: (function, targets, weight, (least, most) seconds)


def fault(targets, weight, least, most, into=FAULTS):
    def register(function):
        into[function.__name__.replace("_", " ")] = (function, targets, weight, (least, most))
        return function
    return register


# ---- processes ----

@fault((*DISPATCHERS, *DISPATCHERS, *PROGRAMS, *REDIS, "zookeeper", "mysql", "kafka"), 8, 0.1, 4)
def killed(it, part, _chance):
    it.stack.kill(part)
    yield
    it.stack.start(part, ready=False)


@fault((*DISPATCHERS, *DISPATCHERS, *PROGRAMS, *REDIS, "zookeeper", "mysql", "kafka"), 8, 0.2, 6)
def stopped(it, part, _chance):
    it.stack.signal(part, signal.SIGSTOP)
    yield
    it.stack.signal(part, signal.SIGCONT)


@fault(PROGRAMS, 3, 0.1, 2)
def ended_in_order(it, part, _chance):
    it.stack.stop(part)
    yield
    it.stack.start(part, ready=False)


@fault(PROGRAMS, 6, 2, 8)
def at_a_fail_point(it, part, chance):
    point = chance.choice(it.points(part))
    action = chance.choice(["crash", "crash", "stop", f"delay:{chance.randrange(50, 3000)}"])
    it.note(f"{point}={action}")
    it.stack.restart(part, env={"DUETIME_FAIL": f"{point}={action}@{chance.randrange(1, 40)}"}, ready=False)
    yield
    it.stack.kill(part)
    it.stack.start(part, ready=False)


@fault(PROGRAMS, 2, 4, 10)
def wrong_clock(it, part, chance):
    it.stack.restart(part, env=skewed(it.shim, chance.choice((-1, 1)) * HOUR_MS), ready=False)
    yield
    it.stack.restart(part, ready=False)


# ---- Redis ----

@fault(REDIS, 3, 0, 0.1)
def emptied(it, part, _chance):
    it.redis(part).flushall()
    yield


@fault(REDIS, 2, 1, 4)
def put_back_to_an_old_copy(it, part, _chance):
    it.redis(part).save()
    yield
    it.stack.kill(part)
    it.stack.start(part)


@fault(REDIS, 2, 1, 5)
def full(it, part, _chance):
    it.redis(part).config_set("maxmemory", 1)
    yield
    it.redis(part).config_set("maxmemory", 0)


@fault(REDIS, 2, 1, 5)
def read_only(it, part, _chance):
    it.redis(part).slaveof("127.0.0.1", 1)
    yield
    it.redis(part).slaveof()


# ---- the number of shards ----

@fault(("shards",), 3, 0, 1)
def another_number_of_shards(it, _part, chance):
    count = chance.choice((1, 2, 3, 4, 5, 7))
    it.note(f"{count}")
    with contextlib.suppress(AssertionError, OSError, ValueError, http.client.HTTPException):  # an API that is down, or has no MySQL
        ask_for(it.stack, count, chance.choice(("api1", "api2")))
    yield


# ---- second clients ----

@fault(DISPATCHERS, 3, 0, 0.5)
def session_closed(it, part, _chance):
    zookeeper.close_session_of(it.stack["DUETIME_ZOOKEEPER"], f":{it.stack.pid(part)}")
    yield


@fault(("locks",), 3, 1, 6)
def rows_locked(it, _part, chance):
    locker = Locker(it.stack, chance.random(), it.topics)
    yield
    locker.end()


# ---- the network ----

@fault(PAIRS, 5, 0, 0.2)
def cut(it, pair, _chance):
    it.detours[pair].cut()
    yield


@fault(PAIRS, 4, 0.3, 4)
def refused(it, pair, _chance):
    it.detours[pair].refuse()
    yield
    it.detours[pair].accept()


@fault(PAIRS, 6, 0.5, 8)
def held_one_way(it, pair, chance):
    direction = chance.choice((REQUEST, REPLY))
    it.detours[pair].hold(direction)
    yield
    if chance.random() < 0.5:
        it.detours[pair].cut()
    it.detours[pair].release(direction)


@fault(PAIRS, 4, 1, 6)
def slow(it, pair, chance):
    it.detours[pair].delay(chance.uniform(0.01, 0.3))
    yield
    it.detours[pair].delay(0)


@fault([(part, "kafka") for part in DISPATCHERS], 6, 0.5, 6)
def request_held(it, pair, chance):
    kind = chance.choice(("EndTxn", "EndTxn", "Produce", "AddPartitionsToTxn", "InitProducerId"))
    it.note(kind)
    rule = it.detours[pair].on(kind, direction=chance.choice((REQUEST, REPLY)), action=chance.choice(("hold", "hold", "cut", "cut after")))
    yield
    rule.release()


# ---- what faults are made of ----

def skewed(shim, ms):
    """The environment of a program whose wall clock is wrong."""
    return {"LD_PRELOAD": str(shim), "DUETIME_CLOCK_SKEW_MS": str(ms),
            "ASAN_OPTIONS": "abort_on_error=1:detect_leaks=1:verify_asan_link_order=0"}


def make_shim(folder):
    library = folder / "clock_shim.so"
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", "-o", library, TREE / "tests/support/clock_shim.c", "-ldl"], check=True)
    return library


class Locker(threading.Thread):
    """A second client that locks jobs, keys and shard rows in an order of its own, and provokes deadlocks."""

    def __init__(self, stack, seed, topics):
        super().__init__(daemon=True)
        self.stack, self.chance, self.topics = stack, random.Random(seed), topics
        self.deadlocks = self.rounds = 0
        self.failure = None
        self._end = threading.Event()
        self.start()

    def run(self):
        try:
            connection = connect(self.stack)
            rows(connection, "SET SESSION innodb_lock_wait_timeout = 2")
            while not self._end.wait(0.02):
                self._round(connection)
        except Exception as failure:
            self.failure = failure

    def _round(self, connection):
        jobs = [row["id"] for row in rows(connection, "SELECT id FROM jobs WHERE topic IN %s AND state IN ('scheduled', 'dispatched')"
                                          " ORDER BY next_at LIMIT 40", tuple(self.topics))]
        self.chance.shuffle(jobs)
        try:
            connection.begin()
            for job in jobs[:12]:
                rows(connection, "SELECT id FROM jobs WHERE id = %s FOR UPDATE", job)
                self._end.wait(self.chance.random() * 0.004)
            if self.chance.random() < 0.2:
                rows(connection, "SELECT * FROM shards WHERE shard = %s FOR UPDATE", self.chance.randrange(4))
            if self.chance.random() < 0.3:
                rows(connection, "SELECT * FROM job_keys WHERE topic = %s AND job_key > %s LIMIT 20 FOR UPDATE", self.topics[0],
                     f"k{self.chance.randrange(3000):09d}")
            self._end.wait(self.chance.random() * 0.1)
        except pymysql.err.OperationalError as error:
            if error.args[0] not in (1205, 1213):
                raise
            self.deadlocks += error.args[0] == 1213
        connection.rollback()
        self.rounds += 1

    def end(self):
        """The failure that ended it early, if any."""
        self._end.set()
        self.join(30)
        return self.failure


# ---- the plan ----

def plan(seed, seconds, faults=None):
    """[{at, kind, target, lasts, dice}], in order; no part is in two at a time, and no more than AT_ONCE go on at once."""
    faults = faults or FAULTS
    chance = random.Random(f"{seed}/plan")
    kinds = list(faults)
    weights = [faults[kind][2] for kind in kinds]
    steps, at = [], 0.0
    while True:
        at += chance.uniform(0.2, 2.0)
        if at > seconds:
            return steps
        kind = chance.choices(kinds, weights)[0]
        _, targets, _, (least, most) = faults[kind]
        step = {"at": round(at, 2), "kind": kind, "target": chance.choice(targets), "lasts": round(chance.uniform(least, most), 2),
                "dice": chance.randrange(1 << 31)}
        busy = [other for other in steps if other["at"] + other["lasts"] + 2 > at]
        if len(busy) < AT_ONCE and not any(parts_of(other) & parts_of(step) for other in busy):
            steps.append(step)


def parts_of(step):
    """What must not be in two faults at once; of a pair, the program and the pair's server for it alone."""
    target = step["target"]
    return {target} if isinstance(target, str) else {target[0], tuple(target)}


class Nemesis:
    """Carries a plan out. `note` and `done` tell what happened; a fault that could not be done (its server was down by another
    one's doing) is counted apart."""

    def __init__(self, stack, detours, shim, topics=(), faults=None):
        self.stack, self.detours, self.shim, self.topics, self.faults = stack, detours, shim, topics, faults or FAULTS
        self.ways, self.limits = None, {}
        self.done = Counter()
        self.not_done = Counter()
        self.now = {}  # of what goes on: step number: text
        self.events = []
        self._points = {}
        self._local = threading.local()

    def points(self, part):
        """The fail points of a part's program."""
        kind = part.rstrip("0123456789")
        if kind not in self._points:
            program = TREE / "build" / PRESET / kind / f"duetime-{kind}"
            told = subprocess.run([program, "--fail-points"], capture_output=True, text=True, check=True).stdout
            self._points[kind] = [line.split()[0] for line in told.splitlines() if line.strip()]
        return self._points[kind]

    def redis(self, part):
        return redis_clients(self.stack)[int(part[-1]) - 1]

    def note(self, text):
        self._local.note = text

    def run(self, steps, goes_on=lambda: True):
        """Until every fault is healed; stops beginning new ones when goes_on() says no."""
        began, threads = time.monotonic(), []
        for number, step in enumerate(steps):
            while time.monotonic() < began + step["at"] and goes_on():
                time.sleep(0.02)
            if not goes_on():
                break
            threads.append(threading.Thread(target=self._one, args=(number, step), daemon=True))
            threads[-1].start()
        for thread in threads:
            thread.join(90)

    def _one(self, number, step):
        target = step["target"] if isinstance(step["target"], str) else tuple(step["target"])
        name = target if isinstance(target, str) else "-".join(target)
        self._local.note = ""
        began = time.time()
        try:
            harm = self.faults[step["kind"]][0](self, target, random.Random(step["dice"]))
            with contextlib.closing(harm):
                next(harm)
                self.now[number] = f"{name} {step['kind']} {self._local.note}".strip()
                time.sleep(step["lasts"])
                next(harm, None)
            self.done[step["kind"]] += 1
        except Exception as failure:  # another fault's doing; the end of the round heals what is left
            self.not_done[step["kind"]] += 1
            self._local.note += f" not done: {failure!r}"[:200]
        self.events.append({"began": began, "ended": time.time(), "fault": f"{name} {step['kind']} {self._local.note}".strip()})
        self.now.pop(number, None)

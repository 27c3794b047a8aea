"""Honest callers at a steady pace, whose waiting is measured: jobs by POST, looks at single jobs, lists, changes, cancels, and a consumer
that reports every attempt. What they were answered goes into a journal, by which everything is checked afterwards.

Their threads go before others where the system permits it: a caller has a machine of its own, and waits for the servers, not for a core.
"""
import itertools
import os
import random
import re
import threading
import time
from collections import defaultdict

from ..checker import now_ms
from ..consumer import TestConsumer
from ..journal import Journal
from ..rest import Rest
from ..soak import rfc3339

ORDINARY_MS = 1000  # what is late by less is on its way, and counts when it is there
KINDS = ("create", "get", "list", "change", "cancel", "health")
DETAIL = re.compile(r'"detail": ?"([^"]*)"')  # of a problem


class Waits:
    """How long callers waited, in ms, by what they asked for; thread-safe."""

    def __init__(self):
        self._lock = threading.Lock()
        self._waits = defaultdict(list)
        self._expected = {}  # (kind, key): when it should be there, in ms since 1970
        self._early = {}  # likewise: when it came, before it was expected
        self.refused = defaultdict(int)

    def add(self, kind, ms):
        with self._lock:
            self._waits[kind].append(ms)

    def expect(self, kind, key, due_ms):
        """Until it came it counts as late as it is when take() is called, so that what never comes is not overlooked."""
        with self._lock:
            at_ms = self._early.pop((kind, key), None)
            if at_ms is None:
                self._expected[kind, key] = due_ms
            else:
                self._waits[kind].append(at_ms - due_ms)

    def came(self, kind, key, at_ms):
        with self._lock:
            due_ms = self._expected.pop((kind, key), None)
            if due_ms is None:
                self._early[kind, key] = at_ms
            else:
                self._waits[kind].append(at_ms - due_ms)

    def forget(self, kind, key):
        with self._lock:
            self._expected.pop((kind, key), None)
            self._early.pop((kind, key), None)

    def overdue(self, ms):
        """[(kind, how late it is by now)] of what is late by more."""
        with self._lock:
            late = [(kind, now_ms() - due_ms) for (kind, _), due_ms in self._expected.items()]
        return [(kind, by) for kind, by in late if by > ms]

    def refuse(self, kind, status, why):
        with self._lock:
            self.refused[f"{kind} {status}: {why}"] += 1

    def take(self):
        """{kind: sorted waits} since the last call, and {kind, status and why: refusals}."""
        with self._lock:
            waits, refused = self._waits, self.refused
            self._waits, self.refused = defaultdict(list), defaultdict(int)
        for kind, ms in self.overdue(ORDINARY_MS):
            waits[kind].append(ms)
        return {kind: sorted(values) for kind, values in waits.items()}, dict(refused)


def go_first():
    """Lets the calling thread go before those of the servers; without the right to, it goes with them."""
    try:
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), -10)
    except PermissionError:
        pass


def percentile(values, share):
    return values[min(len(values) - 1, int(len(values) * share))] if values else 0.0


class Honest:
    """`rate` requests a second over `clients` connections, in one topic."""

    def __init__(self, stack, urls, token, topic, rate=60, clients=6, seed=1):
        self.topic, self.journal, self.waits = topic, Journal(), Waits()
        self._rests = [Rest(url, token=token, timeout=20) for url in urls]
        self._stop = threading.Event()
        self._serial = itertools.count(1)
        self._lock = threading.Lock()
        self._open = []  # ids of jobs that are due late enough to be looked at, changed, cancelled
        self.failures = []
        self.consumer = TestConsumer(stack["DUETIME_KAFKA"], [topic], rule=self._arrived)
        self._threads = [threading.Thread(target=self._run, args=(random.Random(seed * 1000 + n), clients / rate), daemon=True) for n in range(clients)]

    def start(self):
        for thread in self._threads:
            thread.start()

    def end(self):
        self._stop.set()
        for thread in self._threads:
            thread.join(60)
        if self.failures:
            raise AssertionError(f"{len(self.failures)} honest requests failed, the first: {self.failures[0]}")

    def _arrived(self, arrival):
        if arrival.attempt == 1:
            self.waits.came("lateness", arrival.job, arrival.received_ms)
        return {"status": "succeeded"}

    def _run(self, chance, pause):
        go_first()
        due = time.monotonic() + chance.random() * pause
        while not self._stop.wait(max(0.0, due - time.monotonic())):
            try:
                self._one(chance)
            except Exception as failure:  # told at the end; the others go on
                self.failures.append(repr(failure))
            due = max(due + pause, time.monotonic() - 1)

    def _ask(self, chance, kind, method, path, body=None):
        """The answer; its time counts from the first byte asked for."""
        rest, start = chance.choice(self._rests), time.monotonic()
        answer = rest.ask(method, path, body)
        self.waits.add(kind, (time.monotonic() - start) * 1000)
        if answer.status >= 500 or answer.status in (401, 403, 408, 429):
            self.waits.refuse(kind, answer.status, "".join(DETAIL.findall(answer.text)))
        return answer

    def _one(self, chance):
        kind = chance.choices(KINDS, (50, 25, 4, 8, 8, 5))[0]
        job = self._pick(chance)
        if kind == "create" or (job is None and kind != "health"):
            self._create(chance)
        elif kind == "get":
            self._ask(chance, kind, "GET", f"/v1/jobs/{job}")
        elif kind == "list":
            self._ask(chance, kind, "GET", f"/v1/jobs?topic={self.topic}&limit=20")
        elif kind == "change":
            self._change(chance, job)
        elif kind == "cancel":
            self._cancel(chance, job)
        else:
            self._ask(chance, kind, "GET", "/healthz")

    def _pick(self, chance):
        with self._lock:
            return chance.choice(self._open) if self._open else None

    def _create(self, chance):
        serial, due = self.journal.serial(), now_ms() + chance.choice((0, 300, 1000, 3000))
        self.journal.asked(serial, due)
        answer = self._ask(chance, "create", "POST", "/v1/jobs", {"topic": self.topic, "run_at": rfc3339(int(due)), "payload": {"serial": serial}})
        if answer.status == 201:
            self.journal.made(answer.json["id"], int(due), serial)
            self.waits.expect("lateness", answer.json["id"], int(due))
            with self._lock:
                self._open = self._open[-50:] + [answer.json["id"]]
        elif "outcome-unknown" not in answer.json.get("type", ""):
            self.journal.nothing_made(serial)

    def _change(self, chance, job):
        self.journal.edited(job)
        self.waits.forget("lateness", job)
        self._ask(chance, "change", "PATCH", f"/v1/jobs/{job}", {"run_at": rfc3339(int(now_ms() + 500))})

    def _cancel(self, chance, job):
        self.waits.forget("lateness", job)
        answer = self._ask(chance, "cancel", "POST", f"/v1/jobs/{job}/cancel")
        if answer.status == 200:
            self.journal.cancelled(job, answer.json["attempt"])
            with self._lock:
                self._open = [other for other in self._open if other != job]

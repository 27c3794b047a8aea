"""a million jobs moved by a day: rows a second, and the lateness of 1,000 due a second beside it and alone"""
import threading
import time

from harness.checker import connect, rows
from harness.operations import ended
from harness.rest import Rest

import lateness
import table

JOBS = 1000000


def count(stack):
    """The table was filled past the product, which counts what it makes, and looks for jobs where they are counted."""
    rows(connect(stack), "INSERT INTO job_counts (topic, piece, writer, scheduled) SELECT topic, (id >> 40) MOD 32, 31, COUNT(*) FROM jobs WHERE topic = %s"
         " GROUP BY topic, (id >> 40) MOD 32 ON DUPLICATE KEY UPDATE scheduled = VALUES(scheduled)", table.TOPIC)


class Shift:
    """One operation that moves the table by a day, asked for in the background."""

    def __init__(self, stack, shift):
        self._rest, self._shift = Rest(stack["DUETIME_URL"], timeout=120), shift
        self.operation, self.seconds = None, None
        self._thread = threading.Thread(target=self._run)

    def begin(self, _seconds=None):
        self._thread.start()

    def _run(self):
        began = time.monotonic()
        made = self._rest.post("/v1/jobs:reschedule", {"filter": {"topic": table.TOPIC}, "shift": self._shift, "wait": 0})
        self.operation = ended(self._rest, made, every=0.2, seconds=900)
        self.seconds = time.monotonic() - began

    def end(self):
        self._thread.join()
        done = self.operation
        if done["state"] != "done" or done["changed"] != done["matched"]:
            raise RuntimeError(f"the operation ended as {done}")
        return done["changed"]


def measure(bench):
    stack = bench.stack("--shards", "1")
    account = bench.account(stack)
    table.fill(stack, bench.count(JOBS, JOBS // 5), bench.say)
    count(stack)
    seconds = bench.seconds(15, 8)
    lateness.of_stream(stack, account, "moved-warm", bench.seconds(60, 20), lambda _: None)
    alone, beside, rates = [], [], []
    for n in range(bench.count(3, 1)):
        alone.append(lateness.of_stream(stack, account, f"moved-alone-{n}", seconds, lambda _: None)[1])
        shift = Shift(stack, "P1D" if n % 2 == 0 else "-P1D")
        beside.append(lateness.of_stream(stack, account, f"moved-beside-{n}", seconds, shift.begin)[1])
        rates.append(shift.end() / shift.seconds)
        jobs = shift.operation["changed"]
    bench.figure(None, f"{jobs:,} jobs moved by a day, 1,000 due a second beside it", rates, "jobs/s", f"{jobs / max(rates):.0f} to {jobs / min(rates):.0f} s")
    bench.figure(None, "lateness p99 to the commit, alone", alone, "ms")
    bench.figure(None, "the same beside the operation", beside, "ms", " and ".join(f"{ours / bare:.2f}" for ours, bare in zip(beside, alone)) + " times that alone")

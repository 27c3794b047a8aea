"""many pending jobs, spread over five years, beside a million: intake and lateness in turn on both; what a pass, a takeover, a restart, lists cost"""
import statistics
import time
import urllib.parse

from harness.checker import connect, now_ms, rows
from harness.rest import Rest
from harness.soak import rfc3339
from harness.stack import until
from harness.takeover import Takeovers

import clients
import lateness
import table
from account import Account

DAY_MS = 86400000
READS = ("Rows_read", "Innodb_pages_read", "Innodb_pages_written")


def named(jobs):
    return f"{jobs // 1000000} M" if jobs >= 1000000 else f"{jobs // 1000} k"


class Size:
    """One table, on a stack of its own."""

    def __init__(self, bench, jobs):
        self.bench, self.jobs = bench, jobs
        self.stack, self.kept = table.bring_up(jobs)
        if not self.kept:
            bench.at_end(self.stack.reset)
        else:
            bench.at_end(self.stack.down)
        table.fill(self.stack, jobs, bench.say)
        self.account = Account(self.stack)
        self.run = str(now_ms())  # topics of this run: a kept stack has those of earlier ones
        self._streams = 0
        for topic in ("intake", "beside"):
            clients.make_topic(self.stack, f"{topic}-{self.run}")

    def intake(self):
        posts = clients.Posts(self.stack, f"intake-{self.run}", 64, self.bench.seconds(6, 3), delay="spread")
        self.account.accepted(f"intake-{self.run}", posts.accepted, posts.unanswered)
        return posts.rate

    def lateness(self):
        self._streams += 1
        seen = lateness.of_stream(self.stack, self.account, f"late-{self.run}-{self._streams}", self.bench.seconds(20, 6), lambda _: None)
        return seen[3]

    # ---- what the table itself may slow down ----

    def reads_at_rest(self):
        """What MySQL reads and writes a second when nothing is asked: the reconciler's looks, above all."""
        connection, took = connect(self.stack), self.bench.seconds(70, 10)
        before = {name: table.status(connection, name) for name in READS}
        end = time.monotonic() + took
        until(lambda: time.monotonic() > end, "a period at rest", seconds=took + 10)
        return {name: (table.status(connection, name) - before[name]) / took for name in READS}

    def takeover(self):
        run = Takeovers(self.stack, rate=200, topic=f"takeover-{self.run}", say=lambda _: None)
        late = run.kills(self.bench.count(3, 1))
        run.end()
        return late

    def restart(self):
        """All of it goes down and comes up: (s until the API is ready, s until a job due at once has arrived), from the call to start."""
        self.stack.down()
        began = time.monotonic()
        self.stack.up_again()
        ready, topic = time.monotonic() - began, f"restart-{self.run}"
        clients.make_topic(self.stack, topic)
        self.account.accepted(topic, clients.write_due(self.stack, topic, [clients.now()]))
        clients.Reporter(self.stack, topic, 1).end()
        return ready, time.monotonic() - began

    def lists(self):
        """{question: worst ms of ten}."""
        rest, now = Rest(self.stack["DUETIME_URL"], timeout=60), int(now_ms())
        year = {"run_from": rfc3339(now + 365 * DAY_MS), "run_to": rfc3339(now + 366 * DAY_MS)}
        questions = {"first page": {}, "one topic": {"topic": f"beside-{self.run}"}, "state dead": {"state": "dead"}, "a day in a year": year,
                     "500 with payloads": {"limit": 500, "include": "payload"}}
        return {name: max(self._ask(rest, query) for _ in range(10)) for name, query in questions.items()}

    def _ask(self, rest, query):
        began = time.monotonic()
        answer = rest.get("/v1/jobs?" + urllib.parse.urlencode(query))
        assert answer.status == 200, answer
        return (time.monotonic() - began) * 1000


def warm(size):
    """The pages that jobs of five years go to are in memory, as they are in a server that has been up for a while; the broker has compiled
    what the streams need."""
    size.intake()
    size.lateness()


def begin(bench, size):
    """A server that has just started has to read the pages first."""
    bench.figure(None, f"{named(size.jobs)}: intake in the first seconds of its server", size.intake(), "/s")
    warm(size)


def compare(bench, small, large):
    times, name = bench.count(3, 1), f"{named(large.jobs)} beside {named(small.jobs)}"
    begin(bench, large)
    bench.ratio("G6 intake", f"intake, {name}", bench.rounds(large.intake, small.intake, times), what=named(small.jobs))
    pairs = bench.rounds(large.lateness, small.lateness, bench.count(5, 1))  # pauses of two whole stacks meet a percent of a short one
    bench.figure("G6 lateness", f"lateness p99 to the consumer, {name}", [ours / bare for ours, bare in pairs],
                 note=f"{statistics.median(ours for ours, _ in pairs):.1f} ms, {statistics.median(bare for _, bare in pairs):.1f} ms")


def describe(bench, size):
    name = named(size.jobs)
    bench.figure(None, f"{name}: bytes a pending job in MySQL", table.bytes_on_disk(size.stack) / max(1, size.jobs), "B")
    at_rest = size.reads_at_rest()
    bench.figure(None, f"{name}: rows read at rest (reconciler)", at_rest["Rows_read"], "/s",
                 f"pages read {at_rest['Innodb_pages_read']:.1f}/s, written {at_rest['Innodb_pages_written']:.1f}/s")
    late = size.takeover()
    bench.figure(None, f"{name}: kill -9, worst first dispatch", late[-1] / 1000, "s", f"{len(late)} shards")
    for question, ms in size.lists().items():
        bench.figure(None, f"{name}: list, {question}, worst of 10", ms, "ms")
    ready, first = size.restart()
    bench.figure(None, f"{name}: restart of everything: first dispatch", first, "s", f"ready after {ready:.1f} s, MySQL, Kafka and ZooKeeper included")


def measure(bench):
    sizes = [int(n) for n in (bench.options.sizes or ("200000,1000000" if bench.quick else "1000000,10000000")).split(",")]
    small, *large = [Size(bench, jobs) for jobs in sizes]
    begin(bench, small)
    for size in large:
        compare(bench, small, size)
    for size in [small, *large]:
        describe(bench, size)
        bench.say(f"  account, {named(size.jobs)}: {size.account.check()}")

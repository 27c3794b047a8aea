"""what a forecast costs: every kind of question, with many pending jobs over five years, a burst in the next hour and ten thousand schedules, beside fewer"""
import time
import urllib.parse

from harness.checker import connect, now_ms, rows
from harness.rest import Rest
from harness.soak import rfc3339
from harness.stack import Stack

import table

MINUTE, HOUR, DAY_MS = 60000, 3600000, 86400000
SCHEDULES = 10000
BURST_TOPICS = 50
FIRST_NO = 7 << 37  # sequence numbers that neither the product nor another loader gives out
MILLION = "WITH RECURSIVE a (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM a WHERE n < 999) "


def questions(now):
    """{name: (path, query)}"""
    year, ten = {"from": rfc3339(now), "to": rfc3339(now + 365 * DAY_MS)}, {"from": rfc3339(now), "to": rfc3339(now + 3650 * DAY_MS)}
    week = {"from": rfc3339(now), "to": rfc3339(now + 9999 * MINUTE), "step": "PT1M"}
    seconds = {"from": rfc3339(now), "to": rfc3339(now + 10000 * 1000), "step": "PT1S"}
    far = {"from": rfc3339(now + 100 * DAY_MS), "to": rfc3339(now + 100 * DAY_MS + HOUR)}
    asked = {"next hour": {}, "next hour, one topic": {"topic": "burst-7"}, "next hour, one step": {"step": "PT1H"}, "10,000 s": seconds,
             "10,000 s, one topic": {**seconds, "topic": "burst-7"}, "9,999 min": week, "9,999 min, one topic": {**week, "topic": table.TOPIC}, "a far hour": far,
             "a year by days": {**year, "step": "P1D"}, "a year by hours": {**year, "step": "PT1H"}, "a year by hours, no such topic": {**year, "step": "PT1H", "topic": "none"},
             "ten years by days": {**ten, "step": "P1D"}, "ten years by 9 h": {**ten, "step": "PT9H"}, "ten years, one step": {**ten, "step": "P3650D"}}
    spikes = {"spikes of the next hour": {}, "spikes of 9,999 min": week, "spikes of ten years": {**ten, "step": "PT9H"}}
    return {**{name: ("/v1/forecast", query) for name, query in asked.items()}, **{name: ("/v1/forecast/spikes", query) for name, query in spikes.items()}}


class Size:
    """One table, with its burst and its schedules, on a stack of its own; nobody dispatches meanwhile."""

    def __init__(self, bench, jobs):
        self.stack = Stack(f"forecast-{jobs}", "--small", "--release")
        bench.at_end(self.stack.reset)
        self.stack.up()
        self.connection = connect(self.stack)
        self.rest = Rest(self.stack["DUETIME_URL"], timeout=60)
        table.fill(self.stack, jobs, bench.say)
        self.stack.stop("dispatcher1")
        self.add_burst(jobs // 3)
        self.add_schedules()
        rows(self.connection, "INSERT INTO job_counts (topic, piece, writer, scheduled) SELECT topic, (id >> 40) MOD 32, 31, COUNT(*) FROM jobs"
             " GROUP BY topic, (id >> 40) MOD 32 ON DUPLICATE KEY UPDATE scheduled = VALUES(scheduled)")

    def add_burst(self, jobs):
        """From ten minutes on, within fifty."""
        now = int(now_ms())
        for first in range(0, jobs, 200000):
            some = min(200000, jobs - first)
            at = f"{now + 10 * MINUTE} + n * {50 * MINUTE} DIV {jobs}"
            rows(self.connection, "INSERT INTO jobs (id, topic, state, run_at, next_at, near, retry, ack_timeout_ms, created_at, updated_at, maker, digest, payload) " + MILLION
                 + f"SELECT (({at}) DIV {DAY_MS} - {table.DAY_0} << 40) + {FIRST_NO} + n, CONCAT('burst-', n % {BURST_TOPICS}), 'scheduled', {at}, {at}, 1, '', 60000, {now}, {now}, 1,"
                 f" 'dddddddddddddddd', REPEAT('x', 200) FROM (SELECT {first} + x.n * 1000 + y.n AS n FROM a x, a y WHERE x.n < {-(-some // 1000)}) s WHERE n < {first + some}")

    def add_schedules(self):
        for n in range(SCHEDULES):
            when = {"every": f"PT{1 + n % 300}S"} if n % 2 else {"cron": f"{n % 60} {n % 24} * * *", "time_zone": "Europe/Berlin"}
            answer = self.rest.put(f"/v1/schedules/s{n}", {"topic": f"fires-{n % 400}", "payload": {}, **when})
            assert answer.status in (200, 201), answer

    def ask(self, path, query):
        began = time.monotonic()
        answer = self.rest.get(path + "?" + urllib.parse.urlencode(query))
        assert answer.status == 200, answer
        return time.monotonic() - began


def measure(bench):
    sizes = [int(n) for n in (bench.options.sizes or ("100000,1000000" if bench.quick else "1000000,10000000")).split(",")]
    for jobs in sizes:
        size = Size(bench, jobs)
        for name, (path, query) in questions(int(now_ms())).items():
            bench.figure(None, f"{jobs:,} pending: {name}, worst of {bench.count(5, 3)}", max(size.ask(path, query) for _ in range(bench.count(5, 3))), "s")
        size.stack.down()

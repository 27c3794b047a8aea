"""100,000 jobs due at one instant: how fast they drain, and how late a trickle in another topic is meanwhile"""
from harness.checker import connect, rows
from harness.stack import until

import clients

JOBS = 100000
TRICKLE = 100  # a second
LEAD_MS = 5000


def percentile(values, p):
    return sorted(values)[min(len(values) - 1, int(p * len(values)))]


def drain(stack, account, jobs, spike, trickle):
    """(jobs a second from the instant until the consumer in C, which reads what is committed, has the last message; the trickle's
    lateness in ms at p99, at worst)."""
    for topic in (spike, trickle):
        clients.make_topic(stack, topic)
    instant = clients.now() + LEAD_MS + jobs / 10  # 10,000 a second are written, on a busy machine, too
    account.accepted(spike, clients.write_due(stack, spike, [instant] * jobs))
    seconds = 8
    account.accepted(trickle, clients.write_due(stack, trickle, [instant + 1000 / TRICKLE * n for n in range(seconds * TRICKLE)]))
    assert clients.now() < instant, "the jobs were made too slowly"
    until(lambda: clients.now() > instant - 1000, "the instant", every=0.01, seconds=120)
    reporter = clients.Reporter(stack, spike, jobs)
    late_reporter = clients.Reporter(stack, trickle, seconds * TRICKLE)
    reporter.end()
    done = clients.now()
    late_reporter.end()
    claimed = rows(connect(stack), "SELECT dispatched_at - due_at late, due_at due FROM jobs WHERE topic = %s", trickle)
    beside = [row["late"] for row in claimed if row["due"] <= done]
    return jobs / (done - instant) * 1000, percentile(beside, .99), max(beside)


def measure(bench):
    jobs = JOBS // 4 if bench.quick else JOBS
    stack = bench.stack("--shards", "4")
    account = bench.account(stack)
    drain(stack, account, JOBS // 4, "spike-warm", "trickle-warm")  # the broker compiles itself meanwhile
    found = [drain(stack, account, jobs, f"spike-{n}", f"trickle-{n}") for n in range(bench.count(3, 1))]
    bench.figure(None, f"drain of {jobs:,} due at once, to a consumer", [rate for rate, _, _ in found], "jobs/s")
    bench.figure(None, "claim of a trickle beside it, p99", [p99 for _, p99, _ in found], "ms late",
                 note=f"worst {max(worst for _, _, worst in found)} ms")

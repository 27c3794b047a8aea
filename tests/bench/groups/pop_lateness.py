"""due → answer of a waiting pop with 1,000 due a second, with Redis and without (G13)"""
import itertools
import json
import subprocess

import clients
import programs
from account import Missing

RATE = 1000
FLOW_SECONDS = 2
WORKERS = 64
MOST = 10  # jobs a pop


def popper(stack, topic, count, since, *, most=MOST, wait_ms=20000, report=False):
    """Workers in C, until so many are popped (and reported); what they saw."""
    words = [stack["DUETIME_URL"].rsplit(":", 1)[1], topic, count, WORKERS, most, wait_ms, clients.SILENCE_SECONDS, int(since)] + (["report"] if report else [])
    process = subprocess.Popen([programs.program("popper"), *map(str, words)], stdout=subprocess.PIPE, text=True)

    def end():
        out = process.communicate()[0]
        found = json.loads(out.splitlines()[-1] if out else '{"messages": 0, "distinct": 0, "applied": 0}')
        if found["messages"] != count:
            raise Missing(f"{topic}: {found['messages']} of {count} jobs were popped")
        return found
    return end


def stream(stack, account, topic, seconds):
    """(p50, p99) in ms, from the due time until the answer was with the worker that waited."""
    clients.make_topic(stack, topic, delivery="pull")
    jobs, start = (FLOW_SECONDS + seconds) * RATE, clients.now() + 3000 + seconds * 100 + FLOW_SECONDS * 1000
    end = popper(stack, topic, jobs, start)
    account.accepted(topic, clients.write_due(stack, topic, [start + i * 1000 / RATE for i in range(-FLOW_SECONDS * RATE, seconds * RATE)]))
    found = end()
    account.popped(topic, found["messages"], found["distinct"])
    return found["p50"], found["p99"]


def measure(bench):
    for goal, how, options in (("G13", "with Redis", ()), ("G13 without", "without Redis", ("--without", "redis"))):
        stack = bench.stack(*options, name=f"bench-{goal.split()[-1].lower()}")
        account = bench.account(stack)
        names = (f"pops-{n}" for n in itertools.count())
        stream(stack, account, next(names), bench.seconds(5, 2))
        found = [stream(stack, account, next(names), bench.seconds(15, 8)) for _ in range(bench.count(3, 1))]
        bench.figure(goal, f"due → answer of a waiting pop, p99, {how}", [p99 for _, p99 in found], note=f"p50 {found[0][0]} ms")

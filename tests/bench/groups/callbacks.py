"""callbacks a second beside a bare libcurl client (G12), and due → request received with 1,000 due a second (G14)"""
import itertools
import json
import subprocess

from harness.stack import until

import clients
import costs
import programs
from account import Missing

CONNECTIONS = 200  # callbacks.per_host of two dispatchers
RATE = 1000
FLOW_SECONDS = 2   # of a stream, before that counts
ALLOWED = ("--set", "callbacks.enabled=true", "--set", "callbacks.allow_networks=127.0.0.0/8")


class Answerer:
    """The receiver in C, in the background: ends after so many requests."""

    def __init__(self, count, seconds, *words):
        self._count = count
        self._process = subprocess.Popen([programs.program("answerer"), *map(str, (count, seconds, *words))], stdout=subprocess.PIPE, text=True)
        self.url = f"http://127.0.0.1:{int(self._process.stdout.readline())}/"

    def end(self):
        found = json.loads(self._process.communicate()[0].splitlines()[-1])
        if found["messages"] != self._count:
            raise Missing(f"{found['messages']} of {self._count} callbacks came")
        return found

    def kill(self):
        self._process.kill()
        self._process.wait()


def make_topic(stack, topic, answerer, **more):
    clients.make_topic(stack, topic, delivery="http", callback_url=answerer.url, callback_timeout="PT60S", **more)


def total(stack, metric):
    return sum(float(value) for value in clients.of_dispatchers(stack, rf"(?m)^{metric} (\S+)"))


def recorded(stack):
    """Outcomes that the dispatchers have committed so far; asking MySQL would cost it what is measured."""
    return int(total(stack, "duetime_callbacks_recorded_sum"))


def await_recorded(stack, count):
    until(lambda: recorded(stack) >= count, lambda: f"{recorded(stack)} of {count} outcomes are recorded", every=0.05, seconds=180)


def burst(stack, account, topic, count):
    """Callbacks a second of so many jobs that are due at one instant, from that on until the last outcome is recorded."""
    answerer = Answerer(count, clients.SILENCE_SECONDS)
    make_topic(stack, topic, answerer)
    before, due = recorded(stack), clients.now() + 1000 + count / 10
    account.accepted(topic, clients.write_due(stack, topic, [due] * count))
    until(lambda: clients.now() > due, "the due time", every=0.01)
    await_recorded(stack, before + count)
    rate, found = count / (clients.now() - due) * 1000, answerer.end()
    account.popped(topic, found["messages"], found["distinct"])
    account.reported(topic, count)
    return rate


def bare(count):
    answerer = Answerer(count, clients.SILENCE_SECONDS)
    rate = float(programs.run("caller", answerer.url, count, CONNECTIONS))
    answerer.end()
    return rate


def stream(stack, account, topic, seconds):
    """(p50, p99) in ms of RATE callbacks due a second, from their due time until the receiver has read them."""
    before = recorded(stack)
    jobs, start = (FLOW_SECONDS + seconds) * RATE, clients.now() + 3000 + seconds * 100 + FLOW_SECONDS * 1000
    answerer = Answerer(jobs, clients.SILENCE_SECONDS, int(start))
    make_topic(stack, topic, answerer)
    account.accepted(topic, clients.write_due(stack, topic, [start + i * 1000 / RATE for i in range(-FLOW_SECONDS * RATE, seconds * RATE)]))
    found = answerer.end()
    await_recorded(stack, before + jobs)
    account.popped(topic, found["messages"], found["distinct"])
    account.reported(topic, jobs)
    return found["p50"], found["p99"]


def mean(stack, histogram):
    """Of all values that the dispatchers have observed."""
    return total(stack, f"{histogram}_sum") / max(1, total(stack, f"{histogram}_count"))


def measure(bench):
    stack = bench.stack(*ALLOWED)
    account = bench.account(stack)
    names = (f"calls-{n}" for n in itertools.count())
    count = bench.count(50000, 10000)
    burst(stack, account, next(names), bench.count(10000, 3000))  # connections, pages
    pairs = bench.rounds(lambda: burst(stack, account, next(names), count), lambda: bare(count), bench.count(3, 1))
    bench.ratio("G12", "callbacks", pairs, what="the bare libcurl client")
    costs.of(bench, stack, "callback", lambda: count if burst(stack, account, next(names), count) else 0)
    bench.figure(None, "outcomes recorded in a transaction", mean(stack, "duetime_callbacks_recorded"), "")
    found = [stream(stack, account, next(names), bench.seconds(15, 8)) for _ in range(bench.count(3, 1))]
    bench.figure("G14", "due → request received, p99", [p99 for _, p99 in found], note=f"p50 {found[0][0]} ms")

"""whole lives: POST as NDJSON, MySQL, Redis, Kafka exactly once, result, done"""
import time

import clients


def live(bench, stack, account, topic, count):
    """So many jobs from the first POST to the last applied result; lives a second."""
    clients.make_topic(stack, topic)
    reporter = clients.Reporter(stack, topic, count, "duetime.results")
    load = clients.Ndjson(stack, topic, count // 2, delay="PT0S")
    before, start = clients.results_applied(stack), time.monotonic()
    load.post(1)
    account.accepted(topic, load.accepted)
    reporter.end()
    clients.await_applied(stack, before + count)
    rate = count / (time.monotonic() - start)
    account.reported(topic, count)
    return rate


def measure(bench):
    stack = bench.stack()
    account = bench.account(stack)
    count, topics = bench.count(100000, 20000), iter(range(100))
    live(bench, stack, account, "lives-warm", bench.count(50000, 10000))  # the broker compiles itself
    pairs = bench.rounds(lambda: live(bench, stack, account, f"lives-{next(topics)}", count),
                         lambda: clients.loader(stack, bench.seconds(3, 2)), bench.count(3, 1))
    bench.ratio("G7", "whole lives", pairs)

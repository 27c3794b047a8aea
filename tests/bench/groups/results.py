"""results applied from Kafka beside the bare UPDATE … IN (500) on rows of the same table"""
import time

import clients


def apply(stack, account, topic, count):
    """All of the jobs are dispatched first; then their results come at once. Results applied a second."""
    clients.make_topic(stack, topic)
    load = clients.Ndjson(stack, topic, count // 2, delay="PT0S")
    load.post(1)
    account.accepted(topic, load.accepted)
    reporter = clients.Reporter(stack, topic, count, "duetime.results", gather=True)
    reporter.gathered()
    before, start = clients.results_applied(stack), time.monotonic()
    reporter.go()
    reporter.end()
    clients.await_applied(stack, before + count)
    rate = count / (time.monotonic() - start)
    account.reported(topic, count)
    return rate


def measure(bench):
    stack = bench.stack()
    account = bench.account(stack)
    count, topics = bench.count(100000, 20000), iter(range(100))
    rows = bench.count(400000, 100000)

    def bare():
        clients.loader(stack, 3)
        return clients.updater(stack, rows)
    apply(stack, account, "results-warm", bench.count(20000, 2000))
    pairs = bench.rounds(lambda: apply(stack, account, f"results-{next(topics)}", count), bare, bench.count(3, 1))
    bench.ratio("G8", "results applied", pairs, what="the bare UPDATE")

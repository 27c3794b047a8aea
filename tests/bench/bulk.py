"""NDJSON by two clients beside the bare bulk loader"""
import clients


def measure(bench):
    stack = bench.stack()
    account = bench.account(stack)
    clients.make_topic(stack, "bulk")
    load = clients.Ndjson(stack, "bulk", bench.count(100000, 20000))
    load.post(1)  # warm
    pairs = bench.rounds(lambda: load.post(2), lambda: clients.loader(stack, bench.seconds(3, 2)), bench.count(3, 1))
    account.accepted("bulk", load.accepted)
    bench.ratio("G2", "NDJSON, two clients", pairs)

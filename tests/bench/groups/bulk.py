"""NDJSON by four clients beside the bare bulk loader: jobs that go to Redis at once, and jobs that are due in days, which wait in MySQL alone"""
import clients

DUE = {"within the horizon of the index": "PT50M", "in three days": "P3D"}


def measure(bench):
    stack = bench.stack()
    account = bench.account(stack)
    clients.make_topic(stack, "bulk")
    loads = {when: clients.Ndjson(stack, "bulk", bench.count(100000, 20000), delay) for when, delay in DUE.items()}
    for load in loads.values():
        load.post(1)  # warm
    for when, load in loads.items():
        pairs = bench.rounds(lambda: load.post(2, clients.BULK_CLIENTS), lambda: clients.loader(stack, bench.seconds(3, 2)), bench.count(5, 1))  # noqa: B023
        account.accepted("bulk", load.accepted)
        bench.ratio("G2", f"NDJSON, four clients, due {when}", pairs)

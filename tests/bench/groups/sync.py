"""durable intake beside the same with MySQL's two settings off (innodb_flush_log_at_trx_commit=0, sync_binlog=0)"""
from harness.checker import connect, rows

import clients

CONNECTIONS = (64, 256, 512)


def durable(stack, on):
    """Sets it on the stack's own server, and reads it back."""
    connection = connect(stack)
    for name in ("innodb_flush_log_at_trx_commit", "sync_binlog"):
        rows(connection, f"SET GLOBAL {name} = {int(on)}")
        found = rows(connection, f"SELECT @@GLOBAL.{name} v")[0]["v"]
        assert int(found) == int(on), f"{name} is {found}"


def measure(bench):
    stack = bench.stack()
    account = bench.account(stack)
    clients.make_topic(stack, "sync")

    def intake(on, connections):
        durable(stack, on)
        posts = clients.Posts(stack, "sync", connections, bench.seconds(6, 3))
        account.accepted("sync", posts.accepted, posts.unanswered)
        return posts.rate
    intake(True, 64)  # warm
    for n in CONNECTIONS:
        pairs = bench.rounds(lambda: intake(True, n), lambda: intake(False, n), bench.count(5, 2))  # noqa: B023
        bench.ratio("G10", f"intake, {n} connections, sync on ÷ off", pairs, what="sync off")
    bulk = clients.Ndjson(stack, "sync", bench.count(100000, 20000))

    def bulk_intake(on):
        durable(stack, on)
        return bulk.post(1, clients.BULK_CLIENTS)
    bulk_intake(True)
    pairs = bench.rounds(lambda: bulk_intake(True), lambda: bulk_intake(False), bench.count(5, 2))
    account.accepted("sync", bulk.accepted)
    bench.ratio("G10", "NDJSON, four clients, sync on ÷ off", pairs, what="sync off")
    durable(stack, True)

"""durable intake beside the same with MySQL's two settings off (innodb_flush_log_at_trx_commit=0, sync_binlog=0)"""
from harness.checker import connect, rows

import clients


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

    def intake(on):
        durable(stack, on)
        posts = clients.Posts(stack, "sync", 64, bench.seconds(6, 3))
        account.accepted("sync", posts.accepted, posts.unanswered)
        return posts.rate
    intake(True)  # warm
    pairs = bench.rounds(lambda: intake(True), lambda: intake(False), bench.count(5, 2))
    durable(stack, True)
    bench.ratio("G10", "intake, 64 connections, sync on ÷ off", pairs, what="sync off")

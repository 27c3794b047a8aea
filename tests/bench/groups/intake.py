"""single POSTs of durable jobs beside the bare bulk loader, over 16 to 512 connections"""
import clients

CONNECTIONS = (16, 64, 256, 512)


def measure(bench):
    stack = bench.stack()
    account = bench.account(stack)
    seconds, found = bench.seconds(6, 3), {n: [] for n in CONNECTIONS}
    bare = lambda: clients.loader(stack, bench.seconds(3, 2))  # noqa: E731
    for n in CONNECTIONS:
        clients.make_topic(stack, f"intake-{n}")
    warm = clients.Posts(stack, "intake-64", 64, 1)
    account.accepted("intake-64", warm.accepted, warm.unanswered)
    before = bare()
    for _ in range(bench.count(3, 1)):
        for n in CONNECTIONS:
            posts = clients.Posts(stack, f"intake-{n}", n, seconds)
            after = bare()
            found[n].append((posts, (before + after) / 2))
            account.accepted(f"intake-{n}", posts.accepted, posts.unanswered)
            before = after
    for n, rounds in found.items():
        last = rounds[-1][0]
        bench.ratio("G1", f"single POST, {n} connections", [(posts.rate, loader) for posts, loader in rounds],
                    note=f"answer p50 {last.p50_ms} ms, p99 {last.p99_ms} ms; {sum(posts.refused for posts, _ in rounds)} refused")

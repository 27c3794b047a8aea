"""single POSTs of durable jobs over 16 to 512 connections, beside the bare bulk loader (G1), and beside what a bare HTTP server and the loader would do together (G1b)"""
import callbacks
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
    server = callbacks.Answerer(0, 3600, "bare")
    bench.at_end(server.kill)
    before = bare()
    for _ in range(bench.count(3, 1)):
        for n in CONNECTIONS:
            posts = clients.Posts(stack, f"intake-{n}", n, seconds)
            after = bare()
            answers = clients.Posts({"DUETIME_URL": server.url.removesuffix("/")}, f"intake-{n}", n, bench.seconds(3, 2)).rate
            loader = (before + after) / 2
            found[n].append((posts, loader, 1 / (1 / answers + 1 / loader)))
            account.accepted(f"intake-{n}", posts.accepted, posts.unanswered)
            before = after
    for n, rounds in found.items():
        last = rounds[-1][0]
        bench.ratio("G1", f"single POST, {n} connections", [(posts.rate, loader) for posts, loader, _ in rounds],
                    note=f"answer p50 {last.p50_ms} ms, p99 {last.p99_ms} ms; {sum(posts.refused for posts, _, _ in rounds)} refused")
        bench.ratio("G1b", f"single POST, {n} connections", [(posts.rate, composite) for posts, _, composite in rounds], "the composite")

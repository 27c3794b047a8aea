"""kill -9 of a leader, beside a steady stream of due jobs: first dispatch by the next one, beyond the session timeout"""
from harness.takeover import Takeovers, percentile

SESSION_MS = 2000  # zookeeper.session_timeout in table.OPTIONS


def measure(bench):
    stack = bench.stack("--shards", "4")
    run = Takeovers(stack, rate=400, say=lambda _: None)
    late = run.kills(bench.count(8, 2))
    bench.figure("G9", "kill -9: worst of the shards' first dispatches", [(late[-1] - SESSION_MS) / 1000],
                 note=f"{len(late)} shards stood still; p50 {(percentile(late, .5) - SESSION_MS) / 1000:.2f} s")
    stops = run.stops(bench.count(4, 1))
    bench.figure(None, "SIGTERM: worst of the shards' first dispatches", stops[-1], "ms", f"of {len(stops)}; p50 {percentile(stops, .5):.0f} ms")
    bench.say(f"  account: {run.end()} jobs of the stream arrived, each once")

"""The index: bytes an entry in Redis beside plain sorted sets, its speed, and how it comes back after FLUSHALL"""
import contextlib
import statistics
import subprocess
import time

import redis

from harness.takeover import Takeovers, percentile
from harness.stack import until

import clients
import programs

SHARDS = 4
HORIZON_SHARE = 1 / (30 * 24)  # of jobs spread over 30 days, those within the default horizon of an hour


@contextlib.contextmanager
def own_redis():
    """A server as Debian ships it, with nothing else in it."""
    port = clients.free_port()
    server = subprocess.Popen(["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no",
                               "--daemonize", "no"], stdout=subprocess.DEVNULL)
    try:
        client = redis.Redis("127.0.0.1", port)
        until(lambda: answers(client), "Redis answers", every=0.02)
        yield f"127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(30)


def answers(client):
    try:
        return client.ping()
    except redis.ConnectionError:
        return False


def measured(endpoint, what, count):
    """(bytes an entry, entries added a second, taken a second)."""
    return [float(word) for word in programs.run("slices", endpoint, what, count, SHARDS).split()]


def memory(bench, count, rounds):
    with own_redis() as endpoint:
        found = {what: [] for what in ("plain36", "ours", "plain8", "filled")}
        for _ in range(rounds):
            for what, of_rounds in found.items():
                of_rounds.append(measured(endpoint, what, count))
    middle = {what: [statistics.median(column) for column in zip(*of_rounds)] for what, of_rounds in found.items()}
    tell_memory(bench, count, found, middle)
    tell_speed(bench, count, found, middle)
    return middle


def tell_memory(bench, count, found, middle):
    ratios = {plain: [ours[0] / bare[0] for ours, bare in zip(found["ours"], found[plain])] for plain in ("plain36", "plain8")}
    of = {what: f"{values[0]:.1f} B" for what, values in middle.items()}
    bench.figure("G4", f"{count:,} entries within an hour ÷ plain sorted set, members of 36 bytes", ratios["plain36"],
                 note=f"{of['ours']} of {of['plain36']} an entry; in the order of their times after a loss {of['filled']}")
    bench.figure("G4", f"{count:,} entries within an hour ÷ plain sorted set, members of 8 bytes", ratios["plain8"], note=f"{of['ours']} of {of['plain8']}")


def tell_speed(bench, count, found, middle):
    for column, name, bare in ((1, "added in no order", "ZADD of 1,000"), (2, "taken in order, 500 at a time", "ZPOPMIN 500")):
        bench.figure(None, f"{count:,} entries {name} ÷ {bare}", [ours[column] / plain[column] for ours, plain in zip(found["ours"], found["plain36"])],
                     note=f"{middle['ours'][column]:,.0f}/s of {middle['plain36'][column]:,.0f}/s")
    bench.figure(None, f"{count:,} entries filled in after a loss", [row[1] for row in found["filled"]], "/s")


def beyond(bench, middle):
    """100 M jobs over 30 days: those within the horizon are loaded, the others are not in Redis."""
    jobs, loaded = 100_000_000, int(100_000_000 * HORIZON_SHARE)
    with own_redis() as endpoint:
        each = measured(endpoint, "ours", loaded)[0]
    bench.figure("G4 horizon", "100 M jobs over 30 days, horizon 1 h ÷ all of them in a plain sorted set",
                 [each * loaded / (middle["plain36"][0] * jobs)], note=f"{loaded:,} entries, {each * loaded / 1e6:.1f} MB of {middle['plain36'][0] * jobs / 1e9:.1f} GB")


def stream(stack, first_ms, last_ms):
    """Seconds for (id, next_at) of these times, read from the covering index by a bare client."""
    rows, seconds = programs.run("slices", "stream", stack["DUETIME_MYSQL_SOCKET"], stack["DUETIME_MYSQL_USER"],
                                 stack["DUETIME_MYSQL_PASSWORD"], stack["DUETIME_MYSQL_DATABASE"], first_ms, last_ms).split()
    return int(rows), float(seconds)


FULL_SCAN = 4  # s after which the full scan that follows a rebuild is over


def rebuild(bench, pending):
    stack = bench.stack("--shards", str(SHARDS))
    run = Takeovers(stack, rate=400, say=lambda _: None)
    run.fill(pending)
    beside_dispatch(bench, stack, run, pending)
    run.come_to_rest()
    at_rest(bench, stack, run, pending)
    bench.say(f"  account: {run.end()} jobs of the stream arrived, each once")


def bare(stack, pending):
    rows, seconds = stream(stack, 0, int(time.time() * 1000) + 3600000)
    assert rows >= pending, (rows, pending)
    return seconds


def beside_dispatch(bench, stack, run, pending):
    first = []

    def flush():
        dispatched, seconds = run.emptied(pending)
        first.extend(dispatched)
        return seconds
    tell_rebuild(bench, None, "beside 400 due a second", pending, bench.rounds(flush, lambda: bare(stack, pending), bench.count(5, 2)))
    first.sort()
    bench.figure("G5 first", "FLUSHALL until the first dispatch in a shard, worst", [first[-1] / 1000],
                 note=f"p50 {percentile(first, .5) / 1000:.3f} s of {len(first)}")


def at_rest(bench, stack, run, pending):
    def flush():
        time.sleep(FULL_SCAN)
        return run.emptied_at_rest(pending)
    tell_rebuild(bench, "G5", "nothing due", pending, bench.rounds(flush, lambda: bare(stack, pending), bench.count(7, 2)))


def tell_rebuild(bench, goal, when, pending, pairs):
    bench.figure(goal, f"FLUSHALL with {pending:,} pending, {when}, until the index is whole ÷ stream of the covering index",
                 [ours / alone for ours, alone in pairs],
                 note=f"{statistics.median(ours for ours, _ in pairs):.2f} s of {statistics.median(alone for _, alone in pairs):.2f} s")


def measure(bench):
    rebuild(bench, bench.count(1_000_000, 1_000_000))
    middle = memory(bench, bench.count(1_000_000, 200_000), bench.count(3, 1))
    if not bench.quick:
        memory(bench, 5_000_000, 1)
    beyond(bench, middle)

"""1,000 jobs due a second, alone and beside intake at half speed"""
import itertools
import statistics
import threading

from harness.stack import until

import clients

RATE = 1000
BESIDE = "beside"  # the topic of the intake
LEAD_MS = 6000
FLOW_SECONDS = 2  # what flows before that counts: programs that were quiet for a while are read from the disk again on some machines


def warm(stack, account, topic):
    """The topic is there, and every shard has sent to it."""
    clients.make_topic(stack, topic)
    account.accepted(topic, clients.write_due(stack, topic, [clients.now()] * 20))
    clients.Reporter(stack, topic, 20).end()


def of_stream(stack, account, topic, seconds, beside):
    """(p50, p99 to Kafka's commit by the dispatchers' histogram; p50, p99 to the consumer's receipt), in ms."""
    warm(stack, account, topic)
    start, jobs = clients.now() + LEAD_MS + FLOW_SECONDS * 1000, (FLOW_SECONDS + seconds) * RATE
    account.accepted(topic, clients.write_due(stack, topic, [start + i * 1000 / RATE for i in range(-FLOW_SECONDS * RATE, seconds * RATE)]))
    reporter = clients.Reporter(stack, topic, jobs + 20, since=start)
    until(lambda: clients.now() > start - FLOW_SECONDS * 1000, "the start", every=0.01)
    load = threading.Thread(target=beside, args=(seconds + FLOW_SECONDS + 1,))
    load.start()
    until(lambda: clients.now() > start, "the first due time", every=0.01)
    before = clients.lateness_buckets(stack)
    load.join()
    seen, after = reporter.end(), clients.lateness_buckets(stack)
    return clients.percentile_ms(before, after, .5), clients.percentile_ms(before, after, .99), seen["p50"], seen["p99"]


def half_speed(stack, account, full):
    """Intake by wrk at half of `full` jobs a second: 256 connections that pause between requests."""
    pause = int(256 / (full / 2) * 1000) - 6
    rates = []

    def beside(seconds):
        posts = clients.Posts(stack, BESIDE, 256, seconds, pause_ms=max(1, pause))
        account.accepted(BESIDE, posts.accepted, posts.unanswered)
        rates.append(posts.rate)
    return beside, rates


def measure(bench):
    stack = bench.stack("--shards", "1")  # what 1,000 a second need
    account = bench.account(stack)
    clients.make_topic(stack, BESIDE)
    seconds = bench.seconds(15, 8)
    posts = clients.Posts(stack, BESIDE, 64, 4)
    account.accepted(BESIDE, posts.accepted, posts.unanswered)
    beside, rates = half_speed(stack, account, posts.rate)
    of_stream(stack, account, "late-warm", bench.seconds(90, 20), beside)  # the broker compiles itself, the redo log goes round
    _, alone, _, alone_seen = of_stream(stack, account, "late-alone", seconds, lambda _: None)
    names = (f"late-{n}" for n in itertools.count())
    found, quiet = bench.quiet_rounds(lambda: of_stream(stack, account, next(names), seconds, beside), bench.count(3, 1))
    bench.figure(None, "lateness p99 to the commit, alone", alone, "ms", f"to the consumer {alone_seen} ms")
    bench.figure("G3", "lateness p99 to the commit, beside intake", [p99 for _, p99, _, _ in found],
                 note=f"p50 {statistics.median(p50 for p50, _, _, _ in found):.1f} ms; intake beside it {statistics.median(rates[1:]):,.0f}/s of {posts.rate:,.0f}/s; {quiet}")
    bench.figure(None, "the same to the consumer", [p99 for _, _, _, p99 in found], "ms", f"p50 {statistics.median(p50 for _, _, p50, _ in found):.1f} ms")

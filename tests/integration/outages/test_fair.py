"""More due than fits: each topic gets its part. Batches are small here, so that 30,000 jobs are hundreds of them; delays are counted in
messages of the overloaded topic, not in time, starting when the caller got its answer."""
import re
import time

import pytest

from harness.checker import connect, rows, shard_of
from harness.kafka_admin import Broker
from harness.soak import rfc3339
from harness.stack import until

BATCH = 100  # dispatch.batch_jobs of these dispatchers
SMALL = {"dispatch.batch_jobs": BATCH, "zookeeper.session_timeout": "PT10S"}  # a takeover restarts the looks, so a missing core must cause none
LOOK = 8     # a look is so many batches deep
SHARDS = 4
DISPATCHERS = ("dispatcher1", "dispatcher2", "dispatcher3")
pytestmark = pytest.mark.in_turns(5)


def now_ms():
    return int(time.time() * 1000)


answered_at = {}  # ms, for jobs created by single requests


def make(api, topic, count, due_ms, **more):
    """Their ids, in order; those of a list of due times due one after the other."""
    dues = due_ms if isinstance(due_ms, list) else [due_ms] * count
    ids = []
    for first in range(0, count, 10000):
        lines = api.batch([{"topic": topic, "run_at": rfc3339(due), "payload": {"n": n}, **more}
                           for n, due in enumerate(dues[first:first + 10000])])
        assert all(line["status"] == 201 for line in lines), lines[:1]
        ids += [line["id"] for line in lines]
    if count == 1:
        answered_at[ids[0]] = now_ms()
    return ids


@pytest.fixture(autouse=True)
def nothing_left(stack, topic, consume):
    """What nobody answered would come again in the midst of other tests, ten thousand at once."""
    yield
    reporter, connection = consume(topic), connect(stack)

    def all_answered():
        left = rows(connection, "SELECT id, attempt, state FROM jobs WHERE topic LIKE %s AND state IN ('scheduled', 'dispatched')", topic + "%")
        for job in left:
            if job["state"] == "dispatched" and (job["id"], job["attempt"]) not in answered:
                reporter.report(str(job["id"]), job["attempt"])
                answered.add((job["id"], job["attempt"]))
        return not left
    answered = set()
    until(all_answered, "every job is answered", every=0.5, seconds=90)


@pytest.fixture(scope="module", autouse=True)
def usual_batches(stack):
    """Each test starts the dispatchers it needs; after the last test they run with the usual settings."""
    yield
    for part in DISPATCHERS:
        stack.restart(part)


@pytest.fixture
def small_batches(stack):
    def start(**settings):
        for part in DISPATCHERS:
            stack.restart(part, settings={**SMALL, **settings})
    start()
    yield start


@pytest.fixture
def stopped(stack):
    """Nothing is dispatched inside; afterwards with small batches, by one dispatcher: who takes a shard over looks from its start."""
    class Stopped:
        def __enter__(self):
            for part in DISPATCHERS:
                stack.stop(part)

        def __exit__(self, *_):
            self.began = time.monotonic()
            stack.start(DISPATCHERS[0], settings=SMALL)
    return Stopped()


def all_there(consumer, count, seconds=90):
    until(lambda: consumer.count >= count, f"{count} messages", seconds=seconds)
    assert consumer.count == count


def claims(stack, topic, when="dispatched_at"):
    """Returns {shard: [(due, claimed or ended)]} of the first attempts of a topic's jobs; a job counts as due no earlier than its caller's answer."""
    by_shard = {shard: [] for shard in range(SHARDS)}
    for row in rows(connect(stack), f"SELECT id, claim_shard, due_at, {when} AS at FROM jobs WHERE topic = %s AND attempt = 1", topic):
        by_shard[row["claim_shard"]].append((max(row["due_at"], answered_at.get(str(row["id"]), 0)), row["at"]))
    return by_shard


def batches_waited(stack, topic, hot, when="dispatched_at"):
    """For each job of the topic: how many batches full of the hot topic's its shard claimed (or ended) while it was due."""
    theirs = claims(stack, hot, when)
    return sorted(sum(1 for _, at in theirs[shard] if due <= at < claimed) / BATCH
                  for shard, jobs in claims(stack, topic).items() for due, claimed in jobs)


def takeovers(stack):
    """Returns how often the dispatcher took a shard over since it started, for the shard with the most."""
    return max(int(n) for n in re.findall(r"^duetime_takeovers_total\{.*\} (\d+)", stack.metrics(), re.M))


def to_see(stack, count):
    """Batches that go while looks come to the end of so many: each look but the first brings a batch less of new ones. And a few.
    A leader looks from the start after each takeover; on a busy machine there may be more than one."""
    return (count / SHARDS * 1.25 / (BATCH * (LOOK - 1)) + 6) * takeovers(stack)


def looks_few_times(stack, stopped, count):
    """Leaders made few transactions since the only dispatcher started, not one for each batch. One per second and shard is allowed for retries."""
    turns = sum(int(n) for n in re.findall(r"^duetime_mysql_turn_seconds_count (\d+)", stack.metrics(), re.M))
    return turns < count / BATCH / 2 + SHARDS * (time.monotonic() - stopped.began)


def assert_in_order(arrivals):
    """Within a topic and a shard: by due time, then by id. One leader's messages to one partition stand in the order of its claims."""
    last = {}
    for arrival in sorted(arrivals, key=lambda one: (one.partition, one.offset)):
        where, mark = (arrival.partition, shard_of(int(arrival.job), SHARDS)), (arrival.scheduled, int(arrival.job))
        assert last.get(where, mark) <= mark, (where, last[where], mark)
        last[where] = mark


def test_a_topic_with_thousands_of_overdue_jobs_does_not_block_others(stack, api, topic, consume, stopped):
    hot, count = topic + "-hot", 20000
    consumer, hot_consumer = consume(topic), consume(hot)
    with stopped:
        start = now_ms()
        make(api, hot, count, [start - 1000 + n // 20 for n in range(count)])
        make(api, topic, 100, [start - 1000 + n * 10 for n in range(100)])  # all among them
        make(api, topic, 20, start)                                         # and behind them
    for n in range(40):  # and what falls due meanwhile
        make(api, topic, 1, now_ms())
    all_there(consumer, 160)
    all_there(hot_consumer, count)
    waited = batches_waited(stack, topic, hot)
    assert waited[-1] <= to_see(stack, count), waited
    assert waited[len(waited) // 2] <= to_see(stack, count) / 2, waited
    assert_in_order(hot_consumer.all())


def test_two_topics_with_thousands_of_overdue_jobs_share_each_batch(stack, api, topic, consume, stopped):
    one, other, count = topic + "-a", topic + "-b", 6000
    first, second = consume(one), consume(other)
    with stopped:
        start = now_ms()
        make(api, one, count, start - 2000)
        make(api, other, count, start - 1000)  # all of them behind
    all_there(first, count)
    all_there(second, count)
    for shard, jobs in claims(stack, other).items():
        ends, begins = sorted(at for _, at in claims(stack, one)[shard]), min(at for _, at in jobs)
        gone = sum(1 for at in ends if at < begins)
        assert gone <= BATCH * to_see(stack, count), (shard, gone, len(ends))
        beside = sum(1 for _, at in jobs if at <= ends[-1])  # claimed while the first topic still had jobs
        assert beside >= (len(ends) - gone) / 2 - BATCH or takeovers(stack) > 1, (shard, beside, gone, len(ends))
    assert_in_order(first.all())
    assert_in_order(second.all())


def test_ten_topics_with_thousands_of_overdue_jobs_do_not_block_others(stack, api, topic, consume, stopped):
    each = 1200
    hot = [f"{topic}-{n}" for n in range(10)]
    broker = Broker(stack)
    for name in (topic, *hot):  # so that nobody waits for Kafka to make one
        broker.make(name)
    consumer, hot_consumers = consume(topic), [consume(name) for name in hot]
    with stopped:
        start = now_ms()
        for name in hot:
            make(api, name, each, [start - 2000 + n for n in range(each)])
        make(api, topic, 40, start + 1)
    all_there(consumer, 40)
    for one in hot_consumers:
        all_there(one, each)
    waited = [sum(each_waited) for each_waited in zip(*(batches_waited(stack, topic, name) for name in hot))]
    assert max(waited) <= to_see(stack, 10 * each), sorted(waited)
    for one in hot_consumers:
        assert_in_order(one.all())


def test_a_consumer_that_never_reports_does_not_block_others(stack, api, topic, consume, small_batches):
    dead, count = topic + "-dead", 12000
    consumer, dead_consumer = consume(topic), consume(dead)
    assert api.put(f"/v1/topics/{dead}", {"ack_timeout": "PT1H", "retry": []}).status in (200, 201)
    make(api, dead, count, now_ms())
    all_there(dead_consumer, count)
    connection = connect(stack)
    until(lambda: rows(connection, "SELECT MAX(LENGTH(inflight)) n FROM shards")[0]["n"] == 2, "all is settled")
    for part in DISPATCHERS:
        stack.stop(part)
    rows(connection, "UPDATE jobs SET next_at = %s WHERE topic = %s", now_ms() - 1000, dead)
    make(api, topic, 100, now_ms())
    stack.start(DISPATCHERS[0], settings=SMALL)
    for n in range(40):
        make(api, topic, 1, now_ms())
    all_there(consumer, 140)
    until(lambda: rows(connection, "SELECT COUNT(*) n FROM jobs WHERE topic = %s AND state = 'dead'", dead)[0]["n"] == count,
          "all have timed out")
    assert batches_waited(stack, topic, dead, "finished_at")[-1] <= to_see(stack, count)


def test_a_paused_topic_with_thousands_of_overdue_jobs_delays_others_by_a_few_scans_only(stack, api, topic, consume, stopped):
    paused, count = topic + "-paused", 20000
    consumer, paused_consumer = consume(topic), consume(paused)
    with stopped:
        assert api.put(f"/v1/topics/{paused}", {"paused": True}).status == 201
        start = now_ms()
        make(api, paused, count, start - 1000)
        make(api, topic, 100, start)
    all_there(consumer, 100)
    assert looks_few_times(stack, stopped, count)  # leaders do not claim it batch by batch without effect
    assert paused_consumer.count == 0
    assert api.post(f"/v1/topics/{paused}/resume").status == 200
    until(lambda: paused_consumer.count > 0, "it goes on")
    late = make(api, topic, 20, now_ms())
    all_there(consumer, 120)
    assert set(late) <= {arrival.job for arrival in consumer.all()}
    all_there(paused_consumer, count)
    assert batches_waited(stack, topic, paused)[-1] <= to_see(stack, count)
    assert_in_order(paused_consumer.all())


def test_an_unwritable_topic_delays_others_by_a_few_scans_only(stack, api, topic, consume, stopped):
    gone, count = topic + "-gone", 20000
    consumer = consume(topic)
    with stopped:
        start = now_ms()
        make(api, gone, count, start - 1000)
        rows(connect(stack), "UPDATE topics SET kafka_topic = 'no:such topic' WHERE name = %s", gone)
        rows(connect(stack), "UPDATE installation SET topics_version = topics_version + 1")
        make(api, topic, 100, start)
    all_there(consumer, 100)
    assert looks_few_times(stack, stopped, count)
    assert rows(connect(stack), "SELECT COUNT(*) n FROM jobs WHERE topic = %s AND attempt > 0", gone)[0]["n"] == 0
    rows(connect(stack), "DELETE FROM jobs WHERE topic = %s", gone)


def test_without_redis_a_topic_with_thousands_of_overdue_jobs_does_not_block_others(stack, api, topic, consume, stopped):
    hot, count = topic + "-hot", 12000
    consumer, hot_consumer = consume(topic), consume(hot)
    with stopped:
        for part in ("redis1", "redis2"):
            stack.stop(part)
        start = now_ms()
        make(api, hot, count, start - 1000)
        make(api, topic, 100, start)
    all_there(consumer, 100)
    for n in range(20):
        make(api, topic, 1, now_ms())
    all_there(consumer, 120)
    all_there(hot_consumer, count)
    for part in ("redis1", "redis2"):
        stack.start(part)
    assert batches_waited(stack, topic, hot)[-1] <= to_see(stack, count)


def test_thousands_of_jobs_due_at_one_instant_are_sent_in_order_and_do_not_block_others(stack, api, topic, consume, small_batches):
    count = 20000
    for seconds in (8, 30, 120, 600):  # retries until the jobs exist before they are due
        name, hot = f"{topic}-{seconds}", f"{topic}-{seconds}-hot"
        instant = now_ms() + seconds * 1000
        make(api, hot, count, instant)
        make(api, name, 100, [instant + 20 * n for n in range(100)])
        if now_ms() < instant:
            break
    consumer, hot_consumer = consume(name), consume(hot)
    all_there(consumer, 100)
    all_there(hot_consumer, count)
    assert_in_order(hot_consumer.all())
    assert batches_waited(stack, name, hot)[-1] <= to_see(stack, count)


def topics_of_claims(connection, like):
    """The number of topics in each claim of their jobs' first attempts."""
    found = {}
    for row in rows(connection, "SELECT claim_shard, dispatched_at, topic FROM jobs WHERE topic LIKE %s AND attempt = 1", like):
        found.setdefault((row["claim_shard"], row["dispatched_at"]), set()).add(row["topic"])
    return [len(topics) for topics in found.values()]


def test_a_batch_has_jobs_of_a_few_topics(stack, api, topic, small_batches):
    """Four in 24 topics each, due at one instant: six of a shard's topics and more, of which three go together."""
    names, connection = [f"{topic}.{n}" for n in range(24)], connect(stack)

    def dispatched():
        return rows(connection, "SELECT COUNT(*) n FROM jobs WHERE topic LIKE %s AND attempt = 1", topic + "%")[0]["n"]
    small_batches(**{"dispatch.batch_topics": "3"})
    for name in names:
        make(api, name, 1, now_ms())
    until(lambda: dispatched() == 24, "all topics are there", seconds=90)
    due = rfc3339(now_ms() + 1000)
    api.batch([{"topic": name, "run_at": due} for name in names for _ in range(4)])
    until(lambda: dispatched() == 5 * 24, "all are dispatched")
    assert max(topics_of_claims(connection, topic + "%")) == 3

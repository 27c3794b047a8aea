"""Limits of topics, over four shards and three dispatchers: what is in flight is counted in MySQL and by the consumer, rates by dispatched_at."""
import heapq
import threading
import time

import pytest

from harness.checker import connect, rows, shard_of
from harness.consumer import TestConsumer
from harness.stack import until

pytestmark = pytest.mark.in_turns(3)

SHARDS = 4


class Worker:
    """Takes every message, and reports it `seconds` later; knows how many it has at a time."""

    def __init__(self, stack, topic, seconds):
        self.seconds, self.held, self.most, self.done = seconds, 0, 0, 0
        self._due, self._lock, self._end = [], threading.Lock(), threading.Event()
        self.consumer = TestConsumer(stack["DUETIME_KAFKA"], [topic], rule=self._take)
        self._thread = threading.Thread(target=self._report, daemon=True)
        self._thread.start()

    def _take(self, arrival):
        with self._lock:
            heapq.heappush(self._due, (time.monotonic() + self.seconds, arrival.job, arrival.attempt))
            self.held += 1
            self.most = max(self.most, self.held)

    def _report(self):
        while not self._end.wait(0.005):
            with self._lock:
                while self._due and self._due[0][0] <= time.monotonic():
                    _, job, attempt = heapq.heappop(self._due)
                    self.held -= 1
                    self.done += 1
                    self.consumer.report(job, attempt)

    def end(self):
        self._end.set()
        self._thread.join(5)
        self.consumer.end()


class InFlight(threading.Thread):
    """Counts the dispatched rows of a topic, again and again."""

    def __init__(self, stack, topic):
        super().__init__(daemon=True)
        self.samples, self._ended = [], threading.Event()
        self._connection, self._topic = connect(stack), topic
        self.start()

    def run(self):
        while not self._ended.wait(0.01):
            found = rows(self._connection, "SELECT COUNT(*) AS n FROM jobs WHERE topic = %s AND state = 'dispatched'", self._topic)
            self.samples.append((time.monotonic(), found[0]["n"]))

    def end(self):
        self._ended.set()
        self.join(5)

    def most(self, since=0.0):
        return max(n for at, n in self.samples if at >= since)

    def mean(self, since, until_):
        """Weighted by time."""
        inside = [(at, n) for at, n in self.samples if since <= at <= until_]
        return sum(n * (later - at) for (at, n), (later, _) in zip(inside, inside[1:])) / (inside[-1][0] - inside[0][0])


@pytest.fixture
def watched(stack, topic):
    """watched(seconds): a worker and a count of what is in flight of the topic; what is left is reported at the end."""
    made = []

    def start(seconds):
        made.extend([InFlight(stack, topic), Worker(stack, topic, seconds)])
        return made
    yield start
    if made:
        made[1].seconds = 0
        rows(connect(stack), "UPDATE topics SET max_in_flight = NULL, rate_limit = NULL WHERE name = %s", topic)
        rows(connect(stack), "UPDATE installation SET topics_version = topics_version + 1")
        rows(connect(stack), "UPDATE jobs SET state = 'cancelled', next_at = NULL WHERE topic = %s AND state = 'scheduled'", topic)
    for one in made:
        one.end()


def make(api, topic, count, **more):
    lines = api.batch([{"topic": topic, "delay": 0, "retry": [], "payload": n, **more} for n in range(count)])
    assert all(line["status"] == 201 for line in lines), lines[:1]
    return [line["id"] for line in lines]


def only_shard(stack, topic, shard):
    """Cancels what is not of the shard."""
    ids = [row["id"] for row in rows(connect(stack), "SELECT id FROM jobs WHERE topic = %s", topic)]
    others = [str(job) for job in ids if shard_of(job, SHARDS) != shard]
    rows(connect(stack), f"UPDATE jobs SET state = 'cancelled', next_at = NULL WHERE id IN ({','.join(others)})")
    return len(ids) - len(others)


def used(in_flight, limit, seconds, began):
    """The part of the limit that was used, once it was reached; and it was never exceeded."""
    until(lambda: in_flight.samples and in_flight.most() >= limit, lambda: f"{limit} in flight: {in_flight.samples[-1:]}")
    start = time.monotonic()
    time.sleep(seconds)
    assert in_flight.most(began) <= limit
    return in_flight.mean(start, time.monotonic()) / limit


@pytest.mark.parametrize("limit", [2, 12])
def test_what_is_in_flight_stays_within_the_limit_and_nine_tenths_of_it_are_used(stack, api, topic, watched, limit):
    assert api.put(f"/v1/topics/{topic}", {"max_in_flight": limit}).status == 201
    in_flight, worker = watched(1.0)
    began = time.monotonic()
    make(api, topic, limit * 16)
    part = used(in_flight, limit, 8, began)
    print(f"max_in_flight {limit}: {part:.3f} used, {worker.done} done, the worker had {worker.most}")
    assert worker.most <= limit
    assert part >= 0.9


def test_a_backlog_in_one_shard_uses_all_of_the_limit(stack, api, topic, watched):
    limit = 8
    assert api.put(f"/v1/topics/{topic}", {"max_in_flight": limit, "paused": True}).status == 201
    in_flight, worker = watched(1.0)
    make(api, topic, limit * SHARDS * 14)
    assert only_shard(stack, topic, 1) > limit * 8
    began = time.monotonic()
    assert api.post(f"/v1/topics/{topic}/resume").status == 200
    part = used(in_flight, limit, 6, began)
    print(f"one shard: {part:.3f} used, the worker had {worker.most}")
    assert worker.most <= limit
    assert part >= 0.9


def test_a_topic_at_its_limit_waits_and_keeps_nobody_waiting(stack, api, topic, watched, consume):
    assert api.put(f"/v1/topics/{topic}", {"max_in_flight": 1}).status == 201
    in_flight, _ = watched(3600)
    ids = make(api, topic, 3000)
    until(lambda: in_flight.samples and in_flight.most() == 1, "one is in flight")
    waiting = lambda: {api.get(f"/v1/jobs/{job}").json["waiting_for"] for job in (ids[0], ids[1500], ids[-1])}  # noqa: E731
    until(lambda: "limit" in waiting() and waiting() <= {"limit", "ack"}, waiting)
    other = topic + "-other"
    consumer = consume(other)
    consumer.wait(api.make(topic=other, delay=0)["id"])
    for _ in range(20):
        made = time.time() * 1000
        arrival = consumer.wait(api.make(topic=other, delay=0)["id"])
        assert arrival.received_ms - made < 1000
    assert in_flight.most() == 1


def test_a_limit_that_is_lowered_lets_nothing_go_until_there_is_room_and_one_that_is_raised_holds_within_a_second(stack, api, topic, watched):
    assert api.put(f"/v1/topics/{topic}", {"max_in_flight": 10}).status == 201
    in_flight, worker = watched(2.0)
    make(api, topic, 300)
    until(lambda: in_flight.samples and in_flight.most() == 10, "ten in flight")
    assert api.put(f"/v1/topics/{topic}", {"max_in_flight": 3}).status == 200
    before = in_flight.samples[-1][1]
    time.sleep(0.05)
    lowered = time.monotonic()
    time.sleep(5)
    counts = [n for at, n in in_flight.samples if at >= lowered]
    assert all(later <= max(earlier, 3) for earlier, later in zip(counts, counts[1:])), (before, counts)
    assert counts[-1] <= 3
    worker.seconds = 3600
    raised = time.monotonic()
    assert api.put(f"/v1/topics/{topic}", {"max_in_flight": 20}).status == 200
    until(lambda: in_flight.samples[-1][1] == 20, lambda: f"twenty in flight: {in_flight.samples[-1]}", every=0.01)
    took = next(at for at, n in in_flight.samples if at > raised and n == 20) - raised
    print(f"raised: {took:.3f} s")
    assert took < 1.5
    assert api.put(f"/v1/topics/{topic}", {}).status == 200
    until(lambda: in_flight.samples[-1][1] > 20, "without a limit all go")


@pytest.mark.parametrize("rate, a_second", [("40/s", 40), ("120/m", 2)])
def test_no_ten_seconds_have_more_attempts_than_the_rate_and_most_of_it_is_used(stack, api, topic, watched, rate, a_second):
    assert api.put(f"/v1/topics/{topic}", {"rate_limit": rate}).status == 201
    _, worker = watched(0)
    seconds = 14
    make(api, topic, a_second * (seconds + 4))
    time.sleep(seconds)
    at = sorted(row["at"] for row in rows(connect(stack), "SELECT dispatched_at AS at FROM jobs WHERE topic = %s AND attempt > 0", topic))
    most = max(sum(1 for other in at if first <= other <= first + 10000) for first in at)
    span = (at[-1] - at[0]) / 1000
    print(f"rate {rate}: {most} in ten seconds at most, {len(at)} in {span:.1f} s, {worker.done} done")
    assert most <= 10 * a_second + max(a_second, 1)
    assert len(at) >= 0.9 * a_second * span
    assert span > seconds - 3

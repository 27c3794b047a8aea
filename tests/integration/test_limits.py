"""Limits of topics, over four shards and three dispatchers: what is in flight is counted in MySQL and by the consumer, rates by dispatched_at."""
import pytest

from harness.checker import connect, rows, shard_of
from harness.deliveries.account import never_over_the_rate
from harness.deliveries.in_flight import InFlight
from harness.stack import until

pytestmark = pytest.mark.in_turns(3)

SHARDS = 4


class Watched:
    """A topic with a limit: counts its jobs in flight from MySQL, and has a consumer that reports on command."""

    def __init__(self, stack, api, topic, consumer):
        self.api, self.topic, self.consumer, self.in_flight, self.reported = api, topic, consumer, InFlight(stack, topic), 0

    def limit(self, number, **more):
        """From now on the test fails if the number of jobs in flight grows above `number`."""
        settings = {"max_in_flight": number, **more} if number else more
        self.in_flight.limit(number, lambda: self.api.put(f"/v1/topics/{self.topic}", settings).status in (200, 201))

    def report(self, count):
        """Reports the `count` oldest of its jobs. Returns how many it still has."""
        arrivals = self.consumer.all()
        for arrival in arrivals[self.reported:self.reported + count]:
            self.consumer.report(arrival.job, arrival.attempt)
        self.reported += count
        return len(arrivals) - self.reported

    def has(self, count):
        """Waits until the consumer has this many unreported jobs, also by its own count."""
        until(lambda: self.consumer.count - self.reported == count, lambda: f"{count} are out: {self.consumer.count} came, {self.reported} were reported")

    def used_again_and_again(self, limit, rounds=6):
        """After one job or all are reported, other jobs take their places while there is a backlog."""
        for n in range(rounds):
            self.has(limit)
            self.report(1 if n % 2 else limit)
        self.has(limit)


@pytest.fixture
def watched(stack, api, topic, consume):
    made = []

    def start():
        made.append(Watched(stack, api, topic, consume(topic)))
        return made[0]
    yield start
    problems = [problem for one in made for problem in one.in_flight.end()]
    rows(connect(stack), "UPDATE topics SET max_in_flight = NULL, rate_limit = NULL WHERE name = %s", topic)
    rows(connect(stack), "UPDATE installation SET topics_version = topics_version + 1")
    rows(connect(stack), "UPDATE jobs SET state = 'cancelled', next_at = NULL WHERE topic = %s AND state = 'scheduled'", topic)
    for one in made:
        one.report(one.consumer.count)
    assert not problems, problems[:20]


def make(api, topic, count):
    lines = api.batch([{"topic": topic, "delay": 0, "retry": [], "ack_timeout": "PT1H", "payload": n} for n in range(count)])
    assert all(line["status"] == 201 for line in lines), lines[:1]
    return [line["id"] for line in lines]


def only_shard(stack, topic, shard):
    """Cancels what is not of the shard."""
    ids = [row["id"] for row in rows(connect(stack), "SELECT id FROM jobs WHERE topic = %s", topic)]
    others = [str(job) for job in ids if shard_of(job, SHARDS) != shard]
    rows(connect(stack), f"UPDATE jobs SET state = 'cancelled', next_at = NULL WHERE id IN ({','.join(others)})")
    return len(ids) - len(others)


@pytest.mark.parametrize("limit", [2, 12])
def test_jobs_in_flight_stay_within_the_limit_and_use_all_of_it(api, topic, watched, limit):
    topic_of = watched()
    topic_of.limit(limit)
    make(api, topic, limit * 16)
    topic_of.used_again_and_again(limit)


def test_a_backlog_in_one_shard_uses_all_of_the_limit(stack, api, topic, watched):
    limit, topic_of = 8, watched()
    topic_of.limit(limit, paused=True)
    make(api, topic, limit * SHARDS * 14)
    assert only_shard(stack, topic, 1) > limit * 8
    assert api.post(f"/v1/topics/{topic}/resume").status == 200
    topic_of.used_again_and_again(limit)


def test_a_topic_at_its_limit_waits_and_does_not_delay_other_topics(api, topic, watched, consume):
    topic_of = watched()
    topic_of.limit(1)
    ids = make(api, topic, 3000)
    topic_of.has(1)
    waiting = lambda: {api.get(f"/v1/jobs/{job}").json["waiting_for"] for job in (ids[0], ids[1500], ids[-1])}  # noqa: E731
    until(lambda: "limit" in waiting() and waiting() <= {"limit", "ack"}, waiting)
    other = topic + "-other"
    consumer = consume(other)
    for _ in range(20):
        consumer.wait(api.make(topic=other, delay=0)["id"])
    topic_of.has(1)


def test_after_a_limit_is_lowered_no_job_is_sent_until_there_is_room_and_a_raised_limit_is_used(api, topic, watched):
    topic_of = watched()
    topic_of.limit(10)
    make(api, topic, 300)
    topic_of.has(10)
    topic_of.limit(3)
    for left in range(9, 2, -1):
        topic_of.report(1)
        topic_of.has(left)
    topic_of.used_again_and_again(3, 4)
    topic_of.limit(20)
    topic_of.has(20)
    topic_of.limit(None)
    until(lambda: topic_of.consumer.count - topic_of.reported > 20, "without a limit all jobs are sent")


@pytest.mark.parametrize("rate, a_second", [("40/s", 40), ("120/m", 2)])
def test_no_ten_seconds_have_more_attempts_than_the_rate_allows(stack, api, topic, watched, rate, a_second):
    watched()
    assert api.put(f"/v1/topics/{topic}", {"rate_limit": rate}).status == 201
    make(api, topic, a_second * 13)
    sent = lambda: sorted(row["at"] for row in rows(connect(stack), "SELECT dispatched_at AS at FROM jobs WHERE topic = %s AND attempt > 0", topic))  # noqa: E731
    until(lambda: len(sent()) == a_second * 13, lambda: f"{len(sent())} have gone", seconds=20)
    at = sent()
    print(f"rate {rate}: {len(at)} in {(at[-1] - at[0]) / 1000:.1f} s")
    assert not never_over_the_rate(topic, at, a_second)

"""Topics that Kafka does not know yet cost those who name them, and nobody else."""
import threading
import time
import uuid

import pytest

from harness.checker import connect, rows
from harness.rest import Rest
from harness.stack import until

pytestmark = pytest.mark.in_turns(2)  # they are slow, and alike
MANY = 100


def many_of(owner):
    owner = f"{owner}-{uuid.uuid4().hex[:6]}"
    return [f"{owner}.{i}" for i in range(MANY)]


def lateness(api, jobs):
    """Of each job's first attempt, in milliseconds."""
    return [api.get(f"/v1/jobs/{job['id']}/attempts").json["attempts"][0]["lateness_ms"] for job in jobs]


def steady(api, topic, seconds, every=0.05):
    jobs, end = [], time.monotonic() + seconds
    while time.monotonic() < end:
        jobs.append(api.make(topic=topic, delay=300))
        time.sleep(every)
    return jobs


def went_at(stack, topics):
    """When the first attempts of their jobs were dispatched."""
    names = ",".join(["%s"] * len(topics))
    found = rows(connect(stack), f"SELECT dispatched_at FROM jobs WHERE topic IN ({names}) AND attempt = 1", *topics)
    return [row["dispatched_at"] for row in found]


def arrived(stack, topics):
    return len(went_at(stack, topics))


def make_all(stack, topics, each=1):
    rest = Rest(stack["DUETIME_URL_API1"])
    rest.batch([{"topic": topic, "delay": 0} for topic in topics] * each)
    rest.close()


def rows_read(stack):
    """By key, as rows of jobs are that a leader looks at."""
    return sum(int(row["Value"]) for row in rows(connect(stack), "SHOW GLOBAL STATUS LIKE 'Handler_read_key'"))


def test_many_new_topics_hold_up_nobody_elses_jobs(stack, api, topic, consume):
    consumer = consume(topic)
    consumer.wait(api.make(topic=topic, delay=0)["id"])
    news = many_of("new")
    flood = threading.Timer(0.5, lambda: make_all(stack, news))
    flood.start()
    jobs = steady(api, topic, 6)
    flood.join()
    consumer.wait_count(len(jobs) + 1, 20)
    until(lambda: arrived(stack, news) == MANY, lambda: f"all but {MANY - arrived(stack, news)} have gone", seconds=120)
    late = sorted(lateness(api, jobs))
    print("lateness beside new topics: p50", late[len(late) // 2], "ms, worst", late[-1], "ms")
    assert late[-1] < 1000, late


def test_a_new_topic_need_not_wait_for_a_flood_of_others(stack, api, consume):
    """Those who name many wait for each other; one of another owner goes between them."""
    flood = many_of("flood")
    api.batch([{"topic": topic, "delay": 0} for topic in flood])
    own = api.make(topic=f"own-{uuid.uuid4().hex[:6]}.first", delay=0)
    own_at, = until(lambda: went_at(stack, [own["topic"]]), "it has gone")
    until(lambda: arrived(stack, flood) == MANY, "the flood has gone, too", seconds=120)
    before = sum(at < own_at for at in went_at(stack, flood))
    print("lateness of the first job of a new topic:", *lateness(api, [own]), "ms; of the flood", before, "went before it")
    assert before < MANY / 2


def test_jobs_that_wait_for_their_topics_are_not_read_in_every_turn(stack, api, topic, consume):
    """Each job that goes takes a turn of its leader; what waits is looked at once a second, and when a topic was made."""
    consumer = consume(topic)
    consumer.wait(api.make(topic=topic, delay=0)["id"])
    flood = many_of("wait")
    make_all(stack, flood, each=20)
    time.sleep(3)  # all of it has been met
    before, began = rows_read(stack), time.monotonic()
    jobs = steady(api, topic, 5, every=0.01)
    read, took = rows_read(stack) - before, time.monotonic() - began
    print(f"{len(jobs)} jobs in {took:.1f} s: {read} rows read")
    assert read < 12000 * took
    consumer.wait_count(len(jobs) + 1, 20)
    until(lambda: arrived(stack, flood) == MANY * 20, "the flood has gone, too", seconds=120)

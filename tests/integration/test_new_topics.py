"""Topics that Kafka does not know yet cost those who name them, and nobody else."""
import threading
import time
import uuid

import pytest

from harness.checker import connect, rows
from harness.rest import Rest
from harness.stack import until
from harness.takeover import leaders

pytestmark = pytest.mark.in_turns(2)  # they are slow, and alike
MANY = 40  # beside another owner that sends, an owner's first thirty topics are created soon, then about one a second
ALONE = 300


def many_of(owner, many=MANY):
    owner = f"{owner}-{uuid.uuid4().hex[:6]}"
    return [f"{owner}.{i}" for i in range(many)]


def steady(api, topic, seconds, every=0.05):
    jobs, end = [], time.monotonic() + seconds
    while time.monotonic() < end:
        jobs.append(api.make(topic=topic, delay=300))
        time.sleep(every)
    return jobs


def went_at(stack, topics):
    """Returns, in order, the times when the first attempts of the topics' jobs were dispatched."""
    names = ",".join(["%s"] * len(topics))
    found = rows(connect(stack), f"SELECT dispatched_at FROM jobs WHERE topic IN ({names}) AND attempt = 1", *topics)
    return sorted(row["dispatched_at"] for row in found)


def arrived(stack, topics):
    return len(went_at(stack, topics))


def make_all(stack, topics, each=1):
    rest = Rest(stack["DUETIME_URL_API1"])
    rest.batch([{"topic": topic, "delay": 0} for topic in topics] * each)
    rest.close()


def rows_read(stack):
    """By key, as rows of jobs are that a leader looks at."""
    return sum(int(row["Value"]) for row in rows(connect(stack), "SHOW GLOBAL STATUS LIKE 'Handler_read_key'"))


def test_many_new_topics_do_not_delay_jobs_of_other_owners(stack, api, topic, consume):
    """Some jobs are due before half of the new topics are served: nearly all of these jobs are sent before the last new topic's."""
    consumer = consume(topic)
    consumer.wait(api.make(topic=topic, delay=0)["id"])
    news = many_of("new")
    jobs = 1 + len(steady(api, topic, 1))  # the owner of the new topics is not alone
    flood = threading.Thread(target=make_all, args=(stack, news))
    flood.start()
    while arrived(stack, news) < MANY / 2:
        jobs += len(steady(api, topic, 0.3))
    flood.join()
    consumer.wait_count(jobs, 20)
    until(lambda: arrived(stack, news) == MANY, lambda: f"all but {MANY - arrived(stack, news)} are sent", seconds=120)
    theirs, mine = went_at(stack, news), went_at(stack, [topic])[1:]
    before = sum(at < theirs[-1] for at in mine)
    print(f"{before} of {len(mine)} jobs were sent before the last new topic's; {MANY} new topics took {theirs[-1] - theirs[0]} ms")
    assert before >= 0.9 * len(mine)


def test_new_topics_of_a_single_owner_are_created_as_fast_as_kafka_can(stack, api):
    """300 of them: some ten seconds on a machine at rest. If few were made at a time, as beside other owners, it would be 270 s, which is not waited for."""
    news = many_of("alone", ALONE)
    api.batch([{"topic": topic, "delay": 0} for topic in news])
    until(lambda: arrived(stack, news) == ALONE, lambda: f"all but {ALONE - arrived(stack, news)} are sent", seconds=120)


@pytest.fixture
def one_dispatcher(stack):
    """A single dispatcher makes all topics."""
    others = ("dispatcher2", "dispatcher3")
    for part in others:
        stack.stop(part)
    until(lambda: set(leaders(stack).values()) == {stack.pid("dispatcher1")}, lambda: f"dispatcher1 leads all shards: {leaders(stack)}")
    yield
    for part in others:
        stack.start(part)


def test_a_new_topic_need_not_wait_for_a_flood_of_others(stack, one_dispatcher, api):
    """Topics of one owner wait for each other. The topic of another owner is made before most of them."""
    flood = many_of("flood", ALONE)
    api.batch([{"topic": topic, "delay": 0} for topic in flood])
    own = api.make(topic=f"own-{uuid.uuid4().hex[:6]}.first", delay=0)
    asked = time.time() * 1000
    own_at, = until(lambda: went_at(stack, [own["topic"]]), "the job of the new topic is sent")
    until(lambda: arrived(stack, flood) == ALONE, "the flood is sent, too", seconds=120)
    before = sum(asked <= at < own_at for at in went_at(stack, flood))
    print(f"{before} jobs of the flood were sent before the first job of a new topic")
    assert before < ALONE / 2


def test_jobs_that_wait_for_their_topics_are_not_read_in_every_turn(stack, api, topic, consume):
    """Each job that goes takes a turn of its leader; what waits is looked at once a second, and when a topic was made."""
    consumer = consume(topic)
    consumer.wait(api.make(topic=topic, delay=0)["id"])
    flood = many_of("wait")
    steady(api, topic, 1)  # the owner of the flood is not alone
    make_all(stack, flood, each=20)
    while arrived(stack, flood) < MANY / 4 * 20:
        steady(api, topic, 0.3)
    before, began = rows_read(stack), time.monotonic()
    jobs = steady(api, topic, 5, every=0.01)
    read, took = rows_read(stack) - before, time.monotonic() - began
    print(f"{len(jobs)} jobs in {took:.1f} s: {read} rows read")
    assert read < 20000 * took  # if each turn read what waits, it would be some 40000
    consumer.wait_count(len(rows(connect(stack), "SELECT id FROM jobs WHERE topic = %s", topic)), 20)
    until(lambda: arrived(stack, flood) == MANY * 20, "the flood is sent, too", seconds=120)

"""An index that was not told of everything makes nobody late: stale connections, a Redis that pauses, is full or is started anew, one API that
is cut off from it, or killed then. The reconciler runs every ten minutes here: jobs that arrive sooner do not depend on it."""
import contextlib
import threading
import time

import pytest

from harness.checker import connect, rows
from harness.consumer import TestConsumer
from harness.harm.detours import Detours
from harness.rest import Rest
from harness.servers import redis_clients
from harness.stack import Stack, until

OPTIONS = ["--apis", "2", "--dispatchers", "2", "--redis", "1", "--shards", "4", "--sanitize", "--set", "reconcile.period=PT10M", "--set",
           "reconcile.walk=PT1H", "--set", "kafka.transaction_timeout=PT20S"]

pytestmark = pytest.mark.turn(0, 5)


@pytest.fixture(scope="module")
def detours():
    made = Detours([("api2", "redis1")])
    yield made
    made.end()


@pytest.fixture(scope="module")
def stack(detours):
    made = Stack("index-losses", *OPTIONS, *detours.options)
    detours.attach(made)
    yield made.up()
    made.reset()


@pytest.fixture
def redis(stack, detours):
    client = redis_clients(stack)[0]
    yield client
    detours.heal(late=False)
    with contextlib.suppress(Exception):
        client.config_set("maxmemory", 0)
        client.execute_command("CLIENT", "UNPAUSE")


@pytest.fixture
def consumer(stack, topic, api, request):
    """Reports as the test's marker says; the topic and its partitions are there, and everybody has met them."""
    made = TestConsumer(stack["DUETIME_KAFKA"], [topic], rule=getattr(request, "param", None))
    warm = [api.make(topic=topic, delay=0)["id"] for _ in range(8)]
    until(lambda: set(warm) <= {one.job for one in made.all()}, "the first jobs arrive")
    settled(stack)
    yield made
    made.end()


def settled(stack):
    """Nobody owes the index anything."""
    session = connect(stack)
    owed = "SELECT COUNT(*) n FROM processes WHERE index_down IS NOT NULL AND seen_at > UNIX_TIMESTAMP(NOW(3)) * 1000 - 4000"
    until(lambda: rows(session, owed)[0]["n"] == 0, "no process reports the index as down")
    session.close()
    time.sleep(1.5)  # a look of every dispatcher, and a compare


def arrive(consumer, ids, attempt=1):
    """The jobs arrive within the deadline of until(), long before the reconciler runs again."""
    missing = lambda: set(ids) - {one.job for one in consumer.all() if one.attempt == attempt}  # noqa: E731
    until(lambda: not missing(), lambda: f"{len(missing())} of {len(ids)} jobs arrive")


def end_connections(redis):
    """As `timeout` does with idle ones."""
    redis.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")


class Stream:
    """Jobs at a steady rate through one API, each due right away or a little later."""

    def __init__(self, url, topic, delay=300, rate=20):
        self.made, self._end = [], threading.Event()
        self._thread = threading.Thread(target=self._run, args=(url, topic, delay, rate))
        self._thread.start()

    def _run(self, url, topic, delay, rate):
        rest = Rest(url)
        while not self._end.wait(1 / rate):
            try:
                answer = rest.post("/v1/jobs", {"topic": topic, "delay": delay})
            except OSError:  # its API was killed
                break
            if answer.status == 201:
                self.made.append(answer.json["id"])
        rest.close()

    def more(self, count):
        wanted = len(self.made) + count
        until(lambda: len(self.made) >= wanted, f"{count} more jobs are made")

    def end(self):
        self._end.set()
        self._thread.join()
        return self.made


def test_a_job_does_not_wait_for_the_reconciler_if_redis_closed_the_apis_idle_connection(api, redis, topic, consumer):
    for _ in range(8):
        end_connections(redis)
        arrive(consumer, [api.make(topic=topic, delay=300)["id"]])


def test_jobs_do_not_wait_if_redis_closes_idle_connections(api, redis, topic, consumer):
    waiting = api.make(topic=topic, delay="PT1H")["id"]
    redis.config_set("timeout", 2)
    try:
        for ask in (lambda: api.make(topic=topic, delay=300)["id"], lambda: api.post(f"/v1/jobs/{waiting}/run-now").json["id"]):
            time.sleep(4)  # by then Redis would have closed an idle connection
            arrive(consumer, [ask()])
    finally:
        redis.config_set("timeout", 0)


def test_a_run_now_does_not_wait_for_the_reconciler_if_redis_closed_the_connection(api, redis, topic, consumer):
    for job in [api.make(topic=topic, delay="PT1H")["id"] for _ in range(8)]:
        end_connections(redis)
        assert api.post(f"/v1/jobs/{job}/run-now").status == 200
        arrive(consumer, [job])


@pytest.mark.parametrize("consumer", [lambda arrival: {"status": "failed"} if arrival.attempt == 1 else {"status": "succeeded"}], indirect=True)
def test_a_retry_after_a_result_from_kafka_does_not_wait_for_the_reconciler_if_redis_closed_the_connection(api, redis, topic, consumer):
    for _ in range(6):
        end_connections(redis)
        arrive(consumer, [api.make(topic=topic, delay=0, retry=["PT0.3S"])["id"]], attempt=2)


def test_the_first_job_after_a_redis_restart_does_not_wait_for_the_reconciler_if_its_api_did_not_notice_the_restart(stack, api, redis, topic, consumer):
    for _ in range(3):
        stack.kill("redis1")
        stack.start("redis1")
        arrive(consumer, [api.make(topic=topic, delay=300)["id"] for _ in range(4)])


@pytest.mark.parametrize("pause_ms", [1300, 4000])
def test_jobs_due_after_a_pause_of_redis_do_not_wait_for_the_reconciler(stack, redis, topic, consumer, pause_ms):
    stream = Stream(stack["DUETIME_URL_API1"], topic)
    stream.more(20)
    redis.execute_command("CLIENT", "PAUSE", pause_ms, "WRITE")
    redis.set("test", 1)  # blocks until the pause ends
    stream.more(60)
    arrive(consumer, stream.end())


def test_jobs_do_not_wait_for_the_reconciler_while_redis_is_full_or_afterwards(stack, redis, topic, consumer):
    stream = Stream(stack["DUETIME_URL_API1"], topic)
    stream.more(20)
    for memory in (1, 0):
        redis.config_set("maxmemory", memory)
        stream.more(60)
        arrive(consumer, list(stream.made))
    arrive(consumer, stream.end())


def test_jobs_do_not_wait_for_the_reconciler_if_only_their_api_is_cut_off_from_redis(stack, detours, redis, topic, consumer):
    well, cut = Stream(stack["DUETIME_URL_API1"], topic), Stream(stack["DUETIME_URL_API2"], topic)
    cut.more(20)
    for change in (detours["api2", "redis1"].refuse, detours["api2", "redis1"].heal):
        change()
        cut.more(60)
        arrive(consumer, list(cut.made))
    arrive(consumer, cut.end() + well.end())


def test_jobs_do_not_wait_for_the_reconciler_if_their_api_is_killed_while_cut_off_from_redis(stack, detours, redis, topic, consumer):
    stream = Stream(stack["DUETIME_URL_API2"], topic, delay=3000)
    stream.more(20)
    detours["api2", "redis1"].refuse()
    stream.more(30)
    stack.kill("api2")
    try:
        arrive(consumer, stream.end())
    finally:
        detours.heal(late=False)
        stack.start("api2")

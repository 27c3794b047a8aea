"""Rows of the catalogue about callbacks, pops and limits: receivers that fail, processes that are gone with callbacks in their hands or
pops in flight, topics and limits that change under load, and a Kafka that does not answer."""
import contextlib
import random
import socket
import urllib.parse

import pytest

from harness.checker import connect, rows
from harness.deliveries.account import never_over_the_rate
from harness.deliveries.in_flight import InFlight
from harness.load import under_load
from harness.rest import Rest
from harness.soak import flush_redis
from harness.stack import until

ALL = ("kafka", "http", "pull")
DISPATCHERS = ("dispatcher1", "dispatcher2")


def statuses(stack, topic, status):
    """How many attempts of the topic ended so."""
    return rows(connect(stack), "SELECT COUNT(*) n FROM v_attempts a JOIN jobs j ON j.id = a.job_id WHERE j.topic = %s AND a.status = %s", topic, status)[0]["n"]


# ---- row 46: receivers ----

@contextlib.contextmanager
def refusing(receiver):
    receiver.refuse()
    yield
    receiver.listen()


@contextlib.contextmanager
def in_mode(receiver, mode):
    receiver.mode = mode
    yield
    receiver.mode = "plan"


def others_go_on_meanwhile(stack, seed, harm):
    with under_load(stack, seed, kinds=ALL) as run:
        run.goes_on(30, by="http")
        with harm(run.ways.receiver):
            for way in ("kafka", "pull"):
                run.goes_on(60, by=way)
            run.wait(3)
        run.goes_on(40, seconds=60, by="http")
    return run


@pytest.mark.one_of
@pytest.mark.parametrize("way", ["refuses", "silent"])
def test_row46_a_dead_receiver_delays_only_its_own_topic_and_is_called_again(stack, seed, way):
    run = others_go_on_meanwhile(stack, seed, refusing if way == "refuses" else lambda receiver: in_mode(receiver, "silent"))
    assert statuses(stack, run.ways.of["http"], "failed") > 0


@pytest.mark.one_of
@pytest.mark.parametrize("mode", ["slow", "drip"])
def test_row46_a_receiver_that_is_slow_or_drips_delays_only_its_own_topic(stack, seed, mode):
    others_go_on_meanwhile(stack, seed, lambda receiver: in_mode(receiver, mode))


def test_row46_a_receiver_that_fails_for_a_while_is_called_again_and_its_jobs_end(stack, seed):
    others_go_on_meanwhile(stack, seed, lambda receiver: in_mode(receiver, "failing"))


# ---- rows 44 and 45: who has callbacks in its hands is gone ----

def in_hands_of(stack, part):
    return rows(connect(stack), "SELECT COUNT(*) n FROM hands h JOIN hand_owners o ON o.owner = h.owner WHERE o.name LIKE %s", f"%:{stack.pid(part)}")[0]["n"]


def with_full_hands(stack, run, part):
    """The receiver takes its time, so that many callbacks are under way; it answers at once again after this."""
    stack.refresh()
    run.ways.receiver.mode = "slow"
    until(lambda: in_hands_of(stack, part) >= 10, lambda: f"callbacks in the hands of {part}: {in_hands_of(stack, part)}", every=0.01)


def test_row44_callbacks_of_a_dispatcher_that_is_killed_are_lost_and_followed_once(stack, seed):
    with under_load(stack, seed, kinds=ALL) as run:
        for part in DISPATCHERS:
            with_full_hands(stack, run, part)
            stack.kill(part)
            run.faults["killed"] += 1
            run.ways.receiver.mode = "plan"
            run.goes_on(40, seconds=60, by="http")
            stack.start(part)
            run.goes_on()
    lost = statuses(stack, run.ways.of["http"], "lost")
    print(f"{lost} attempts were lost")
    assert lost > 0


def test_row45_a_dispatcher_resumed_after_its_successor_sends_no_callback_twice(stack, seed):
    with under_load(stack, seed, kinds=ALL) as run:
        for part in DISPATCHERS:
            with_full_hands(stack, run, part)
            with stack.stopped(part):
                run.faults["stopped"] += 1
                run.ways.receiver.mode = "plan"
                until(lambda: in_hands_of(stack, part) == 0, "its callbacks are recorded as lost")  # noqa: B023
                run.goes_on(40, seconds=60, by="http")
            run.goes_on(by="http")
    lost = statuses(stack, run.ways.of["http"], "lost")
    print(f"{lost} attempts were lost")
    assert lost > 0


# ---- row 59: Kafka is away ----

@pytest.mark.one_of
@pytest.mark.parametrize("how", ["stopped", "killed"])
def test_row59_callbacks_and_pops_continue_while_kafka_is_down(stack, seed, how):
    with under_load(stack, seed, kinds=ALL) as run:
        run.goes_on(30, by="kafka")
        with stack.stopped("kafka") if how == "stopped" else stack.killed("kafka"):
            run.faults[how] += 1
            for _ in range(3):  # first a commit hangs, then the opening of a producer
                for way in ("http", "pull"):
                    run.goes_on(60, by=way)
                run.wait(6)
        run.goes_on(60, seconds=60, by="kafka")


# ---- row 47: an API with pops in flight, and many that wait ----

class Waiting:
    """Pops that wait for a topic of which no job is due: `count` connections to one API."""

    def __init__(self, url, topic, count):
        parts = urllib.parse.urlsplit(url)
        body = b'{"wait":"PT60S","max":1}'
        self.request = (f"POST /v1/topics/{topic}/pop HTTP/1.1\r\nhost: {parts.netloc}\r\ncontent-type: application/json\r\n"
                        f"content-length: {len(body)}\r\n\r\n").encode() + body
        self.sockets = [self._open((parts.hostname, parts.port)) for _ in range(count)]

    def _open(self, address):
        connection = socket.create_connection(address, 60)
        connection.sendall(self.request)
        connection.settimeout(60)
        return connection

    def end(self):
        for connection in self.sockets:
            connection.close()


def waiting_pops(api):
    return Rest(api).metric("duetime_pops_waiting")


def test_row47_an_api_killed_while_pops_wait_gives_no_job_to_two_clients(stack, api, seed):
    with under_load(stack, seed, kinds=("http", "pull")) as run:
        idle = f"idle-{seed}-{random.getrandbits(32):08x}"
        assert run.ways.put(idle, "pull") == 201
        waiting = Waiting(stack["DUETIME_URL_API2"], idle, 1000)
        try:
            until(lambda: waiting_pops(stack["DUETIME_URL_API2"]) >= 1000, lambda: f"a thousand pops wait: {waiting_pops(stack['DUETIME_URL_API2'])}")
            run.goes_on(60, by="pull")
            stack.kill("api2")
            run.faults["killed"] += 1
            run.goes_on(60, by="pull")
            made = {api.make(topic=idle, delay=0)["id"] for _ in range(5)}
            stack.start("api2")
            got = []
            until(lambda: got.extend(api.post(f"/v1/topics/{idle}/pop", {"max": 5, "wait": 500}).json["jobs"]) or len(got) >= 5, lambda: f"{got}")
            assert {(job["id"], job["attempt"]) for job in got} == {(job, 1) for job in made}, "who died got something"
            answers = api.post("/v1/results", [{"job_id": job, "attempt": 1, "status": "succeeded"} for job in sorted(made)]).json
            assert [answer["status"] for answer in answers] == [200] * 5, answers
        finally:
            waiting.end()
        run.goes_on(60, by="pull")


# ---- row 50 ----

def test_row50_emptying_redis_while_clients_pop_delays_jobs_but_loses_none(stack, seed):
    with under_load(stack, seed, kinds=("http", "pull")) as run:
        for _ in range(3):
            flush_redis(stack)
            run.faults["emptied"] += 1
            run.goes_on(60, by="pull")
            run.goes_on(30, by="http")


# ---- row 48 ----

def test_row48_a_change_of_delivery_under_load_loses_and_duplicates_no_job(stack, seed):
    chance = random.Random(f"{seed}/turns")
    with under_load(stack, seed, kinds=(*ALL, "turning"), finish_seconds=60) as run:
        for way in chance.sample(["kafka", "http", "pull", "http", "kafka", "pull"], 6):
            run.ways.turn(way)
            run.faults["turned"] += 1
            run.wait(chance.uniform(0.2, 2.5))
        for way in ("http", "kafka", "pull"):
            run.ways.turn(way)
            run.goes_on(20, by=way)


# ---- row 49 ----

@contextlib.contextmanager
def counted(stack, topic):
    counting = InFlight(stack, topic)
    yield counting
    problems = counting.end()
    assert not problems, "\n".join(problems[:20])
    print(f"{topic}: {len(counting.samples)} looks, {counting.most()} in flight at most")


@pytest.mark.one_of
@pytest.mark.parametrize("kind", ["http", "pull", "kafka"])
def test_row49_a_limit_that_changes_under_load_is_never_exceeded(stack, seed, kind):
    chance = random.Random(f"{seed}/limits")
    with under_load(stack, seed, kinds=ALL, finish_seconds=90) as run:
        topic = run.ways.of.get(kind) or run.topics[0]
        with counted(stack, topic) as counting:
            for limit in [chance.choice((1, 2, 5, 20, 60)) for _ in range(4)]:
                counting.limit(limit, lambda: run.ways.put(topic, kind, max_in_flight=limit) == 200)  # noqa: B023
                run.faults["limit changed"] += 1
                run.wait(chance.uniform(1.5, 3))
            stack.kill("dispatcher1")
            run.wait(2)
            stack.start("dispatcher1")
            counting.limit(40, lambda: run.ways.put(topic, kind, max_in_flight=40) == 200)
            run.wait(2)
            counting.limit(None, lambda: run.ways.put(topic, kind) == 200)
        a_rate_is_kept(stack, run, topic, kind)


def a_rate_is_kept(stack, run, topic, kind, rate=20):
    assert run.ways.put(topic, kind, rate_limit=f"{rate}/s") == 200
    run.wait(1)
    began = now_of(stack)
    run.wait(6)
    ended = now_of(stack)
    at = [row["ms"] for row in rows(connect(stack), "SELECT dispatched_at ms FROM jobs WHERE topic = %s AND attempt > 0 AND dispatched_at BETWEEN %s AND %s"
                                    " UNION ALL SELECT a.dispatched_at FROM attempts a JOIN jobs j ON j.id = a.job_id WHERE j.topic = %s"
                                    " AND a.dispatched_at BETWEEN %s AND %s", topic, began, ended, topic, began, ended)]
    assert run.ways.put(topic, kind) == 200
    print(f"{len(at)} attempts in {(ended - began) / 1000:.1f} s at a rate of {rate} a second")
    assert at and not never_over_the_rate(topic, at, rate, 5000), never_over_the_rate(topic, at, rate, 5000)


def now_of(stack):
    return int(rows(connect(stack), "SELECT CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 AS SIGNED) now")[0]["now"])

"""Pops that wait: a long poll that holds neither thread nor connection to MySQL."""
import concurrent.futures
import contextlib
import datetime
import json
import resource
import select
import socket
import threading
import time

import pytest

from harness.problems import refused
from harness.rest import Rest
from harness.stack import until


@pytest.fixture
def pulled(api, api2, topic):
    for rest in (api, api2):
        settle(rest, 0)
    assert api.put(f"/v1/topics/{topic}", {"delivery": "pull"}).status == 201
    return topic


class Waiter:
    """One POST on a socket of its own, whose answer is read later. Without a topic the body names them."""

    def __init__(self, rest, topic, **body):
        self.socket = socket.create_connection((rest.host, rest.port), timeout=120)
        self.data = b""
        text = json.dumps(body).encode()
        path = f"/v1/topics/{topic}/pop" if topic else "/v1/pop"
        self.socket.sendall(b"POST %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
                            % (path.encode(), len(text), text))

    def answered(self, seconds=0):
        return bool(select.select([self.socket], [], [], seconds)[0])

    def jobs(self):
        while block := self.socket.recv(65536):
            self.data += block
        self.socket.close()
        head, _, body = self.data.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 "), self.data[:500]
        return json.loads(body)["jobs"]

    def leave(self):
        self.socket.close()


def waiting(rest):
    return rest.metric("duetime_pops_waiting")


def settle(rest, n):
    until(lambda: waiting(rest) == n, lambda: f"{waiting(rest)} wait, not {n}")


def test_a_waiting_pop_gets_the_job_when_it_is_due(api, pulled):
    waiter = Waiter(api, pulled, wait="PT1M", ttr="PT9S")
    settle(api, 1)
    assert not waiter.answered()
    made = api.make(topic=pulled, delay=700, payload={"n": 1})
    [job] = waiter.jobs()
    assert (job["id"], job["attempt"], job["payload"]) == (made["id"], 1, {"n": 1})
    assert job["updated_at"] >= made["run_at"]
    assert b"connection: close" in waiter.data.lower() and b"x-request-id" in waiter.data.lower()
    settle(api, 0)


def test_a_wait_ends_with_no_jobs(api, pulled):
    begun = time.monotonic()
    assert api.post(f"/v1/topics/{pulled}/pop", {"wait": 600}).json == {"jobs": []}
    assert 0.6 <= time.monotonic() - begun
    assert api.post("/v1/pop", {"topics": [pulled], "wait": 50}).json == {"jobs": []}


def test_each_job_is_given_to_the_pop_that_waited_longest(api, api2, pulled):
    waiters = [Waiter((api, api2)[i % 2], pulled, wait="PT1M") for i in range(12)]
    settle(api, 6)
    settle(api2, 6)
    made = [api.make(topic=pulled, delay=0)["id"] for _ in range(12)]
    got = [job["id"] for waiter in waiters for job in waiter.jobs()]
    assert sorted(got) == sorted(made)
    first = Waiter(api, pulled, wait="PT1M")
    settle(api, 1)
    second = Waiter(api, pulled, wait="PT1M")
    settle(api, 2)
    for waiter in (first, second):
        job = api.make(topic=pulled, delay=0)
        assert [one["id"] for one in waiter.jobs()] == [job["id"]]


def test_a_client_that_disconnects_costs_no_attempt(api, pulled):
    for _ in range(5):
        Waiter(api, pulled, wait="PT1M").leave()
    stays = Waiter(api, pulled, wait="PT1M")
    settle(api, 1)
    made = api.make(topic=pulled, delay=0)
    [job] = stays.jobs()
    assert (job["id"], job["attempt"]) == (made["id"], 1)


@pytest.mark.parametrize("size", [1, 3_000_000, 12_000_000])
def test_a_client_that_pipelines_and_disconnects_costs_no_attempt(api, pulled, size):
    """Its end comes after all of that, and nobody reads requests after a pop that waits."""
    leaves, left = Waiter(api, pulled, wait="PT1M"), api.metric("duetime_pops_left_total")
    settle(api, 1)
    more = b"GET /v1/topics HTTP/1.1\r\nHost: localhost\r\n\r\n" * (1 + size // 38)
    leaves.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 << 20)
    leaves.socket.settimeout(2)
    with contextlib.suppress(OSError):
        leaves.socket.sendall(more[:size])
    leaves.leave()
    until(lambda: api.metric("duetime_pops_left_total") > left, "the end of its client is noticed", seconds=3)
    stays = Waiter(api, pulled, wait="PT1M")
    settle(api, 1)
    made = api.make(topic=pulled, delay=0)
    [job] = stays.jobs()
    assert (job["id"], job["attempt"]) == (made["id"], 1)


def test_a_client_that_pipelines_gets_its_job(api, pulled):
    stays = Waiter(api, pulled, wait="PT1M")
    stays.socket.sendall(b"GET /v1/topics HTTP/1.1\r\nHost: localhost\r\n\r\n" * 10)
    settle(api, 1)
    made = api.make(topic=pulled, delay=0)
    [job] = stays.jobs()
    assert (job["id"], job["attempt"]) == (made["id"], 1)


def test_a_waiting_pop_gets_as_many_jobs_as_it_requested(api, pulled, db):
    waiter = Waiter(api, pulled, wait="PT1M", max=5)
    settle(api, 1)
    db("UPDATE topics SET paused = TRUE WHERE name = %s", pulled)
    db("UPDATE installation SET topics_version = topics_version + 1")
    for _ in range(8):
        api.make(topic=pulled, delay=0)
    assert api.post(f"/v1/topics/{pulled}/resume").status == 200
    assert 1 <= len(waiter.jobs()) <= 5


def test_resuming_a_topic_wakes_waiting_pops(api, pulled, db):
    made = api.make(topic=pulled, delay=0)
    until(lambda: db("SELECT 1 FROM pop_queue WHERE topic = %s", pulled), "nothing is offered")
    assert api.post(f"/v1/topics/{pulled}/pause").status == 200
    waiter = Waiter(api, pulled, wait="PT1M")
    settle(api, 1)
    assert not waiter.answered(0.3)
    assert api.post(f"/v1/topics/{pulled}/resume").status == 200
    assert [job["id"] for job in waiter.jobs()] == [made["id"]]


def test_a_pop_waits_for_several_topics_at_once(api, pulled, topic):
    other = f"{topic}.2"
    assert api.put(f"/v1/topics/{other}", {"delivery": "pull"}).status == 201
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        answer = pool.submit(lambda: Rest(api.url).post("/v1/pop", {"topics": [pulled, other], "wait": "PT1M"}).json["jobs"])
        settle(api, 1)
        made = api.make(topic=other, delay=0)
        assert [job["id"] for job in answer.result()] == [made["id"]]


def test_a_waiting_pop_ends_when_the_delivery_changes(api, pulled):
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        answer = pool.submit(lambda: Rest(api.url).post(f"/v1/topics/{pulled}/pop", {"wait": "PT1M"}))
        settle(api, 1)
        assert api.put(f"/v1/topics/{pulled}", {"delivery": "kafka"}).status == 200
        refused(answer.result(), 409, "not-pull")


def test_a_stopping_api_answers_waiting_pops(plain, topic):
    assert plain.rest.put(f"/v1/topics/{topic}", {"delivery": "pull"}).status == 201
    waiter = Waiter(plain.rest, topic, wait="PT1M")
    settle(plain.rest, 1)
    plain.end()
    assert waiter.jobs() == []


def offer(rest, db, database, topic):
    """What a leader does with a due job, by hand: an API of its own has no dispatcher."""
    made = rest.make(topic=topic, delay=0)
    db(f"UPDATE {database}.jobs SET near = -1 WHERE id = %s", made["id"])
    db(f"INSERT IGNORE INTO {database}.pop_queue (topic, due_at, job_id) SELECT topic, next_at, id FROM {database}.jobs WHERE id = %s", made["id"])
    return made


def test_without_redis_one_statement_polls_for_all_waiting_pops(own_apis, db):
    alone = own_apis.running("alone", {"redis.endpoints": ""})
    for topic in ("t", "u"):
        assert alone.rest.put(f"/v1/topics/{topic}", {"delivery": "pull"}).status == 201
    waiters = [Waiter(alone.rest, topic, wait="PT1M") for topic in ("t", "u") for _ in range(50)]
    settle(alone.rest, 100)
    made = {offer(alone.rest, db, alone.database, topic)["id"] for topic in ("t", "u") for _ in range(3)}
    until(lambda: waiting(alone.rest) == 94, lambda: waiting(alone.rest))
    served = [waiter for waiter in waiters if waiter.answered()]
    assert {job["id"] for waiter in served for job in waiter.jobs()} == made
    for waiter in waiters:
        waiter.leave()
    settle(alone.rest, 0)


@contextlib.contextmanager
def many_waiting(api, wanted, begin):
    """begin(n) begins the nth of so many pops that wait."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < wanted + 200:
        pytest.fail(f"this host gives out {hard} descriptors; {wanted + 200} are needed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    waiters = []
    try:
        while len(waiters) < wanted:
            waiters += [begin(len(waiters) + n) for n in range(100)]
            settle(api, len(waiters))
        yield waiters
    finally:
        for waiter in waiters:
            waiter.leave()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    settle(api, 0)


@pytest.mark.in_turns(3)
def test_thousands_of_waiting_pops_do_not_block_other_requests(api, pulled):
    """2,000 waiting pops on one API take no connection slots from other requests, and all are answered."""
    wanted = 2000
    with many_waiting(api, wanted, lambda n: Waiter(api, pulled, wait="PT1M")) as waiters:
        for _ in range(20):
            assert api.get("/healthz").status == 200
            assert api.get(f"/v1/topics/{pulled}").status == 200
        assert waiting(api) == wanted, "all pops still wait while other requests are served"
        made = {job["id"] for _ in range(4) for job in api.post(
            "/v1/jobs:batch", [{"topic": pulled, "delay": 0} for _ in range(wanted // 4)]).json}
        assert len(made) == wanted
        got = [job["id"] for waiter in waiters for job in waiter.jobs()]
        assert len(got) == len(set(got)) and set(got) <= made


@contextlib.contextmanager
def jobs_that_arrive(api, topic):
    """Ten jobs a second of this topic; gives the list of their ids."""
    ended, made = threading.Event(), []

    def make():
        rest = Rest(api.url)
        while not ended.wait(0.1):
            made.append(rest.make(topic=topic, delay=0)["id"])
        rest.close()
    maker = threading.Thread(target=make)
    maker.start()
    yield made
    ended.set()
    maker.join()


@pytest.mark.parametrize("chosen", ["ttr", "topics"])
def test_1500_different_waiting_pops_do_not_delay_another_owner(api, api2, topic, db, chosen):
    """The times to report and the lists of topics are the caller's to choose. Owners are told apart by what is before the first dot. An offer
    costs a few statements; it cost one for each of the pops."""
    settle(api, 0)
    evil, good = [f"{topic}e.{n}" for n in range(11)], f"{topic}g.1"
    for name in (*evil, good):
        assert api.put(f"/v1/topics/{name}", {"delivery": "pull"}).status == 201

    def begin(n):
        if chosen == "ttr":
            return Waiter(api, evil[0], wait="PT1M", ttr=60000 + n)
        return Waiter(api, None, wait="PT1M", topics=[evil[0], *(name for i, name in enumerate(evil[1:]) if n + 1 >> i & 1 or (i == 9 and n >= 1023))],
                      ttr=60000 + (n >= 1023))

    def statements():
        return int(db("SHOW GLOBAL STATUS LIKE 'Questions'")[0]["Value"])
    took = []
    with many_waiting(api, 1500, begin), jobs_that_arrive(api2, evil[0]) as made_meanwhile:
        before = statements()
        for _ in range(5):
            waiter = Waiter(api, good, wait="PT1M")
            made = api2.make(topic=good, delay=1000)  # the pop waits by then
            assert [job["id"] for job in waiter.jobs()] == [made["id"]]
            took.append(time.time() - datetime.datetime.fromisoformat(made["run_at"].replace("Z", "+00:00")).timestamp())
        asked = statements() - before
    assert asked < 3000 + 50 * len(made_meanwhile), (asked, len(made_meanwhile), took)
    assert min(took) < 2, took


def test_an_owner_cannot_take_all_waiting_places_and_a_pop_without_one_is_answered_at_once(own_apis):
    few = own_apis.running("few_places", {"http.waiting_pops": 16})
    for topic in ("evil.1", "evil.2", "good.1"):
        assert few.rest.put(f"/v1/topics/{topic}", {"delivery": "pull"}).status == 201

    def begin(n, topic):
        """So many pops; gives those that wait, once the others have their answers."""
        waiters = [Waiter(few.rest, topic, wait="PT1M", ttr=60000 + i) for i in range(n)]
        until(lambda: waiting(few.rest) + sum(waiter.answered() for waiter in waiters) == n + before,
              lambda: f"{waiting(few.rest)} wait, {sum(waiter.answered() for waiter in waiters)} of {n} are answered, {before} waited")
        none = [waiter for waiter in waiters if waiter.answered()]
        assert [waiter.jobs() for waiter in none] == [[] for _ in none]
        return [waiter for waiter in waiters if waiter not in none]
    before = 0
    alone = begin(20, "evil.1")
    assert len(alone) == 14, "alone, an owner leaves an eighth"
    before = 14
    [good] = begin(1, "good.1")
    for waiter in alone:
        waiter.leave()
    settle(few.rest, 1)
    before = 1
    shared = begin(10, "evil.1")
    assert len(shared) == 7, "half of what another leaves"
    before = 8
    assert begin(3, "evil.2") == [], "for all its topics together"
    assert len(begin(4, "good.1")) == 3, "and the other owner likewise: half of the nine that are left, of which it has one"
    good.leave()
    few.end()

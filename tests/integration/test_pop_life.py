"""Workers that pop, beside everything that can fail: each attempt is handed out once, never early, and every job ends."""
import collections
import datetime
import http.client
import itertools
import random
import threading
import time

import pytest

from harness.checker import connect, rows
from harness.rest import Rest
from harness.servers import redis_clients
from harness.stack import until

pytestmark = pytest.mark.in_turns(3)  # they are slow, and alike
TTR_MS = 2000


def ms(text):
    return round(datetime.datetime.fromisoformat(text).timestamp() * 1000)


class Workers:
    """Pop from both APIs, and report most attempts; what was handed out stands in `got`."""

    def __init__(self, stack, topics, n=6):
        self.urls = itertools.cycle([stack["DUETIME_URL_API1"], stack["DUETIME_URL_API2"]])
        self.topics, self.ending, self.lock = topics, threading.Event(), threading.Lock()
        self.got, self.random = [], random.Random(7)
        self.threads = [threading.Thread(target=self.run) for _ in range(n)]
        for thread in self.threads:
            thread.start()

    def ask(self, rest, path, body):
        try:
            answer = rest.post(path, body)
            return answer.json if answer.status == 200 else None
        except (OSError, http.client.HTTPException, ValueError):
            return None

    def run(self):
        while not self.ending.is_set():
            rest = Rest(next(self.urls), timeout=20)
            answer = self.ask(rest, "/v1/pop", {"topics": self.topics, "max": self.random.randint(1, 20), "wait": 1500, "ttr": TTR_MS})
            jobs = answer["jobs"] if answer else []
            with self.lock:
                self.got += jobs
            reports = [{"job_id": job["id"], "attempt": job["attempt"], "status": "succeeded"} for job in jobs if self.random.random() < 0.9]
            if reports:
                self.ask(rest, "/v1/results", reports)
            rest.close()
            if not answer:
                time.sleep(0.1)

    def end(self):
        self.ending.set()
        for thread in self.threads:
            thread.join()


class Makers:
    """Makes jobs, due now or soon, on an API that stays."""

    def __init__(self, stack, topics):
        self.rest, self.topics, self.ending, self.made = Rest(stack["DUETIME_URL_API1"]), topics, threading.Event(), {}
        self.failure, self.thread = None, threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        try:
            self.make()
        except Exception as failure:  # noqa: BLE001 - the wait for jobs reports it
            self.failure = failure

    def make(self):
        chance = random.Random(11)
        while not self.ending.wait(0.05):
            asked = [{"topic": chance.choice(self.topics), "delay": chance.choice([0, 0, 50, 700, 2500]), "retry": [1] * 40} for _ in range(8)]
            for made in self.rest.post("/v1/jobs:batch", asked).json:
                assert made["status"] == 201, made
                self.made[made["id"]] = True

    def end(self):
        self.ending.set()
        self.thread.join()


def live(stack, topics):
    return rows(connect(stack), "SELECT COUNT(*) n FROM jobs WHERE topic IN %s AND state IN ('scheduled', 'dispatched')", topics)[0]["n"]


def judge(stack, made, got, topics):
    connection = connect(stack)
    handed = collections.Counter((job["id"], job["attempt"]) for job in got)
    assert [key for key, n in handed.items() if n > 1] == []
    assert {job["id"] for job in got} <= set(made)
    for job in got:
        assert ms(job["updated_at"]) >= ms(job["run_at"]), job
    states = rows(connection, "SELECT id, state, attempt FROM jobs WHERE topic IN %s", topics)
    assert len(states) == len(made)
    assert {row["state"] for row in states} == {"succeeded"}
    late = rows(connection, "SELECT COUNT(*) n FROM v_attempts a JOIN jobs j ON j.id = a.job_id WHERE j.topic IN %s AND a.dispatched_at < a.due_at", topics)
    assert late[0]["n"] == 0
    assert rows(connection, "SELECT COUNT(*) n FROM pop_queue WHERE topic IN %s", topics)[0]["n"] == 0


def work_through(stack, topics, harm):
    """Jobs and workers go on while harm is done; then all of it comes to rest, and is judged."""
    makers, workers = Makers(stack, topics), Workers(stack, topics)

    def go_on():
        made, got = len(makers.made) + 150, len(workers.got) + 100
        until(lambda: len(makers.made) >= made and len(workers.got) >= got, lambda: f"jobs are made and popped: {makers.failure}\n{stack.logs()}")
    try:
        for do in harm:
            go_on()
            do()
        go_on()
        makers.end()
        until(lambda: live(stack, topics) == 0, lambda: f"{live(stack, topics)} jobs live\n{stack.logs()}", seconds=90)
    finally:
        makers.end()
        workers.end()
    judge(stack, list(makers.made), workers.got, topics)


@pytest.fixture
def pulled(api, topic):
    topics = [topic, f"{topic}.2"]
    for name in topics:
        assert api.put(f"/v1/topics/{name}", {"delivery": "pull"}).status == 201
    return topics


def test_pops_go_on_while_an_api_and_dispatchers_are_killed_and_redis_is_emptied(stack, pulled):
    def empty_redis():
        for client in redis_clients(stack):
            client.flushall()
    work_through(stack, pulled, [
        lambda: stack.kill("api2"), lambda: stack.start("api2"), lambda: stack.kill("dispatcher1"), empty_redis, lambda: stack.start("dispatcher1"),
        lambda: stack.kill("dispatcher2"), lambda: stack.start("dispatcher2")])


def test_pops_go_on_while_topics_are_paused_and_offers_are_deleted(stack, api, pulled):
    work_through(stack, pulled, [
        lambda: api.post(f"/v1/topics/{pulled[0]}/pause"), lambda: api.post(f"/v1/topics/{pulled[0]}/resume"),
        lambda: rows(connect(stack), "DELETE FROM pop_queue WHERE topic IN %s", pulled)])


def test_a_topic_goes_from_pull_to_kafka_and_back_with_jobs_waiting(stack, api, topic, consume):
    assert api.put(f"/v1/topics/{topic}", {"delivery": "pull", "ack_timeout": "PT30S"}).status == 201
    consumer = consume(topic, rule=lambda arrival: {"status": "succeeded"})
    first = {api.make(topic=topic, delay=0)["id"] for _ in range(20)}
    connection = connect(stack)
    until(lambda: rows(connection, "SELECT COUNT(*) n FROM pop_queue WHERE topic = %s", topic)[0]["n"] == 20, stack.logs)
    popped = {job["id"] for job in api.post(f"/v1/topics/{topic}/pop", {"max": 5}).json["jobs"]}
    assert api.put(f"/v1/topics/{topic}", {"delivery": "kafka", "ack_timeout": "PT30S"}).status == 200
    for job in first - popped:
        consumer.wait(job)
    until(lambda: live(stack, [topic]) == 5, lambda: f"{live(stack, [topic])}\n{stack.logs()}")
    assert api.put(f"/v1/topics/{topic}", {"delivery": "pull", "ack_timeout": "PT30S"}).status == 200
    second = {api.make(topic=topic, delay=0)["id"] for _ in range(10)}
    got = []
    until(lambda: got.extend(api.post(f"/v1/topics/{topic}/pop", {"max": 100, "wait": 500}).json["jobs"]) or len(got) == 10, lambda: f"{got}\n{stack.logs()}")
    assert {(job["id"], job["attempt"]) for job in got} == {(job, 1) for job in second}
    assert {arrival.job for arrival in consumer.all()} == first - popped

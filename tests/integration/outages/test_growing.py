"""A small installation grows into one with a Kafka, and back, in rolling restarts under load; and the stack that does so."""
import json
import os
import uuid

import pytest
from confluent_kafka import Consumer, TopicPartition

from harness.checker import connect, rows
from harness.either_way import EitherWay
from harness.rest import Rest
from harness.stack import Stack, until

PARTS = ["dispatcher1", "api1", "dispatcher2", "api2"]
OPTIONS = ["--apis", "2", "--dispatchers", "2", "--redis", "1", "--shards", "4", "--sanitize", "--without", "zookeeper",
           "--kafka", os.environ.get("DUETIME_TEST_KAFKA", "3"), "--set", "reconcile.period=PT1S", "--set", "dispatch.rest_after=PT2S"]
NO_KAFKA = {"kafka.brokers": ""}
pytestmark = pytest.mark.turn(4, 5)


@pytest.fixture
def stack():
    """A new stack for each test: the tests need a stack that never had a Kafka."""
    made = Stack("growing", *OPTIONS, "--without", "kafka").up()
    yield made
    made.reset()


def of_kafka(stack):
    return rows(connect(stack), "SELECT COALESCE(MAX(ledger_offset), 0) o, COALESCE(MAX(LENGTH(inflight)), 0) n FROM shards")[0]


def deliver(stack, delivery):
    answer = Rest(stack["DUETIME_URL_API1"]).put("/v1/topics/grow", {"delivery": delivery})
    assert answer.status == 200, answer


def there_and_back(stack, load):
    """The topic becomes Kafka's, with all that waits in it, and is popped again."""
    deliver(stack, "kafka")
    load.goes_on("kafka")
    deliver(stack, "pull")
    load.goes_on("pop")
    until(lambda: of_kafka(stack)["n"] <= 2, "no job for Kafka is in flight")


def test_kafka_is_added_and_removed_while_jobs_run(stack):
    with EitherWay(stack, "grow") as load:
        load.goes_on("pop")
        assert of_kafka(stack) == {"o": 0, "n": 2}
        stack.up_again("--with", "kafka")  # its ledger begins under leaders that have led without
        load.goes_on("pop")
        assert Rest(stack["DUETIME_URL_API1"]).get("/v1/topics/grow").json["delivery"] == "pull", "what stands in the topic stays"
        there_and_back(stack, load)
        for settings in (NO_KAFKA, {}):
            for part in PARTS:
                stack.restart(part, settings=settings)
                load.goes_on("pop")
        there_and_back(stack, load)
    print(load.account())
    assert rows(connect(stack), "SELECT COUNT(*) n FROM messages WHERE kind = 'dead'")[0]["n"] == 0


def attempts_in_kafka(stack, topic):
    """All that readers of committed messages find in the topic now."""
    consumer = Consumer({"bootstrap.servers": stack["DUETIME_KAFKA"], "group.id": uuid.uuid4().hex, "isolation.level": "read_committed",
                         "auto.offset.reset": "earliest", "enable.auto.commit": False, "enable.partition.eof": True, "log_level": 0})
    partitions = [TopicPartition(topic, number) for number in consumer.list_topics(topic, timeout=90).topics[topic].partitions]
    found, ended = [], set()
    consumer.assign(partitions)
    while len(ended) < len(partitions):
        message = consumer.poll(90)
        if message.error():
            ended.add(message.partition())
        else:
            found.append(dict(message.headers())["ce_id"].decode())
    consumer.close()
    return found


def shard_that_waits(api):
    return next((shard for shard in api.get("/v1/info").json["shards"] if shard["waiting_for"] == "kafka"), None)


def test_a_job_claimed_for_kafka_waits_for_it_and_is_sent_once(stack):
    """Its leader dies between the claim and Kafka's commit, and the next one has no Kafka: it cannot know what was sent, so the list is frozen."""
    stack.up_again("--with", "kafka")
    api = Rest(stack["DUETIME_URL_API1"])
    assert api.put("/v1/topics/claimed", {"delivery": "kafka"}).status == 201
    assert api.put("/v1/topics/meanwhile", {"delivery": "pull"}).status == 201
    stack.stop("dispatcher2")
    stack.restart("dispatcher1", env={"DUETIME_FAIL": "produce.claimed=crash"})
    job = api.post("/v1/jobs", {"topic": "claimed", "payload": 1, "delay": 0}).json["id"]
    until(lambda: not stack.running("dispatcher1"), "the leader dies")
    stack.start("dispatcher1", settings=NO_KAFKA, ready=False)
    waits = until(lambda: shard_that_waits(api), lambda: api.get("/v1/info").body)
    assert "1 attempts in flight" in waits["detail"], waits
    assert api.get(f"/v1/jobs/{job}").json["waiting_for"] == "kafka"
    with EitherWay(stack, "meanwhile") as load:  # the other shards are led
        load.goes_on("pop")
        stack.restart("dispatcher1")
        until(lambda: attempts_in_kafka(stack, "claimed") == [f"{job}/1"], lambda: attempts_in_kafka(stack, "claimed"))
    load.account()
    assert api.get(f"/v1/jobs/{job}").json["waiting_for"] == "ack"
    stack.start("dispatcher2")


def test_the_small_stack_is_mariadb_and_duetime_and_grows_on_the_same_data():
    stack = Stack("small", "--small", "--sanitize")
    try:
        stack.up()
        assert sorted(stack.parts()) == ["api1", "dispatcher1", "mysql"]
        api = Rest(stack["DUETIME_URL"])
        info = api.get("/v1/info").json
        assert info["configured"] == {"election": "mysql", "due": "mysql", "kafka": False}, info
        assert api.get("/readyz").json["status"] == "ready"
        job = api.post("/v1/jobs", {"topic": "small", "payload": {"n": 1}, "delay": 100}).json["id"]
        until(lambda: api.get(f"/v1/jobs/{job}").json["waiting_for"] == "pop", "it is due")
        popped = api.post("/v1/topics/small/pop", {}).json["jobs"]
        assert [(one["id"], one["attempt"], one["payload"]) for one in popped] == [(job, 1, {"n": 1})]
        assert api.post(f"/v1/jobs/{job}/results", {"attempt": 1, "status": "succeeded"}).status == 200
        stack.up_again("--sanitize")
        assert {"api1", "dispatcher1", "dispatcher2", "kafka", "mysql", "redis1", "zookeeper"} == set(stack.parts())
        api = Rest(stack["DUETIME_URL"])
        assert api.get(f"/v1/jobs/{job}").json["state"] == "succeeded"
        assert api.get("/v1/info").json["configured"] == {"election": "zookeeper", "due": "redis", "kafka": True}
        assert api.get("/v1/topics/small").json["delivery"] == "pull"
        assert json.loads(api.post("/v1/jobs", {"topic": "large", "payload": 1, "delay": 0}).body)["id"]
        assert api.get("/v1/topics/large").json["delivery"] == "kafka"
    finally:
        stack.reset()

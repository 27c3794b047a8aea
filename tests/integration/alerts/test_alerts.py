"""Alerts on the whole stack: raised when their cause is there, ended when it is gone, told by webhook, Kafka and SQL, whoever dies."""
import contextlib
import datetime
import json
import signal

import pytest
from confluent_kafka import Consumer

from harness.checker import connect, rows
from harness.consumer import base_config
from harness.receiver import SECRET, Receiver, example
from harness.rest import Rest
from harness.stack import until

OTHER = "whsec_" + "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVo="


class Told:
    """The messages that one way has brought, by topic and kind."""

    def __init__(self, messages):
        self._messages = messages

    def of(self, topic, kind):
        return [body for body in self._messages() if body["data"]["topic"] == topic and body["data"]["kind"] == kind]

    def types(self, topic, kind):
        return [body["type"].removeprefix("alert.") for body in self.of(topic, kind)]


def posted(receiver):
    return Told(lambda: [json.loads(request.body) for request in list(receiver.log)])


@pytest.fixture(scope="module")
def provider():
    """The installation's receiver."""
    made = Receiver()
    yield made
    made.end()


@pytest.fixture(scope="module")
def alerting(stack, provider):
    """The suite's stack, whose dispatchers tell the provider, and remind every two seconds."""
    stack.up_again("--set", f"alerts.url={provider.url}", "--set", f"alerts.secret={SECRET}", "--set", "alerts.remind=PT2S")
    yield stack
    stack.up_again("--set", "alerts.url=", "--set", "alerts.secret=", "--set", "alerts.remind=")


@pytest.fixture(scope="module")
def kafka(alerting):
    consumer = Consumer(base_config(alerting["DUETIME_KAFKA"]))
    consumer.subscribe(["duetime.alerts"])
    seen = []

    def read():
        seen.extend(json.loads(message.value()) for message in consumer.consume(100, 0.05) if not message.error())
        return seen
    yield Told(read)
    consumer.close()


@pytest.fixture
def team():
    """The topic's receiver."""
    made = Receiver()
    yield made
    made.end()


@pytest.fixture
def connection(alerting):
    made = connect(alerting)
    yield made
    made.close()


def standing(connection, topic):
    return {row["kind"]: row for row in rows(connection, "SELECT * FROM alerts WHERE topic = %s", topic or "")}


def put(api, topic, **settings):
    answer = api.put(f"/v1/topics/{topic}", settings)
    assert answer.status in (200, 201), answer
    return answer.json


def test_a_topic_that_is_late_is_told_of_by_all_ways(alerting, api, provider, team, kafka, connection, topic):
    put(api, topic, delivery="pull", alerts={"overdue": "PT1S", "url": team.url, "secret": OTHER})
    [job] = [api.make(topic=topic, delay=0)]
    for way in (posted(team), posted(provider), kafka):
        until(lambda: way.types(topic, "overdue")[:1] == ["began"], 10, alerting.logs)
    assert standing(connection, topic)["overdue"]["bound"] == 1000
    assert api.post(f"/v1/topics/{topic}/pop").json["jobs"][0]["id"] == job["id"]
    for way in (posted(team), posted(provider), kafka):
        until(lambda: way.types(topic, "overdue")[-1:] == ["ended"], 10, alerting.logs)
    assert not standing(connection, topic)

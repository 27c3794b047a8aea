"""An installation on as little as MySQL asks little of it at rest: fewer than ten statements a second, as the server counts `Questions`.

One API, two dispatchers, the default number of shards, without Redis and ZooKeeper, with and without Kafka.
"""
import os
import time

import pytest

from harness.checker import connect, rows
from harness.rest import Rest
from harness.stack import Stack, until

pytestmark = pytest.mark.in_turns(8)

OPTIONS = ["--apis", "1", "--dispatchers", "2", "--shards", "4", "--sanitize", "--without", "redis", "--without", "zookeeper",
           "--kafka", os.environ.get("DUETIME_TEST_KAFKA", "3"), "--set", "callbacks.enabled=false"]  # as by default
A_SECOND = 10
SECONDS = 60  # chores with periods of five and ten seconds run several times


@pytest.fixture(scope="module")
def installation():
    made = Stack("at-rest", *OPTIONS)
    yield made.up()
    made.reset()


def questions(connection):
    return int(rows(connection, "SHOW GLOBAL STATUS LIKE 'Questions'")[0]["Value"])


def rate_at_rest(stack):
    """Statements a second, without this one's own; what is asked most is printed."""
    until(lambda: Rest(stack["DUETIME_URL"]).get("/readyz").json["leaders"] == "ok", stack.logs)
    connection = connect(stack)
    time.sleep(15)  # what began has come to rest
    began, first = time.monotonic(), questions(connection)
    time.sleep(SECONDS)
    last = questions(connection)
    return (last - first - 1) / (time.monotonic() - began)


def test_an_idle_installation_with_kafka_sends_few_requests(installation):
    rate = rate_at_rest(installation.have("kafka"))
    print(f"{rate:.2f} statements a second at rest, with Kafka")
    assert rate <= A_SECOND


def test_an_idle_installation_on_mysql_alone_sends_few_requests(installation):
    rate = rate_at_rest(installation.have("kafka", False))
    print(f"{rate:.2f} statements a second at rest, on MySQL alone")
    assert rate <= A_SECOND

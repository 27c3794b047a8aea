"""One stack for the whole suite: 4 shards, 2 Redis servers, 2 APIs, 3 dispatchers, built with sanitizers."""
import contextlib
import os
import pathlib
import sys
import uuid

import pymysql
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from harness.checker import connect, rows  # noqa: E402
from harness.consumer import TestConsumer  # noqa: E402
from harness.logs_on_failure import pytest_runtest_makereport  # noqa: E402,F401
from harness.rest import Rest  # noqa: E402
from harness.rotation import pytest_collection_modifyitems, pytest_configure  # noqa: E402,F401
from harness.stack import Stack  # noqa: E402

OPTIONS = ["--apis", "2", "--dispatchers", "3", "--redis", "2", "--shards", "4", "--sanitize", "--kafka",
           os.environ.get("DUETIME_TEST_KAFKA", "3"), "--set", "reconcile.period=PT1S", "--set", "reconcile.walk=PT15S", "--set", "reconcile.audit=PT0.2S",
           "--set", "dispatch.rest_after=PT2S"]


@pytest.fixture(scope="session")
def stack():
    made = Stack(os.environ.get("DUETIME_TEST_STACK", "integration"), *OPTIONS).up()
    yield made
    made.reset()


@pytest.fixture
def api(stack):
    rest = Rest(stack["DUETIME_URL_API1"])
    yield rest
    rest.close()


@pytest.fixture
def topic(stack):
    """A topic for this test. Jobs left in it, or in topics whose names begin with its name, do not arrive during later tests."""
    name = f"t-{uuid.uuid4().hex[:10]}"
    yield name
    with contextlib.suppress(pymysql.Error):
        rows(connect(stack), "UPDATE jobs SET state = 'cancelled', next_at = NULL WHERE topic LIKE %s AND state IN ('scheduled', 'dispatched')", f"{name}%")


@pytest.fixture
def consume(stack):
    """consume(topic, rule) -> a running TestConsumer, ended with the test."""
    made = []

    def start(*topics, rule=None):
        made.append(TestConsumer(stack["DUETIME_KAFKA"], list(topics), rule=rule))
        return made[-1]
    yield start
    for consumer in made:
        consumer.end()

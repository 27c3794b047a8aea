"""Callbacks: topics whose delivery is `http`, on real servers, judged by what the receiver has read."""
import os

import pytest

from harness.checker import connect, rows
from harness.receiver import SECRET, Receiver, example
from harness.rest import Rest
from harness.stack import Stack, until

OPTIONS = ["--apis", "1", "--dispatchers", "2", "--redis", "1", "--shards", "4", "--sanitize", "--kafka", os.environ.get("DUETIME_TEST_KAFKA", "3"),
           "--set", "reconcile.period=PT1S", "--set", "dispatch.rest_after=PT2S", "--set", "callbacks.enabled=true",
           "--set", "callbacks.allow_networks=127.0.0.0/8"]


@pytest.fixture(scope="module")
def stack():
    made = Stack(os.environ.get("DUETIME_TEST_STACK", "callbacks"), *OPTIONS)
    yield made.up()
    made.reset()


@pytest.fixture
def api(stack):
    rest = Rest(stack["DUETIME_URL"])
    yield rest
    rest.close()


@pytest.fixture
def receiver():
    made = Receiver()
    yield made
    made.end()


def make_topic(api, name, receiver, **settings):
    answer = api.put(f"/v1/topics/{name}", {"delivery": "http", "callback_url": receiver.url, **settings})
    assert answer.status in (200, 201), answer
    return answer.json


def state_of(api, job):
    return api.get(f"/v1/jobs/{job}").json


def test_a_job_is_called_back_with_a_signature_and_succeeds(stack, api, receiver):
    make_topic(api, "orders", receiver, callback_secret=SECRET, callback_headers={"x-tenant": "blue"})
    made = api.make(topic="orders", key="k-1", delay=0, payload={"n": 1}, headers={"x-own": "red"})
    until(lambda: state_of(api, made["id"])["state"] == "succeeded", 20, stack.logs)
    (request,) = receiver.of(int(made["id"]))
    headers = {name.lower(): value for name, value in request.headers.items()}
    assert example().fault(example().keys_of(SECRET), headers, request.body, request.at) is None
    assert request.body == b'{"n": 1}' and headers["content-type"] == "application/json"
    assert headers["x-tenant"] == "blue" and headers["x-own"] == "red"
    assert headers["idempotency-key"] == f"{made['id']}/1" and headers["ce-type"] == "orders"
    assert rows(connect(stack), "SELECT COUNT(*) n FROM hands")[0]["n"] == 0

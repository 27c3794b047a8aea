"""Where a topic's secrets go, and what a receiver's surplus bytes do: an installation with nothing but MySQL."""
import itertools
import json
import socket
import threading
import time

import pytest

from harness.checker import connect, rows
from harness.problems import refused
from harness.receiver import SECRET, Receiver
from harness.stack import Stack, until

pytestmark = pytest.mark.turn(0, 3)

OTHER = "whsec_" + "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVo="
STRAY = b"HTTP/1.1 410 Gone\r\nContent-Length: 0\r\n\r\n"
NO_CONTENT = b"HTTP/1.1 204 No Content\r\n\r\n"
FINE = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfine"


@pytest.fixture(scope="module")
def stack():
    made = Stack("callback-places", "--small", "--apis", "1", "--dispatchers", "1", "--sanitize", "--set", "callbacks.enabled=true",
                 "--set", "callbacks.allow_networks=127.0.0.0/8", "--set", "alerts.remind=PT1H")
    yield made.up()
    made.reset()


@pytest.fixture
def own():
    made = Receiver()
    yield made
    made.end()


@pytest.fixture
def strange():
    made = Receiver()
    yield made
    made.end()


def put(api, topic, **settings):
    answer = api.put(f"/v1/topics/{topic}", {"delivery": "http", **settings})
    assert answer.status in (200, 201), answer
    return answer.json


def secrets(receiver):
    """Of each request: what of the topic's secrets it has, and the job's own header."""
    named = [{name.lower(): value for name, value in request.headers.items()} for request in list(receiver.log)]
    return [(headers.get("authorization"), "webhook-signature" in headers, headers.get("x-own")) for headers in named]


def sent(stack, api, topic, jobs):
    until(lambda: api.get(f"/v1/topics/{topic}").json["counts"]["succeeded"] == jobs, stack.logs)


def test_a_job_that_names_another_server_is_sent_there_without_the_topics_headers_and_signature(stack, api, own, strange):
    put(api, "walls", callback_url=own.url, callback_headers={"Authorization": "Bearer hush", "x-own": "topic"}, callback_secret=SECRET)
    theirs = {"callback_url": strange.url, "headers": {"x-own": "job"}}
    api.make(topic="walls", delay=0, **theirs)
    api.batch([{"topic": "walls", "delay": 0, **theirs}])
    later = api.make(topic="walls", delay="PT1H", headers={"x-own": "job"})
    assert api.patch(f"/v1/jobs/{later['id']}", {"callback_url": strange.url, "delay": 0}).status == 200
    assert api.put("/v1/schedules/walls", {"topic": "walls", "every": "PT1S", **theirs}).status == 201
    connection = connect(stack)
    rows(connection, "INSERT INTO job_inbox (topic, delay_ms, payload, options) VALUES ('walls', 0, '1', %s)", json.dumps(theirs))
    connection.commit()
    until(lambda: len(strange.log) >= 5 and {job["state"] for job in api.list(topic="walls", key_prefix="walls@")} >= {"succeeded"}, stack.logs)
    assert api.delete("/v1/schedules/walls?cancel=true").status == 200
    assert set(secrets(strange)) == {(None, False, "job")}
    for url in ({}, {"callback_url": own.url + "elsewhere?x"}, {"callback_url": own.url.replace("http:", "HTTP:")}):
        api.make(topic="walls", delay=0, headers={"x-own": "job"}, **url)
    until(lambda: len(own.log) == 3, stack.logs)
    assert set(secrets(own)) == {("Bearer hush", True, "job")}


def test_the_topics_headers_and_signature_go_to_the_servers_that_it_lists(stack, api, own, strange):
    listed = put(api, "listed", callback_hosts=[strange.url[:-1]], callback_headers={"Authorization": "Bearer hush"}, callback_secret=SECRET)
    assert listed["callback_hosts"] == [strange.url[:-1]] and listed["callback_url"] is None
    for url in (strange.url + "in", own.url):
        api.make(topic="listed", delay=0, callback_url=url)
    sent(stack, api, "listed", 2)
    assert secrets(strange) == [("Bearer hush", True, None)] and secrets(own) == [(None, False, None)]
    waiting = api.make(topic="listed", delay="PT1H", callback_url=strange.url)
    assert put(api, "listed", callback_url=own.url, callback_headers={"Authorization": "Bearer hush"}, callback_secret=SECRET)["callback_hosts"] is None
    assert api.post(f"/v1/jobs/{waiting['id']}/run-now").status == 200
    sent(stack, api, "listed", 3)
    assert secrets(strange)[1:] == [(None, False, None)], "the list counts as it is when the job is sent"


def test_a_secret_is_not_sent_if_callback_hosts_is_malformed(stack, api, own, strange):
    put(api, "by-hand", callback_url=own.url, callback_headers={"Authorization": "Bearer hush"}, callback_secret=SECRET)
    connection = connect(stack)
    rows(connection, "UPDATE topics SET callback_hosts = %s WHERE name = 'by-hand'", f"{strange.url}in, *, http://, {strange.url[7:-1]}")
    rows(connection, "UPDATE installation SET topics_version = topics_version + 1")
    connection.commit()
    api.make(topic="by-hand", delay=0, callback_url=strange.url)
    sent(stack, api, "by-hand", 1)
    assert secrets(strange) == [(None, False, None)]


def test_a_put_with_a_new_destination_must_contain_the_secrets(api, topic="moved"):
    given = {"callback_url": "https://a.example/in", "callback_headers": {"authorization": "Bearer hush", "x-b": "2"}, "callback_secret": SECRET}
    shown = put(api, topic, **given)
    again = api.put(f"/v1/topics/{topic}", {**shown, "callback_url": "https://A.example:443/other"})
    assert again.status == 200, again
    hidden = ("/callback_headers/authorization", "/callback_headers/x-b", "/callback_secret")
    for places in ({"callback_url": "http://a.example/in"}, {"callback_url": "https://a.example:8443/in"}, {"callback_url": "https://b.example/in"},
                   {"callback_hosts": ["https://b.example"]}, {"callback_url": None, "callback_hosts": ["https://b.example"]}):
        refused(api.put(f"/v1/topics/{topic}", {**shown, **places}), 422, "invalid", *hidden)
        refused(api.put(f"/v1/topics/{topic}", {**shown, **places, "callback_headers": {"authorization": "x"}, "callback_secret": f"*** {OTHER}"}), 422, "invalid", hidden[2])
        assert api.put(f"/v1/topics/{topic}", {**shown, **places, "callback_headers": {"authorization": "x"}, "callback_secret": OTHER}).status == 200
        put(api, topic, **given)
    refused(api.put(f"/v1/topics/{topic}", {**shown, "callback_url": None}), 422, "invalid", "/callback_headers", "/callback_secret")
    refused(api.put(f"/v1/topics/{topic}-new", {"delivery": "pull", "callback_secret": SECRET}), 422, "invalid", "/callback_secret")
    refused(api.put(f"/v1/topics/{topic}", {**given, "callback_hosts": ["https://b.example/in", "b.example", 7]}), 422, "invalid",
            *(f"/callback_hosts/{i}" for i in range(3)))


def test_a_put_with_a_new_alert_url_must_contain_its_secret(api):
    alerts = {"url": "https://a.example/alerts", "secret": SECRET}
    shown = put(api, "told", alerts=alerts, callback_url="https://a.example/in")
    assert api.put("/v1/topics/told", {**shown, "alerts": {**shown["alerts"], "url": "https://a.example/others"}}).status == 200
    for url in ("http://a.example/alerts", "https://a.example:8443/", "https://b.example/alerts"):
        refused(api.put("/v1/topics/told", {**shown, "alerts": {**shown["alerts"], "url": url}}), 422, "invalid", "/alerts/secret")
        assert api.put("/v1/topics/told", {**shown, "alerts": {"url": url, "secret": OTHER}}).status == 200
        put(api, "told", alerts=alerts, callback_url="https://a.example/in")
    refused(api.put("/v1/topics/told", {**shown, "alerts": {"secret": "***"}}), 422, "invalid", "/alerts/secret")


class Garrulous:
    """A receiver that sends another answer after each of its answers: at once, or after so many seconds."""

    def __init__(self, answer, seconds):
        self.answer, self.seconds, self.heads = answer, seconds, []
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                threading.Thread(target=self._serve, args=(self._listener.accept()[0],), daemon=True).start()
            except OSError:
                return

    def _serve(self, connection):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with connection, connection.makefile("rb") as lines:
            try:
                while head := list(itertools.takewhile(lambda line: line not in (b"\r\n", b""), iter(lines.readline, None))):
                    lines.read(next(int(line.split(b":")[1]) for line in head if line.lower().startswith(b"content-length:")))
                    self.heads.append(head)
                    self._say(connection)
            except OSError:
                pass

    def _say(self, connection):
        if self.seconds is None:
            connection.sendall(self.answer + STRAY)
            return
        connection.sendall(self.answer)
        time.sleep(self.seconds)
        connection.sendall(STRAY)

    def closes(self):
        return [any(line.lower().strip() == b"connection: close" for line in head) for head in list(self.heads)]

    def end(self):
        self._listener.close()


@pytest.mark.parametrize("answer, seconds", [(NO_CONTENT, None), (FINE, None), (NO_CONTENT, 0), (FINE, 0), (NO_CONTENT, 0.02), (FINE, 0.1)])
def test_a_receiver_that_answers_twice_fails_at_most_one_of_120_jobs(stack, api, answer, seconds):
    receiver, topic = Garrulous(answer, seconds), f"garrulous-{len(answer)}-{seconds}"
    counts = lambda: api.get(f"/v1/topics/{topic}").json["counts"]  # noqa: E731
    try:
        put(api, topic, callback_url=receiver.url)
        for _ in range(12):
            api.batch([{"topic": topic, "delay": 0} for _ in range(10)])
        until(lambda: counts()["succeeded"] + counts()["dead"] == 120, stack.logs)
        assert counts()["dead"] <= 1
        for n in range(121, 141):  # for longer than it takes to trust a receiver
            api.make(topic=topic, delay=0)
            until(lambda: counts()["succeeded"] + counts()["dead"] == n, stack.logs)
        assert all(receiver.closes()[120:])
    finally:
        receiver.end()


def test_alert_messages_survive_a_receiver_that_sends_too_much(stack, api):
    receiver = Garrulous(FINE, 0)
    try:
        for i in range(20):
            put(api, f"alarm-{i}", paused=True, callback_url=receiver.url, alerts={"overdue": "PT0.1S", "url": receiver.url})
            api.make(topic=f"alarm-{i}", delay=0)
        until(lambda: len(receiver.heads) >= 20, stack.logs)
        until(lambda: not rows(connect(stack), "SELECT id FROM messages WHERE kind = 'alert'"), stack.logs)
        assert 'duetime_alert_messages_total{outcome="failed"} 0' in stack.metrics("DISPATCHER1")
        assert all(receiver.closes()[1:])
    finally:
        receiver.end()

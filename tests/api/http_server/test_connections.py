"""Connections that say nothing, or say it slowly, keep nobody out; what is no request is refused in words."""
import contextlib
import json
import socket
import time
import urllib.parse

import pytest

from harness.hostile import floods
from harness.raw import Raw, statuses_at_once
from harness.rest import Rest
from harness.stack import until

pytestmark = pytest.mark.in_turns(3)

HALF = b"GET /v1/jobs HTTP/1.1\r\nHost: localhost\r\n"


@contextlib.contextmanager
def many(url, count, opening):
    """So many connections that have sent this; those that the server ends meanwhile are let be."""
    parts = urllib.parse.urlsplit(url)
    wires = []
    try:
        for _ in range(count):
            wire = socket.create_connection((parts.hostname, parts.port), timeout=60)
            wires.append(wire)
            with contextlib.suppress(OSError):
                wire.sendall(opening)
        yield wires
    finally:
        for wire in wires:
            wire.close()


def assert_served(url, *paths, times=5):
    """A new caller is answered while the others are still connected: their timeouts are longer than this caller's."""
    for _ in range(times):
        for path in paths or ("/healthz",):
            rest = Rest(url, timeout=55)
            assert rest.get(path).status == 200
            rest.close()


@pytest.mark.parametrize("opening", [HALF, b"", b"G", b"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n"], ids=["half", "silent", "letter", "headers"])
def test_silent_connections_do_not_keep_other_clients_out(unhurried, opening):
    with many(unhurried.url, 520, opening):
        assert_served(unhurried.url, "/healthz", "/v1/topics")
    until(lambda: unhurried.rest.metric("duetime_http_waiting") == 0, "no connection waits any longer")


@pytest.mark.parametrize("line", ["POST /v1/jobs:nothing", "POST /nothing", "PATCH /v1/jobs"])
def test_refused_requests_whose_bodies_never_arrive_do_not_keep_their_connections(unhurried, line):
    opening = f"{line} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer forged\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n{{".encode()
    with many(unhurried.url, 520, opening):
        assert_served(unhurried.url)


def status_of(wire, request=b""):
    """Returns the status of the next answer; None: the connection ended."""
    with contextlib.suppress(ConnectionError):
        return (wire.send(request).answer() or [None])[0]


@contextlib.contextmanager
def dripping(url, opening, there=400):
    """520 connections that have sent `opening` and send one more byte a second; they reconnect if the server closes them. The block starts when most are open."""
    target = floods.Target(url, "", "", 0)
    flood = floods.Flood(lambda _, deadline: floods.hold_open(target, deadline, 520, opening, b"a"), target, 600, idle=False)
    try:
        until(lambda: flood.descriptors() > there, "the connections are open")
        yield
    finally:
        flood.stop()


def post_in_two(url, topic):
    """Creates a job on a new connection; head and body are sent separately."""
    body = json.dumps({"topic": topic, "delay": "PT1H"}).encode()
    with Raw(url, 55) as wire:
        wire.request("POST /v1/jobs", "Content-Type: application/json", f"Content-Length: {len(body)}")
        time.sleep(0.05)  # so that they arrive separately
        assert wire.send(body).answer()[0] == 201


BODY = b"Host: localhost\r\nContent-Type: application/%s\r\nContent-Length: 5000\r\n%s\r\n{"
ASKED = b"GET /v1/topics HTTP/1.1\r\nHost: localhost\r\n\r\n"
SLOW = {
    "body": b"POST /v1/jobs HTTP/1.1\r\n" + BODY % (b"json", b""),
    "body with a token": b"POST /v1/jobs HTTP/1.1\r\n" + BODY % (b"json", b"Authorization: Bearer x\r\n"),
    "body of health": b"GET /healthz HTTP/1.1\r\n" + BODY % (b"json", b""),
    "refused body": ASKED + b"POST /v1/nothing HTTP/1.1\r\n" + BODY % (b"json", b""),
    "batch": b"POST /v1/jobs:batch HTTP/1.1\r\n" + BODY % (b"x-ndjson", b"Authorization: Bearer x\r\n"),
    "chunks": b"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n5000\r\n{",
    "size of a chunk": b"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n1;",
    "second head": ASKED + b"GET /v1/topics HTTP/1.1\r\nHost: localhost\r\nX: ",
}


@pytest.mark.in_turns(4)
@pytest.mark.parametrize("what", SLOW)
def test_a_slow_client_is_disconnected_when_other_clients_wait(unhurried, topic, what):
    with dripping(unhurried.url, SLOW[what]):
        for _ in range(3):
            assert_served(unhurried.url, "/healthz", "/readyz", "/v1/topics", times=1)
            post_in_two(unhurried.url, topic)


@pytest.mark.in_turns(2)
@pytest.mark.parametrize("what", ["body with a token", "second head"])
def test_a_client_that_pauses_keeps_its_connection_while_slow_clients_are_disconnected(unhurried, what):
    """The server evicts slow connections before one that is silent for a second. The silent one is evicted only if all slow ones are new."""
    def kept():
        with Raw(unhurried.url) as quiet:
            for _ in range(4):
                if status_of(quiet, ASKED) != 200:
                    return False
                time.sleep(1.2)
            return True
    with dripping(unhurried.url, SLOW[what]):
        until(kept, "a caller who pauses keeps its connection")


@pytest.mark.in_turns(2)
@pytest.mark.parametrize("what", ["body with a token", "second head"])
def test_all_http_threads_serve_and_stop_in_time_under_a_crowd_of_slow_clients(own_apis, what):
    """Four HTTP threads, and connections that end by hundreds: whoever is let in is served, and the end comes in its time."""
    api = own_apis.beside("coming_and_going")
    with dripping(api.url, SLOW[what]), dripping(api.url, SLOW[what]):
        assert_served(api.url, "/v1/topics", times=100)
        assert api.end() == 0


def test_a_request_with_a_slow_body_is_answered_when_its_connection_is_given_to_others(unhurried):
    with Raw(unhurried.url) as wire, Raw(unhurried.url) as quiet:
        wire.send(SLOW["body"])
        assert quiet.send(ASKED).answer()[0] == 200
        with many(unhurried.url, 400, SLOW["body"]):
            status, headers, body = wire.answer()
            assert status == 408 and json.loads(body)["request_id"] == headers["x-request-id"]


def test_a_request_with_a_slow_body_continues_if_no_other_client_waits(unhurried, topic):
    body = json.dumps({"topic": topic, "delay": "PT1H"}).encode()
    with Raw(unhurried.url) as wire:
        wire.request("POST /v1/jobs", "Content-Type: application/json", f"Content-Length: {len(body)}")
        for n in range(len(body)):
            wire.send(body[n:n + 1])
            time.sleep(0.03)  # a body is slow below 4 KiB/s for half a second
        assert wire.answer()[0] == 201


def test_requests_whose_bodies_arrive_steadily_are_not_disconnected_in_a_crowd(unhurried, topic):
    """20 uploads of 64 KiB/s from the same address as 520 dripping connections. If the machine stalls for half a second, an upload may lose its place, but not every time."""
    body = json.dumps({"topic": topic, "delay": "PT1H", "payload": "x" * 130_000}).encode()
    head = f"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode()

    def uploaded():
        with contextlib.ExitStack() as ends:
            wires = [ends.enter_context(Raw(unhurried.url)) for _ in range(20)]
            for at in range(0, len(body), 6500):
                for wire in wires:
                    with contextlib.suppress(ConnectionError):
                        wire.send(head + body[:6500] if at == 0 else body[at:at + 6500])
                time.sleep(0.1)
            return all(status_of(wire) == 201 for wire in wires)
    with dripping(unhurried.url, SLOW["body"]):
        until(uploaded, "all keep their places")


def test_many_honest_connections_of_one_address_are_all_served(unhurried, topic):
    """A proxy: more connections than may wait for their client, each of which asks as soon as it is open."""
    wires = []
    body = json.dumps({"topic": topic, "delay": "PT1H"}).encode()
    head = f"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    try:
        for _ in range(400):
            wires.append(Raw(unhurried.url).send(head + body))
        assert {wire.answer()[0] for wire in wires} == {201}
    finally:
        for wire in wires:
            wire.socket.close()


def test_idle_connections_are_closed_to_serve_other_clients(unhurried):
    """Connections that are kept alive and silent keep nobody out."""
    whole = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with many(unhurried.url, 150, whole) as wires:
        for wire in wires[:100]:
            assert wire.recv(4096).startswith(b"HTTP/1.1 200")
        assert_served(unhurried.url, "/v1/topics", times=10)


def test_in_a_crowd_the_client_that_waits_longest_is_disconnected_first(unhurried):
    with many(unhurried.url, 300, HALF) as wires:
        with Raw(unhurried.url) as wire:  # the newest one is served when its head is complete
            wire.send(HALF)
            wire.send(b"\r\n")
            assert wire.answer()[0] == 200
        assert wires


def test_small_answers_that_wait_to_be_sent_hold_only_their_own_bytes(own_apis, topic):
    """Reading a job holds what the largest would take, for as long as it is read, and eight are read at a time."""
    api = own_apis.beside("weights", {"limits.memory": 64 << 20, "limits.batch_body": 8 << 20, "http.threads": 1})
    job = api.rest.make(topic=topic, delay="P1D")
    for _ in range(5):
        assert statuses_at_once(api.url, f"/v1/jobs/{job['id']}", 100) == {200}

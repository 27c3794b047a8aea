"""Connections that say nothing, or say it slowly, keep nobody out; what is no request is refused in words."""
import contextlib
import json
import socket
import time
import urllib.parse

import pytest

from harness.hostile import floods
from harness.hostile.drips import given_up
from harness.raw import Raw, statuses_at_once
from harness.rest import Rest
from harness.stack import until

pytestmark = pytest.mark.in_turns(3)

HALF = b"GET /v1/jobs HTTP/1.1\r\nHost: x\r\n"


@pytest.fixture
def crowded(own_apis):
    """An API with one HTTP thread (112 places), 200 connections that may wait, and a second for a head."""
    api = own_apis("crowded", {"http.threads": 1, "http.waiting": 200, "http.head_timeout": "PT1S", "http.request_timeout": "PT5S", "http.idle_timeout": "PT30S"})
    if api.rest is None:
        api.start()
    yield api
    api.rest.close()


@contextlib.contextmanager
def many(url, count, opening):
    """So many connections that have sent this; those that the server ends meanwhile are let be."""
    parts = urllib.parse.urlsplit(url)
    wires = []
    try:
        for _ in range(count):
            wire = socket.create_connection((parts.hostname, parts.port), timeout=10)
            wires.append(wire)
            with contextlib.suppress(OSError):
                wire.sendall(opening)
        yield wires
    finally:
        for wire in wires:
            wire.close()


def served_in(url, path="/healthz", token=None):
    """Seconds that a new caller waits."""
    rest, start = Rest(url, token=token, timeout=10), time.monotonic()
    answer = rest.get(path)
    assert answer.status == 200, answer
    rest.close()
    return time.monotonic() - start


def gauge(api, name):
    for line in api.rest.get("/metrics").body.decode().splitlines():
        if line.startswith(name + " "):
            return float(line.split()[1])
    return 0.0


@pytest.mark.parametrize("opening", [HALF, b"", b"G", b"POST /v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n"], ids=["half", "silent", "letter", "headers"])
def test_connections_that_say_nothing_keep_nobody_out(crowded, opening):
    with many(crowded.url, 520, opening):
        assert max(served_in(crowded.url) for _ in range(5)) < 2
        assert served_in(crowded.url, "/v1/topics") < 2
    until(lambda: gauge(crowded, "duetime_http_waiting") == 0, "nobody waits any more")


@pytest.mark.parametrize("line", ["POST /v1/jobs:nothing", "POST /nothing", "PATCH /v1/jobs"])
def test_refused_requests_whose_bodies_never_come_keep_no_place(crowded, line):
    opening = f"{line} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer forged\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n{{".encode()
    with many(crowded.url, 520, opening):
        assert max(served_in(crowded.url) for _ in range(5)) < 2


@pytest.fixture
def patient(own_apis):
    """The same with deadlines as long as they are in earnest: what is slow is not late for a long time."""
    api = own_apis("unhurried", {"http.threads": 1, "http.waiting": 600})
    if api.rest is None:
        api.start()
    yield api
    api.rest.close()


@contextlib.contextmanager
def dripping(url, opening, seconds=3):
    """520 connections that have sent this and go on a byte a second; those that are ended come again. They have some seconds to come."""
    target = floods.Target(url, "", "", 0)
    flood = floods.Flood(lambda _, deadline: floods.hold_open(target, deadline, 520, opening, b"a"), target, 60)
    try:
        time.sleep(seconds)
        yield
    finally:
        flood.stop()


def posted_in(url, topic):
    """Seconds until a job is made on a connection of its own, head and body apart."""
    body, start = json.dumps({"topic": topic, "delay": "PT1H"}).encode(), time.monotonic()
    with Raw(url) as wire:
        wire.request("POST /v1/jobs", "Content-Type: application/json", f"Content-Length: {len(body)}")
        time.sleep(0.05)
        assert wire.send(body).answer()[0] == 201
    return time.monotonic() - start


BODY = b"Host: x\r\nContent-Type: application/%s\r\nContent-Length: 5000\r\n%s\r\n{"
ASKED = b"GET /v1/topics HTTP/1.1\r\nHost: x\r\n\r\n"
SLOW = {
    "body": b"POST /v1/jobs HTTP/1.1\r\n" + BODY % (b"json", b""),
    "body with a token": b"POST /v1/jobs HTTP/1.1\r\n" + BODY % (b"json", b"Authorization: Bearer x\r\n"),
    "body of health": b"GET /healthz HTTP/1.1\r\n" + BODY % (b"json", b""),
    "refused body": ASKED + b"POST /v1/nothing HTTP/1.1\r\n" + BODY % (b"json", b""),
    "batch": b"POST /v1/jobs:batch HTTP/1.1\r\n" + BODY % (b"x-ndjson", b"Authorization: Bearer x\r\n"),
    "chunks": b"POST /v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n5000\r\n{",
    "size of a chunk": b"POST /v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n1;",
    "second head": ASKED + b"GET /v1/topics HTTP/1.1\r\nHost: x\r\nX: ",
}


@pytest.mark.in_turns(4)
@pytest.mark.parametrize("what", SLOW)
def test_whoever_is_slow_keeps_no_place_that_others_wait_for(patient, topic, what):
    with dripping(patient.url, SLOW[what]):
        for _ in range(3):
            assert max(served_in(patient.url), served_in(patient.url, "/readyz")) < 1.2
            assert served_in(patient.url, "/v1/topics") < 1.5
            assert posted_in(patient.url, topic) < 1.5


@pytest.mark.in_turns(2)
@pytest.mark.parametrize("what", ["body with a token", "second head"])
def test_callers_who_pause_keep_their_connections_beside_those_who_are_slow(patient, what):
    with Raw(patient.url) as quiet:
        assert quiet.send(ASKED).answer()[0] == 200
        with dripping(patient.url, SLOW[what]):
            for _ in range(3):
                assert quiet.send(ASKED).answer()[0] == 200
                time.sleep(2)


@pytest.mark.in_turns(2)
@pytest.mark.parametrize("what", ["body with a token", "second head"])
def test_a_crowd_that_comes_and_goes_leaves_no_thread_behind(own_apis, what):
    """Four HTTP threads, and places that become free by hundreds: whoever is let in is served, and the end comes in its time."""
    api = own_apis("coming_and_going").start()
    with dripping(api.url, SLOW[what], 0), dripping(api.url, SLOW[what], 0):
        end = time.monotonic() + 8
        while time.monotonic() < end:
            assert served_in(api.url, "/v1/topics") < 2
        start = time.monotonic()
        assert api.end() == 0 and time.monotonic() - start < 20


def test_a_slow_body_is_told_that_it_lost_its_place(patient):
    with Raw(patient.url) as wire, Raw(patient.url) as quiet:
        wire.send(SLOW["body"])
        assert quiet.send(ASKED).answer()[0] == 200
        with many(patient.url, 200, SLOW["body"]):
            status, headers, body = wire.answer()
            assert status == 408 and json.loads(body)["request_id"] == headers["x-request-id"]


def test_a_slow_body_keeps_a_place_that_nobody_waits_for(patient, topic):
    body = json.dumps({"topic": topic, "delay": "PT1H"}).encode()
    with Raw(patient.url) as wire:
        wire.request("POST /v1/jobs", "Content-Type: application/json", f"Content-Length: {len(body)}")
        for n in range(len(body)):
            wire.send(body[n:n + 1])
            time.sleep(0.08)
        assert wire.answer()[0] == 201


def test_bodies_that_come_steadily_keep_their_places_in_a_crowd(patient, topic):
    """20 uploads of 64 KiB/s from the address of 520 that drip."""
    body = json.dumps({"topic": topic, "delay": "PT1H", "payload": "x" * 250_000}).encode()
    head = f"POST /v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    wires = [Raw(patient.url) for _ in range(20)]
    try:
        for wire in wires:
            wire.send(head + body[:1000])
        with dripping(patient.url, SLOW["body"], 0):
            for at in range(1000, len(body), 16384):
                for wire in wires:
                    wire.send(body[at:at + 16384])
                time.sleep(0.25)
            assert {wire.answer()[0] for wire in wires} == {201}
    finally:
        for wire in wires:
            wire.socket.close()


def test_many_honest_connections_of_one_address_are_all_served(patient, topic):
    """A proxy: 400 connections for 112 places, each of which asks as soon as it is open."""
    wires = []
    body = json.dumps({"topic": topic, "delay": "PT1H"}).encode()
    head = f"POST /v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    try:
        for _ in range(400):
            wires.append(Raw(patient.url).send(head + body))
        assert {wire.answer()[0] for wire in wires} == {201}
    finally:
        for wire in wires:
            wire.socket.close()


def test_heads_that_drip_are_given_up_in_their_time(crowded):
    with Raw(crowded.url) as wire:
        wire.send(HALF)
        seconds, answer = given_up(wire, b"a")
        assert 0.8 < seconds < 4
        status, headers, body = answer
        assert status == 408 and headers["content-type"] == "application/problem+json" and json.loads(body)["request_id"] == headers["x-request-id"]


def test_places_that_nobody_uses_go_to_others(crowded):
    """112 connections are kept alive and silent; who comes next takes the place of one of them."""
    whole = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
    with many(crowded.url, 150, whole) as wires:
        for wire in wires[:100]:
            assert wire.recv(4096).startswith(b"HTTP/1.1 200")
        assert max(served_in(crowded.url, "/v1/topics") for _ in range(10)) < 4


def test_the_longest_waiting_of_a_crowd_leaves_first(crowded):
    with many(crowded.url, 300, HALF) as wires:
        time.sleep(0.2)
        with Raw(crowded.url) as wire:  # the last one to come is served when its head is whole
            wire.send(HALF)
            wire.send(b"\r\n")
            assert wire.answer()[0] == 200
        assert wires


@pytest.mark.parametrize("sent, status, slug", [
    (b"GET / HTTP/9.7\r\nHost: x\r\n\r\n", 505, "version-not-supported"),
    (b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 414, "target-too-long"),
    (b"GET /" + b"a" * 40000, 414, "target-too-long"),
    (b"GET / HTTP/1.1\r\nHost: x\r\nA: " + b"a" * 40000, 431, "headers-too-large"),
    (b"GET / HTTP/1.1\r\n\r\n", 400, "malformed"),
    (b"hello there\r\n\r\n", 400, "malformed"),
    (b"GET / HTTP/1.1\r\nHost: x\r\nno colon\r\n\r\n", 400, "malformed"),
    (b"POST /v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: x\r\n\r\n", 400, "malformed"),
    (b"POST /v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\n", 400, "malformed"),
], ids=["505", "414", "414-endless", "431", "no-host", "no-method", "no-colon", "length", "length-overflow"])
def test_what_is_no_request_is_refused_once_and_in_words(crowded, sent, status, slug):
    with Raw(crowded.url) as wire:
        wire.send(sent)
        found, headers, body = wire.answer()
        assert found == status and headers["content-type"] == "application/problem+json"
        document = json.loads(body)
        assert document["type"].endswith(slug) and document["status"] == status
        assert document["request_id"] == headers["x-request-id"]
        assert wire.answer() is None  # nothing more, and the connection ends


def test_paths_in_other_spellings_are_the_same(api, topic):
    job = api.make(topic=topic, key="a/b", delay="P1D")
    for target in (f"/v1/%6Aobs/{job['id']}", f"/v1/jobs/{job['id'][0]}%{ord(job['id'][1]):02X}{job['id'][2:]}", f"/v1/topics/{topic}/jobs/a%2Fb",
                   f"/%76%31/topics/{topic}/j%6fbs/a%2fb"):
        assert api.get(target).json["id"] == job["id"], target
    answer = api.post("/v1/jobs%3Abatch", json.dumps({"topic": topic, "delay": "P1D"}), content_type="application/x-ndjson")
    assert answer.status == 200 and answer.lines[0]["status"] == 201


def test_an_absolute_target_is_read_like_its_path(api, topic):
    job = api.make(topic=topic, delay="P1D")
    with Raw(api.url) as wire:
        status, _, body = wire.request(f"GET http://somewhere.example:99/v1/jobs/{job['id']}").answer()
        assert status == 200 and json.loads(body)["id"] == job["id"]
        status, _, _ = wire.request("GET HTTP://x/healthz").answer()
        assert status == 200


@pytest.mark.parametrize("media, status", [("application/json; charset=utf-16", 415), ("application/json;charset=\"latin1\"", 415),
                                           ("application/json; charset=UTF-8", 201), ("application/json; charset=\"utf-8\"", 201)])
def test_a_charset_that_is_not_utf8_is_refused(api, topic, media, status):
    assert api.post("/v1/jobs", json.dumps({"topic": topic, "delay": "P1D"}), content_type=media).status == status


def test_small_answers_hold_no_more_than_they_are_while_they_wait_to_be_sent(own_apis, topic):
    """Reading a job holds what the largest would take, for as long as it is read, and eight are read at a time."""
    api = own_apis("weights", {"limits.memory": 64 << 20, "limits.batch_body": 8 << 20, "http.threads": 1})
    if api.rest is None:
        api.start()
    job = api.rest.make(topic=topic, delay="P1D")
    for _ in range(5):
        assert statuses_at_once(api.url, f"/v1/jobs/{job['id']}", 100) == {200}

"""The HTTP server itself: framing, headers, many connections, slow clients."""
import concurrent.futures
import json
import time

import pytest

from harness.hostile.drips import given_up
from harness.problems import refused
from harness.raw import Raw, post
from harness.rest import Rest

pytestmark = pytest.mark.in_turns(2)

JSON = "Content-Type: application/json"


def test_headers_of_8_kib_are_accepted(api):
    assert api.get("/v1/info", headers={"X-Long": "x" * 8000}).status == 200


@pytest.mark.parametrize("method, what", [("POST", "pause"), ("DELETE", "")])
def test_a_request_without_a_defined_body_accepts_only_a_blank_body_or_an_empty_object(api, topic, method, what):
    path = f"/v1/topics/{topic}/{what}".rstrip("/")
    api.put(f"/v1/topics/{topic}", {})
    for body in ("{", "}", "{}{}", "{ } x", "[]", "null", '{"a":1}', "\n{}{"):
        answer = api.ask(method, path, body)
        refused(answer, 422, "invalid")
        assert answer.json["detail"] == "this request must not have a body", (body, answer)
    assert api.get(f"/v1/topics/{topic}").json["paused"] is False
    for body in ("", " \t\r\n", "{}", " { }\n"):
        assert api.ask(method, path, body).status in (200, 404), body


def test_a_chunked_body_beyond_the_limit_is_refused(api, topic, nothing_made):
    with Raw(api.url) as wire:
        wire.request("POST /v1/jobs", JSON, "Transfer-Encoding: chunked")
        begin = b'{"topic":"too-large","delay":0,"payload":"'
        wire.send(b"%x\r\n" % len(begin) + begin + b"\r\n")
        try:
            for _ in range(20):
                wire.send(b"20000\r\n" + b"x" * 0x20000 + b"\r\n")
            wire.send(b"0\r\n\r\n")
        except ConnectionError:
            pass
        assert wire.answer()[0] == 413


def test_a_refusal_with_a_small_body_keeps_the_connection(api, topic):
    with Raw(api.url) as wire:
        for body, status in ((b"{", 400), (b'{"topic":5}', 422)):
            assert wire.send(post("/v1/jobs", body)).answer()[0] == status
        assert wire.send(post("/v1/nothing", b"{}")).answer()[0] == 404
        assert wire.send(post("/v1/info", b"{}")).answer()[0] == 405
        assert wire.send(post("/v1/jobs", {"topic": topic, "delay": "PT1H"})).answer()[0] == 201


def test_a_body_that_is_too_large_is_refused_before_it_is_sent(api):
    with Raw(api.url) as wire:
        status, headers, _ = wire.request("POST /v1/jobs", JSON, "Content-Length: 500000000", "Expect: 100-continue").answer()
    assert status == 413 and headers["connection"] == "close"


def test_a_client_that_expects_100_continue_gets_it(api, topic):
    body = json.dumps({"topic": topic, "delay": "PT1H"})
    with Raw(api.url) as wire:
        assert wire.request("POST /v1/jobs", JSON, f"Content-Length: {len(body)}", "Expect: 100-continue").answer()[0] == 100
        assert wire.send(body).answer()[0] == 201


def test_every_answer_has_no_store_and_nosniff(api, topic):
    """Of the library and past it, refusals of each layer included."""
    api.put(f"/v1/topics/{topic}", {"delivery": "pull"})
    answers = [api.get("/v1/jobs?limit=1"), api.get("/v1/jobs/1"), api.get("/v1/nothing"), api.post("/v1/jobs", {}), api.post("/v1/tokens", {}),
               api.post("/v1/jobs:batch", b"{}\n", content_type="application/x-ndjson"), api.post(f"/v1/topics/{topic}/pop", {"wait": 100})]
    headers = [{name.lower(): value for name, value in answer.headers.items()} for answer in answers]
    for text in (b"nonsense\r\n\r\n", post("/v1/jobs", {}).replace(b"Content-Length: 2", b"Transfer-Encoding: chunked").replace(b"{}", b"x\n")):
        with Raw(api.url) as wire:
            headers.append(wire.send(text).answer()[1])
    for each in headers:
        assert (each["cache-control"], each["x-content-type-options"]) == ("no-store", "nosniff"), each


def test_http_1_0_is_answered_and_closed(api):
    with Raw(api.url) as wire:
        assert wire.send("GET /healthz HTTP/1.0\r\n\r\n").answer()[0] == 200 and wire.closed()


def test_the_server_closes_the_connection_if_the_client_sends_connection_close(api):
    with Raw(api.url) as wire:
        assert wire.request("GET /healthz", "Connection: close").answer()[0] == 200 and wire.closed()


def test_200_connections_at_once_are_all_served_again_and_again(api, topic, db):
    wires = [Raw(api.url) for _ in range(200)]
    try:
        for turn in range(3):
            for n, wire in enumerate(wires):
                wire.send(post("/v1/jobs", {"topic": topic, "delay": "PT1H", "payload": [turn, n]}))
            answers = [wire.answer() for wire in wires]
            assert [status for status, _, _ in answers] == [201] * 200
            assert [json.loads(body)["payload"] for _, _, body in answers] == [[turn, n] for n in range(200)]
    finally:
        for wire in wires:
            wire.socket.close()
    assert db("SELECT COUNT(*) n FROM jobs WHERE topic = %s", topic)[0]["n"] == 600


def test_slow_and_silent_clients_do_not_disturb_others(unhurried, topic):
    """One HTTP thread serves them all and blocks on none."""
    body = json.dumps({"topic": topic, "delay": "PT1H"}).encode()
    head = b"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
    wires = [Raw(unhurried.url) for _ in range(60)]
    try:
        for n, wire in enumerate(wires):
            wire.send([b"", head[:30], head, head + body[:10]][n % 4])
        for n in range(10):
            for wire in wires[3::4]:
                wire.send(body[10 + n:11 + n])
            for _ in range(3):
                assert unhurried.rest.post("/v1/jobs", {"topic": topic, "delay": "PT1H"}).status == 201
        for wire in wires[2::4]:
            wire.send(body)
        assert {wire.answer()[0] for wire in wires[2::4]} == {201}
    finally:
        for wire in wires:
            wire.socket.close()


def test_a_body_that_does_not_arrive_in_time_is_refused_with_408(hasty):
    before = hasty.jobs()
    with Raw(hasty.url) as wire:
        began = time.monotonic()
        wire.request("POST /v1/jobs", JSON, "Content-Length: 50", body='{"topic":')
        status, headers, body = wire.answer()
        assert time.monotonic() - began > 1.8
        assert status == 408 and headers["content-type"] == "application/problem+json" and json.loads(body)["type"].endswith("/problems/timeout")
        assert wire.closed()
    assert hasty.jobs() == before


@pytest.mark.parametrize("after", [0.1, 0.3, 0.4, 0.6])
def test_a_missing_body_is_refused_in_time_at_any_phase_of_the_deadline_check(hasty, after):
    """No other client is connected: the thread that checks deadlines sleeps, or has just found none."""
    hasty.rest.close()
    Raw(hasty.url).socket.close()
    time.sleep(after)  # at another moment of its sleep
    with Raw(hasty.url) as wire:
        wire.request("POST /v1/jobs", JSON, "Content-Length: 50", body="{")
        assert wire.answer()[0] == 408


@pytest.mark.parametrize("length, status", [(4000, 408), (1_500_000, 413)])
def test_a_body_that_trickles_in_is_answered_at_the_deadline(hasty, length, status):
    """Each byte comes in time, all of them do not; what was decided before they came is told."""
    with Raw(hasty.url) as wire:
        wire.request("POST /v1/jobs", JSON, f"Content-Length: {length}")
        _, answer = given_up(wire, b" ")
    assert answer and answer[0] == status, answer


def test_requests_of_many_kinds_are_answered_concurrently(api, api2, topic):
    """Creates, reads, changes and lists at once: each answer belongs to its request."""
    def life(n):
        first, second = Rest(api.url), Rest(api2.url)
        try:
            job = first.make(topic=topic, key=f"k{n}", delay="PT1H", payload=n)
            path = f"/v1/jobs/{job['id']}"
            assert second.get(path).json["payload"] == n
            assert second.patch(path, {"payload": -n - 1}).json["payload"] == -n - 1
            assert [found["key"] for found in first.get(f"/v1/jobs?topic={topic}&key_prefix=k{n}").json["jobs"]][:1] == [f"k{n}"]
            refused(first.put(f"/v1/topics/{topic}/jobs/k{n}", {"delay": 5}), 409, "key-conflict")
            assert first.delete(path).json["state"] == "cancelled"
            return second.get(path).json["version"]
        finally:
            first.close()
            second.close()
    with concurrent.futures.ThreadPoolExecutor(24) as pool:
        assert list(pool.map(life, range(72))) == [3] * 72

"""Whatever comes on a connection, as its first request or its third, is answered by an API: a request, or a problem and the end."""
import concurrent.futures
import contextlib
import json
import time

import pytest

from harness.hostile.drips import given_up
from harness.raw import Raw
from harness.stack import until

GOOD = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
POST = b"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
HALF = b"GET /v1/jobs HTTP/1.1\r\nHost: localhost\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"

MALFORMED = {
    "no method": (b"hello there\r\n\r\n", 400),
    "one word": (b"hello\r\n\r\n", 400),
    "no version": (b"GET /healthz\r\nHost: localhost\r\n\r\n", 400),
    "bytes of TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
    "another version": (b"GET / HTTP/9.7\r\nHost: localhost\r\n\r\n", 505),
    "a long target": (b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", 414),
    "an endless target": (b"GET /" + b"a" * 40000, 414),
    "an endless header": (b"GET / HTTP/1.1\r\nHost: localhost\r\nA: " + b"a" * 40000, 431),
    "endless headers": (b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"A: b\r\n" * 6000, 431),
    "headers that fill the library's memory": (b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"A: " + b"b" * 60 + b"\r\n" * 1 + b"A:b\r\n" * 199 + b"B: " + b"c" * 9000 + b"\r\n\r\n", 431),
    "a query of thousands": (b"GET /v1/jobs?" + b"a&" * 4000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", 431),
    "cookies of thousands": (b"GET /v1/jobs HTTP/1.1\r\nHost: localhost\r\nCookie: " + b"a;" * 4000 + b"\r\n\r\n", 431),
    "no host": (b"GET / HTTP/1.1\r\n\r\n", 400),
    "two hosts": (b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: y\r\n\r\n", 400),
    "no colon": (b"GET / HTTP/1.1\r\nHost: localhost\r\nno colon\r\n\r\n", 400),
    "a space before a name": (POST + b"X: y\r\n Content-Length: 2\r\n\r\n{}", 400),
    "a space before the colon": (b"GET / HTTP/1.1\r\nHost : x\r\n\r\n", 400),
    "a folded line": (b"GET / HTTP/1.1\r\nHost: localhost\r\nA: b\r\n c\r\n\r\n", 400),
    "a carriage return": (b"GET / HTTP/1.1\r\nHost: localhost\r\nA: b\rc\r\n\r\n", 400),
    "a NUL in a header": (b"GET / HTTP/1.1\r\nHost: localhost\r\nA: b\0c\r\n\r\n", 400),
    "a NUL in a name": (b"GET / HTTP/1.1\r\nHost: localhost\r\nA\0: c\r\n\r\n", 400),
    "a NUL in the target": (b"GET /heal\0thz HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
    "a NUL first": (b"\0GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
    "a length that is none": (POST + b"Content-Length: x\r\n\r\n", 400),
    "a negative length": (POST + b"Content-Length: -5\r\n\r\n{}", 400),
    "a length beyond 64 bits": (POST + b"Content-Length: 99999999999999999999\r\n\r\n{}", 400),
    "a length with a space behind it": (POST + b"Content-Length: 2 \r\n\r\n{}", 400),
    "the same length twice": (POST + b"Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}", 400),
    "a list of lengths": (POST + b"Content-Length: 2, 2\r\n\r\n{}", 400),
    "a length with a sign": (POST + b"Content-Length: +2\r\n\r\n{}", 400),
    "a length in hex": (POST + b"Content-Length: 0x2\r\n\r\n{}", 400),
    "an empty length": (POST + b"Content-Length:\r\n\r\n{}", 400),
    "a folded length": (POST + b"Content-Length: 5\r\n 2\r\n\r\n{}", 400),
    "two lengths": (POST + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}", 400),
    "a length beside chunks": (POST + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    "chunks beside a length": (POST + b"Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n0\r\n\r\n", 400),
    "chunks twice": (POST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    "chunks misspelt": (POST + b"Transfer-Encoding: xchunked\r\n\r\n{}", 400),
    "chunks in a folded line": (POST + b"Transfer-Encoding:\r\n chunked\r\nContent-Length: 2\r\n\r\n0\r\n\r\n", 400),
    "another encoding before chunks": (POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 400),
    "identity and a length": (POST + b"Transfer-Encoding: identity\r\nContent-Length: 2\r\n\r\n{}", 400),
    "another encoding": (POST + b"Transfer-Encoding: gzip\r\n\r\n", 400),
    "chunks in HTTP/1.0": (b"POST /v1/jobs HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    "two tokens": (b"GET / HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer x\r\nAuthorization: Bearer y\r\n\r\n", 400),
    "a chunk without a size": (CHUNKED + b"\r\n{}\r\n0\r\n\r\n", 400),
    "a chunk size that is none": (CHUNKED + b"xyz\r\n{}\r\n0\r\n\r\n", 400),
    "a negative chunk size": (CHUNKED + b"-2\r\n{}\r\n0\r\n\r\n", 400),
    "a huge chunk size": (CHUNKED + b"fffffffffffffffff\r\n{}\r\n0\r\n\r\n", 400),
    "a chunk that is too long": (CHUNKED + b"2\r\n{}}\r\n0\r\n\r\n", 400),
    "a second chunk that is none": (CHUNKED + b"2\r\n{}\r\nx\r\n", 400),
    "a line feed alone after a chunk's size": (CHUNKED + b"2\n{}\r\n0\r\n\r\n", 400),
    "a line feed alone after a chunk": (CHUNKED + b"2\r\n{}\n0\r\n\r\n", 400),
    "a line feed alone after the last size": (CHUNKED + b"2\r\n{}\r\n0\n\r\n", 400),
    "a line feed alone at the end of chunks": (CHUNKED + b"2\r\n{}\r\n0\r\n\n", 400),
    "a line feed alone after a trailer": (CHUNKED + b"2\r\n{}\r\n0\r\nX-Sum: 1\n\r\n", 400),
    "a line feed alone after a header": (POST + b"X: y\nContent-Length: 2\r\n\r\n{}", 400),
    "a NUL in a chunk's extension": (CHUNKED + b"2;a\0b\r\n{}\r\n0\r\n\r\n", 400),
    "a trailer without a colon": (CHUNKED + b"2\r\n{}\r\n0\r\nno colon\r\n\r\n", 400),
    "endless trailers": (CHUNKED + b"2\r\n{}\r\n0\r\n" + b"A: b\r\n" * 3000, 431),
}


@pytest.fixture
def nothing_made(unhurried):
    before = unhurried.jobs()
    yield
    assert unhurried.jobs() == before


def ends_with(wire, status):
    """The answer is a problem, and the last one."""
    answer = wire.answer()
    assert answer, "the connection ended without a word"
    found, headers, body = answer
    assert found == status and headers["content-type"] == "application/problem+json" and headers["connection"].lower() == "close", answer
    document = json.loads(body)
    assert document["status"] == status and document["request_id"] == headers["x-request-id"]
    assert wire.buffer == b"" and wire.closed()


@pytest.mark.parametrize("nth", [1, 2, 3])
@pytest.mark.parametrize("what", MALFORMED)
def test_a_malformed_request_gets_a_problem_at_any_position_on_its_connection(unhurried, nothing_made, what, nth):
    sent, status = MALFORMED[what]
    with Raw(unhurried.url) as wire:
        for _ in range(nth - 1):
            assert wire.send(GOOD).answer()[0] == 200
        wire.send(sent)
        ends_with(wire, status)


@pytest.mark.parametrize("what", MALFORMED)
def test_requests_before_a_malformed_one_are_answered_first(unhurried, nothing_made, what):
    """All at once, so that the library has the good ones when the bad one is seen."""
    sent, status = MALFORMED[what]
    with Raw(unhurried.url) as wire:
        wire.send(GOOD * 5 + sent + GOOD)
        for _ in range(5):
            assert wire.answer()[0] == 200
        ends_with(wire, status)


def test_a_malformed_request_waits_for_the_slow_answer_before_it(unhurried, topic):
    """The job's answer comes after a commit, on another thread."""
    body = json.dumps({"topic": topic, "delay": "PT1H"}).encode()
    with Raw(unhurried.url) as wire:
        wire.send(POST + b"Content-Length: %d\r\n\r\n" % len(body) + body + b"nonsense\r\n\r\n")
        assert wire.answer()[0] == 201
        ends_with(wire, 400)


@pytest.mark.parametrize("size", [1, 7, 1000, 4095, 4096, 4097, 9000, 100_000])
def test_pipelined_requests_that_arrive_in_any_pieces_are_answered_in_order(unhurried, topic, size):
    """Bodies and chunks of all sorts on one connection: what is held back between the pieces is given on."""
    texts = []
    for n in range(40 if size > 1 else 4):
        body = json.dumps({"topic": topic, "delay": "PT1H", "payload": {"n": n, "x": "y" * (n * 97 % 3000)}}).encode()
        head = POST + b"X-Request-Id: r%d\r\nX-Long: %s\r\n" % (n, b"z" * (n * 331 % 7000))
        if n % 2:
            chunks = b"".join(b"%x;e=f\r\n%s\r\n" % (len(body[at:at + 50 + n]), body[at:at + 50 + n]) for at in range(0, len(body), 50 + n))
            texts.append(head + b"Transfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\nX-Sum: 1\r\n\r\n")
        else:
            texts.append(head + b"Content-Length: %d\r\n\r\n" % len(body) + body + b"\r\n" * (n % 3))
    text = b"".join(texts)
    with Raw(unhurried.url) as wire:
        for at in range(0, len(text), size):
            wire.send(text[at:at + size])
        for n in range(len(texts)):
            status, headers, body = wire.answer()
            assert (status, headers["x-request-id"], json.loads(body)["payload"]["n"]) == (201, f"r{n}", n)


def assert_given_up(wire, begun):
    """The server allows a slow head three seconds."""
    wire.send(begun)
    seconds, answer = given_up(wire, b"a")
    assert seconds > 2.8
    assert answer and answer[0] == 408 and answer[1]["content-type"] == "application/problem+json", answer
    assert json.loads(answer[2])["request_id"] == answer[1]["x-request-id"]


def assert_no_pause_counts(wire):
    """Silence between two requests, an empty line or a busy server do not count towards the time of a head."""
    time.sleep(3.5)  # longer than a head may take; the server must do nothing
    for part in (b"\r\n" + GOOD[:10], GOOD[10:20], GOOD[20:]):
        wire.send(part)
        time.sleep(0.25)
    assert wire.answer()[0] == 200


@pytest.mark.in_turns(3)
@pytest.mark.parametrize("begun", [b"G", HALF, HALF + b"X: "])
def test_a_slow_head_has_the_same_time_limit_from_its_first_byte_on_whenever_it_begins(own_apis, begun):
    api = own_apis.beside("short_heads", {"http.threads": 1, "http.head_timeout": "PT3S"})
    with contextlib.ExitStack() as ends, concurrent.futures.ThreadPoolExecutor(4) as pool:
        wires = [ends.enter_context(Raw(api.url).send(GOOD * earlier)) for earlier in (0, 1, 2, 1)]
        for wire, earlier in zip(wires, (0, 1, 2, 1)):
            assert all(wire.answer()[0] == 200 for _ in range(earlier))
        tried = [pool.submit(assert_given_up, wire, begun) for wire in wires[:3]] + [pool.submit(assert_no_pause_counts, wires[3])]
        for each in tried:
            each.result()


@pytest.mark.in_turns(2)
@pytest.mark.parametrize("drop", [b"", b"a"])
def test_the_server_stops_in_time_while_heads_and_bodies_arrive_slowly(own_apis, drop):
    """SIGTERM with connections that are in the middle of a second head, and of a body."""
    api = own_apis.beside("drips", {"http.threads": 1, "http.head_timeout": "PT1M", "http.request_timeout": "PT10M"})
    wires = [Raw(api.url) for _ in range(60)]
    try:
        for n, wire in enumerate(wires):
            assert wire.send(GOOD).answer()[0] == 200
            wire.send([GOOD[:20], POST + b"Content-Length: 5000\r\n\r\n{", CHUNKED + b"5"][n % 3])
        api.process.terminate()

        def ended():
            for wire in wires:
                with contextlib.suppress(OSError):
                    wire.socket.setblocking(False)
                    wire.socket.send(drop)
            return api.process.poll() is not None
        until(ended, api.log, every=0.1, seconds=20)  # a complete head and its body may take more than ten times as long
        assert api.process.returncode == 0, api.log()[-3000:]
    finally:
        for wire in wires:
            wire.socket.close()

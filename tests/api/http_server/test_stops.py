"""A process that was stopped blames nobody for what came in the meantime: each deadline of a client is judged after its socket was read."""
import contextlib
import json
import os
import signal
import time

import pytest

from harness.raw import Raw, post
from harness.stack import until

pytestmark = pytest.mark.in_turns(2)

ASKED = b"GET /v1/topics?limit=1 HTTP/1.1\r\nHost: localhost\r\n\r\n"
LENGTH = 3  # seconds of a stop, longer than any of these
SETTINGS = {"http.threads": 1, "http.head_timeout": "PT1S", "http.request_timeout": "PT2S", "http.idle_timeout": "PT2S"}
BODY = {"topic": "stops", "delay": "PT1H", "payload": "x" * 4000}


def stopped(process):
    """Stands still from here to the end of the block, which lasts longer than the deadlines."""
    @contextlib.contextmanager
    def stop():
        os.kill(process.pid, signal.SIGSTOP)
        until(lambda: open(f"/proc/{process.pid}/stat", encoding="ascii").read().rsplit(")", 1)[1].split()[0] == "T", "the process stops")
        ends = time.monotonic() + LENGTH
        try:
            yield
            time.sleep(max(0, ends - time.monotonic()))
        finally:
            os.kill(process.pid, signal.SIGCONT)
    return stop()


@pytest.fixture
def brief(own_apis):
    """An API that gives a head one second, a body and silence two."""
    api = own_apis.beside("brief", SETTINGS)
    yield api
    api.rest.close()


@pytest.mark.parametrize("before", [0, 10, len(ASKED) - 1], ids=["no head", "a part", "all but a byte"])
def test_a_head_that_arrived_while_the_process_was_stopped_is_answered(brief, before):
    """The first of a connection, and a later one."""
    with Raw(brief.url) as first, Raw(brief.url) as later:
        assert later.send(ASKED).answer()[0] == 200
        first.send(ASKED[:before])
        later.send(ASKED[:before])
        until(lambda: brief.rest.metric("duetime_http_waiting") == 1, "the first waits for its head")
        with stopped(brief.process):
            first.send(ASKED[before:])
            later.send(ASKED[before:])
        assert (first.answer()[0], later.answer()[0]) == (200, 200)


@pytest.mark.parametrize("path, media, body", [("/v1/jobs", "json", json.dumps(BODY).encode()), ("/v1/jobs:batch", "x-ndjson", (json.dumps(BODY) + "\n").encode() * 20)])
def test_a_body_that_arrived_while_the_process_was_stopped_is_accepted(brief, path, media, body):
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/{media}\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    with Raw(brief.url) as wire:
        wire.send(head + body[:1000])
        with stopped(brief.process):
            wire.send(body[1000:])
        status, _, answer = wire.answer()
        assert status in (200, 201) and b"problems/timeout" not in answer, answer


def test_a_request_sent_on_an_idle_connection_while_the_process_was_stopped_is_answered(brief):
    with Raw(brief.url) as wire:
        assert wire.send(ASKED).answer()[0] == 200
        with stopped(brief.process):
            wire.send(ASKED)
        assert wire.answer()[0] == 200


def test_a_missing_head_or_body_still_times_out_after_the_process_was_stopped(brief):
    with Raw(brief.url) as head, Raw(brief.url) as body:
        head.send(ASKED[:10])
        body.send(post("/v1/jobs", BODY)[:200])
        until(lambda: brief.rest.metric("duetime_http_waiting") == 1, "the first waits for its head")
        with stopped(brief.process):
            pass
        assert (head.answer()[0], body.answer()[0]) == (408, 408)


def test_an_answer_that_its_client_reads_while_the_process_is_stopped_arrives_complete(brief):
    """More than the kernel holds, so that one of them is being sent."""
    for n in range(4):
        assert brief.rest.put(f"/v1/topics/stops-large/jobs/{n}", {"delay": "PT1H", "payload": "y" * 890_000}).status in (200, 201)
    with Raw(brief.url) as wire:
        for _ in range(5):
            wire.request("GET /v1/jobs?topic=stops-large&include=payload")
        wire.buffer = wire.socket.recv(1000)
        with stopped(brief.process):
            wire.socket.settimeout(0.5)
            with contextlib.suppress(TimeoutError):
                while wire._more():
                    pass
            wire.socket.settimeout(120)
        statuses = [wire.answer()[0] for _ in range(5)]  # each has all that its Content-Length says
        assert statuses[0] == 200 and set(statuses) <= {200, 503}, "the time of a request that a worker had is over"


def test_a_pop_whose_client_disconnects_while_the_process_is_stopped_gets_no_job(brief, api2, topic):
    brief.rest.put(f"/v1/topics/{topic}", {"delivery": "pull"})
    leaves, stays = Raw(brief.url), Raw(brief.url)
    for n, wire in enumerate((leaves, stays)):
        wire.send(post(f"/v1/topics/{topic}/pop", {"wait": "PT30S"}))
        until(lambda: brief.rest.metric("duetime_pops_waiting") == n + 1, "the pop waits")
    with stopped(brief.process):
        leaves.socket.close()
    until(lambda: brief.rest.metric("duetime_pops_waiting") == 1, "the pop of the client that left is gone")
    stays.socket.close()

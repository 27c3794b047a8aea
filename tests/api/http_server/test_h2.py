"""HTTP/2: a client with one connection gets what others get with many, by the same rules; and floods end their connection alone."""
import contextlib
import json
import signal
import struct

import pytest

from harness.h2 import CALM, CANCEL, CONTINUATION, DATA, H2, HEADERS, PING, RST_STREAM, SETTINGS, WINDOW_UPDATE
from harness.raw import Raw
from harness.rest import Rest
from harness.stack import until

pytestmark = pytest.mark.in_turns(2)


@pytest.fixture
def pulled(unhurried, topic):
    assert unhurried.rest.put(f"/v1/topics/{topic}", {"delivery": "pull"}).status == 201
    return topic


def pop(h2, topic):
    return h2.post(f"/v1/topics/{topic}/pop", {"wait": "PT1M"})


@pytest.fixture
def one(unhurried):
    """A connection with prior knowledge."""
    with H2(unhurried.url) as h2:
        yield h2


def test_requests_of_many_streams_are_answered_concurrently(one, topic, unhurried):
    asked = [one.post("/v1/jobs", {"topic": topic, "delay": "PT1H", "payload": i}) for i in range(100)]
    answers = [one.answer(id) for id in asked]
    assert {status for status, _ in answers} == {201}
    assert sorted(job["payload"] for job in unhurried.rest.list(topic=topic, include="payload")) == list(range(100))
    assert one.get(f"/v1/jobs/{json.loads(answers[0][1])['id']}")[0] == 200


def test_a_batch_and_its_answer_are_sent_as_flow_control_windows_open(one, topic, unhurried, swept):
    lines = b"".join(json.dumps({"topic": topic, "delay": "PT1H", "payload": "x" * 1000}).encode() + b"\n" for _ in range(1500))
    status, body = one.answer(one.ask("POST", "/v1/jobs:batch", lines, content_type="application/x-ndjson"))
    assert status == 200 and [json.loads(line)["status"] for line in body.splitlines()] == [201] * 1500
    assert one.get("/openapi.yaml")[1] == unhurried.rest.get("/openapi.yaml").body
    assert len(unhurried.rest.list(topic=topic)) == 1500


@pytest.mark.parametrize("method, path, headers", [
    ("GET", "/nothing", {}), ("GET", "/v1/jobs?nonsense=1", {}), ("DELETE", "/v1/topics", {}), ("GET", "/" + "x" * 8300, {}), ("GET", "/v1/jobs", {"a": "x" * 12300}),
    ("POST", "/v1/jobs", {"content-type": "text/plain", "content-length": "5"}),
    ("POST", "/v1/jobs", {"content-type": "application/json", "content-length": str(1 << 40)})], ids=range(7))
def test_a_problem_is_the_same_as_over_http1(one, unhurried, method, path, headers):
    with Raw(unhurried.url) as wire:
        wanted = wire.request(f"{method} {path}", *(f"{name}: {value}" for name, value in headers.items()), "X-Request-Id: same").answer()
    status, body = one.answer(one.ask(method, path, opens="content-length" in headers, **headers, x_request_id="same"))
    heard, wanted_body = json.loads(body), json.loads(wanted[2])
    assert (status, heard["type"], heard.get("detail")) == (wanted[0], wanted_body["type"], wanted_body.get("detail"))
    assert status in (414, 431) or heard["request_id"] == "same"


def test_the_authority_pseudo_header_is_used_as_the_host(one):
    """While no token is asked for, a page of another host may not use this one."""
    assert one.answer(one.ask("GET", "/v1/topics", authority="evil.example"))[0] == 403
    assert one.answer(one.ask("GET", "/v1/topics", authority="localhost"))[0] == 200
    assert one.answer(one.ask("GET", "/v1/topics", host="evil.example"))[0] == 400


def test_many_pops_wait_on_one_connection_and_a_reset_ends_only_its_own_pop(one, pulled, unhurried):
    pops = [pop(one, pulled) for _ in range(5)]
    until(lambda: unhurried.rest.metric("duetime_pops_waiting") == 5, "all wait")
    for id in pops[:3]:
        one.frame(RST_STREAM, 0, id, struct.pack(">I", CANCEL))
    until(lambda: unhurried.rest.metric("duetime_pops_waiting") == 2, "three have left")
    assert one.get("/healthz")[0] == 200


def test_all_pops_of_a_client_end_when_it_disconnects(unhurried, pulled):
    with H2(unhurried.url) as h2:
        for _ in range(20):
            pop(h2, pulled)
        until(lambda: unhurried.rest.metric("duetime_pops_waiting") == 20, "all wait")
    until(lambda: unhurried.rest.metric("duetime_pops_waiting") == 0, "all have left")


def flood(h2, sends):
    """Sends until the server ends the connection; returns its reason."""
    with contextlib.suppress(OSError):
        for i in range(20000):
            sends(i)
    with contextlib.suppress(OSError):
        return h2.until_ended()
    return h2.goaway


FLOODS = {
    "rapid reset": lambda h2, i: (h2.ask("GET", "/v1/jobs"), h2.frame(RST_STREAM, 0, h2.next - 2, struct.pack(">I", CANCEL))),
    "settings": lambda h2, i: h2.frame(SETTINGS, 0, 0),
    "pings": lambda h2, i: h2.frame(PING, 0, 0, bytes(8)),
    "continuation": lambda h2, i: h2.frame(CONTINUATION if i else HEADERS, 0, 1, b"" if i else h2.head("GET", "/", {})),
    "empty data": lambda h2, i: h2.frame(DATA, 0, 1) if i else h2.ask("POST", "/v1/jobs:batch", opens=True, content_type="application/x-ndjson"),
    "windows by the byte": lambda h2, i: h2.frame(WINDOW_UPDATE, 0, 1, struct.pack(">I", 1)) if i else h2.ask("GET", "/openapi.yaml"),
}


@pytest.mark.parametrize("name", FLOODS)
def test_a_flood_of_frames_ends_its_own_connection_and_no_other(unhurried, name):
    before = unhurried.rest.metric("duetime_http_floods_total")
    with H2(unhurried.url, window=0 if "windows" in name else 1 << 20) as h2, H2(unhurried.url) as other:
        assert other.get("/healthz")[0] == 200
        assert flood(h2, lambda i: FLOODS[name](h2, i)) in (CALM, None)  # the reason is lost if much was on its way
        assert other.get("/healthz")[0] == 200
    until(lambda: unhurried.rest.metric("duetime_http_floods_total") == before + 1, "it was counted")


def test_answers_whose_window_stays_closed_are_dropped_so_that_other_requests_are_served(unhurried):
    """A thread has places for 1,024 requests, and these answers would keep them for ten minutes."""
    with contextlib.ExitStack() as stack:
        for _ in range(10):
            h2 = stack.enter_context(H2(unhurried.url, window=0))
            for _ in range(120):
                h2.ask("GET", "/healthz")
        until(lambda: Rest(unhurried.url).get("/healthz").status == 200, "another client is served", seconds=60)


def test_a_stopping_server_announces_its_end_and_answers_the_running_requests(own_apis, topic):
    api = own_apis.running("leaving", {"http.threads": 1})
    assert api.rest.put(f"/v1/topics/{topic}", {"delivery": "pull"}).status == 201
    with H2(api.url) as h2:
        waits = pop(h2, topic)
        until(lambda: api.rest.metric("duetime_pops_waiting") == 1, "it waits")
        api.process.send_signal(signal.SIGTERM)
        assert h2.answer(waits)[0] == 200
        assert h2.until_ended() == 0
    assert api.process.wait(60) == 0


def test_a_slow_body_is_refused_on_its_stream(hasty, topic):
    with H2(hasty.url) as h2:
        late = h2.ask("POST", "/v1/jobs", opens=True, content_type="application/json")
        h2.frame(DATA, 0, late, b"{")
        assert h2.answer(late)[0] == 408
        assert h2.answer(h2.post("/v1/jobs", {"topic": topic, "delay": "PT1H"}))[0] == 201

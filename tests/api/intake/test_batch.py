"""Many jobs of one request: order, what refuses one and what refuses all, limits."""
import json
import re
import select

import pytest

from harness.problems import refused
from harness.raw import Raw
from harness.stack import until

FAR = 300 * 86400000


def job(topic, **more):
    return {"topic": topic, "delay": FAR, **more}


def lines_of(answer):
    assert answer.status == 200 and answer.headers["Content-Type"] == "application/x-ndjson", answer
    return answer.lines


def send_lines(api, lines):
    return lines_of(api.post("/v1/jobs:batch", "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines),
                             content_type="application/x-ndjson"))


def made(api, topic):
    return api.list(topic=topic, limit=1000)


def test_elements_of_an_array_are_answered_in_order(api, topic):
    answer = api.post("/v1/jobs:batch", [job(topic), {"topic": "a b", "x": 1}, job(topic, key="k"), job(topic, key="k"), {**job(topic, key="k"), "delay": 1}, 5])
    assert answer.status == 200 and answer.headers["Content-Type"] == "application/json", answer
    results = answer.json
    assert [result["status"] for result in results] == [201, 422, 201, 200, 409, 422]
    assert results[2]["id"] == results[3]["id"] == results[4]["id"]
    assert [error["pointer"] for error in results[1]["errors"]] == ["/topic", "/x", "/run_at"]
    assert {one["id"] for one in made(api, topic)} == {results[0]["id"], results[2]["id"]}


def test_an_empty_batch_creates_no_job(api):
    assert api.post("/v1/jobs:batch", []).json == []
    answer = api.post("/v1/jobs:batch", "", content_type="application/x-ndjson")
    assert answer.status == 200 and answer.body == b""


@pytest.mark.parametrize("rest", [',{"topic":]', ',{"topic":"t","topic":"t"}]', ",]", "", "] x", ',"\\ud800"]', "],[]"])
def test_an_array_with_invalid_json_is_refused_as_a_whole(api, topic, rest):
    refused(api.post("/v1/jobs:batch", "[" + json.dumps(job(topic)) + rest), 400, "malformed")
    assert made(api, topic) == []


def test_a_body_that_is_not_an_array_is_refused(api, topic):
    refused(api.post("/v1/jobs:batch", job(topic)), 422, "invalid", "")
    refused(api.post("/v1/jobs:batch", ""), 400, "malformed")
    refused(api.post("/v1/jobs:batch", [], content_type="text/csv"), 415, "unsupported-media-type")


def test_an_invalid_line_does_not_affect_other_lines(api, topic):
    results = send_lines(api, [job(topic), '{"topic":', "", {"topic": "a b", "delay": 0}, '{"a":1,"a":2}', job(topic, key="k"), "[]"])
    assert [result["status"] for result in results] == [201, 400, 400, 422, 400, 201, 422]
    assert len(made(api, topic)) == 2


def test_a_final_line_feed_adds_no_line_and_carriage_returns_are_ignored(api, topic):
    answer = api.post("/v1/jobs:batch", json.dumps(job(topic)) + "\r\n" + json.dumps(job(topic)) + "\r\n", content_type="application/x-ndjson")
    assert [result["status"] for result in lines_of(answer)] == [201, 201]


def test_thousands_of_lines_are_answered_in_order_and_their_repeats_get_the_same_ids(api, topic, swept):
    jobs = [job(topic, key=f"k{n:05}", payload=n) for n in range(7000)]
    results = api.batch(jobs)
    assert [result["status"] for result in results] == [201] * len(jobs)
    for n in (0, 999, 1000, 3500, 6999):
        assert api.get(f"/v1/jobs/{results[n]['id']}").json["payload"] == n
    again = api.post("/v1/jobs:batch", jobs).json
    assert [(result["status"], result["id"]) for result in again] == [(200, result["id"]) for result in results]


def test_elements_with_the_same_key_are_carried_out_in_order(api, topic, swept):
    jobs = [job(topic, key=f"k{n % 1500}", payload=n) for n in range(6000)]
    results = api.batch(jobs)
    assert [result["status"] for result in results] == [201] * 1500 + [409] * 4500
    assert all(results[n]["id"] == results[n % 1500]["id"] for n in range(6000))


def test_lines_may_be_split_at_any_byte_when_they_arrive(api, topic):
    line = json.dumps(job(topic)).encode() + b"\n"
    with Raw(api.url) as wire:
        wire.request("POST /v1/jobs:batch", "Content-Type: application/x-ndjson", "Transfer-Encoding: chunked")
        for byte in line * 3:
            wire.send(b"1\r\n" + bytes([byte]) + b"\r\n")
        status, headers, body = wire.send(b"0\r\n\r\n").answer()
    assert status == 200 and headers["content-type"] == "application/x-ndjson" and body.count(b'"status":201') == 3


def chunked(api, body):
    """The answer to an NDJSON batch whose length nobody tells before its end."""
    with Raw(api.url) as wire:
        wire.request("POST /v1/jobs:batch", "Content-Type: application/x-ndjson", "Transfer-Encoding: chunked")
        for at in range(0, len(body), 1000):
            piece = body[at:at + 1000]
            wire.send(b"%x\r\n" % len(piece) + piece + b"\r\n")
        status, _, answer = wire.send(b"0\r\n\r\n").answer()
    assert status == 200, answer
    return [json.loads(line)["status"] for line in answer.splitlines()]


def test_elements_past_the_largest_number_get_413_and_make_no_job(small, topic):
    before = small.jobs()
    assert [result["status"] for result in send_lines(small.rest, [job(topic)] * 13)] == [201] * 10 + [413] * 3
    assert [result["status"] for result in small.rest.post("/v1/jobs:batch", [job(topic)] * 12).json] == [201] * 10 + [413] * 2
    assert small.jobs() == before + 20


def test_elements_past_the_size_of_the_body_get_413_and_make_no_job(small, topic):
    before = small.jobs()
    refused(small.rest.post("/v1/jobs:batch", [job(topic, payload="x" * 1800)] * 6), 413, "too-large")
    refused(small.rest.post("/v1/jobs:batch", "x" * 8193, content_type="application/x-ndjson"), 413, "too-large")
    assert small.jobs() == before
    statuses = chunked(small, (json.dumps(job(topic, payload="x" * 1800)).encode() + b"\n") * 6)
    assert statuses == [201] * 4 + [413] * (len(statuses) - 4) and len(statuses) > 4
    assert small.jobs() == before + 4


def test_a_line_longer_than_limits_body_does_not_affect_other_lines(small, topic):
    results = send_lines(small.rest, [job(topic), job(topic, payload="x" * 5000), job(topic)])
    assert [result["status"] for result in results] == [201, 413, 201]


def test_a_payload_that_is_too_large_does_not_affect_other_elements(small, topic):
    jobs = [job(topic), job(topic, payload="x" * 2000), job(topic)]
    assert [result["status"] for result in send_lines(small.rest, jobs)] == [201, 413, 201]
    assert [result["status"] for result in small.rest.post("/v1/jobs:batch", jobs).json] == [201, 413, 201]


def test_fifty_thousand_lines_with_invalid_ones_among_them_are_each_answered(api, api2, topic, db, swept):
    bad = {7: b'{"topic":', 20000: b'{"topic":"a b","delay":0}', 33333: b"\xff", 49999: b"[1]"}
    wanted = {7: 400, 20000: 422, 33333: 400, 49999: 422}
    lines = [bad.get(n) or b'{"topic":"%s","delay":"P300D","payload":{"n":%d}}' % (topic.encode(), n) for n in range(50000)]
    results = lines_of(api.post("/v1/jobs:batch", b"\n".join(lines) + b"\n", content_type="application/x-ndjson"))
    assert [result["status"] for result in results] == [wanted.get(n, 201) for n in range(50000)]
    assert len({result["id"] for result in results if result["status"] == 201}) == 50000 - len(bad)
    assert db("SELECT COUNT(*) n FROM jobs WHERE topic = %s", topic)[0]["n"] == 50000 - len(bad)
    for n in (0, 6, 8, 19999, 20001, 33334, 49998):
        assert api2.get(f"/v1/jobs/{results[n]['id']}").json["payload"] == {"n": n}


def test_a_problem_in_a_batch_has_all_members_of_a_problem(api, topic, nothing_made):
    [result] = send_lines(api, [{"topic": topic, "delay": "x", "retry": 5}])
    assert result["type"].endswith("/problems/invalid") and result["title"] and sorted(error["pointer"] for error in result["errors"]) == ["/delay", "/retry"]
    [result] = send_lines(api, ["{"])
    assert result["type"].endswith("/problems/malformed") and result["detail"]


def test_a_client_that_disconnects_in_the_middle_of_a_batch_affects_no_other_client(plain, topic):
    line = json.dumps(job(topic, payload="x" * 500)).encode() + b"\n"
    open_now = lambda: int(re.search(rb"^duetime_http_connections (\d+)", plain.rest.get("/metrics").body, re.M)[1])  # noqa: E731
    before = open_now()
    for _ in range(10):
        with Raw(plain.url) as wire:
            wire.request("POST /v1/jobs:batch", "Content-Type: application/x-ndjson", "Transfer-Encoding: chunked")
            wire.send(b"%x\r\n" % (len(line) * 200) + line * 200 + b"\r\n%x\r\n" % len(line) + line[:20])
    assert plain.rest.make(topic=topic, delay=FAR)["version"] == 1
    until(lambda: open_now() <= before, lambda: f"{open_now()} connections are open, {before} before")
    assert plain.rows("SELECT COUNT(*) n FROM jobs WHERE topic = %s", topic)[0]["n"] <= 1 + 10 * 200


def test_a_fault_in_a_line_is_reported_with_its_line_and_byte(api, topic):
    lines = [json.dumps(job(topic)), '{"topic":"t","delay":tru,"payload":[1,2,3,4,5,6,7,8,9]}', json.dumps(job(topic)), '{"topic":"t","topic":"u"}', "[1,2"]
    answer = api.post("/v1/jobs:batch", "\n".join(lines) + "\n", content_type="application/x-ndjson")
    details = [line.get("detail") for line in answer.lines]
    assert [line["status"] for line in answer.lines] == [201, 400, 201, 400, 400]
    assert details[1].startswith("line 2: ") and details[1].endswith("at byte 21"), details
    assert details[3].startswith("line 4: ") and details[3].endswith("at byte 13"), details
    assert details[4].startswith("line 5: ") and details[4].endswith("at byte 4"), details
    whole = refused(api.post("/v1/jobs", lines[1]), 400, "malformed")
    assert whole["detail"].endswith("at byte 21"), whole


def test_a_long_batch_lets_the_other_connections_of_its_thread_go_first(unhurried):
    """On one HTTP thread, several requests are answered while a batch is processed. This may need several tries if the test itself gets no core."""
    def answered_meanwhile():
        with Raw(unhurried.url) as wire:
            wire.send(b"POST /v1/jobs:batch HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\nContent-Length: 60000\r\n\r\n" + b"\n" * 60000)
            answered = 0
            while not select.select([wire.socket], [], [], 0)[0]:
                assert unhurried.rest.get("/healthz").status == 200
                answered += 1
            assert wire.answer()[0] == 200
            return answered - 1  # the last one may have waited for the end of the batch
    until(lambda: answered_meanwhile() >= 3, "others are answered meanwhile")

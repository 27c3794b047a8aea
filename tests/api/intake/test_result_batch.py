"""Many results of one request: order, what refuses one and what refuses all, limits, topics beyond the token's."""
import json

import pytest

from harness.problems import refused
from harness.raw import Raw
from harness.stack import until

pytestmark = pytest.mark.in_turns(2)

FAR = 300 * 86400000
NDJSON = {"content_type": "application/x-ndjson"}


def report(job, status="succeeded", attempt=1, **more):
    return {"job_id": job if isinstance(job, str) else job["id"], "attempt": attempt, "status": status, **more}


def send_lines(api, lines):
    answer = api.post("/v1/results", "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines), **NDJSON)
    assert answer.status == 200 and answer.headers["Content-Type"] == "application/x-ndjson", answer
    return answer.lines


@pytest.fixture
def sent(api, topic, db):
    """sent(n, …) -> the ids of so many jobs that were dispatched."""
    def make(count, **job):
        ids = [result["id"] for result in api.batch([{"topic": topic, "delay": 0, "ack_timeout": "PT1H", **job}] * count)]
        where = f"SELECT COUNT(*) n FROM jobs WHERE topic = '{topic}' AND state = 'dispatched'"
        until(lambda: db(where)[0]["n"] == count, lambda: str(db(where)))
        return ids
    return make


def test_each_element_is_answered_in_order(api, sent):
    first, second = sent(2, retry=["1h"])
    answer = api.post("/v1/results", [report(first), report("123456789"), report(second, "failed", error={"code": "E", "message": "ä"}), {"job_id": first},
                                      report(first), report(second, "succeeded", 7), 5])
    assert answer.status == 200 and answer.headers["Content-Type"] == "application/json", answer
    results = answer.json
    assert [result["status"] for result in results] == [200, 404, 200, 422, 200, 200, 422]
    assert [result.get("outcome") for result in results] == ["applied", None, "applied", None, "duplicate", "stale", None]
    assert results[0] == {"status": 200, "outcome": "applied"}
    assert [error["pointer"] for error in results[3]["errors"]] == ["/attempt", "/status"]
    assert api.get(f"/v1/jobs/{first}").json["state"] == "succeeded"
    failed = api.get(f"/v1/jobs/{second}").json
    assert (failed["state"], failed["last_error"]["code"], failed["last_error"]["message"]) == ("scheduled", "E", "ä")


def test_an_invalid_line_does_not_affect_other_lines(api, sent):
    [job] = sent(1)
    results = send_lines(api, ['{"job_id":', "", {"job_id": job, "attempt": 1}, '{"job_id":"1","job_id":"1"}', report(job), "[]", json.dumps(report(job))[:-7]])
    assert [result["status"] for result in results] == [400, 400, 422, 400, 200, 422, 400]
    assert results[0]["detail"].startswith("line 1: ") and results[6]["detail"].startswith("line 7: ")


@pytest.mark.parametrize("rest", [',{"job_id":]', ',{"job_id":"1","job_id":"1"}]', ",]", "", "] x"])
def test_an_array_with_invalid_json_is_refused_as_a_whole(api, sent, rest):
    [job] = sent(1)
    refused(api.post("/v1/results", "[" + json.dumps(report(job)) + rest), 400, "malformed")
    assert api.get(f"/v1/jobs/{job}").json["state"] == "dispatched"


def test_a_body_that_is_not_an_array_is_refused(api):
    refused(api.post("/v1/results", report("5")), 422, "invalid", "")
    refused(api.post("/v1/results", [], content_type="text/csv"), 415, "unsupported-media-type")
    assert api.post("/v1/results", []).json == []
    answer = api.post("/v1/results", "", **NDJSON)
    assert answer.status == 200 and answer.body == b""


def test_thousands_of_results_are_applied_and_their_repeats_are_duplicates(api, sent, db, topic):
    ids = sent(5000)
    lines = [report(job) for job in ids]
    assert [result.get("outcome") for result in send_lines(api, lines)] == ["applied"] * 5000
    assert db("SELECT COUNT(*) n FROM jobs WHERE topic = %s AND state = 'succeeded'", topic)[0]["n"] == 5000
    again = api.post("/v1/results", lines[::-1] + [report(ids[7], "failed")]).json
    assert [result.get("outcome") for result in again] == ["duplicate"] * 5000 + ["stale"]


def test_lines_may_be_split_at_any_byte_when_they_arrive(api, sent):
    ids = sent(3)
    body = b"".join(json.dumps(report(job)).encode() + b"\n" for job in ids)
    with Raw(api.url) as wire:
        wire.request("POST /v1/results", "Content-Type: application/x-ndjson", "Transfer-Encoding: chunked")
        for byte in body:
            wire.send(b"1\r\n" + bytes([byte]) + b"\r\n")
        status, headers, answer = wire.send(b"0\r\n\r\n").answer()
    assert status == 200 and headers["content-type"] == "application/x-ndjson" and answer == b'{"status":200,"outcome":"applied"}\n' * 3


def test_results_beyond_a_limit_get_413_and_are_not_applied(small):
    line = report("7")
    results = send_lines(small.rest, [line] * 13)
    assert [result["status"] for result in results] == [404] * 10 + [413] * 3
    assert results[12]["detail"].endswith("no result was applied")
    assert [result["status"] for result in small.rest.post("/v1/results", [line] * 12).json] == [404] * 10 + [413] * 2
    refused(small.rest.post("/v1/results", [report("7", error={"message": "x" * 3000})] * 4), 413, "too-large")
    long = report("7", "failed", error={"message": "x" * 5000})
    assert [result["status"] for result in send_lines(small.rest, [line, long, line])] == [404, 413, 404]


def test_a_body_that_stops_arriving_is_answered_for_the_lines_that_arrived(hasty):
    line = json.dumps(report("7")).encode() + b"\n"
    with Raw(hasty.url) as wire:
        wire.request("POST /v1/results", "Content-Type: application/x-ndjson", "Content-Length: 5000", body=line * 4 + line[:9])
        status, _, body = wire.answer()
    answers = [json.loads(text) for text in body.splitlines()]
    assert status == 200 and [answer["status"] for answer in answers] in ([404] * 4 + [408], [408] * 4 + [408])
    assert answers[-1]["detail"].endswith("no result was applied from here on")

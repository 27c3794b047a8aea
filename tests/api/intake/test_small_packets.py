"""A MySQL that takes small statements only (max_allowed_packet): payloads have the limit that follows, and nothing is blamed on the topic."""
import base64
import re

import pytest

from harness.problems import refused
from harness.stack import until

LARGE = "x" * 200000
PAUSED = {"every": "PT1H", "paused": True}


@pytest.fixture
def tight(own_apis, packet_limit):
    packet_limit(65536)
    return own_apis.beside("tight", {"installation.name": "plain"})


def too_large(answer, pointer="/payload"):
    refused(answer, 413, "too-large", pointer)
    assert re.search(r"has 20\d{4} bytes, \d+ are allowed", answer.json["errors"][0]["reason"]), answer


def test_every_way_to_create_a_job_refuses_payloads_too_large_for_mysql(tight, topic):
    rest, job = tight.rest, {"topic": topic, "delay": "PT1H"}
    made = rest.post("/v1/jobs", {**job, "key": "k", "payload": "x" * 30000})
    assert made.status == 201, made
    too_large(rest.post("/v1/jobs", {**job, "payload": LARGE}))
    too_large(rest.post("/v1/jobs", {**job, "payload_base64": base64.b64encode(LARGE.encode()).decode(), "content_type": "text/plain"}), "/payload_base64")
    too_large(rest.put(f"/v1/topics/{topic}/jobs/new", {"delay": "PT1H", "payload": LARGE}))
    too_large(rest.put(f"/v1/topics/{topic}/jobs/k?replace=true", {"delay": "PT1H", "payload": LARGE}))
    too_large(rest.patch(f"/v1/jobs/{made.json['id']}", {"payload": LARGE}))
    too_large(rest.put(f"/v1/schedules/{topic}", {"topic": topic, "payload": LARGE, **PAUSED}))
    lines = rest.batch([{**job, "payload": LARGE}, job])
    assert [line["status"] for line in lines] == [413, 201] and lines[0]["errors"][0]["pointer"] == "/payload", lines
    too_large(rest.post("/v1/commands", {"command": "add", "topic": topic, "id": f"{topic}-1", "delay": 60, "body": LARGE}), "/body")
    assert rest.patch(f"/v1/jobs/{made.json['id']}", {"payload": "y" * 30000}).status == 200
    assert rest.put(f"/v1/schedules/{topic}", {"topic": topic, "payload": "x" * 30000, **PAUSED}).status == 201


def test_batches_are_written_in_statements_that_fit_into_mysqls_packets(tight, topic):
    rest = tight.rest
    assert rest.put(f"/v1/topics/{topic}", {"delivery": "pull", "retry": ["PT1H"]}).status == 201
    jobs = [{"topic": topic, "key": f"{n:0>200}", "delay": 0, "payload": "x" * 1000} for n in range(2000)]
    assert {line["status"] for line in rest.batch(jobs)} == {201}
    assert {line["status"] for line in rest.batch(jobs)} == {200}, "all keys are there"
    popped = rest.post(f"/v1/topics/{topic}/pop", {"max": 1000, "wait": "PT5S"}).json["jobs"]
    assert len(popped) == 1000
    ended = [{"job_id": job["id"], "attempt": job["attempt"], "status": "failed", "error": {"code": "c", "message": "\u0001" * 990}} for job in popped]
    assert {line.get("outcome") for line in rest.post("/v1/results", ended).json} == {"applied"}


def test_a_mysql_with_a_tiny_max_allowed_packet_counts_as_an_outage_and_raises_an_alarm(tight, packet_limit, db, topic):
    packet_limit(32768)
    database = tight.database
    for session in db("SELECT id FROM information_schema.processlist WHERE db = %s AND id <> CONNECTION_ID()", database):
        db("KILL %s", session["id"])
    answer = until(lambda: (seen := tight.rest.post("/v1/jobs", {"topic": topic, "delay": "PT1H"})).status != 201 and seen, "refused")
    refused(answer, 503, "unavailable")
    until(lambda: re.search(r'duetime_outage_alarm\{of="mysql"\} 1', tight.rest.get("/metrics").text), tight.log)
    assert "max_allowed_packet of MySQL is 32768" in tight.log()
    packet_limit(16777216)
    until(lambda: tight.rest.post("/v1/jobs", {"topic": topic, "delay": "PT1H", "payload": LARGE}).status == 201, tight.log)


def test_jobs_created_before_the_packet_limit_was_lowered_are_dispatched_in_batches_that_fit(api, db, stack, packet_limit, topic):
    assert api.put(f"/v1/topics/{topic}", {"paused": True, "ack_timeout": "P1D"}).status == 201
    large = api.make(topic=topic, delay=0, payload=LARGE)["id"]
    assert {line["status"] for line in api.batch([{"topic": topic, "delay": 0}] * 6000)} == {201}
    stack.stop("dispatcher1")
    packet_limit(65536)
    begun = len(stack.log("dispatcher1"))
    stack.start("dispatcher1")
    assert api.post(f"/v1/topics/{topic}/resume").status == 200
    until(lambda: db("SELECT COUNT(*) n FROM jobs WHERE topic = %s AND state = 'dispatched'", topic)[0]["n"] == 6001, lambda: stack.log("dispatcher1")[begun:])
    assert "max_allowed_packet" not in stack.log("dispatcher1")[begun:]
    assert api.get(f"/v1/jobs/{large}").json["payload"] == LARGE
    db("DELETE FROM jobs WHERE topic = %s", topic)

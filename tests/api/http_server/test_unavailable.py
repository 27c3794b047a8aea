"""503: MySQL hangs, is killed, or is too slow for what comes; nothing that was refused is there, nothing that was answered is lost."""
import concurrent.futures
import contextlib
import itertools
import threading
import time

import pytest

from harness.problems import refused
from harness.raw import Raw, post
from harness.rest import Rest
from harness.stack import until

pytestmark = pytest.mark.in_turns(3)

HOUR = "PT1H"
FAR = "P300D"


@pytest.fixture
def brisk(own_apis):
    """An API with a short MySQL timeout, one worker and one committer."""
    return own_apis.beside("brisk", {"mysql.io_timeout": "PT2S", "mysql.connect_timeout": 500, "http.workers": 1, "api.committers": 1})


def kept(api, topic, key="k"):
    """Creates a job with that key; tries again if MySQL is too slow."""
    made = lambda: api.put(f"/v1/topics/{topic}/jobs/{key}", {"delay": FAR})  # noqa: E731
    return until(lambda: (answer := made()).status in (200, 201) and answer.json, made)


def told_to_come_back(answer):
    """503 as it must be; its document."""
    assert answer.status == 503, answer
    document = refused(answer, 503, answer.json["type"].rsplit("/", 1)[1])
    assert document["type"].endswith(("/unavailable", "/outcome-unknown")), document
    if document["type"].endswith("/unavailable"):
        assert int(answer.headers["Retry-After"]) >= 1
    return document


def ready_again(api):
    until(lambda: api.get("/readyz").status == 200, lambda: api.get("/readyz"))


def test_requests_get_503_while_mysql_hangs_and_every_answer_is_true_afterwards(stack, brisk, api, topic):
    rest, job = brisk.rest, kept(brisk.rest, topic)
    with stack.stopped("mysql"), concurrent.futures.ThreadPoolExecutor(8) as pool:
        posts = [pool.submit(rest.post, "/v1/jobs", {"topic": topic, "delay": FAR, "payload": n}) for n in range(4)]
        others = [pool.submit(rest.put, f"/v1/topics/{topic}/jobs/new", {"delay": FAR}), pool.submit(rest.get, f"/v1/jobs/{job['id']}")]
        documents = [told_to_come_back(answer.result()) for answer in posts]
        for answer in others:
            told_to_come_back(answer.result())
        assert rest.get("/healthz").status == 200
        until(lambda: rest.get("/readyz").status == 503, "not ready")
    ready_again(rest)
    ready_again(api)
    kept(rest, topic, "new")
    there = {str(row["id"]) for row in brisk.rows("SELECT id FROM jobs WHERE topic = %s AND job_key IS NULL", topic)}
    assert there <= {document.get("id") for document in documents if document["type"].endswith("/outcome-unknown")}
    assert brisk.rows("SELECT COUNT(*) n FROM jobs WHERE topic = %s AND job_key IS NOT NULL", topic)[0]["n"] == 2


@pytest.mark.in_turns(2)
@pytest.mark.parametrize("at_once", [1, 40])
def test_a_mysql_that_hangs_delays_no_client_for_long(stack, brisk, topic, at_once):
    """MySQL has two seconds for an answer and half a second for a connection. Queued requests do not wait one after another, which would take minutes."""
    api, job = brisk.rest, kept(brisk.rest, topic)
    path = f"/v1/jobs/{job['id']}"
    kinds = [lambda: api.post("/v1/jobs", {"topic": topic, "delay": FAR}), lambda: api.get(path), lambda: api.post(f"{path}/cancel"),
             lambda: api.post(f"{path}/results", {"attempt": 1, "status": "succeeded"}), lambda: api.get(f"/v1/jobs?topic={topic}")]
    with stack.stopped("mysql"), concurrent.futures.ThreadPoolExecutor(len(kinds) * at_once) as pool:
        for _ in range(2):
            asked = [pool.submit(lambda ask=ask: told_to_come_back(ask())) for ask in kinds * at_once]
            until(lambda: all(one.done() for one in asked), lambda: sum(one.done() for one in asked), seconds=5)
            for one in asked:
                one.result()
    ready_again(api)


@pytest.mark.in_turns(3)
def test_each_kind_of_request_gets_503_while_mysql_is_down_and_works_again_afterwards(stack, api, topic, db):
    job = api.make(topic=topic, key="k", delay=HOUR)
    path = f"/v1/jobs/{job['id']}"
    requests = [("POST", "/v1/jobs", {"topic": topic, "delay": HOUR}), ("PUT", f"/v1/topics/{topic}/jobs/new", {"delay": HOUR}), ("GET", path, None), ("GET", f"/v1/jobs?topic={topic}", None),
                ("GET", f"/v1/topics/{topic}/jobs/k", None), ("PATCH", path, {"payload": 1}), ("POST", f"{path}/cancel", None), ("DELETE", path, None), ("POST", f"{path}/run-now", None),
                ("POST", f"{path}/redrive", None), ("POST", f"{path}/results", {"attempt": 1, "status": "succeeded"}), ("GET", f"{path}/attempts", None),
                ("GET", f"/v1/topics/{topic}", None), ("PUT", f"/v1/topics/{topic}", {}), ("GET", "/v1/topics", None), ("POST", f"/v1/topics/{topic}/pause", None)]
    stack.refresh()
    stack.kill("mysql")
    try:
        for method, where, body in requests:
            document = told_to_come_back(api.ask(method, where, body))
            assert document["type"].endswith("/unavailable"), (method, where, document)
        batch = api.post("/v1/jobs:batch", [{"topic": topic, "delay": HOUR}] * 3)
        assert batch.status == 503 or [result["status"] for result in batch.json] == [503] * 3, batch
        refused(api.post("/v1/jobs", "{"), 400, "malformed")
        assert api.get("/healthz").status == 200 and api.get("/metrics").status == 200
        until(lambda: api.get("/readyz").status == 503, "not ready")
    finally:
        stack.start("mysql")
    ready_again(api)
    assert api.get(path).json == job
    assert db("SELECT COUNT(*) n FROM jobs WHERE topic = %s", topic)[0]["n"] == 1
    assert api.post("/v1/jobs", {"topic": topic, "delay": HOUR}).status == 201
    sent = api.make(topic=topic, delay=0)
    until(lambda: api.get(f"/v1/jobs/{sent['id']}").json["state"] == "dispatched", lambda: api.get(f"/v1/jobs/{sent['id']}"))


def test_creates_that_run_when_mysql_dies_are_answered_with_their_real_outcome(stack, api, topic, db, swept):
    """Each 201 is there afterwards, each key that was refused can be asked for again, and nothing is there twice."""
    stack.refresh()
    answers, end = {}, threading.Event()

    def write(thread):
        rest = Rest(api.url)
        for n in itertools.count():
            key = f"{thread}-{n}"
            answers[key] = answer = rest.put(f"/v1/topics/{topic}/jobs/{key}", {"delay": FAR})
            if answer.status == 503 or end.is_set():
                break
        rest.close()
    threads = [threading.Thread(target=write, args=(thread,)) for thread in range(16)]
    for thread in threads:
        thread.start()
    try:
        until(lambda: len(answers) > 300, "work is under way", every=0.002)
        stack.kill("mysql")
    finally:
        stack.start("mysql")
        end.set()
    for thread in threads:
        thread.join(120)
    assert not any(thread.is_alive() for thread in threads)
    ready_again(api)
    refusals = [key for key, answer in answers.items() if answer.status == 503]
    assert {answer.status for answer in answers.values()} <= {200, 201, 503}
    for key in refusals:
        document = told_to_come_back(answers[key])
        there = api.get(f"/v1/topics/{topic}/jobs/{key}")
        if document["type"].endswith("/unavailable"):
            assert there.status == 404, (document, there)
        elif there.status == 200:
            assert document["id"] == there.json["id"]
        assert api.put(f"/v1/topics/{topic}/jobs/{key}", {"delay": FAR}).status == (200 if there.status == 200 else 201)
    found = {row["job_key"].decode(): str(row["id"]) for row in db("SELECT id, job_key FROM jobs WHERE topic = %s", topic)}
    assert len(found) == db("SELECT COUNT(*) n FROM jobs WHERE topic = %s", topic)[0]["n"] == len(answers)
    assert all(found[key] == answer.json["id"] for key, answer in answers.items() if answer.status != 503)


def test_requests_beyond_a_full_queue_are_refused_at_once_and_queued_jobs_are_created(own_apis, topic):
    narrow = own_apis.beside("full", {"api.queue_jobs": 100, "api.commit_jobs": 5, "api.committers": 1})
    narrow.rest.make(topic=topic, delay=HOUR)
    connection = narrow.connect()
    wires = [Raw(narrow.url) for _ in range(240)]
    try:
        with connection.cursor() as cursor:
            cursor.execute("LOCK TABLES jobs WRITE")
            begun = time.monotonic()
            for n, wire in enumerate(wires):
                wire.send(post("/v1/jobs", {"topic": topic, "delay": HOUR, "payload": n}))
            early = {}

            def refused_ones():
                for wire in wires:
                    wire.socket.settimeout(0.001)
                    with contextlib.suppress(TimeoutError):
                        if wire not in early:
                            early[wire] = wire.answer()
                return len(early) >= 130
            until(refused_ones, lambda: f"{len(early)} were refused")
            assert {status for status, _, _ in early.values()} == {503}
            assert all(b"/problems/unavailable" in body and int(headers["retry-after"]) >= 1 for _, headers, body in early.values())
            cursor.execute("UNLOCK TABLES")
            late_from = 1.5  # a committer that has waited two seconds for MySQL accepts no more work
            taken = 90 if time.monotonic() - begun < late_from else 1
        for wire in wires:
            wire.socket.settimeout(120)
        late = [wire.answer()[0] for wire in wires if wire not in early]
        assert late.count(201) >= taken and set(late) <= {201, 503}
        assert narrow.rows("SELECT COUNT(*) n FROM jobs WHERE topic = %s", topic)[0]["n"] == 1 + late.count(201)
    finally:
        connection.close()
        for wire in wires:
            wire.socket.close()
    assert narrow.rest.post("/v1/jobs", {"topic": topic, "delay": HOUR}).status == 201


def test_jobs_are_made_and_sent_while_redis_hangs(stack, api, topic):
    sent = lambda job: api.get(f"/v1/jobs/{job['id']}").json["state"] == "dispatched"  # noqa: E731
    with stack.stopped("redis1"):
        assert [api.post("/v1/jobs", {"topic": topic, "delay": FAR, "payload": n}).status for n in range(50)] == [201] * 50
        assert [line["status"] for line in api.batch([{"topic": topic, "delay": FAR}] * 500)] == [201] * 500
        assert api.get("/readyz").status == 200
        job = api.make(topic=topic, delay=0)
        until(lambda: sent(job), lambda: api.get(f"/v1/jobs/{job['id']}"))
    after = api.make(topic=topic, delay=0)
    until(lambda: sent(after), lambda: api.get(f"/v1/jobs/{after['id']}"))

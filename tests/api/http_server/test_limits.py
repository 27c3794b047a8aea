"""Memory, descriptors and threads run out: the n-th call fails, for every n, in commands, in start-up, in a request, at work.

In a request it is every n. What takes a process each time takes a spread of them, unless DUETIME_NTH_EVERY=1 asks for all
(tests/run http -k runs_out; ten minutes).
"""
import http.client
import itertools
import json
import os
import re
import uuid

import pytest
from harness.harm import nth
from harness.checker import at_most_once
from harness.consumer import TestConsumer
from harness.program import PATIENT, OwnApi
from harness.rest import Rest
from harness.stack import until
from stack import ports

pytestmark = pytest.mark.in_turns(3)

LISTENING = re.compile(r"msg=\"?listening")
EVERY = os.environ.get("DUETIME_NTH_EVERY") == "1"


def steps(spread):
    """All n, or a spread that is dense at the start: the steps grow by a `spread`-th of what went before."""
    n = 1
    while True:
        yield n
        n += 1 if EVERY or not spread else 1 + n // spread


@pytest.fixture(scope="module")
def knobs(tmp_path_factory):
    return nth.Knobs(tmp_path_factory.mktemp("nth") / "knobs")


@pytest.fixture(scope="module")
def api_of(stack, tmp_path_factory, knobs):
    made = {}

    def make(name, **settings):
        if name not in made:
            folder = tmp_path_factory.mktemp(name)
            port = ports.choose(set(), folder)
            made[name] = OwnApi(stack, folder, name, settings={"http.port": port, **PATIENT, **settings},
                                program=nth.program("api"), variables=knobs.environment)
            made[name].url = f"http://127.0.0.1:{port}"
        return made[name]
    yield make
    for one in made.values():
        one.end()


# ---- commands ----

@pytest.mark.parametrize("kind", nth.KINDS)
@pytest.mark.parametrize("command", ["--check-config", "--print-config", "--list-tokens", "--new-token", "--migrate"])
def test_a_command_that_runs_out_of_resources_reports_that_and_ends(api_of, knobs, command, kind):
    api = api_of("limit_commands")
    failures = 0
    for n in steps(2 if command == "--migrate" else 4):  # each step of --migrate creates a database twice
        arguments = [command, f"token-{kind}-{n}", "--scopes", "read"] if command == "--new-token" else [command]
        if command == "--migrate":
            api.recreate()
        knobs.arm(kind, n)
        done = api.command(*arguments)
        fired = knobs.disarm(kind)
        what = f"{command}, {kind} {n}: exit code {done.returncode}"
        nth.no_report(done.stderr, what)
        assert done.returncode in (0, 1, 2), f"{what}\n{done.stderr[-6000:]}"
        assert done.returncode == 0 or done.stderr.strip(), f"{what}: and no word"
        if not fired:
            assert done.returncode == 0, f"{what}\n{done.stderr[-6000:]}"
            break
        failures += 1
        if command == "--migrate":
            again = api.command("--migrate")
            assert again.returncode == 0, f"{what}; and then: {again.stderr}"
    print(f"{command}: {failures} {kind} failures")


# ---- start-up ----

def ended_or_listening(api):
    until(lambda: LISTENING.search(api.log()) or api.process.poll() is not None, lambda: f"neither an end nor a listening socket\n{api.log()[-4000:]}")
    return LISTENING.search(api.log())


@pytest.mark.parametrize("kind", nth.KINDS)
def test_an_api_without_resources_at_its_start_ends_cleanly_or_serves(api_of, knobs, kind):
    api = api_of("limit_start")
    failures = served = 0
    for n in steps(4):
        knobs.arm(kind, n)
        api.launch()
        port = ended_or_listening(api)
        what = f"{kind} {n}"
        fired = knobs.failed(kind)
        if port:
            knobs.disarm(kind)
            served += 1
            api.rest = Rest(api.url)
            answer = until(lambda: (a := api.rest.post("/v1/jobs", {"topic": "start", "delay": "P1D"})).status == 201 and a, lambda: f"{what}\n{api.log()[-4000:]}")
            assert api.rows("SELECT COUNT(*) n FROM jobs WHERE id = %s", answer.json["id"])[0]["n"] == 1
        code = api.end()
        nth.no_report(api.log(), what)
        assert code == (0 if port else 1), f"{what}: exit code {code}\n{api.log()[-6000:]}"
        assert port or api.log().strip(), f"{what}: ended without a word\n{api.log()[-3000:]}"
        failures += fired
        if port and not fired:
            break
    print(f"start: {failures} {kind} failures, served after {served - 1} of them")


# ---- requests ----

def serial():
    return next(serial.numbers)


serial.numbers = itertools.count(1)
PAYLOAD = {"text": "x" * 300, "list": [1, 2.5, None, True, {"deep": ["\u00e4", "\\"]}]}


def job(key, **more):
    return {"topic": "limits", "key": key, "delay": "P1D", "payload": PAYLOAD, "headers": {"a": "1", "b": "2"}, "retry": ["1s", "2m"],
            "partition_key": "p", **more}


def whole_or_nothing(api, keys, told):
    """Whatever was answered: each of the keys has a whole job or nothing; what was told to exist does."""
    rows = api.rows("SELECT k.job_key, k.job_id, j.id, j.payload, j.headers, j.retry, j.partition_key FROM job_keys k LEFT JOIN jobs j ON j.id = k.job_id"
                    " WHERE k.topic = 'limits' AND k.job_key IN %s", tuple(keys))
    by_id = {str(row["job_id"]) for row in rows}
    for row in rows:
        assert row["id"] is not None, f"a key without a job: {row}"
        assert json.loads(row["payload"]) == PAYLOAD, row
        assert row["headers"] and row["retry"] and row["partition_key"] == b"p", row
    assert api.rows("SELECT COUNT(*) n FROM jobs j LEFT JOIN job_keys k ON k.job_id = j.id WHERE j.job_key IS NOT NULL AND k.job_id IS NULL")[0]["n"] == 0
    assert set(told) <= by_id, (told, rows)


def create(api, ask, _existing):
    key = f"k{serial()}"
    answer = ask("POST", "/v1/jobs", job(key))
    whole_or_nothing(api, [key], [answer.json["id"]] if answer and answer.status in (200, 201) else [])
    return answer


def create_by_key(api, ask, _existing):
    key = f"k{serial()}"
    answer = ask("PUT", f"/v1/topics/limits/jobs/{key}", job(key))
    whole_or_nothing(api, [key], [answer.json["id"]] if answer and answer.status in (200, 201) else [])
    return answer


def bulk(api, ask, _existing):
    keys = [f"k{serial()}" for _ in range(3)]
    answer = ask("POST", "/v1/jobs:batch", "".join(json.dumps(job(key)) + "\n" for key in keys), content_type="application/x-ndjson")
    lines = [json.loads(line) for line in answer.body.splitlines() if line.endswith(b"}")] if answer and answer.status == 200 else []
    whole_or_nothing(api, keys, [line["id"] for line in lines if line.get("status") in (200, 201)])
    assert all(line["status"] in (200, 201, 500, 503) for line in lines), lines
    return answer


def change(api, ask, existing):
    answer = ask("PATCH", f"/v1/jobs/{existing}", {"delay": "P2D", "payload": PAYLOAD})
    row = api.rows("SELECT state, payload FROM jobs WHERE id = %s", existing)[0]
    assert row["state"] == "scheduled" and json.loads(row["payload"]) == PAYLOAD
    return answer


def cancel(api, ask, _existing):
    made = api.rest.make(**job(f"k{serial()}"))["id"]
    answer = ask("DELETE", f"/v1/jobs/{made}")
    state = api.rows("SELECT state, next_at FROM jobs WHERE id = %s", made)[0]
    assert (state["state"] == "cancelled") == (state["next_at"] is None)
    assert not answer or answer.status != 200 or state["state"] == "cancelled"
    return answer


REQUESTS = {
    "create": create, "create by key": create_by_key, "bulk": bulk, "change": change, "cancel": cancel,
    "get": lambda api, ask, existing: ask("GET", f"/v1/jobs/{existing}"),
    "attempts": lambda api, ask, existing: ask("GET", f"/v1/jobs/{existing}/attempts"),
    "list": lambda api, ask, existing: ask("GET", "/v1/jobs?topic=limits&limit=3&include=payload"),
    "topics": lambda api, ask, existing: ask("GET", "/v1/topics"),
    "topic": lambda api, ask, existing: ask("PUT", "/v1/topics/limits", {"retry": ["5s"], "ack_timeout": "PT30S"}),
    "info": lambda api, ask, existing: ask("GET", "/v1/info"),
    "metrics": lambda api, ask, existing: ask("GET", "/metrics"),
    "result": lambda api, ask, existing: ask("POST", f"/v1/jobs/{existing}/results", {"attempt": 1, "status": "failed", "error": {"code": "E", "message": "m"}}),
}
USUAL = {"result": (200, 409)}


@pytest.fixture(scope="module")
def served(api_of):
    api = api_of("limit_requests")
    api.launch()
    api.rest = Rest(api.url, timeout=60)
    until(lambda: LISTENING.search(api.log()), api.log)
    until(lambda: api.rest.get("/readyz").status == 200, api.log)
    yield api
    code = api.end()
    nth.no_report(api.log(), "the end")
    assert code == 0, api.log()[-3000:]


@pytest.mark.parametrize("kind", nth.KINDS)
@pytest.mark.parametrize("name", REQUESTS)
def test_a_request_that_runs_out_of_resources_fails_cleanly_and_the_next_succeeds(served, knobs, name, kind):
    existing = served.rest.make(**job(f"k{serial()}"))["id"]
    usual = USUAL.get(name, (200, 201))
    failures, refused = 0, 0

    def ask(*arguments, **options):
        served.rest.close()  # a connection of its own, so that accepting it may fail
        knobs.arm(kind, n)
        try:
            return served.rest.ask(*arguments, **options)
        except (OSError, http.client.HTTPException):
            return None  # closed without an answer
        finally:
            ask.fired = knobs.disarm(kind)
    for n in steps(0):
        answer = REQUESTS[name](served, ask, existing)
        assert served.process.poll() is None, f"{name}, {kind} {n}: died\n{served.log()[-6000:]}"
        assert answer is None or answer.status in (*usual, 500, 503), f"{name}, {kind} {n}: {answer}"
        failures += ask.fired
        refused += answer is None or answer.status not in usual
        until(lambda: REQUESTS[name](served, served.rest.ask, existing).status in usual, lambda: f"{name} after {kind} {n}\n{served.log()[-3000:]}")
        if not ask.fired:
            assert answer and answer.status in usual
            break
    nth.no_report(served.log(), f"{name}, {kind}")
    print(f"{name}: {failures} {kind} failures, {refused} requests refused")


# ---- the dispatcher ----

SHARDS = 2


@pytest.fixture(scope="module")
def dispatcher(stack, api_of, tmp_path_factory, knobs):
    """A dispatcher with an API, a database and an installation of their own."""
    api = api_of(f"limit_{uuid.uuid4().hex[:8]}", **{"kafka.brokers": stack["DUETIME_KAFKA"], "zookeeper.servers": stack["DUETIME_ZOOKEEPER"],
                                      "shards.count": SHARDS, "dispatch.rest_after": "PT1H", "zookeeper.session_timeout": "PT2S"})
    plain = OwnApi(stack, tmp_path_factory.mktemp("plain"), api.name, shared=True).start()
    one = OwnApi(stack, tmp_path_factory.mktemp("dispatcher"), api.name, shared=True, program=nth.program("dispatcher"), variables=knobs.environment)
    one.config = api.config
    one.api = plain
    one.consumer = TestConsumer(stack["DUETIME_KAFKA"], [api.name], installation=api.name.replace("_", "-"), rule=lambda arrival: {"status": "succeeded"})
    assert plain.rest.put(f"/v1/topics/{api.name}", {"retry": [100], "ack_timeout": "PT30S"}).status == 201
    yield one
    one.end()
    one.consumer.end()
    assert plain.end() == 0, plain.log()


def delivered(dispatcher, what, seconds=30):
    """A job is made, sent, reported and ended."""
    made = dispatcher.api.rest.make(topic=dispatcher.name, delay=0, payload=PAYLOAD)["id"]
    until(lambda: dispatcher.rows("SELECT state FROM jobs WHERE id = %s", made)[0]["state"] == "succeeded",
          lambda: f"{what}: job {made} ended\n{dispatcher.rows('SELECT id, state, attempt, attempt_status FROM jobs WHERE id = %s', made)}\n{dispatcher.log()[-6000:]}", seconds=seconds)


def leads(dispatcher):
    return dispatcher.process.poll() is not None or dispatcher.log().count("took over") >= SHARDS


@pytest.mark.in_turns(3)
@pytest.mark.parametrize("kind", nth.KINDS)
def test_a_dispatcher_without_resources_at_its_start_ends_cleanly_or_continues(dispatcher, knobs, kind):
    failures = served = 0
    for n in steps(1):
        what = f"{kind} {n}"
        knobs.arm(kind, n)
        dispatcher.launch()
        until(lambda: leads(dispatcher), lambda: f"{what}: neither an end nor a leader\n{dispatcher.log()[-6000:]}")
        fired = knobs.failed(kind)
        alive = dispatcher.process.poll() is None
        if alive:
            served += 1
            delivered(dispatcher, what)
        knobs.disarm(kind)
        code = dispatcher.end()
        nth.no_report(dispatcher.log(), what)
        assert code == 0 if alive else code in (1, 2), f"{what}: exit code {code}\n{dispatcher.log()[-6000:]}"
        assert dispatcher.log().strip(), f"{what}: ended without a word"
        failures += fired
        if not fired:
            assert alive
            break
    print(f"dispatcher: {failures} {kind} failures at its start, went on after {served - 1}")


@pytest.mark.in_turns(3)
@pytest.mark.parametrize("kind", nth.KINDS)
def test_a_dispatcher_that_runs_out_of_resources_at_work_sends_each_job_once(dispatcher, knobs, kind):
    failures = 0
    knobs.disarm(kind)
    dispatcher.launch()
    until(lambda: leads(dispatcher), dispatcher.log)
    for n in itertools.islice(steps(0), 60):
        knobs.arm(kind, n)
        delivered(dispatcher, f"{kind} {n}")
        assert dispatcher.process.poll() is None, f"{kind} {n}: died\n{dispatcher.log()[-6000:]}"
        failures += knobs.disarm(kind)
        if knobs.calls(kind) < n:
            break
    delivered(dispatcher, "the last")
    assert dispatcher.end() == 0, dispatcher.log()[-6000:]
    nth.no_report(dispatcher.log(), kind)
    assert at_most_once(dispatcher.consumer.all()) == []
    print(f"dispatcher: {failures} {kind} failures at work")

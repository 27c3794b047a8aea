"""The test clock: an installation whose time is advanced and frozen. What falls due on the way is dispatched on the way, in order."""
import contextlib
import datetime
import uuid

import pytest
from harness.command_line import run
from harness.problems import refused
from harness.program import PROGRAM, OwnApi
from harness.receiver import Receiver
from harness.stack import PRESET, TREE, until

DISPATCHER = TREE / "build" / PRESET / "dispatcher" / "duetime-dispatcher"
CLOCK = "/v1/admin/clock"
DAY = 86_400_000
SETTINGS = {"installation.test_clock": "true", "kafka.brokers": "", "zookeeper.servers": "", "shards.count": 2, "dispatch.metrics_port": 0,
            "callbacks.enabled": "true", "callbacks.allow_networks": "127.0.0.0/8"}


def ms(text):
    return round(datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp() * 1000)


class Installation:
    """One API and one dispatcher with a test clock, and a receiver of callbacks."""

    def __init__(self, stack, folder, name, settings):
        self.receiver = Receiver()
        self.api = OwnApi(stack, folder / "api", name, settings)
        self.dispatcher = OwnApi(stack, folder / "dispatcher", name, settings, shared=True, program=DISPATCHER)

    def start(self):
        self.dispatcher.launch()
        self.api.start()
        until(lambda: self.rest.get("/v1/info").json["shards"] and all(s["leader"] for s in self.rest.get("/v1/info").json["shards"]),
              lambda: self.dispatcher.log()[-3000:])
        return self

    @property
    def rest(self):
        return self.api.rest

    def end(self):
        assert self.api.end() in (0, None) and self.dispatcher.end() in (0, None), self.api.log()[-3000:] + self.dispatcher.log()[-3000:]

    def clock(self, **body):
        answer = self.rest.post(CLOCK, body) if body else self.rest.get(CLOCK)
        assert answer.status == 200, answer
        return answer.json

    def walk(self, by, **body):
        """The API answers after about fifteen seconds and reports the remaining time."""
        walked = self.clock(advance=by, **body)
        while walked["left"] != "PT0S":
            walked = self.clock(advance=walked["left"], **body)
        return walked

    def called(self):
        """(topic's path, attempt) of the callbacks, in the order in which they came."""
        return [(request.path.strip("/"), request.attempt) for request in list(self.receiver.log)]

    def topic(self, name, **setting):
        assert self.rest.put(f"/v1/topics/{name}", {"delivery": "http", "callback_url": self.receiver.url + name, **setting}).status == 201


@contextlib.contextmanager
def installation(stack, folder, name, **settings):
    made = Installation(stack, folder, name, {**SETTINGS, **settings})
    try:
        yield made.start()
    finally:
        made.end()
        made.receiver.end()


@pytest.fixture(scope="module", params=["alone", "with_all"])
def clocked(request, stack, tmp_path_factory):
    """MySQL alone; and with Redis, Kafka and ZooKeeper."""
    settings = {"redis.endpoints": ""} if request.param == "alone" else \
        {"kafka.brokers": stack["DUETIME_KAFKA"], "zookeeper.servers": stack["DUETIME_ZOOKEEPER"]}
    name = f"clock_{uuid.uuid4().hex[:8]}"  # Kafka remembers installations that are gone
    with installation(stack, tmp_path_factory.mktemp("clock"), name, **settings) as made:
        yield made


def test_three_days_pass_in_seconds_and_all_jobs_run_in_order(clocked):
    rest, receiver = clocked.rest, clocked.receiver
    receiver.log.clear()
    before = clocked.clock()
    receiver.rule = lambda request: (500, {}, b"no") if request.path == "/ladder" and request.attempt < 3 else (204, {}, b"")
    for name in ("day1", "day2", "day3", "daily"):
        clocked.topic(name)
    clocked.topic("ladder", retry=["15s", "1d"])
    made = {name: rest.make(topic=name, delay=delay) for name, delay in (("day3", "P3D"), ("day1", "P1D"), ("day2", "P2D"), ("ladder", "PT30H"))}
    start = ms(before["now"])
    assert rest.put("/v1/schedules/daily", {"topic": "daily", "every": "P1D", "starts_at": made["day1"]["run_at"].replace("Z", "+00:00")}).status == 201
    walked = clocked.walk("P3DT1H", wait="PT10S")
    assert walked["dispatched"] is True and walked["frozen"] is False, walked
    assert 3 * DAY < ms(walked["now"]) - start < 3 * DAY + 2 * 3_600_000, (before, walked)
    order = clocked.called()
    assert [call for call in order if call[0] != "daily"] == [("day1", 1), ("ladder", 1), ("ladder", 2), ("day2", 1), ("ladder", 3), ("day3", 1)], order
    assert [call[0] for call in order].count("daily") == 3, order
    assert order.index(("daily", 1)) < order.index(("ladder", 1)), order
    ladder = rest.get(f"/v1/jobs/{made['ladder']['id']}/attempts").json["attempts"]
    assert [a["status"] for a in ladder] == ["failed", "failed", "succeeded"], ladder
    assert [a["lateness_ms"] for a in ladder] == [0, 0, 0], ladder
    due = [ms(a["dispatched_at"]) for a in ladder]
    assert due[0] == ms(made["ladder"]["run_at"]) and due[1] == due[0] + 15_000 and due[2] == due[1] + DAY, due
    assert rest.delete("/v1/schedules/daily?cancel=true").status in (200, 204)


def test_attempts_without_a_report_time_out_at_their_deadlines(clocked):
    """By Kafka, where there is one: a ladder of deadlines and delays."""
    rest = clocked.rest
    kafka = rest.get("/v1/info").json["configured"]["kafka"]
    if not kafka:
        assert rest.put("/v1/topics/silent", {"delivery": "kafka"}).status == 422
        return
    made = rest.make(topic="silent", delay="P1D", retry=["15s", "2h"], ack_timeout="PT1M")
    clocked.walk("P2D", wait=50)
    job = rest.get(f"/v1/jobs/{made['id']}").json
    attempts = rest.get(f"/v1/jobs/{made['id']}/attempts").json["attempts"]
    assert job["state"] == "dead" and [a["status"] for a in attempts] == ["timed_out"] * 3, (job, attempts)
    began = [ms(a["dispatched_at"]) - ms(made["run_at"]) for a in attempts]
    assert began == [0, 75_000, 75_000 + 60_000 + 7_200_000], attempts


def test_deadlines_expire_while_the_clock_advances(clocked):
    """A pop that is never reported on: its attempt times out, and the next one waits for a pop again."""
    rest = clocked.rest
    assert rest.put("/v1/topics/pulled", {"delivery": "pull", "retry": ["1h"]}).status == 201
    made = rest.make(topic="pulled", delay=0)
    popped = until(lambda: rest.post("/v1/topics/pulled/pop", {"ttr": "PT1H"}).json["jobs"], "the job is popped")[0]
    assert ms(popped["deadline"]) - ms(popped["updated_at"]) == 3_600_000, popped
    clocked.walk("PT3H", wait=100)
    job = rest.get(f"/v1/jobs/{made['id']}").json
    assert job["state"] == "scheduled" and job["failures"] == 1 and job["last_error"]["code"] == "ack_timeout", job
    again = rest.post("/v1/topics/pulled/pop", {"wait": "PT1M"}).json["jobs"]
    assert [(j["id"], j["attempt"]) for j in again] == [(made["id"], 2)], again
    assert rest.post(f"/v1/jobs/{made['id']}/results", {"attempt": 2, "status": "succeeded"}).json["outcome"] == "applied"


def test_while_the_clock_is_frozen_no_job_becomes_due_in_any_process(clocked):
    rest = clocked.rest
    clocked.topic("frozen")
    frozen = clocked.clock(freeze=True)
    assert frozen["frozen"] is True and clocked.clock(freeze=True)["now"] == frozen["now"], "it stands still"
    made = rest.make(topic="frozen", delay=200)
    assert ms(made["run_at"]) == ms(frozen["now"]) + 200, made
    now = rest.make(topic="frozen", delay=0)
    until(lambda: rest.get(f"/v1/jobs/{now['id']}").json["state"] == "succeeded", lambda: rest.get(f"/v1/jobs/{now['id']}"))
    for program in (clocked.dispatcher, clocked.api):
        program.end()
    clocked.start()
    rest = clocked.rest
    assert clocked.clock()["now"] == frozen["now"]
    later = rest.make(topic="frozen", delay=0)
    until(lambda: rest.get(f"/v1/jobs/{later['id']}").json["state"] == "succeeded", lambda: clocked.dispatcher.log()[-3000:])
    assert rest.get(f"/v1/jobs/{made['id']}").json["state"] == "scheduled", "it is due 200 ms later, whatever real time says"
    clocked.walk(199)
    assert rest.get(f"/v1/jobs/{made['id']}").json["state"] == "scheduled"
    assert ms(clocked.walk(1, wait="PT10S")["now"]) == ms(made["run_at"])
    assert rest.get(f"/v1/jobs/{made['id']}").json["state"] == "succeeded"
    gone_on = clocked.clock(freeze=False)
    assert gone_on["frozen"] is False and 0 <= ms(gone_on["now"]) - ms(made["run_at"]) < 600_000, gone_on
    soon = rest.make(topic="frozen", delay=300)
    until(lambda: rest.get(f"/v1/jobs/{soon['id']}").json["state"] == "succeeded", "it goes on")


@pytest.mark.parametrize("body, pointers", [
    ({}, [""]), ({"advance": "P1D", "freeze": True}, [""]), ({"advance": -1}, ["/advance"]), ({"advance": "-P1D"}, ["/advance"]), ({"advance": 0}, ["/advance"]),
    ({"advance": "P1M"}, ["/advance"]), ({"advance": None}, ["/advance"]), ({"freeze": "yes"}, ["/freeze"]), ({"freeze": True, "wait": 1}, ["/wait"]),
    ({"advance": 1, "wait": "PT11S"}, ["/wait"]), ({"advance": 1, "by": 1}, ["/by"]), ([], [""])])
def test_an_unknown_clock_request_changes_nothing(clocked, body, pointers):
    before = clocked.clock()
    refused(clocked.rest.post(CLOCK, body), 422, "invalid", *pointers)
    assert ms(clocked.clock()["now"]) - ms(before["now"]) < 600_000


def test_the_clock_stops_before_the_last_time_of_the_server(clocked):
    assert "2038" in refused(clocked.rest.post(CLOCK, {"advance": "P10000D"}), 422, "invalid")["detail"]


def test_the_command_line_shows_and_sets_the_clock(clocked):
    def told(*words):
        return run("clock", *words, "--url", clocked.api.url)
    assert [row[0] for row in told("get").rows] == ["now", "real", "frozen"]
    before = clocked.clock()
    walked = told("set", "--advance", "1h", "--json").json
    assert ms(walked["now"]) - ms(before["now"]) >= 3_600_000, walked
    assert told("set", "--freeze", "true", "--json").json["frozen"] is True
    assert told("set", "--freeze", "false", "--json").json["frozen"] is False


def test_an_ordinary_installation_refuses_the_test_clock(api, stack, tmp_path):
    for answer in (api.get(CLOCK), api.post(CLOCK, {"advance": "P3D"}), api.post(CLOCK, {"freeze": True})):
        assert "installation.test_clock" in refused(answer, 409, "no-test-clock")["detail"]
    shared = {"mysql.database": stack["DUETIME_MYSQL_DATABASE"], "installation.test_clock": "true"}
    for program in (PROGRAM, DISPATCHER):
        wrong = OwnApi(stack, tmp_path, "not_for_tests", shared, shared=True, program=program).launch()
        assert wrong.process.wait(120) != 0 and "was created without" in wrong.log(), wrong.log()


def test_a_test_installation_identifies_itself(clocked, tmp_path):
    for program in (PROGRAM, DISPATCHER):
        wrong = OwnApi(clocked.api.stack, tmp_path, clocked.api.name, {**SETTINGS, "redis.endpoints": "", "installation.test_clock": "false"}, shared=True, program=program)
        wrong.launch()
        assert wrong.process.wait(120) != 0 and "was created with true" in wrong.log(), wrong.log()

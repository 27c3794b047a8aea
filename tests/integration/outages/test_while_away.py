"""Each row of the table in deploy/README.md, on real servers. During the outage the test starts every action: what works happens at once, what waits
happens after the outage, and the API answers 503 to what it refuses."""
import contextlib
import time

import pymysql
import pytest

from harness.checker import connect, rows
from harness.commands import Commander
from harness.receiver import Receiver
from harness.stack import TREE, until

pytestmark = pytest.mark.in_turns(3)

PARTS = {"MySQL": ["mysql"], "Redis": ["redis1", "redis2"], "ZooKeeper": ["zookeeper"], "Kafka": ["kafka"],
         "all dispatchers": ["dispatcher1", "dispatcher2", "dispatcher3"]}
KILLED = ("MySQL", "all dispatchers")  # SIGSTOP would keep their locks, and requests would hang
QUIET = 3  # seconds for which a waiting action must not happen


def table():
    """{server: {action: word}}"""
    text = (TREE / "deploy" / "README.md").read_text(encoding="utf-8").split("**What works while a server does not answer.**", 1)[1]
    lines = text.split("\n\n", 2)[1].splitlines()
    head, _, *body = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {line[0]: dict(zip(head[1:], line[1:])) for line in body}


@contextlib.contextmanager
def away(stack, server):
    stack.refresh()
    with contextlib.ExitStack() as back:
        for part in PARTS[server]:
            back.enter_context(stack.killed(part) if server in KILLED else stack.stopped(part))
        yield


class Scene:
    """A topic and a receiver for each delivery, and jobs that exist before the outage."""

    def __init__(self, stack, api, topic, consumer, receiver, team):
        self.stack, self.api, self.topic, self.consumer, self.receiver, self.team = stack, api, topic, consumer, receiver, team
        self.commander, self.connection = Commander(stack["DUETIME_KAFKA"]), connect(stack)
        for name, settings in {"http": {"delivery": "http", "callback_url": receiver.url}, "pull": {"delivery": "pull"}, "members": {"delivery": "pull"},
                               "late": {"delivery": "pull", "alerts": {"backlog": 1, "url": team.url}}}.items():
            assert api.put(f"/v1/topics/{topic}.{name}", settings).status == 201
        assert api.put(f"/v1/schedules/{topic}", {"topic": f"{topic}.fires", "every": "PT1S", "catch_up": "PT10M"}).status == 201
        self.sent = [api.make(topic=topic, delay=0, ack_timeout="PT1H")["id"] for _ in range(16)]  # enough that every shard sends one
        for job in self.sent:
            consumer.wait(job)
        self.due_later = {name: api.make(topic=name, delay="PT1H")["id"] for name in (topic, f"{topic}.http", f"{topic}.pull", f"{topic}.late")}
        self.by_key = {name: api.make(topic=topic, key=name, delay="PT1H")["id"] for name in ("change", "cancel")}
        self.members = [job["id"] for job in api.batch([{"topic": f"{topic}.members", "delay": "PT5H"}] * 50)]
        self.popped = set()

    def fall_due(self, delay):
        for job in self.due_later.values():
            assert self.api.patch(f"/v1/jobs/{job}", {"delay": delay}).status == 200

    def read(self, path):
        answer = self.api.get(path)
        return answer.json if answer.status == 200 else {}

    def pop(self):
        answer = self.api.post(f"/v1/topics/{self.topic}.pull/pop", {"max": 10})
        self.popped |= {job["id"] for job in answer.json["jobs"]} if answer.status == 200 else set()
        return answer


# Each starts an action. Returns (the HTTP status, or None if it is no request; a function: has the action happened?).

def by_rest(status, ask):
    def action(w):
        answer = ask(w)
        return answer.status, lambda: answer.status == status
    return action


def pops(w):
    return w.pop().status, lambda: w.popped or w.pop() and w.popped


def results_by_kafka(w):
    w.consumer.report(w.sent[1], 1)
    return None, lambda: w.read(f"/v1/jobs/{w.sent[1]}").get("state") == "succeeded"


def inbox(w):
    """If MySQL is away, the application's own transaction fails as a whole."""
    with contextlib.suppress(pymysql.Error):
        rows(w.connection, "INSERT INTO job_inbox (topic, job_key, delay_ms, payload) VALUES (%s, 'inbox', 3600000, '1')", w.topic)
        return None, lambda: w.read(f"/v1/topics/{w.topic}/jobs/inbox")
    return None, lambda: w.api.get("/readyz").status == 200


def commands(w):
    w.commander.send({"action": "create", "topic": w.topic, "key": "command", "delay": "PT1H"}, key="command")
    return None, lambda: w.read(f"/v1/topics/{w.topic}/jobs/command")


def schedules(w):
    def fires():
        with contextlib.suppress(pymysql.Error), contextlib.closing(connect(w.stack)) as connection:
            rows(connection, "UPDATE schedule_fires SET look_at = 1")  # they are looked at now, and not only in a minute
            return rows(connection, "SELECT COUNT(*) AS n FROM jobs WHERE topic = %s", f"{w.topic}.fires")[0]["n"]
        return 0
    before = fires()
    return None, lambda: fires() > max(before, 1)


def operations(w):
    """wait=0: a dispatcher runs it, not the API."""
    answer = w.api.post("/v1/jobs:cancel", {"filter": {"topic": f"{w.topic}.members"}, "wait": 0})
    return answer.status, lambda: all(w.read(f"/v1/jobs/{job}").get("state") == "cancelled" for job in w.members[:3])


ACTIONS = {
    "create": by_rest(201, lambda w: w.api.put(f"/v1/topics/{w.topic}/jobs/new", {"delay": "PT1H"})),
    "change": by_rest(200, lambda w: w.api.patch(f"/v1/jobs/{w.by_key['change']}", {"payload": 2})),
    "cancel": by_rest(200, lambda w: w.api.delete(f"/v1/jobs/{w.by_key['cancel']}")),
    "list": by_rest(200, lambda w: w.api.get(f"/v1/jobs?topic={w.topic}")),
    "callbacks": lambda w: (None, lambda: w.receiver.of(int(w.due_later[f"{w.topic}.http"]))),
    "pops": pops,
    "Kafka": lambda w: (None, lambda: w.consumer.of(w.due_later[w.topic])),
    "results by REST": by_rest(200, lambda w: w.api.post(f"/v1/jobs/{w.sent[0]}/results", {"attempt": 1, "status": "succeeded"})),
    "results by Kafka": results_by_kafka,
    "inbox": inbox,
    "commands": commands,
    "schedules": schedules,
    "operations": operations,
    "alerts": lambda w: (None, lambda: w.team.log),
    "console": by_rest(200, lambda w: w.api.get("/console/")),
}


@pytest.fixture
def scene(stack, api, topic, consume):
    receiver, team = Receiver(), Receiver()
    yield Scene(stack, api, topic, consume(topic), receiver, team)
    api.delete(f"/v1/schedules/{topic}?cancel=true")
    receiver.end()
    team.end()


@pytest.mark.parametrize("server", PARTS)
def test_each_row_of_the_table_of_outages_is_true(scene, server):
    cells = table()[server]
    assert cells.keys() == ACTIONS.keys()
    if server == "MySQL":
        scene.fall_due("PT2S")
    with away(scene.stack, server):
        if server in ("ZooKeeper", "all dispatchers"):
            until(lambda: scene.api.get("/readyz").json["leaders"] == "degraded", scene.stack.logs, seconds=20)
        if server != "MySQL":
            scene.fall_due(0)
        asked = {name: ask(scene) for name, ask in ACTIONS.items()}
        assert [name for name, word in cells.items() if (word == "refused") != (asked[name][0] == 503)] == []
        for name in (name for name, word in cells.items() if word == "works"):
            until(asked[name][1], lambda: f"{name} works\n{scene.stack.logs()}", seconds=20)  # noqa: B023
        time.sleep(QUIET)
        waits = [name for name, word in cells.items() if word == "waits"]
        assert [name for name in waits if asked[name][1]()] == []
    scene.consumer.flush()
    scene.commander.flush()
    for name in waits:
        until(asked[name][1], lambda: f"{name} works again\n{scene.stack.logs()}", seconds=40)  # noqa: B023
    again = [name for name, word in cells.items() if word == "refused"]
    for name in again:
        _, happened = ACTIONS[name](scene)
        until(happened, lambda: f"{name} is not refused again\n{scene.stack.logs()}", seconds=40)  # noqa: B023
    assert scene.receiver.twice() == [] and len(scene.consumer.of(scene.due_later[scene.topic])) == 1
    assert not rows(connect(scene.stack), "SELECT shard FROM shards WHERE halted IS NOT NULL")


def test_dispatchers_started_while_kafka_is_away_send_callbacks_and_serve_pops(scene):
    """Only what needs Kafka waits for it."""
    with away(scene.stack, "Kafka"):
        for part in PARTS["all dispatchers"]:
            scene.stack.kill(part)
            scene.stack.start(part)
        scene.fall_due(0)
        for name in ("callbacks", "pops", "schedules", "operations", "inbox", "alerts"):
            _, happened = ACTIONS[name](scene)
            until(happened, lambda: f"{name} works\n{scene.stack.logs()}", seconds=40)  # noqa: B023
    until(lambda: scene.consumer.of(scene.due_later[scene.topic]), scene.stack.logs, seconds=40)
    until(results_by_kafka(scene)[1], scene.stack.logs, seconds=40)

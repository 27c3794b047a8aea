"""Alerts on the whole stack: raised when their cause is there, ended when it is gone, told by webhook, Kafka and SQL, whoever dies."""
import contextlib
import datetime
import json
import signal
import time
import uuid

import pytest
from confluent_kafka import Consumer

from harness.checker import connect, rows
from harness.consumer import base_config
from harness.receiver import SECRET, Receiver, example
from harness.rest import Rest
from harness.stack import until

pytestmark = [pytest.mark.turn(2, 5), pytest.mark.in_turns(3)]  # its setting up takes some seconds, and so does each of its tests

BACKLOG = 7  # of topics that say nothing
OTHER = "whsec_" + "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVo="


class Told:
    """The messages that one way has brought, by topic and kind."""

    def __init__(self, messages):
        self._messages = messages

    def of(self, topic, kind):
        return [body for body in self._messages() if body["data"]["topic"] == topic and body["data"]["kind"] == kind]

    def types(self, topic, kind):
        return [body["type"].removeprefix("alert.") for body in self.of(topic, kind)]


def posted(receiver):
    return Told(lambda: [json.loads(request.body) for request in list(receiver.log)])


@pytest.fixture(scope="module")
def provider():
    """The installation's receiver."""
    made = Receiver()
    yield made
    made.end()


@pytest.fixture(scope="module")
def alerting(stack, provider):
    """The suite's stack, whose dispatchers tell the provider, and remind every two seconds."""
    stack.up_again("--set", f"alerts.url={provider.url}", "--set", f"alerts.secret={SECRET}", "--set", "alerts.remind=PT2S", "--set", f"alerts.backlog={BACKLOG}")
    yield stack
    stack.up_again("--set", "alerts.url=", "--set", "alerts.secret=", "--set", "alerts.remind=", "--set", "alerts.backlog=")


@pytest.fixture(scope="module")
def kafka(alerting):
    consumer = Consumer(base_config(alerting["DUETIME_KAFKA"]))
    consumer.subscribe(["duetime.alerts"])
    seen = []

    def read():
        seen.extend(json.loads(message.value()) for message in consumer.consume(100, 0.05) if not message.error())
        return seen
    yield Told(read)
    consumer.close()


@pytest.fixture
def team():
    """The topic's receiver."""
    made = Receiver()
    yield made
    made.end()


@pytest.fixture
def connection(alerting):
    made = connect(alerting)
    yield made
    made.close()


def standing(connection, topic):
    return {row["kind"]: row for row in rows(connection, "SELECT * FROM alerts WHERE topic = %s", topic or "")}


def put(api, topic, **settings):
    answer = api.put(f"/v1/topics/{topic}", settings)
    assert answer.status in (200, 201), answer
    return answer.json


def test_an_overdue_topic_is_reported_by_all_channels(alerting, api, provider, team, kafka, connection, topic):
    put(api, topic, delivery="pull", paused=True, alerts={"overdue": "PT1S", "url": team.url, "secret": OTHER})  # paused topics count
    job = api.make(topic=topic, delay=0)
    ways = posted(team), posted(provider), kafka
    for way in ways:
        until(lambda: way.types(topic, "overdue")[:1] == ["began"], alerting.logs)
    row = standing(connection, topic)["overdue"]
    assert row["bound"] == 1000
    listed = [alert for alert in api.get("/v1/alerts?limit=1000").json["alerts"] if alert["topic"] == topic]
    assert [(alert["id"], alert["kind"], alert["limit"]) for alert in listed] == [(str(row["id"]), "overdue", "PT1S")]
    for receiver, secret in ((team, OTHER), (provider, SECRET)):
        request = next(request for request in list(receiver.log) if json.loads(request.body)["data"]["topic"] == topic)
        headers = {name.lower(): value for name, value in request.headers.items()}
        assert example().fault(example().keys_of(secret), headers, request.body, request.at) is None
        assert headers["webhook-id"].startswith(f"{row['id']}/") and headers["content-type"] == "application/json"
    until(lambda: posted(team).types(topic, "overdue")[1:2] == ["reminded"], alerting.logs)
    reminded = posted(team).of(topic, "overdue")
    assert {body["data"]["id"] for body in reminded} == {str(row["id"])} and len({body["timestamp"] for body in reminded}) == len(reminded)
    api.post(f"/v1/topics/{topic}/resume")
    assert until(lambda: api.post(f"/v1/topics/{topic}/pop").json["jobs"], "it is offered")[0]["id"] == job["id"]
    for way in ways:
        until(lambda: way.types(topic, "overdue")[-1:] == ["ended"], alerting.logs)
    assert not standing(connection, topic)


def test_a_topic_without_alert_settings_uses_those_of_the_installation(alerting, api, provider, connection, topic):
    quiet = f"{topic}-quiet"
    put(api, topic, delivery="pull", paused=True)
    put(api, quiet, delivery="pull", paused=True, alerts={"backlog": 0})
    for name in (quiet, topic):
        api.batch([{"topic": name, "delay": 0} for _ in range(BACKLOG)])
    row = until(lambda: standing(connection, topic), alerting.logs)["backlog"]
    assert (row["bound"], row["value"]) == (BACKLOG, BACKLOG) and not standing(connection, quiet)
    until(lambda: posted(provider).types(topic, "backlog")[:1] == ["began"], alerting.logs)
    for name in (quiet, topic):
        api.post("/v1/jobs:cancel", {"filter": {"topic": name}})
    until(lambda: posted(provider).types(topic, "backlog")[-1:] == ["ended"], alerting.logs)
    assert posted(provider).types(quiet, "backlog") == []


def test_alerts_report_backlogs_dead_jobs_and_missing_reports(alerting, api, provider, connection, topic):
    put(api, topic, delivery="pull", alerts={"backlog": 3, "dead": 1, "unreported": "PT1S"})
    jobs = [api.make(topic=topic, delay=0, retry=[])["id"] for _ in range(3)]
    until(lambda: "backlog" in standing(connection, topic), alerting.logs)
    until(lambda: sum(len(api.post(f"/v1/topics/{topic}/pop", {"max": 3}).json["jobs"]) for _ in range(2)) or True, "popped")
    until(lambda: [row["n"] for row in rows(connection, "SELECT COUNT(*) n FROM jobs WHERE topic = %s AND state = 'dispatched'", topic)] == [3]
          or api.post(f"/v1/topics/{topic}/pop", {"max": 3}) and False, "all are popped")
    until(lambda: set(standing(connection, topic)) == {"unreported"}, alerting.logs)
    for job in jobs:
        assert api.post(f"/v1/jobs/{job}/results", {"attempt": 1, "status": "gave_up"}).status == 200
    until(lambda: set(standing(connection, topic)) == {"dead"}, alerting.logs)
    assert standing(connection, topic)["dead"]["value"] == 3
    for job in jobs:
        assert api.post(f"/v1/jobs/{job}/redrive").status == 200
        assert api.delete(f"/v1/jobs/{job}").status == 200
    until(lambda: not standing(connection, topic), alerting.logs)
    for kind in ("backlog", "unreported", "dead"):
        until(lambda: [posted(provider).types(topic, kind)[i] for i in (0, -1)] == ["began", "ended"], alerting.logs)


def test_no_alert_is_missed_when_the_judging_dispatcher_dies(alerting, api, team, connection, topic):
    put(api, topic, delivery="pull", paused=True, alerts={"overdue": "PT0.5S", "url": team.url})
    judge = until(lambda: judge_of(alerting, DISPATCHERS), "one judges")
    api.make(topic=topic, delay=0)
    alerting.kill(judge)
    until(lambda: posted(team).types(topic, "overdue")[:1] == ["began"], alerting.logs)
    alerting.heal()
    api.put(f"/v1/topics/{topic}", {"delivery": "pull", "paused": True})  # without limits: nothing stands
    until(lambda: posted(team).types(topic, "overdue")[-1:] == ["ended"] or not standing(connection, topic), alerting.logs)
    assert not standing(connection, topic)


def test_a_message_is_sent_again_with_the_same_id_if_its_sender_dies_before_recording_it(alerting, api, team, connection, topic):
    for other in ("dispatcher2", "dispatcher3"):  # so that it is the one that judges
        alerting.stop(other)
    alone = {"DUETIME_ALERTS_BACKLOG": "0"}  # what others left in their topics ends, and is told of no more
    alerting.restart("dispatcher1", env=alone)

    def nothing_is_left():  # messages to receivers of other tests, which are gone, would be sent first
        rows(connection, "DELETE FROM messages WHERE kind = 'alert'")
        return not rows(connection, "SELECT 1 FROM alerts UNION ALL SELECT 1 FROM messages WHERE kind = 'alert'")
    until(nothing_is_left, alerting.logs, seconds=60)
    alerting.restart("dispatcher1", env={**alone, "DUETIME_FAIL": "messages.sent=crash@1"})
    until(lambda: rows(connection, "SELECT 1 FROM alert_judge j JOIN processes p ON p.id = j.process WHERE p.kind = 'dispatcher' "
                       "AND p.seen_at > UNIX_TIMESTAMP(SYSDATE(3)) * 1000 - 1500"), alerting.logs)  # an API has judged meanwhile
    put(api, topic, delivery="pull", paused=True, alerts={"overdue": "PT0.5S", "url": team.url})
    api.make(topic=topic, delay=0)
    until(lambda: not alerting.running("dispatcher1"), alerting.logs)
    alerting.heal()
    began = lambda: [request.headers["webhook-id"] for request in list(team.log) if json.loads(request.body)["type"] == "alert.began"]  # noqa: E731
    until(lambda: len(began()) >= 2, alerting.logs)
    assert len(set(began())) == 1


def test_a_receiver_that_was_down_gets_its_messages_and_delays_no_other(alerting, api, provider, team, connection, topic):
    team.refuse()
    put(api, topic, delivery="pull", paused=True, alerts={"overdue": "PT0.5S", "url": team.url})
    api.make(topic=topic, delay=0)
    until(lambda: posted(provider).types(topic, "overdue")[:1] == ["began"], alerting.logs)
    until(lambda: rows(connection, "SELECT 1 FROM messages WHERE topic = %s AND target = 'topic' AND error IS NOT NULL", topic), alerting.logs)
    put(api, topic, delivery="pull", paused=True, alerts={"overdue": 0, "url": team.url})
    until(lambda: posted(provider).types(topic, "overdue")[-1:] == ["ended"], alerting.logs)
    team.listen()
    until(lambda: posted(team).types(topic, "overdue")[-1:] == ["ended"], alerting.logs, seconds=90)
    assert posted(team).types(topic, "overdue")[0] == "began"
    until(lambda: not rows(connection, "SELECT 1 FROM messages WHERE topic = %s", topic), "the outbox is empty")


def test_a_receiver_that_does_not_answer_delays_no_other_owners_messages(alerting, api, provider, team, connection, topic):
    """An owner's 2,000 messages wait for a receiver that takes each and says nothing: they fill their own places for minutes, and no others."""
    silent, other = Receiver(rule=lambda request: None), f"silent-{uuid.uuid4().hex[:6]}.jobs"
    try:
        put(api, other, delivery="pull", paused=True, alerts={"overdue": "PT0.5S", "url": silent.url})
        with connection.cursor() as cursor:
            cursor.executemany("INSERT INTO messages (kind, sender, alert, type, target, topic, alert_kind, value, bound, began_at, made_at, next_at) VALUES "
                               "('alert',0,%s,'began','topic',%s,'dead',1,1,1,UNIX_TIMESTAMP(NOW(3))*1000,UNIX_TIMESTAMP(NOW(3))*1000)", [(10**9 + i, other) for i in range(2000)])
        put(api, topic, delivery="pull", paused=True, alerts={"overdue": "PT0.5S", "url": team.url})
        api.make(topic=other, delay=0)  # its alert wakes the sender
        until(lambda: len(silent.log) > 100, lambda: f"the receiver has {len(silent.log)} messages", seconds=30)
        api.make(topic=topic, delay=0)
        for told in (team, provider):
            until(lambda told=told: posted(told).types(topic, "overdue")[:1] == ["began"], alerting.logs, seconds=30)
            at = next(request.at for request in told.log if json.loads(request.body)["data"]["topic"] == topic)
            late = at * 1000 - standing(connection, topic)["overdue"]["began_at"]
            print(f"told after {late:.0f} ms")
            assert late < 10000
        assert len(silent.log) < 1000
    finally:
        with connection.cursor() as cursor:
            cursor.execute("DELETE FROM messages WHERE topic = %s", (other,))
        silent.end()


def test_muted_or_silenced_alerts_are_not_sent_except_the_end_of_one_whose_begin_was_sent(alerting, api, team, connection, topic):
    over = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=5)
    alerts = {"overdue": "PT0.5S", "url": team.url}
    put(api, topic, delivery="pull", paused=True, alerts={**alerts, "mute_until": over.isoformat()})
    api.make(topic=topic, delay=0)
    row = until(lambda: standing(connection, topic), alerting.logs)["overdue"]
    until(lambda: posted(team).types(topic, "overdue")[:1] == ["began"], alerting.logs)
    assert team.log[0].at >= over.timestamp(), "the alert is raised, and no message is sent before the time has passed"
    silenced = api.post(f"/v1/alerts/{row['id']}/silence", {"for": "PT1H"})
    assert silenced.status == 200 and silenced.json["silenced_until"] and silenced.json["topic"] == topic, silenced
    heard = len(team.log)
    value = standing(connection, topic)["overdue"]["value"]
    until(lambda: standing(connection, topic)["overdue"]["value"] > value + 4000, "its figure goes on")
    assert len(team.log) <= heard + 1  # at most a reminder already being sent; four seconds have two
    put(api, topic, delivery="pull", paused=True, alerts={**alerts, "overdue": 0})
    until(lambda: posted(team).types(topic, "overdue")[-1:] == ["ended"], alerting.logs)
    assert api.post(f"/v1/alerts/{row['id']}/silence").status == 404


DISPATCHERS, APIS = ("dispatcher1", "dispatcher2", "dispatcher3"), ("api1", "api2")


def judge_of(stack, parts):
    """The running one of these processes that said last that it judges."""
    judges = lambda part: "this process evaluates alerts" in stack.log(part).split("msg=started")[-1].split("another process evaluates alerts")[-1]  # noqa: E731
    return next((part for part in parts if stack.running(part) and judges(part)), None)


def ids(receiver, kind, event):
    return {request.headers["webhook-id"] for request in list(receiver.log)
            if (body := json.loads(request.body))["type"] == f"alert.{event}" and body["data"]["kind"] == kind}


@contextlib.contextmanager
def dispatchers_dead(stack):
    for part in DISPATCHERS:
        stack.kill(part)
    yield
    stack.heal()


@contextlib.contextmanager
def dispatchers_stopped(stack):
    """They keep their connections, and what these have locked."""
    with contextlib.ExitStack() as all_of_them:
        for part in DISPATCHERS:
            all_of_them.enter_context(stood_still(stack, part))
        yield


@pytest.mark.parametrize("away", [dispatchers_dead, dispatchers_stopped])
def test_an_api_sends_one_no_dispatcher_alert_and_the_alerts_of_topics_while_no_dispatcher_lives(alerting, api, provider, team, kafka, connection, topic, away):
    until(lambda: not standing(connection, None), alerting.logs, seconds=30)
    before = {kind: {event: ids(provider, kind, event) for event in ("began", "ended")} for kind in ("no_dispatcher", "no_leader")}
    new = lambda kind, event: ids(provider, kind, event) - before[kind][event]  # noqa: E731
    put(api, topic, delivery="pull", paused=True, alerts={"overdue": "PT0.5S", "url": team.url})
    api.make(topic=topic, delay="PT1S")
    with away(alerting):
        since = time.time()
        until(lambda: new("no_dispatcher", "began"), alerting.logs)
        began = next(request.at for request in provider.log if request.headers["webhook-id"] in new("no_dispatcher", "began"))
        print(f"told after {began - since:.1f} s")
        assert began - since < 10
        assert "no_dispatcher" in [alert["kind"] for alert in api.get("/v1/alerts?limit=1000").json["alerts"]]
        until(lambda: posted(team).types(topic, "overdue")[:1] == ["began"], alerting.logs)
        alerting.kill(until(lambda: judge_of(alerting, APIS), "an API judges"))
        until(lambda: judge_of(alerting, APIS), "another API judges")
        alerting.kill("mysql")
        alerting.start("mysql")
        known = len(posted(provider).of(None, "no_dispatcher"))
        until(lambda: "alert.reminded" in [body["type"] for body in posted(provider).of(None, "no_dispatcher")][known:], alerting.logs, seconds=30)
        assert not new("no_dispatcher", "ended") and len(new("no_dispatcher", "began")) == 1
        kept = {row["type"] for row in rows(connect(alerting), "SELECT type FROM messages WHERE target = 'kafka' AND alert_kind = 'no_dispatcher'")}
        assert "began" in kept and "reminded" not in kept, "an API makes no reminders that it cannot send"
    alerting.heal()
    until(lambda: new("no_dispatcher", "ended"), alerting.logs, seconds=30)
    until(lambda: kafka.types(None, "no_dispatcher")[-1:] == ["ended"], alerting.logs, seconds=30)
    assert judge_of(alerting, DISPATCHERS) and not standing(connect(alerting), None)
    assert len(new("no_dispatcher", "began")) == len(new("no_dispatcher", "ended")) == 1
    assert kafka.types(None, "no_dispatcher").count("began") == kafka.types(None, "no_dispatcher").count("ended")
    assert not new("no_leader", "began"), "without a dispatcher no shard has a leader: that is no second alert"


def test_dispatchers_that_start_while_kafka_is_down_cause_no_leader_alert(alerting, provider, connection):
    before = ids(provider, "no_leader", "began")
    with stood_still(alerting, "kafka"):
        for part in DISPATCHERS:
            alerting.kill(part)
        until(lambda: "no_dispatcher" in standing(connection, None), alerting.logs)
        for part in DISPATCHERS:
            alerting.start(part, ready=False)
        until(lambda: judge_of(alerting, DISPATCHERS), "they have leaders, without Kafka", seconds=60)
        until(lambda: "kafka_unwritable" in standing(connection, None), alerting.logs)
    alerting.heal()
    assert ids(provider, "no_leader", "began") == before, "their alert is kafka_unwritable"


def test_a_mysql_restart_causes_no_dispatcher_alert(alerting, provider):
    before = ids(provider, "no_dispatcher", "began")
    for _ in range(3):
        alerting.kill("mysql")
        alerting.start("mysql")
        until(lambda: rows(connect(alerting), "SELECT 1 FROM processes p JOIN alert_judge j ON j.process = p.id WHERE p.kind = 'dispatcher' AND p.seen_at > (UNIX_TIMESTAMP() - 2) * 1000"),
              alerting.logs, seconds=30)
    assert ids(provider, "no_dispatcher", "began") == before


@contextlib.contextmanager
def halted(stack, connection):
    rows(connection, "UPDATE shards SET halted = 'a test' WHERE shard = 3")
    yield
    rows(connection, "UPDATE shards SET halted = NULL WHERE shard = 3")


@contextlib.contextmanager
def stood_still(stack, part):
    stack.signal(part, signal.SIGSTOP)
    yield
    stack.signal(part, signal.SIGCONT)


def leaderless(stack, connection):
    """Nobody may lead who is not sure of his session."""
    return stood_still(stack, "zookeeper")


@contextlib.contextmanager
def without_kafka(stack, connection):
    """Kafka is missed by who wants to write to it: its topic is known, and jobs are due in every shard."""
    api, topic = Rest(stack["DUETIME_URL_API1"]), f"a-{uuid.uuid4().hex[:10]}"
    put(api, topic, delivery="kafka")
    first = api.make(topic=topic, delay=0)["id"]
    until(lambda: api.get(f"/v1/jobs/{first}").json["state"] == "dispatched", stack.logs)
    with stood_still(stack, "kafka"):
        api.batch([{"topic": topic, "delay": 0} for _ in range(40)])
        yield
    until(lambda: not api.get(f"/v1/topics/{topic}").json["counts"]["scheduled"], stack.logs)
    api.close()


def without_redis(stack, connection):
    return stood_still(stack, "redis1")


@contextlib.contextmanager
def bad_rows(stack, connection):
    rows(connection, "INSERT INTO job_inbox (topic, delay_ms, payload) VALUES ('t', 1, '{')")
    yield
    rows(connection, "DELETE FROM job_inbox WHERE error IS NOT NULL")


@contextlib.contextmanager
def miscounted(stack, connection):
    """The audit corrects it within a walk, and finds the next time that all is well."""
    rows(connection, "INSERT INTO job_counts (topic, piece, writer, dead) VALUES ('miscounted', 7, 1, 3)")
    yield


CAUSES = {"shard_halted": halted, "no_leader": leaderless, "kafka_unwritable": without_kafka, "index_incomplete": without_redis, "inbox_errors": bad_rows, "audit_corrected": miscounted}


@pytest.mark.parametrize("kind", CAUSES)
def test_an_alert_of_a_missing_part_lasts_until_the_part_is_back(alerting, api, provider, kafka, connection, kind):
    until(lambda: kind not in standing(connection, None), alerting.logs)
    before = len(posted(provider).of(None, kind))
    with CAUSES[kind](alerting, connection):
        until(lambda: "began" in posted(provider).types(None, kind)[before:], alerting.logs)
        listed = [alert["kind"] for alert in api.get("/v1/alerts?limit=1000").json["alerts"] if alert["topic"] is None]
        assert kind == "audit_corrected" or kind in standing(connection, None) and kind in listed  # that one may be over by now
    until(lambda: posted(provider).types(None, kind)[-1] == "ended", alerting.logs)
    until(lambda: kafka.types(None, kind)[-1:] == ["ended"], alerting.logs)
    assert kind not in standing(connection, None)

"""Kafka refuses: a topic is gone under a batch, leaders fail meanwhile. Only that attempt fails; all others go once.
And the ledger is trimmed: after seconds instead of a day, on a stack of its own, because afterwards it cannot be compared with the topics.
"""
import re
import uuid
from collections import Counter

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from harness.checker import Checker, Journal, connect, now_ms, rows
from harness.consumer import TestConsumer
from harness.rest import Rest
from harness.soak import rfc3339
from harness.stack import Stack, until

OPTIONS = ["--apis", "1", "--dispatchers", "2", "--redis", "1", "--shards", "2", "--sanitize",
           "--set", "kafka.auto_create_partitions=0", "--kafka-set", "auto.create.topics.enable=false",
           "--set", "reconcile.period=PT1S"]
pytestmark = pytest.mark.turn(1, 5)


@pytest.fixture(scope="module")
def stack():
    made = Stack("refused", *OPTIONS).up()
    yield made
    made.reset()


class Topics:
    """Kafka's topics, made and changed behind our back."""

    def __init__(self, brokers):
        self.admin = AdminClient({"bootstrap.servers": brokers})

    def make(self, name=None, **settings):
        name = name or f"t-{uuid.uuid4().hex[:10]}"
        config = {key.replace("_", "."): str(value) for key, value in settings.items()}
        for done in self.admin.create_topics([NewTopic(name, num_partitions=2, replication_factor=1, config=config)]).values():
            done.result(90)
        return name

    def drop(self, name):
        for done in self.admin.delete_topics([name], operation_timeout=90).values():
            done.result(90)
        until(lambda: name not in self.admin.list_topics(timeout=90).topics, "the topic is gone")


@pytest.fixture
def kafka(stack):
    return Topics(stack["DUETIME_KAFKA"])


@pytest.fixture
def consume(stack):
    made = []

    def start(*topics):
        made.append(TestConsumer(stack["DUETIME_KAFKA"], list(topics), rule=lambda _arrival: {"status": "succeeded"}))
        return made[-1]
    yield start
    for consumer in made:
        consumer.end()


def warm(api, consumer, *topics):
    """Leaders know the topics, as they are now."""
    for topic in topics:
        for _ in range(12):
            consumer.wait(api.make(topic=topic, delay=0)["id"], seconds=20)


def make_all(api, journal, jobs):
    due = int(now_ms()) + 1500
    ids = []
    for job in jobs:
        job.setdefault("run_at", rfc3339(due))
    for line in api.batch(jobs):
        assert line["status"] == 201, line
        journal.made(line["id"], due)
        ids.append(line["id"])
    return ids


def last_attempt(api, job):
    attempts = api.get(f"/v1/jobs/{job}/attempts").json["attempts"]
    return attempts[-1] if attempts else {"status": None}


def test_a_topic_deleted_under_a_claimed_batch_fails_those_attempts_only(stack, api, kafka, consume):
    """The leaders know the topic as writable when it goes."""
    gone, other = kafka.make(), kafka.make()
    consumer, journal = consume(other), Journal()
    before = consume(gone)
    warm(api, consumer, other)
    warm(api, before, gone)
    before.end()
    ids = make_all(api, journal, [{"topic": gone if n == 50 else other, "retry": ["1h"]} for n in range(100)])
    kafka.drop(gone)
    for n, job in enumerate(ids):
        if n != 50:
            consumer.wait(job, seconds=60)
    job = until(lambda: (j := api.get(f"/v1/jobs/{ids[50]}").json) and (j["attempt"] == 1 or j["waiting_for"] == "kafka") and j,
                lambda: api.get(f"/v1/jobs/{ids[50]}").json)
    if job["attempt"]:
        assert last_attempt(api, ids[50])["status"] == "undeliverable"
    assert not [p for p in Checker(stack).problems(journal, [other], Checker(stack).arrivals([other])) if ids[50] not in p]


# Where a leader is told of a refusal, and what befalls it afterwards. "settle.before": Kafka had committed all the same.
BEFALLS = {
    "told of a refusal although all was committed": "settle.before=error:REFUSED@4-8",
    "dies once the refusal was written down": "produce.message=error:REFUSED@30-50,takeover.settled=crash@5",
    "does not learn that it was written down": "produce.message=error:REFUSED@30-50,takeover.settled=error:UNKNOWN@3-9",
}


@pytest.mark.parametrize("befalls", BEFALLS)
def test_refused_messages_lose_and_duplicate_no_job_when_leaders_fail(stack, api, kafka, consume, befalls):
    topic = kafka.make()
    consumer, journal = consume(topic), Journal()
    warm(api, consumer, topic)
    for part in ("dispatcher1", "dispatcher2"):
        stack.restart(part, env={"DUETIME_FAIL": BEFALLS[befalls]})
    ids = [job for _ in range(3) for job in make_all(api, journal, [{"topic": topic, "retry": ["1s"] * 9} for _ in range(50)])]

    def ended():
        for part in ("dispatcher1", "dispatcher2"):
            if not stack.running(part):
                stack.start(part)
        states = {row["state"] for row in rows(connect(stack), "SELECT DISTINCT state FROM jobs WHERE topic = %s", topic)}
        return states <= {"succeeded", b"succeeded"}
    until(ended, lambda: rows(connect(stack), "SELECT state, attempt_status, COUNT(*) n FROM jobs WHERE topic = %s GROUP BY 1, 2", topic),
          every=0.3)
    for part in ("dispatcher1", "dispatcher2"):
        stack.restart(part)
    Checker(stack).check(journal, [topic])
    undeliverable = rows(connect(stack), "SELECT COUNT(*) n FROM v_attempts a JOIN jobs j ON j.id = a.job_id"
                         " WHERE j.topic = %s AND a.status = 'undeliverable'", topic)[0]["n"]
    print(f"{befalls}: {len(ids)} jobs, {undeliverable} attempts undeliverable")
    assert not undeliverable or not befalls.startswith("told of a refusal although")


def low_mark(stack, partition):
    consumer = Consumer({"bootstrap.servers": stack["DUETIME_KAFKA"], "group.id": "x"})
    try:
        return consumer.get_watermark_offsets(TopicPartition("duetime.ledger", partition), 90)[0]
    finally:
        consumer.close()


def age_ledger(stack, offsets):
    """As after long use: the ledger has so many offsets more, which count as settled. No job is under way."""
    session, producer = connect(stack), Producer({"bootstrap.servers": stack["DUETIME_KAFKA"]})
    until(lambda: not rows(session, "SELECT 1 FROM shards WHERE inflight <> '[]'"), "everything is settled")
    rows(session, "UPDATE shards SET halted = 'the ledger is aged'")
    for row in rows(session, "SELECT shard FROM shards"):
        for _ in range(offsets):
            producer.produce("duetime.ledger", partition=row["shard"], key=b"aged", value=b"{}")
        assert producer.flush(120) == 0
        rows(session, "CALL dt_clear_halt(%s, 'resend', -1)", row["shard"])
    until(lambda: all(row["ledger_offset"] > offsets for row in rows(session, "SELECT ledger_offset FROM shards")),
          "the shards are taken over")


STRANGERS = [(None, b"hi"), (None, None), (b"batch", b"hi"), (b"batch", b'{"list":[[1,1,1]]}'), (b"barrier", b"{}"), (b"x", b"[")]


def write_into_ledger(stack, records):
    producer = Producer({"bootstrap.servers": stack["DUETIME_KAFKA"]})
    for shard in (0, 1):
        for key, value in records:
            producer.produce("duetime.ledger", partition=shard, key=key, value=value)
    assert producer.flush(120) == 0


def told_of_strangers(stack, at_least):
    """Every shard says how many records in its ledger are not ours."""
    details = [(row["detail"] or b"").decode() for row in rows(connect(stack), "SELECT detail FROM v_shards")]
    return len(details) == 2 and all("no dispatcher wrote" in detail and int(detail.split()[0]) >= at_least for detail in details)


def counted_as_strangers(stack):
    """Records that are not ours, by the metric for which there is an alert."""
    return sum(float(figure) for part in ("DISPATCHER1", "DISPATCHER2")
               for figure in re.findall(r"^duetime_ledger_strangers_total\{[^}]*\} (\S+)$", stack.metrics(part), re.M))


def told_in_logs(stack):
    """{shard: records that are not ours, as its leaders have told}: a leader that follows another one knows nothing of what that one passed by."""
    told = Counter()
    for part in ("dispatcher1", "dispatcher2"):
        for shard, records in re.findall(r"records that no dispatcher wrote.* shard=(\d+) records=(\d+)", stack.log(part)):
            told[int(shard)] += int(records)
    return told


def take_over_anew(stack):
    for part in ("dispatcher1", "dispatcher2"):
        stack.kill(part)
    for part in ("dispatcher1", "dispatcher2"):
        stack.start(part)


def test_foreign_records_in_the_ledger_halt_no_shard_and_are_logged(stack, api, kafka, consume):
    topic = kafka.make()
    consumer, journal = consume(topic), Journal()
    warm(api, consumer, topic)
    write_into_ledger(stack, STRANGERS)

    def sent_by_every_shard():
        for job in make_all(api, journal, [{"topic": topic} for _ in range(20)]):
            consumer.wait(job, seconds=20)
        return True
    at_least = len(STRANGERS) - 2  # markers of ours that come late hide two at most
    until(lambda: sent_by_every_shard() and told_of_strangers(stack, at_least), "leaders see that offsets are missing", every=0.5)
    assert counted_as_strangers(stack) >= 2 * at_least
    write_into_ledger(stack, STRANGERS)
    told = told_in_logs(stack)
    take_over_anew(stack)
    until(lambda: sent_by_every_shard() and all(told_in_logs(stack)[shard] >= told[shard] + at_least for shard in (0, 1)),
          lambda: f"takeovers pass by what is not ours: {told}, {told_in_logs(stack)}", every=0.5)
    assert not rows(connect(stack), "SELECT shard, halted FROM shards WHERE halted IS NOT NULL")
    assert any("records that no dispatcher wrote" in stack.log(part) for part in ("dispatcher1", "dispatcher2"))
    Checker(stack).check(journal, [topic])


def test_a_foreign_installations_record_in_the_ledger_halts_the_shard(stack, api, kafka, consume):
    topic = kafka.make()
    consumer = consume(topic)
    warm(api, consumer, topic)
    session = connect(stack)
    write_into_ledger(stack, [*STRANGERS, (b"batch", b'{"installation":"11111111-1f0e-4c55-8a43-0d3a8a0f3c11","epoch":1,"list":[]}')])
    take_over_anew(stack)
    until(lambda: len(rows(session, "SELECT 1 FROM shards WHERE halted LIKE '%%another installation%%'")) == 2, "both shards halt")
    for shard in (0, 1):
        rows(session, "CALL dt_clear_halt(%s, 'resend', -1)", shard)
    consumer.wait(api.make(topic=topic, delay=0)["id"], seconds=30)


@pytest.fixture
def trimming():
    made = Stack("trimming", *OPTIONS, "--set", "ledger.trim_after=PT3S")
    yield made.up()
    made.reset()


def test_the_ledger_is_trimmed_while_jobs_are_sent(trimming):
    """Once it has a thousand offsets: a younger one keeps its beginning."""
    stack, api, topic, journal = trimming, Rest(trimming["DUETIME_URL_API1"]), Topics(trimming["DUETIME_KAFKA"]).make(), Journal()
    consumer = TestConsumer(stack["DUETIME_KAFKA"], [topic], rule=lambda _arrival: {"status": "succeeded"})
    before = [low_mark(stack, shard) for shard in (0, 1)]

    def trimmed():
        ids = make_all(api, journal, [{"topic": topic, "run_at": rfc3339(int(now_ms()))} for _ in range(20)])
        for job in ids:
            consumer.wait(job, seconds=20)
        return all(low_mark(stack, shard) > mark for shard, mark in enumerate(before))

    def trim_at():
        return rows(connect(stack), "SELECT MIN(trim_at) at FROM shards")[0]["at"] or 0
    held = trim_at()
    until(lambda: not trimmed() and trim_at() > held, "trim_at changes, and nothing is trimmed")
    assert rows(connect(stack), "SELECT MAX(ledger_offset) n FROM shards")[0]["n"] < 1000
    assert not trimmed(), "a young ledger was trimmed"
    age_ledger(stack, 1000)
    until(trimmed, lambda: rows(connect(stack), "SELECT shard, ledger_offset, trim_offset, trim_at FROM shards"))
    for row in rows(connect(stack), "SELECT shard, ledger_offset, trim_offset FROM shards"):
        assert low_mark(stack, row["shard"]) <= row["trim_offset"] <= row["ledger_offset"]
    take_over_anew(stack)
    consumer.wait(api.make(topic=topic, delay=0)["id"], seconds=30)
    assert not rows(connect(stack), "SELECT shard FROM shards WHERE halted IS NOT NULL")
    consumer.end()

"""Commands by message on the whole stack: each has one effect, in its order, whoever dies and whatever comes again."""
import base64
import collections
import json
import threading
import time
import uuid

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from harness.checker import connect, rows
from harness.commands import Commander, Messages, header, problem, readers_settled
from harness.kafka_admin import Broker
from harness.stack import until

pytestmark = pytest.mark.in_turns(2)

slow = pytest.mark.in_turns(8)


@pytest.fixture
def commander(stack):
    until(lambda: readers_settled(stack), stack.logs)  # an earlier test may just have started dispatchers
    return Commander(stack["DUETIME_KAFKA"])


@pytest.fixture
def messages(stack):
    """messages(topic) -> what comes into it from now on."""
    made = []

    def start(topic, **options):
        made.append(Messages(stack["DUETIME_KAFKA"], topic, **options))
        return made[-1]
    yield start
    for one in made:
        one.close()


def jobs(connection, topic):
    found = rows(connection, "SELECT job_key, state, payload FROM jobs WHERE topic = %s ORDER BY job_key", topic)
    return {job["job_key"].decode(): (job["state"], bytes(job["payload"])) for job in found}


def settled(connection, commander):
    """Whether every message that is in the topic by now is done."""
    consumer = Consumer({"bootstrap.servers": commander.brokers, "group.id": "looks"})
    try:
        stand = {row["kafka_partition"]: row["next_offset"] for row in rows(connection, "SELECT kafka_partition, next_offset FROM command_offsets")}
        partitions = consumer.list_topics(commander.topic, 90).topics[commander.topic].partitions
        return all(stand.get(number, 0) >= consumer.get_watermark_offsets(TopicPartition(commander.topic, number), 90)[1] for number in partitions)
    finally:
        consumer.close()


def await_all(connection, commander):
    until(lambda: settled(connection, commander), lambda: f"all commands: {rows(connection, 'SELECT * FROM v_commands')}", every=0.2, seconds=90)
    until(lambda: not rows(connection, "SELECT id FROM messages WHERE kind = 'answers' LIMIT 1"), "all answers", every=0.2)


def test_messages_have_the_same_effect_as_requests(stack, topic, api, commander, messages):
    connection, rejected = connect(stack), messages(commander.rejected_topic)
    name = {"topic": topic, "key": "k"}
    commander.say({"action": "create", **name, "delay": "PT1H", "payload": {"a": 1}, "retry": ["3s"]}, {"action": "create", "topic": topic, "key": "now", "delay": 0},
                  {"action": "create", "topic": topic, "key": "gone", "delay": "PT1H"})
    until(lambda: jobs(connection, topic).get("now", "")[:1] == ("dispatched",) and len(jobs(connection, topic)) == 3, lambda: jobs(connection, topic))
    assert jobs(connection, topic)["k"] == ("scheduled", b'{"a": 1}')
    commander.say({"action": "change", **name, "delay": "PT2H", "payload": 2}, {"action": "cancel", "topic": topic, "key": "gone"},
                  {"action": "report", "topic": topic, "key": "now", "attempt": 1, "status": "succeeded"}, {"action": "pause", "topic": topic})
    until(lambda: api.get(f"/v1/topics/{topic}").json["paused"], "the pause")
    await_all(connection, commander)
    assert jobs(connection, topic) == {"k": ("scheduled", b"2"), "now": ("succeeded", b"null"), "gone": ("cancelled", b"null")}
    commander.say({"action": "run_now", **name})
    commander.say({"action": "replace", **name, "delay": "PT3H", "payload": 3}, {"action": "resume", "topic": topic}, {"action": "run_now", **name})
    until(lambda: jobs(connection, topic)["k"] == ("dispatched", b"3"), lambda: jobs(connection, topic))
    commander.say({"action": "cancel", **name})
    told = rejected.wait(1)[0]
    assert (told.key(), json.loads(told.value())) == (b"k", {"action": "cancel", **name})
    assert (problem(told)["type"], problem(told)["status"], problem(told)["attempt"]) == ("/problems/too-late", 409, 1)
    story = api.get(f"/v1/events?topic={topic}&limit=1000").json["events"]
    assert {event["actor"] for event in story} == {"commands:duetime.commands"}
    assert sorted(event["action"] for event in story)[:2] == ["cancel", "change"] and {"topic_pause", "topic_resume", "replace", "run_now"} <= {event["action"] for event in story}


def test_answers_are_sent_to_the_topic_named_by_the_message(stack, topic, commander, messages):
    connection, rejected = connect(stack), messages(commander.rejected_topic)
    answers = f"{topic}.replies"
    reply = [("reply_to", answers.encode()), ("trace", b"\xff\x00")]
    job = {"action": "create", "topic": topic, "key": "k", "delay": "PT1H", "payload": [1, 2]}
    for value in (job, job, {**job, "payload": 3}, {"action": "cancel", "topic": topic, "key": "k"}, b"{", None):
        commander.send(value, key=b"\x00same", headers=reply)
    commander.send(job, key=b"\x00same", headers=[("reply_to", b"duetime.results")])
    commander.flush()
    await_all(connection, commander)
    seen = messages(answers, beginning=True).wait(6)
    assert [header(m, "status") for m in seen] == ["201", "200", "409", "200", "400", "400"]
    assert {m.key() for m in seen} == {b"\x00same"}
    bodies = [json.loads(m.value()) for m in seen]
    assert (bodies[0]["key"], bodies[0]["state"], bodies[0]["payload"], bodies[0]["waiting_for"]) == ("k", "scheduled", [1, 2], "time")
    assert bodies[1]["id"] == bodies[2]["id"] == bodies[3]["id"] == bodies[0]["id"] and bodies[3]["state"] == "cancelled"
    told = rejected.wait(4)
    assert [problem(m)["status"] for m in told] == [409, 400, 400, 422]
    assert told[1].value() == b"{" and told[2].value() is None and told[0].headers()[:2] == reply


def test_the_largest_possible_message_gets_its_answer(stack, topic, api, commander, messages):
    """With its problem a refused message is larger than the topic that it came by allows; a job's answer goes without a payload that makes it so."""
    connection, rejected, answers = connect(stack), messages(commander.rejected_topic), f"{topic}.replies"
    job = api.make(topic=topic, key="k", delay="PT1H", payload_base64=base64.b64encode(b"\0" * 900000).decode(), content_type="a/b")
    producer = Producer({"bootstrap.servers": commander.brokers, "message.max.bytes": 1048588})
    large = b'{"action":"sing","' + b"x" * 1048200
    producer.produce(commander.topic, value=large, key=b"large")
    assert producer.flush(30) == 0
    commander.send({"action": "cancel", "topic": topic, "key": "k"}, key="k", headers=[("reply_to", answers.encode())])
    commander.flush()
    await_all(connection, commander)
    [told] = until(lambda: [message for message in rejected.more() if message.key() == b"large"], "the rejection arrives")
    assert told.value() == large and problem(told)["status"] == 400
    answer = json.loads(messages(answers, beginning=True).wait(1)[0].value())
    assert (answer["id"], answer["state"], answer.get("payload_base64")) == (job["id"], "cancelled", None)


def crowd(commander, topic, n, keys=10):
    """n messages in which each key is made, cancelled and replaced in turn; replies for some of them."""
    for i in range(n):
        key = f"k{i % keys}"
        turn = i // keys
        command = {"action": ("create", "cancel", "replace", "cancel")[turn] if turn < 4 else ("replace", "cancel")[turn % 2], "topic": topic, "key": key}
        if command["action"] != "cancel":
            command.update(delay="PT1H", payload=i)
        commander.send(command, key=key, headers=[("reply_to", f"{topic}.replies".encode()), ("n", str(i).encode())])
    commander.flush()


def judge(connection, topic, commander, answers, n, keys=10):
    """Each message had one effect in its key's order: a job for each create and replace, cancelled by the one behind it."""
    await_all(connection, commander)
    made = rows(connection, "SELECT job_key, state, payload FROM jobs WHERE topic = %s", topic)
    by_key = collections.defaultdict(list)
    for job in made:
        by_key[job["job_key"].decode()].append((int(job["payload"]), job["state"]))
    for number in range(keys):
        mine = [i for i in range(n) if i % keys == number]
        expected = [(i, "cancelled" if i + keys < n else "scheduled") for turn, i in enumerate(mine) if turn % 2 == 0]
        assert sorted(by_key[f"k{number}"]) == expected
    until(lambda: all(count >= n // keys for count in answered(answers, keys)), lambda: f"an answer to each: {answered(answers, keys)}")
    assert {header(message, "status") for message in answers.seen} <= {"200", "201"}


def answered(answers, keys):
    """How many answers there are by now under each key; some may have come twice."""
    found = collections.Counter(message.key() for message in answers.more(0.2))
    return [found[f"k{number}".encode()] for number in range(keys)]


@slow
@pytest.mark.parametrize("point", ["commands.read", "commands.carried_out", "commands.raised", "commands.committed", "commands.answer", "commands.answered"])
def test_a_dispatcher_that_dies_between_two_steps_applies_no_command_twice(stack, topic, commander, messages, point):
    connection = connect(stack)
    try:
        commander.send({"action": "create", "topic": topic, "key": "k0", "delay": "PT1H", "payload": 0}, key="k0", headers=[("reply_to", f"{topic}.replies".encode())])
        commander.flush()
        await_all(connection, commander)
        answers = messages(f"{topic}.replies", beginning=True)
        for other in ("dispatcher2", "dispatcher3"):
            stack.kill(other)
        stack.restart("dispatcher1", env={"DUETIME_FAIL": f"{point}=crash@2"})
        crowd(commander, topic, 120)
        until(lambda: not stack.running("dispatcher1") or settled(connection, commander), f"{point}: it dies", every=0.2)
        if stack.running("dispatcher1"):  # one batch took all of them
            commander.say({"action": "cancel", "topic": topic, "key": "none"})
            until(lambda: not stack.running("dispatcher1"), f"{point}: it dies")
    finally:
        stack.heal()
    judge(connection, topic, commander, answers, 120)


@slow
def test_commands_do_not_depend_on_offsets_in_kafka_or_on_the_reader(stack, topic, commander, messages):
    connection = connect(stack)
    answers_topic = f"{topic}.replies"
    Broker(stack).make(answers_topic, 1)
    answers = messages(answers_topic)
    crowd(commander, topic, 100)
    await_all(connection, commander)
    try:
        stack.stop("dispatcher1")
        consumer = Consumer({"bootstrap.servers": commander.brokers, "group.id": commander.topic, "enable.auto.commit": False})
        partitions = consumer.list_topics(commander.topic, 90).topics[commander.topic].partitions
        consumer.commit(offsets=[TopicPartition(commander.topic, number, 0) for number in partitions], asynchronous=False)
        consumer.close()
        sender = threading.Thread(target=lambda: [crowd_from(commander, topic, start) for start in range(100, 400, 20)])
        sender.start()
        for part in ("dispatcher2", "dispatcher3"):
            stack.kill(part)
            stack.start(part)
        sender.join()
    finally:
        stack.heal()
    judge(connection, topic, commander, answers, 400)


@slow
def test_a_cancel_read_twice_does_not_cancel_a_newer_job_with_the_key(stack, topic, api, commander):
    """Whoever begins to read a partition reads the last message that was done, too, to see that the topic is the one that it was."""
    connection = connect(stack)
    commander.say({"action": "create", "topic": topic, "key": "k", "delay": "PT1H"}, {"action": "cancel", "topic": topic, "key": "k"})
    await_all(connection, commander)
    job = api.put(f"/v1/topics/{topic}/jobs/k?replace=true", {"delay": "PT1H"}).json["id"]
    for part in ("dispatcher1", "dispatcher2", "dispatcher3"):
        stack.restart(part)
    commander.send({"action": "create", "topic": topic, "key": "behind", "delay": "PT1H"}, key="k")
    commander.flush()
    await_all(connection, commander)
    assert jobs(connection, topic)["behind"][0] == "scheduled"
    assert api.get(f"/v1/jobs/{job}").json["state"] == "scheduled"


def crowd_from(commander, topic, start, keys=10):
    for i in range(start, start + 20):
        command = {"action": "cancel" if i // keys % 2 else "replace", "topic": topic, "key": f"k{i % keys}"}
        if command["action"] != "cancel":
            command.update(delay="PT1H", payload=i)
        commander.send(command, key=f"k{i % keys}", headers=[("reply_to", f"{topic}.replies".encode())])
    commander.flush()


@slow
def test_a_flood_of_invalid_messages_does_not_block_results_or_commands(stack, topic, api, commander, messages, consume):
    connection, rejected = connect(stack), messages(commander.rejected_topic)
    consume(topic, rule=lambda arrival: {"status": "succeeded"})
    poison = [b"{" * 300, b"[]", b'{"action":"create","topic":"..","key":"x"}', b"x" * 200000, None]
    for i in range(2000):
        commander.send(poison[i % len(poison)] if i % 50 else b"\xff", key=str(i))
    for i in range(50):
        commander.send({"action": "create", "topic": topic, "key": f"c{i}", "delay": 0}, key=str(i))
    commander.flush()
    ids = [api.make(topic=topic, delay=0)["id"] for _ in range(20)]
    until(lambda: all(api.get(f"/v1/jobs/{job}").json["state"] == "succeeded" for job in ids), "jobs beside the flood")
    await_all(connection, commander)
    until(lambda: rows(connection, "SELECT COUNT(*) n FROM jobs WHERE topic = %s AND state = 'succeeded'", topic)[0]["n"] == 70, "commands after the flood")
    until(lambda: len({message.key() for message in rejected.more(0.2)}) == 2000, lambda: f"each poison message is rejected: {len(rejected.seen)} were")
    assert collections.Counter(problem(m)["status"] for m in rejected.seen).keys() == {400, 422}


def test_answers_that_wait_for_their_topics_delay_no_other_owners_commands_and_answers(stack, topic, commander, messages):
    """300 commands of one owner ask to be answered in a topic of its own each, none of which is there yet."""
    connection, answers, owner = connect(stack), f"{topic}.replies", f"many-{uuid.uuid4().hex[:6]}"
    Broker(stack).make(answers, 1)
    own = messages(answers, beginning=True)
    for i in range(300):
        commander.send({"action": "create", "topic": f"{owner}.jobs", "key": f"k{i}", "delay": "PT1H", "payload": "x" * 50000}, key=str(i),
                       headers=[("reply_to", f"{owner}.r{i}.replies".encode())])
    commander.flush()
    began = time.monotonic()
    for i in range(8):  # in each partition one
        commander.send({"action": "create", "topic": topic, "key": f"k{i}", "delay": "PT1H"}, key=f"{i}", headers=[("reply_to", answers.encode())])
    commander.flush()
    until(lambda: len(jobs(connection, topic)) == 8, "the other owner's commands are done", seconds=30)
    done = time.monotonic() - began
    own.wait(8, seconds=30)
    answered_after = time.monotonic() - began
    print(f"done after {done:.1f} s, answered after {answered_after:.1f} s")
    assert answered_after < 60  # three minutes and more, if each topic were waited for
    until(lambda: not rows(connection, "SELECT id FROM messages WHERE kind = 'answers' LIMIT 1"), "all answers leave", every=0.2, seconds=180)
    theirs = messages(f"{owner}.r299.replies", beginning=True).wait(1)
    assert header(theirs[0], "status") == "201"


@slow
def test_a_commands_topic_that_was_created_again_is_recognized(stack, topic, commander):
    connection, admin = connect(stack), Broker(stack)
    for i in range(60):
        commander.send({"action": "create", "topic": topic, "key": f"old{i}", "delay": "PT1H"}, key=str(i))
    commander.flush()
    await_all(connection, commander)
    dispatchers = ("dispatcher1", "dispatcher2", "dispatcher3")
    try:
        for part in dispatchers:
            stack.stop(part)
        admin.delete(commander.topic)
        until(lambda: commander.topic not in admin.topics(), "it is gone")
        admin.make(commander.topic, 4)
        again = Commander(stack["DUETIME_KAFKA"])
        n = max(row["next_offset"] for row in rows(connection, "SELECT next_offset FROM command_offsets")) + 5
        for i in range(2 * n):  # partition 0 ends before the offset that is done, or is empty; partition 1 has grown beyond it
            again.send({"action": "create", "topic": topic, "key": f"new{i}", "delay": "PT1H"}, key=f"new{i}", partition=1 if i else 0)
        again.flush()
    finally:
        stack.heal()
    until(lambda: rows(connection, "SELECT COUNT(*) n FROM v_commands WHERE halted IS NOT NULL AND kafka_partition IN (0, 1)")[0]["n"] == 2,
          lambda: rows(connection, "SELECT * FROM v_commands"))
    assert not [key for key in jobs(connection, topic) if key.startswith("new")]
    rows(connection, "DELETE FROM command_offsets")
    await_all(connection, again)
    until(lambda: len(jobs(connection, topic)) == 60 + 2 * n, "the new ones")


@slow
def test_no_dispatcher_ends_when_its_topic_is_created_again(stack, topic, api, commander, consume):
    """One dispatcher reads all partitions, and finds each of them to be another one at the same time."""
    connection, admin, consumer = connect(stack), Broker(stack), consume(topic)
    try:
        for part in ("dispatcher2", "dispatcher3"):
            stack.stop(part)
        for i in range(40):
            commander.send({"action": "create", "topic": topic, "key": f"old{i}", "delay": "PT1H"}, key=str(i), partition=i % 4)
        commander.flush()
        await_all(connection, commander)
        process = stack.pid("dispatcher1")
        admin.delete(commander.topic)
        admin.make(commander.topic, 4)
        halted = lambda: rows(connection, "SELECT COUNT(*) n FROM v_commands WHERE halted IS NOT NULL")[0]["n"]  # noqa: E731
        until(lambda: halted() == 4, lambda: rows(connection, "SELECT * FROM v_commands"))
        again = Commander(stack["DUETIME_KAFKA"])
        n = max(row["next_offset"] for row in rows(connection, "SELECT next_offset FROM command_offsets")) + 5
        for i in range(4 * n):
            again.send({"action": "create", "topic": topic, "key": f"new{i}", "delay": "PT1H"}, key=f"new{i}", partition=i % 4)
        again.flush()
        looks = lambda: stack.log("dispatcher1").count("topic=duetime.commands partitions=4")  # noqa: E731
        before = looks()
        until(lambda: looks() >= before + 2 or not stack.running("dispatcher1"), "it has looked again, and found other messages", seconds=30)
        assert halted() == 4 and stack.running("dispatcher1"), stack.log("dispatcher1")[-2000:]
        job = api.make(topic=topic, key="due", delay=0)["id"]
        until(lambda: consumer.of(job), stack.logs)
        rows(connection, "DELETE FROM command_offsets")
        await_all(connection, again)
        until(lambda: len(jobs(connection, topic)) == 41 + 4 * n, "the new ones")
        assert stack.refresh().pid("dispatcher1") == process and stack.running("dispatcher1")
    finally:
        stack.heal()

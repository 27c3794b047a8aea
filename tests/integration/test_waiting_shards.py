"""What must not keep a shard from dispatching: rows that somebody holds locked, an index that takes no changes, a topic that cannot be written,
and a halt that was cleared."""
import pathlib
import re
import time

import pytest

from harness.checker import connect, rows
from harness.servers import redis_clients
from harness.soak import rfc3339
from harness.stack import until

pytestmark = pytest.mark.in_turns(3)

SHARDS = 4
BATCH = 2000  # dispatch.batch_jobs: so many entries are looked at at once


def make(api, topic, count, due_ms):
    lines = api.batch([{"topic": topic, "run_at": rfc3339(due_ms), "payload": {"n": n}} for n in range(count)])
    assert all(line["status"] == 201 for line in lines), lines[:1]
    return [line["id"] for line in lines]


def arrived(consumer, ids):
    return set(ids) <= {arrival.job for arrival in consumer.all()}


def test_jobs_after_locked_rows_are_sent(stack, api, topic, consume):
    consumer, free_consumer = consume(topic), consume(topic + "-free")
    assert api.put(f"/v1/topics/{topic}", {"paused": True}).status == 201  # paused until the rows are locked
    due = int(time.time() * 1000)
    held = [int(one) for _ in range(5) for one in make(api, topic, SHARDS * BATCH // 4, due)]
    session = connect(stack)
    rows(session, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")  # no locks on what is not there yet
    session.begin()
    rows(session, "SELECT id FROM jobs WHERE id IN %s FOR UPDATE", held)
    assert api.post(f"/v1/topics/{topic}/resume").status == 200
    free = make(api, topic + "-free", 20, due + 500)
    until(lambda: arrived(free_consumer, free), "the jobs whose rows are not locked arrive")
    assert consumer.count == 0
    session.rollback()
    until(lambda: arrived(consumer, map(str, held)), "the others arrive, too")
    assert (consumer.count, free_consumer.count) == (len(held), len(free))


@pytest.fixture
def full_redis(stack):
    servers = redis_clients(stack)

    def fill(full):
        for server in servers:
            server.config_set("maxmemory", 1 if full else 0)
    yield fill
    fill(False)


def test_an_index_can_be_read_with_a_script_in_redis_own_language(stack, api, topic):
    script = (pathlib.Path(__file__).resolve().parents[2] / "deploy" / "index.lua").read_text()
    installation = rows(connect(stack), "SELECT name FROM installation")[0]["name"].decode()
    due = {int(job): int(time.time() * 1000) + 600000 + n for n, job in enumerate(make(api, topic, 20, int(time.time() * 1000) + 900000))}
    for job, ms in due.items():
        assert api.patch(f"/v1/jobs/{job}", {"run_at": rfc3339(ms)}).status == 200

    servers = redis_clients(stack)

    def listed():
        found = {}
        for server in servers:
            for shard in range(SHARDS):
                lines = server.eval(script, 1, f"{installation}:{{{shard}}}:due", 5000)
                found.update((int(job), int(ms)) for job, ms in (line.decode().split(" at ") for line in lines))
        return found
    until(lambda: all(listed().get(job) == ms for job, ms in due.items()), "every job is listed with its time")


def test_jobs_are_sent_while_redis_refuses_writes(api, topic, consume, full_redis):
    consumer = consume(topic, rule=lambda arrival: {"status": "succeeded"})
    first = make(api, topic, 20, int(time.time() * 1000))
    until(lambda: arrived(consumer, first), "jobs arrive")
    full_redis(True)
    for _ in range(3):
        ids = make(api, topic, 50, int(time.time() * 1000) + 1000)
        until(lambda made=ids: arrived(consumer, made), "jobs arrive without the index")
    full_redis(False)
    ids = make(api, topic, 50, int(time.time() * 1000) + 100)
    until(lambda: arrived(consumer, ids), "jobs arrive with the index again")
    assert consumer.count == 220


def test_a_shard_continues_after_its_halt_is_cleared_at_the_ledgers_end(stack, api, topic, consume):
    consumer = consume(topic)
    session = connect(stack)
    rows(session, "UPDATE shards SET halted = 'a test'")
    ids = make(api, topic, 40, int(time.time() * 1000))
    halted = lambda: sum(len(re.findall(r"^duetime_shard_halted\{[^}]*\} 1$", stack.metrics(f"DISPATCHER{n}"), re.M)) for n in (1, 2, 3))  # noqa: E731
    until(lambda: halted() == SHARDS, "every leader waits for an operator")
    assert consumer.count == 0
    for shard in range(SHARDS):
        rows(session, "CALL dt_clear_halt(%s, 'resend', -1)", shard)
    until(lambda: arrived(consumer, ids), "the jobs arrive")
    assert consumer.count == len(ids)
    assert all(row["ledger_offset"] >= 0 for row in rows(session, "SELECT ledger_offset FROM shards"))

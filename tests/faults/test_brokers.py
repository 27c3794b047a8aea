"""Rows of the catalogue about what Kafka refuses, and about a Kafka and a MySQL that do not tell the same story."""
import json
import shutil
import traceback
import uuid

import pytest

from harness.checker import Tape, connect, rows
from harness.kafka_admin import Broker
from harness.load import Run, under_load
from harness.rest import Rest
from harness.stack import until

DISPATCHERS = ["dispatcher1", "dispatcher2"]


@pytest.fixture
def extra():
    return f"extra-{uuid.uuid4().hex[:8]}"


def waiting_for(run, job):
    return Rest(run.urls[0]).get(f"/v1/jobs/{job}").json["waiting_for"]


def attempts(stack, job):
    return [row["status"].decode() if isinstance(row["status"], bytes) else row["status"]
            for row in rows(connect(stack), "SELECT status FROM v_attempts WHERE job_id = %s ORDER BY attempt", job)]


# ---- row 18: refused for good ----

def test_row18_a_message_over_its_topics_size_limit_fails_alone(stack, seed, extra):
    Broker(stack).make(extra, max_message_bytes=3000)
    with under_load(stack, seed, extra=[extra]) as run:
        jobs = run.make_bulk([{"topic": extra, "delay": 500, "retry": [], "payload": {"pad": "x" * (5000 if n % 20 == 7 else 100)}} for n in range(100)])
        large = [job for n, job in enumerate(jobs) if n % 20 == 7]
        until(lambda: set(run.consumer.which(jobs)) == set(jobs) - set(large),
              lambda: f"the others arrive: {len(run.consumer.which(jobs))} of {len(jobs) - len(large)}")
        until(lambda: all(attempts(stack, job) == ["undeliverable"] for job in large),
              lambda: f"what is too large ends undeliverable: {[attempts(stack, job) for job in large]}")
        assert {row["state"] for row in rows(connect(stack), "SELECT state FROM jobs WHERE id IN %s", tuple(large))} == {"dead"}
        run.goes_on()


def test_row18_jobs_of_a_missing_topic_wait_and_do_not_delay_others(stack, seed, extra):
    with under_load(stack, seed, extra=[extra]) as run:
        for part in DISPATCHERS:
            stack.restart(part, settings={"kafka.auto_create_partitions": 0})
        job, *others = run.make_bulk([{"topic": extra, "delay": 0, "payload": {}} for _ in range(20)])
        run.goes_on(150)
        until(lambda: waiting_for(run, job) == "kafka", lambda: f"it waits for Kafka: {waiting_for(run, job)}")
        until(lambda: any(shard["waiting_for"] == "kafka" for shard in Rest(run.urls[0]).get("/v1/info").json["shards"]), "the API reports it")
        Broker(stack).make(extra)
        until(lambda: len(run.consumer.which([job, *others])) == 20, "they arrive once their topic is there")


def test_row18_jobs_of_a_forbidden_topic_wait_and_do_not_delay_others(stack, seed, extra):
    broker = Broker(stack)
    broker.make(extra)
    with under_load(stack, seed, extra=[extra]) as run:
        broker.forbid(extra)
        jobs = run.make_bulk([{"topic": extra, "delay": 200, "payload": {}} for _ in range(50)])
        run.goes_on(150)
        until(lambda: any(waiting_for(run, job) == "kafka" for job in jobs), lambda: f"they wait for Kafka: {waiting_for(run, jobs[0])}")
        broker.permit(extra)
        until(lambda: len(run.consumer.which(jobs)) == 50,
              lambda: f"they arrive once it is allowed: {len(run.consumer.which(jobs))}, {[attempts(stack, job) for job in jobs[:5]]}")


# ---- row 19: two stories ----

def halted(stack):
    return {row["shard"]: row for row in rows(connect(stack), "SELECT shard, halted, inflight FROM shards WHERE halted IS NOT NULL")}


def read(stack, topics):
    """(job, attempt) of every committed message."""
    for topic in topics:
        for message in Tape(stack["DUETIME_KAFKA"], topic).read():
            headers = dict(message.headers() or [])
            yield headers["ce_jobid"].decode(), int(headers["ce_attempt"])


def clear(stack, topics, offset=-1):
    """What the operator's page says: look whether what was in flight is in its topics, then let the shard go on. None: look again, another
    one may have been taken over, and have halted, meanwhile."""
    there = set(read(stack, topics))
    for shard, row in halted(stack).items():
        entries = [(str(job), attempt) for job, attempt, *_ in json.loads(row["inflight"])]
        sent = [entry in there for entry in entries]
        assert all(sent) or not any(sent), f"shard {shard}: a batch is half there: {entries}"
        rows(connect(stack), "CALL dt_clear_halt(%s, %s, %s)", shard, "drop" if entries and all(sent) else "resend", offset)


def killed_after_a_commit(stack, seed):
    """Both dispatchers end between the commit in Kafka and its settling in MySQL."""
    for part in DISPATCHERS:
        stack.restart(part, env={"DUETIME_FAIL": f"endtxn.after=crash@{10 + seed % 30}"})
    until(lambda: not any(stack.running(part) for part in DISPATCHERS), "both dispatchers died after a commit")


@pytest.mark.one_of
@pytest.mark.parametrize("how", ["trimmed", "recreated"])
def test_row19_a_ledger_that_lost_needed_records_halts_its_shards_until_cleared(own_stack, seed, how):
    stack = own_stack()
    broker = Broker(stack)
    with under_load(stack, seed, skip=("O4",)) as run:  # the ledger is gone: it proves nothing any more
        killed_after_a_commit(stack, seed)
        if how == "trimmed":
            for shard in range(4):
                broker.trim("duetime.ledger", shard)
        else:
            broker.delete("duetime.ledger")
            broker.make("duetime.ledger", 4, retention_ms=-1)
        for part in DISPATCHERS:
            stack.start(part)
        found = until(lambda: halted(stack), "shards halt")
        assert any("ledger" in row["halted"].decode() for row in found.values()), found
        until(lambda: [part for part in DISPATCHERS if "halted: waits for an operator" in stack.log(part)], "an alarm is in the log")
        run.wait(3)
        until(lambda: not halted(stack) or clear(stack, run.topics), lambda: f"all are cleared: {halted(stack)}", every=1)
        run.goes_on(seconds=45)


def ledger_offsets(stack):
    """{shard: up to where its row knows the ledger}"""
    found = rows(connect(stack), "SELECT shard, ledger_offset FROM shards s JOIN installation i ON s.shard < i.shards")
    return {row["shard"]: row["ledger_offset"] for row in found}


def test_row19_a_ledger_trimmed_below_the_settled_offset_is_accepted(stack, seed):
    with under_load(stack, seed, skip=("O4",)) as run:
        for part in DISPATCHERS:
            stack.stop(part)
        for shard, offset in ledger_offsets(stack).items():
            assert Broker(stack).trim("duetime.ledger", shard, offset) > 0
        for part in DISPATCHERS:
            stack.start(part)
        run.goes_on(seconds=45)
        assert not halted(stack)


def copied(stack, copy):
    """MySQL's data, of a moment when it was down."""
    stack.stop("mysql")
    shutil.copytree(stack.home / "mysql" / "data", copy)
    stack.start("mysql")


def restored(stack, copy):
    stack.kill("mysql")
    shutil.rmtree(stack.home / "mysql" / "data")
    shutil.copytree(copy, stack.home / "mysql" / "data")
    stack.start("mysql")


def test_row19_a_restored_mysql_sends_nothing_twice_before_an_operator_decides(own_stack, seed, tmp_path):
    stack = own_stack()
    run = Run(stack, seed, name="row19-restored")
    try:
        run.begin()
        copied(stack, tmp_path / "copy")
        before = ledger_offsets(stack)
        run.goes_on(300, seconds=45)  # what the copy does not have: creates, claims, results
        until(lambda: all(offset > before[shard] for shard, offset in ledger_offsets(stack).items()), "every shard sends jobs that the copy does not have")
        restored(stack, tmp_path / "copy")
        run.shut_down()
        found = until(lambda: len(halted(stack)) == 4 and halted(stack), lambda: f"every shard halts: {halted(stack)}")
        sent = list(read(stack, run.topics))
        assert len(sent) == len(set(sent)), "something was sent twice"
        print(f"{len(sent)} attempts, none twice; {', '.join(sorted({row['halted'].decode() for row in found.values()}))[:300]}")
        clear(stack, run.topics)
        rest = Rest(run.urls[0])
        jobs = [rest.make(topic=run.topics[0], delay=0)["id"] for _ in range(20)]
        until(lambda: {job for job, _ in read(stack, run.topics)} >= set(jobs), "new jobs arrive once an operator has decided")
    except BaseException:
        print(f"journal, arrivals and logs are in {run.keep(traceback.format_exc())}")
        raise
    finally:
        run.end()

"""Rows of the catalogue that need signals, the servers' own commands, or a second client: parts are stopped, killed, emptied,
put back to an earlier copy, locked."""
import os
import random
import signal
import time

import pytest
from confluent_kafka import Consumer, TopicPartition

from harness.harm import zookeeper
from harness.checker import connect, rows
from harness.consumer import base_config
from harness.load import under_load
from harness.harm.nemesis import Locker
from harness.rest import Rest
from harness.servers import redis_clients
from harness.shards import shares
from harness.soak import flush_redis, takeovers
from harness.stack import until
from harness.takeover import leaders

LONG = bool(os.environ.get("DUETIME_TEST_LONG"))
DISPATCHERS = ["dispatcher1", "dispatcher2"]
LONG_SESSION_SECONDS = 10  # the longest timeout that the stack's ZooKeeper grants; leaders step down after two thirds of it


def stopped(stack, *parts):
    """All of them, at once."""
    for part in parts:
        stack.signal(part, signal.SIGSTOP)


def continued(stack, *parts):
    for part in parts:
        stack.signal(part, signal.SIGCONT)


def state_letter(stack, part):
    with open(f"/proc/{stack.pid(part)}/stat", encoding="utf-8") as file:
        return file.read().rsplit(") ", 1)[1][0]


# ---- dispatchers ----

def test_row10_a_leader_stopped_past_its_session_writes_nothing(stack, seed):
    with under_load(stack, seed) as run:
        stopped(stack, "dispatcher1")
        run.goes_on(150)  # the shards of both
        continued(stack, "dispatcher1")
        run.goes_on()


def unread(stack, topics):
    """How many messages a read_committed reader of these topics cannot get at yet."""
    behind = 0
    committed = Consumer(base_config(stack["DUETIME_KAFKA"]))
    dirty = Consumer({**base_config(stack["DUETIME_KAFKA"]), "isolation.level": "read_uncommitted"})
    try:
        for topic in topics:
            for partition in committed.list_topics(topic, 90).topics[topic].partitions:
                where = TopicPartition(topic, partition)
                behind += dirty.get_watermark_offsets(where, 90)[1] - committed.get_watermark_offsets(where, 90)[1]
        return behind
    finally:
        committed.close()
        dirty.close()


def test_row11_a_leader_stopped_past_the_transaction_timeout_holds_up_readers_for_no_longer(stack, seed):
    """Both dispatchers stop inside of a transaction, so that nobody is left to fence them: the broker aborts."""
    timeout = 10 if LONG else 4
    with under_load(stack, seed) as run:
        topics = ["duetime.ledger", *run.topics]
        for n in range(6):  # until messages of a transaction that nobody will end lie in their topics
            for part in DISPATCHERS:
                stack.restart(part, env={"DUETIME_FAIL": f"endtxn.before=stop@{3 + (seed + n) % 20}"},
                              settings={"kafka.transaction_timeout": f"PT{timeout}S"})
            until(lambda: all(state_letter(stack, part) == "T" for part in DISPATCHERS), "both stopped before EndTxn")
            if unread(stack, topics) > 0:
                break
        else:
            raise AssertionError("no transaction was caught open")
        until(lambda: unread(stack, topics) == 0, "the broker aborts the open transactions", seconds=timeout + 1)
        continued(stack, *DISPATCHERS)
        run.goes_on(seconds=45)


# ---- Kafka ----

def test_row16_dispatch_resumes_after_a_broker_was_killed_and_restarted(stack, seed):
    with under_load(stack, seed) as run:
        stack.kill("kafka")
        made = run.counts["creates"] - run.counts["creates without a 2xx"]
        until(lambda: run.counts["creates"] - run.counts["creates without a 2xx"] > made + 200, "creates go on")
        stack.start("kafka")
        run.goes_on(seconds=60)


# ---- Redis ----

def test_row20_an_emptied_redis_is_rebuilt_nearest_first(stack, seed):
    with under_load(stack, seed) as run:
        for _ in range(3):
            run.wait(0.5 + random.Random(seed).random())
            flush_redis(stack)
            run.goes_on()
    # Leaving the block also waited until Redis = MySQL, and found nothing lost.


def test_row21_an_old_copy_of_redis_is_corrected(stack, seed):
    with under_load(stack, seed) as run:
        for client in redis_clients(stack):
            client.save()
        run.wait(2)
        for part in ("redis1", "redis2"):
            stack.kill(part)
            stack.start(part)
        assert any(client.info("persistence")["rdb_last_load_keys_loaded"] > 0 for client in redis_clients(stack))
        run.goes_on()


@pytest.mark.one_of
@pytest.mark.parametrize("how", ["full", "read-only"])
def test_row23_creates_and_dispatches_succeed_while_redis_refuses_writes(stack, seed, how):
    refuse = {"full": lambda c: c.config_set("maxmemory", 1), "read-only": lambda c: c.slaveof("127.0.0.1", 1)}[how]
    allow = {"full": lambda c: c.config_set("maxmemory", 0), "read-only": lambda c: c.slaveof()}[how]
    with under_load(stack, seed) as run:
        before = run.counts["creates without a 2xx"]
        for client in redis_clients(stack):
            refuse(client)
        try:
            run.goes_on(200)
            assert run.counts["creates without a 2xx"] == before or "outage=mysql" in stack.log("api1") + stack.log("api2")
        finally:
            for client in redis_clients(stack):
                allow(client)
        run.goes_on()


# ---- MySQL ----

def test_row24_work_continues_after_mysql_was_killed_and_restarted(stack, seed):
    with under_load(stack, seed) as run:
        for _ in range(2):
            stack.kill("mysql")
            run.wait(1)
            stack.start("mysql")
            run.goes_on(seconds=45)


def test_row25_mysql_stopped_in_commits_leaves_no_commit_undecided(stack, seed):
    """Stopped for longer than the programs wait for an answer: every transaction that was under way has an unknown outcome."""
    for part in ("api1", "api2", *DISPATCHERS):
        stack.restart(part, settings={"mysql.io_timeout": "PT3S", "api.database_timeout": "PT3S"})
    with under_load(stack, seed) as run:
        for _ in range(2):
            stopped(stack, "mysql")
            run.wait(5)
            continued(stack, "mysql")
            run.goes_on(seconds=45)


def test_row25_a_dispatcher_stopped_for_ever_in_its_transaction_holds_its_locks_for_seconds_only(stack, seed):
    with under_load(stack, seed) as run:
        stack.restart("dispatcher1", env={"DUETIME_FAIL": f"claim.commit=stop@{10 + seed % 30}"},
                      settings={"mysql.idle_transaction_timeout": "PT3S"})
        until(lambda: state_letter(stack, "dispatcher1") == "T", "stopped before the COMMIT of a claim")
        run.goes_on(150, seconds=20)
        stack.kill("dispatcher1")  # it never comes back


@pytest.mark.parametrize("point", ["claim.commit", "settle.commit", "results.commit"])
def test_row25_a_leader_stopped_inside_its_transaction_is_replaced_like_a_killed_one(stack, seed, point):
    """Three times. The stopped leader's transaction ends long before mysql.idle_transaction_timeout, which is a minute here."""
    with under_load(stack, seed) as run:
        for again in range(3):
            stack.restart("dispatcher1", env={"DUETIME_FAIL": f"{point}=stop@{40 + (seed + 7 * again) % 30}"}, settings={"mysql.idle_transaction_timeout": "PT1M"})
            until(lambda: state_letter(stack, "dispatcher1") == "T", lambda: f"stopped in {point}", every=0.01)
            until(lambda: stack.pid("dispatcher1") not in leaders(stack).values(), "every shard of the stopped leader is led again", seconds=5)
            stack.kill("dispatcher1")
        stack.start("dispatcher1")
        run.goes_on()


def test_row26_a_transaction_with_a_deadlock_is_repeated_as_a_whole(stack, seed):
    with under_load(stack, seed) as run:
        locker = Locker(stack, seed, run.topics)
        try:
            until(lambda: locker.failure or locker.rounds > 40, lambda: f"40 rounds of locks: {locker.rounds}")
        finally:
            failure = locker.end()
        assert failure is None, failure
        print(f"{locker.rounds} rounds of locks, {locker.deadlocks} deadlocks with the second client as the victim")
        run.goes_on()


def test_row26_a_lock_held_past_the_timeout_is_waited_out(stack, seed):
    with under_load(stack, seed) as run:
        client = connect(stack)
        client.begin()
        rows(client, "SELECT * FROM shards WHERE shard = %s FOR UPDATE", seed % 4)
        rows(client, "SELECT id FROM jobs WHERE topic IN %s AND state = 'dispatched' LIMIT 30 FOR UPDATE", tuple(run.topics))
        run.wait(6.5)  # mysql.lock_timeout is 5 s
        client.rollback()
        run.goes_on()


# ---- ZooKeeper ----

def test_row28_an_expired_session_is_replaced_within_the_bound(stack, seed):
    with under_load(stack, seed) as run:
        api = Rest(stack["DUETIME_URL_API1"])
        owner = f":{stack['DUETIME_PID_DISPATCHER1']}"
        until(lambda: shares(stack) == [2, 2], lambda: f"2, 2: {shares(stack)}")
        mine = [shard["shard"] for shard in api.get("/v1/info").json["shards"] if (shard["leader"] or "").endswith(owner)]
        began = time.time()
        zookeeper.close_session_of(stack["DUETIME_ZOOKEEPER"], owner)
        until(lambda: "the ZooKeeper session has expired" in stack.log("dispatcher1"), "the dispatcher notices the end of its session")
        until(lambda: {shard for at, shard in took_over(stack) if at > began} >= set(mine), "every shard of the lost session is led again", seconds=3)
        run.goes_on()


def took_over(stack):
    return takeovers(stack, DISPATCHERS, shards=True)


def test_row29_without_zookeeper_leaders_step_down_before_their_session_can_expire_and_lead_again_later(stack, seed):
    with under_load(stack, seed) as run:
        for part in DISPATCHERS:
            stack.restart(part, settings={"zookeeper.session_timeout": f"PT{LONG_SESSION_SECONDS}S"})
        until(lambda: shares(stack) == [2, 2], lambda: f"2, 2: {shares(stack)}")
        killed = time.time()
        stack.kill("zookeeper")
        until(lambda: all(stepped_down(stack, part, killed) for part in DISPATCHERS), "both step down")
        worst = max(stepped_down(stack, part, killed) for part in DISPATCHERS) - killed
        assert worst <= LONG_SESSION_SECONDS, f"the last one stepped down after {worst:.2f} s"
        made = run.counts["creates"]
        until(lambda: run.counts["creates"] > made + 150, "creates go on")
        stack.start("zookeeper")
        run.goes_on(seconds=45)


def stepped_down(stack, part, since):
    """When it said so first after that time; None."""
    return next((at for at in zookeeper.logged(stack.log(part), "stepping down") if at > since), None)



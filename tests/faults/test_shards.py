"""Row 39: the number of shards changes under load; and a Redis endpoint that joins and leaves. Row 62: dispatchers die at an assertion."""
import random
import time

import pytest

from harness.checker import connect, rows
from harness.load import under_load
from harness.rest import Rest
from harness.shards import ask_for, longest_silence_ms, moving, through
from harness.stack import until
from harness.takeover import Stream, Watcher

DISPATCHERS = ["dispatcher1", "dispatcher2"]
TAKEOVERS_MS = 10 * (4000 + 100 + 250 + 2000)  # ten times: session timeout, tick, and duration of a takeover with sanitizers


def test_row39_changing_the_number_of_shards_under_load_loses_and_duplicates_no_job(stack, seed):
    """4 → 7 → 3 → 4, somebody killed each time: before the change, at once after it, or while it is under way."""
    chance = random.Random(seed)
    with under_load(stack, seed) as run:
        for count in (7, 3, 4):
            victim, early = chance.choice([*DISPATCHERS, *DISPATCHERS, "api2"]), chance.random() < 0.3
            if early:
                stack.kill(victim)
            ask_for(stack, count)
            if not early:
                time.sleep(chance.choice([0, chance.random() * 0.1, chance.random() * 1.5]))  # the fault's moment, not a wait for anything
                stack.kill(victim)
            run.goes_on(60)
            stack.start(victim)
            if chance.random() < 0.5:
                through(stack)
            run.goes_on(60)
        through(stack)
        run.goes_on(100)


def test_row39_a_change_of_the_number_of_shards_is_no_longer_a_pause_than_a_takeover(stack, seed):
    topic = f"row39-{seed}-{time.time():.0f}"
    through(stack)
    stream = Stream(stack["DUETIME_URL_API1"], topic, 200)
    watcher = Watcher(stack["DUETIME_KAFKA"], topic, 4)
    try:
        until(lambda: len(watcher.seen) > 300, "the stream flows")
        for count in (7, 3, 4):
            began = time.time() * 1000
            ask_for(stack, count)
            through(stack)
            ended = time.time() * 1000
            until(lambda: watcher.seen[-1][0] > ended + 1000, "the stream goes on")  # noqa: B023
            silence = longest_silence_ms([at for at, _, _ in watcher.seen], began, ended)
            late = lateness(stream, watcher, began, ended)
            print(f"row 39: {count} shards: {ended - began:.0f} ms until all are through, at most {silence:.0f} ms without an arrival, "
                  f"lateness at most {late:.0f} ms")
            assert late < TAKEOVERS_MS, (count, late)
    finally:
        stream.end()
        watcher.end()


def lateness(stream, watcher, from_ms, to_ms):
    """Of the jobs due in that time: the worst ms from due to receipt."""
    due = {job: asked.due_ms for job, asked in stream.journal.jobs.items() if from_ms <= asked.due_ms <= to_ms}
    until(lambda: {job for _, _, job in watcher.seen} >= set(due), "all due jobs arrived")
    return max((at - due[job] for at, _, job in watcher.seen if job in due), default=0)


def homes(stack):
    return {row["shard"]: row["index_at"].decode() for row in rows(connect(stack), "SELECT shard, index_at FROM shards s JOIN installation i WHERE s.shard < i.shards")}


def with_endpoints(stack, parts, endpoints):
    for part in parts:
        stack.restart(part, settings={"redis.endpoints": endpoints})


@pytest.mark.in_turns(2)
def test_a_redis_endpoint_joins_and_leaves_under_load_and_only_its_shards_move(stack, seed):
    """Out of two endpoints the second leaves, and comes back with all that it had."""
    both = stack["DUETIME_REDIS"]
    first, second = both.split(",")
    through(stack)
    before = homes(stack)
    assert set(before.values()) <= {first, second}
    with under_load(stack, seed) as run:
        with_endpoints(stack, ["api1", "api2", *DISPATCHERS], first)
        run.goes_on(60)
        until(lambda: set(homes(stack).values()) == {first}, lambda: homes(stack))
        with_endpoints(stack, [*DISPATCHERS, "api1", "api2"], both)
        run.goes_on(60)
        until(lambda: homes(stack) == before, lambda: (homes(stack), before))
        run.goes_on(60)


@pytest.mark.in_turns(2)
def test_removed_shards_of_dead_leaders_are_finished_by_new_dispatchers(stack, seed):
    """Nothing of theirs is in flight, nobody steps down any more, and who starts has seen no change of the number."""
    del seed
    through(stack)
    for part in DISPATCHERS:
        stack.kill(part)
    ask_for(stack, 2)
    for part in DISPATCHERS:
        stack.start(part)
    through(stack)
    ask_for(stack, 4)
    through(stack)


@pytest.mark.in_turns(2)
def test_a_removed_shard_of_a_dead_leader_is_finished_by_running_dispatchers(stack, seed):
    del seed
    ask_for(stack, 5)
    through(stack)
    ask_for(stack, 4)
    through(stack)
    with connect(stack) as db, db.cursor() as cursor:  # a leader that died later than the others had waited for it
        cursor.execute("UPDATE shards SET owner = 'nowhere:1', epoch = epoch + 1, token = 77 WHERE shard = 4")
    until(lambda: moving(stack) == [4], lambda: moving(stack))
    through(stack)


@pytest.mark.in_turns(2)
def test_the_progress_of_a_resharding_can_be_watched(stack, seed):
    """While a shard has no leader it stands in `moving`."""
    del seed
    through(stack)
    for part in DISPATCHERS:
        stack.stop(part)
    try:
        ask_for(stack, 5)
        until(lambda: moving(stack) == [0, 1, 2, 3, 4], lambda: moving(stack))
        ask_for(stack, 4)
        until(lambda: moving(stack) == [0, 1, 2, 3], lambda: moving(stack))
    finally:
        for part in DISPATCHERS:
            stack.start(part)
    through(stack)
    with_leaders = Rest(stack["DUETIME_URL_API1"])
    assert all(shard["leader"] for shard in with_leaders.get("/v1/info").json["shards"])
    with_leaders.close()


# ---- row 62 ----

@pytest.mark.long  # a shard is left alone for a minute
def test_row62_dispatchers_that_die_at_an_assertion_lose_and_duplicate_no_job(own_stack, seed):
    stack = own_stack()
    chance = random.Random(seed)
    with under_load(stack, seed, kinds=("kafka", "http", "pull"), finish_seconds=150) as run:
        for dispatcher in DISPATCHERS:
            stack.stop(dispatcher)
        for _ in range(3):
            victim = chance.choice(DISPATCHERS)
            stack.start(victim, env={"DUETIME_FAIL": "lead.broken=force"}, ready=False)
            until(lambda: not stack.running(victim), lambda: stack.log(victim)[-3000:], seconds=60)  # noqa: B023
        for dispatcher in DISPATCHERS:
            stack.start(dispatcher)
        run.goes_on(seconds=60)
        until(lambda: rows(connect(stack), "SELECT owner FROM shards WHERE shard = 0")[0]["owner"], "shard 0 is led again", seconds=90)
        run.goes_on(200, seconds=60)

"""Rows of the fault catalogue that need a part to die, wait or fail at one exact place: with fail points.

The seed chooses among a row's places and the pass at which it happens. Whoever is told to die does so by itself; the test
waits for that, and so knows that the place was reached.
"""
import http.client
import os
import random
import re

import pytest
from harness.checker import connect, now_ms, rows
from harness.load import under_load
from harness.rest import Rest
from harness.stack import until


LONG = bool(os.environ.get("DUETIME_TEST_LONG"))
long = pytest.mark.long


def hits(stack, part, point):
    return len(re.findall(rf"component=fail .*point={re.escape(point)} ", stack.log(part)))


def begin(stack, part, settings=None, **rules):
    """Starts the part anew with {point: action}, dots written as two underscores; it may die before it is ready."""
    named = {point.replace("__", "."): action for point, action in rules.items()}
    before = {point: hits(stack, part, point) for point in named}
    stack.restart(part, env={"DUETIME_FAIL": ",".join(f"{point}={action}" for point, action in named.items())}, settings=settings, ready=False)
    return before


def dies(stack, part, point, n, seconds=60, settings=None, lead_there=lambda: None):
    """The part is started anew, and kills itself at the n-th pass of the point."""
    before = begin(stack, part, settings, **{point: f"crash@{n}"})[point]
    lead_there()
    gone(stack, part, point, before, seconds)


def gone(stack, part, point, before, seconds=60):
    until(lambda: not stack.running(part), lambda: f"{part} dead at {point}\n{stack.logs()}", seconds=seconds)
    assert hits(stack, part, point) == before + 1, f"{part} died, but not at {point}\n{stack.logs()}"


def dies_and_comes_back(stack, run, part, point, n, settings=None, **how):
    dies(stack, part, point, n, settings=settings, **how)
    run.faults[point] += 1
    run.goes_on()
    stack.start(part, settings=settings)
    run.goes_on()


# ---- the API around its COMMIT ----

def ask(run, url, job, status):
    """A create that must be answered so; its id. The journal knows of it."""
    answer = Rest(url, timeout=120).post("/v1/jobs", job)
    assert answer.status == status, answer
    run.journal.made(answer.json["id"], now_ms(), job["payload"]["serial"])
    return int(answer.json["id"])


def unanswered(stack, run, url):
    """Posts one keyed job after another until one is not answered; that one."""
    for _ in range(10000):
        serial = run.journal.serial()
        job = {"topic": run.topics[0], "key": f"k{serial:09d}", "delay": 0, "payload": {"serial": serial}}
        run.journal.asked(serial, now_ms())
        try:
            ask(run, url, job, 201)
        except (OSError, http.client.HTTPException):
            return job
    raise AssertionError(f"the API lives on\n{stack.logs()}")


def of_key(stack, job):
    return [row["id"] for row in rows(connect(stack), "SELECT id FROM jobs WHERE topic = %s AND job_key = %s", job["topic"], job["key"])]


def api_dies(stack, run, point, n):
    """api1, whom nobody but this test asks, dies at the point; the job that was not answered."""
    before = begin(stack, "api1", **{point: f"crash@{n}"})[point]
    until(lambda: answers(stack["DUETIME_URL_API1"]), stack.logs)
    job = unanswered(stack, run, stack["DUETIME_URL_API1"])
    gone(stack, "api1", point, before)
    run.faults[point] += 1
    return job


def answers(url):
    try:
        return Rest(url, timeout=60).get("/readyz").status == 200
    except OSError:
        return False


def test_row1_after_a_kill_before_the_commit_a_repeated_create_makes_one_job(stack, seed):
    with under_load(stack, seed, urls=[stack["DUETIME_URL_API2"]]) as run:
        job = api_dies(stack, run, "create.commit", random.Random(seed).randrange(1, 40))
        assert of_key(stack, job) == []
        made = ask(run, stack["DUETIME_URL_API2"], job, 201)
        stack.start("api1")
        assert ask(run, stack["DUETIME_URL_API1"], job, 200) == made
        assert of_key(stack, job) == [made]
        run.goes_on()


def test_row2_after_a_kill_after_the_commit_a_repeated_create_returns_the_job(stack, seed):
    chance = random.Random(seed)
    with under_load(stack, seed, urls=[stack["DUETIME_URL_API2"]]) as run:
        job = api_dies(stack, run, chance.choice(["create.committed", "create.answer"]), chance.randrange(1, 40))
        there = of_key(stack, job)
        assert len(there) == 1
        assert ask(run, stack["DUETIME_URL_API2"], job, 200) == there[0]
        stack.start("api1")
        run.goes_on()


def test_row2_a_commit_whose_answer_is_lost_is_read_back(stack, seed):
    """UNKNOWN after the COMMIT was carried out, or before it was sent: the job is there once either way, and answered 201."""
    with under_load(stack, seed) as run:
        begin(stack, "api1", create__commit="error:UNKNOWN@5-20", create__committed="error:UNKNOWN@30-60")
        until(lambda: answers(stack["DUETIME_URL_API1"]), stack.logs)
        until(lambda: hits(stack, "api1", "create.committed") >= 31, stack.logs)
        run.faults["answers lost"] += 47
        run.goes_on()


# ---- a leader around its transaction ----

def leader_dies(stack, seed, points, most=60):
    chance = random.Random(seed)
    point = chance.choice(points)
    with under_load(stack, seed) as run:
        dies_and_comes_back(stack, run, f"dispatcher{chance.randrange(1, 3)}", point, chance.randrange(1, most))


def test_row5_jobs_claimed_by_a_killed_leader_are_sent_once_by_the_next(stack, seed):
    leader_dies(stack, seed, ["claim.committed", "claim.commit"])


def test_row6_a_batch_of_a_leader_killed_while_producing_is_sent_once_by_the_next(stack, seed):
    leader_dies(stack, seed, ["produce.message", "produce.record", "produce.claimed"], most=300)


def test_row7_after_a_leader_was_killed_at_its_endtxn_the_ledger_decides(stack, seed):
    leader_dies(stack, seed, ["endtxn.sent", "endtxn.sent", "endtxn.before", "endtxn.after"])


def test_row8_after_a_leader_was_killed_between_kafkas_commit_and_settling_the_ledger_is_applied(stack, seed):
    leader_dies(stack, seed, ["settle.before", "settle.commit", "settle.committed"])


# ---- takeover ----

STEPS = ["takeover.epoch", "takeover.fenced_one", "takeover.producer", "takeover.checked", "takeover.barrier", "takeover.ledger", "takeover.settled"]


def test_row9_a_takeover_killed_at_any_step_is_repeated_by_the_next_leader(stack, seed):
    """dispatcher2, alone, dies with a batch under way; whoever takes over dies in it, at each step in turn (at two of them, in the bounded suite)."""
    chance = random.Random(seed)
    with under_load(stack, seed, finish_seconds=90) as run:
        stack.kill("dispatcher1")
        for step in chance.sample(STEPS, len(STEPS) if LONG else 2):
            dies(stack, "dispatcher2", chance.choice(["endtxn.sent", "claim.committed", "settle.before"]), chance.randrange(1, 10))
            dies(stack, "dispatcher1", step, chance.randrange(1, 5))
            run.faults[step] += 1
        stack.start("dispatcher1")
        run.goes_on()
        stack.start("dispatcher2")
        run.goes_on()


def test_row9_a_takeover_that_fails_at_any_step_starts_over(stack, seed):
    """Each step fails once, at one shard or another: each is passed at least as often as there are shards, since dispatcher1 takes over every one."""
    chance, shards = random.Random(seed), len(epochs(stack))
    with under_load(stack, seed) as run:
        rules = {step.replace(".", "__"): f"error:{chance.choice(['UNAVAILABLE', 'UNKNOWN', 'BUSY', 'DOUBT'])}@{chance.randrange(1, shards + 1)}"
                 for step in STEPS}
        begin(stack, "dispatcher1", **rules)
        stack.stop("dispatcher2")
        until(lambda: all(hits(stack, "dispatcher1", step) for step in STEPS), stack.logs)
        run.goes_on()
        stack.start("dispatcher2")
        run.faults["takeovers failed"] += len(STEPS)
        run.goes_on()


def tries(stack, part, outage):
    """How often something was tried in vain in outages that have ended."""
    return sum(int(n) for n in re.findall(rf'msg="outage ended" outage={outage} tries=(\d+)', stack.log(part)))


def test_row9_a_barrier_that_is_not_seen_makes_the_takeover_start_over(stack, seed):
    with under_load(stack, seed) as run:
        begin(stack, "dispatcher1", takeover__barrier_unseen="force@1-6")
        stack.kill("dispatcher2")
        until(lambda: tries(stack, "dispatcher1", "kafka") >= 6, stack.logs)
        run.faults["barriers unseen"] += 6
        run.goes_on()
        stack.start("dispatcher2")
        run.goes_on()


# ---- two leaders ----

def epochs(stack):
    return {row["shard"]: row["epoch"] for row in rows(connect(stack), "SELECT shard, epoch FROM shards s JOIN installation i ON s.shard < i.shards")}


def test_row12_with_two_forced_leaders_per_shard_one_wins_and_work_continues(stack, seed):
    with under_load(stack, seed) as run:
        before = epochs(stack)
        for part in ("dispatcher1", "dispatcher2"):
            begin(stack, part, lead__forced="force")
        fought = lambda: all(epoch - before[shard] >= 6 for shard, epoch in epochs(stack).items())  # noqa: E731
        until(fought, lambda: f"every shard fought for\n{stack.logs()}")
        run.goes_on(300, 45)
        run.faults["forced leaders"] += 2
        for part in ("dispatcher1", "dispatcher2"):
            stack.restart(part)
        run.goes_on()


# ---- results ----

def reported_in_flight(stack):
    """Jobs that ended by a result while their attempt still stands in a shard's list."""
    return rows(connect(stack), "SELECT j.id FROM shards s JOIN JSON_TABLE(s.inflight, '$[*]' COLUMNS(id BIGINT PATH '$[0]', attempt INT PATH '$[1]')) f"
                " JOIN jobs j ON j.id = f.id AND j.attempt = f.attempt WHERE j.state = 'succeeded'")


def test_row35_a_result_that_arrives_before_settling_is_accepted(stack, seed):
    with under_load(stack, seed) as run:
        for part in ("dispatcher1", "dispatcher2"):
            begin(stack, part, settle__before="delay:400")
        seen = set()

        def enough():
            seen.update(row["id"] for row in reported_in_flight(stack))
            return len(seen) >= 100
        until(enough, lambda: f"only {len(seen)} results were applied before settling\n{stack.logs()}")
        run.faults["results before settling"] += len(seen)
        for part in ("dispatcher1", "dispatcher2"):
            stack.restart(part)
        run.goes_on()


@pytest.mark.one_of
@pytest.mark.parametrize("point", [pytest.param("results.read", marks=long), "results.commit", pytest.param("results.applied", marks=long)])
def test_row35_results_of_a_dispatcher_killed_around_their_commit_are_applied_once(stack, seed, point):
    chance = random.Random(seed)
    with under_load(stack, seed) as run:
        dies_and_comes_back(stack, run, "dispatcher1", point, chance.randrange(1, 30))


@pytest.mark.one_of
@pytest.mark.parametrize("point", [pytest.param("outbox.read", marks=long), "outbox.sent"])
def test_row8_dead_letters_of_a_killed_dispatcher_arrive(stack, seed, point):
    """The checker misses letters that did not come, and drops repeats by their id."""
    with under_load(stack, seed) as run:
        dies_and_comes_back(stack, run, "dispatcher1", point, random.Random(seed).randrange(1, 4))


# ---- the index and its reconciler ----

def empty_redis_until_it_dies(stack, part):
    """A set that was lost is rebuilt at once by whoever leads its shard, and the part leads some in a moment."""
    def dead():
        if not stack.running(part):
            return True
        for server in ("redis1", "redis2"):
            stack.restart(server)
        return False
    until(dead, lambda: f"{part} dead while it rebuilds\n{stack.logs()}", every=3)


def test_row36_a_reconciler_killed_in_the_middle_leaves_no_gap(stack, seed):
    """Entries are lost all the while, so that there is something to repair; the full scan goes over the far part of the horizon quickly."""
    chance = random.Random(seed)
    quick = {"reconcile.walk": "PT5S"}
    with under_load(stack, seed) as run:
        stack.restart("dispatcher2", settings=quick)
        begin(stack, "api1", index__write=f"error@{chance.randrange(1, 50)}-")
        begin(stack, "api2", index__write=f"delay:{chance.randrange(5, 300)}")
        for point in chance.sample(["reconcile.rows", "reconcile.entries", "reconcile.judged", "rebuild.page"], 4 if LONG else 1):
            n, how = chance.randrange(1, 10), {}
            if point == "rebuild.page":
                n, how = 1, {"lead_there": lambda: empty_redis_until_it_dies(stack, "dispatcher1")}
            dies_and_comes_back(stack, run, "dispatcher1", point, n, quick, **how)
        for part in ("api1", "api2"):
            stack.restart(part)
        run.goes_on()


def test_row36_commits_out_of_order_leave_no_gap(stack, seed):
    """Creations of api1 are held before their commit while later ids commit, and no entry reaches the index by itself; with a
    short horizon jobs come within it all the time (those of the load that are due in an hour wait outside)."""
    horizon = {"index.horizon": "PT10S"}
    with under_load(stack, seed) as run:
        for part in ("dispatcher1", "dispatcher2"):
            stack.restart(part, settings=horizon)
        stack.restart("api1", settings=horizon, env={"DUETIME_FAIL": "create.commit=delay:1700@3-,index.write=error"})
        stack.restart("api2", settings=horizon, env={"DUETIME_FAIL": "index.write=error@20-"})
        until(lambda: hits(stack, "api1", "create.commit") >= 10, stack.logs)
        run.goes_on(1000, 60)
        run.faults["commits held"] += 10
        for part in ("api1", "api2", "dispatcher1", "dispatcher2"):
            stack.restart(part)
        run.goes_on()

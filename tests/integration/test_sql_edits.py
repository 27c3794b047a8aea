"""Hand edits in SQL take effect within a reconciler period, and lose or double nothing."""
from harness.checker import connect, now_ms, rows
from harness.stack import until


def by_hand(stack, sql, *values):
    rows(connect(stack), sql, *values)


def test_a_plain_update_of_next_at_takes_effect(stack, api, topic, consume):
    consumer = consume(topic)
    near, far = api.make(topic=topic, delay="PT20M"), api.make(topic=topic, delay="P900D")
    due = int(now_ms()) + 1500
    for job in near, far:
        by_hand(stack, "UPDATE jobs SET next_at = %s WHERE id = %s", due, job["id"])
    for job in near, far:
        assert consumer.wait(job["id"]).received_ms >= due - 1


def test_zero_and_negative_times_mean_now(stack, api, topic, consume):
    """Also for a job far ahead, whose lateness is counted from when it was noticed; and nothing else is held up by it."""
    consumer = consume(topic)
    times = (0, -1, -86400001, -9223372036854775808)
    jobs = [(api.make(topic=topic, delay=delay), at) for delay in ("PT20M", "P900D") for at in times]
    held = api.make(topic=topic, delay="PT1H")
    for job, at in jobs:
        by_hand(stack, "UPDATE jobs SET next_at = %s WHERE id = %s", at, job["id"])
        assert api.get(f"/v1/jobs/{job['id']}").status == 200
    for job, at in jobs:
        arrival = consumer.wait(job["id"])
        assert arrival.scheduled > "2020", (at, arrival)
        [attempt] = api.get(f"/v1/jobs/{job['id']}/attempts").json["attempts"]
        assert 0 <= attempt["lateness_ms"] < 600000, (at, attempt)  # not the years that the edit wrote
    assert consumer.of(held["id"]) == []


LAST = 1999999999  # the CHECK numbers_can_rise


def test_counters_at_their_maximum_delay_no_job(stack, api, topic, consume):
    """Every statement that adds to them takes them as they are: the claim, results, retries, changes by REST and of many at once, pops."""
    seen = []
    consumer = consume(topic, rule=lambda a: (seen.append(a.job) or {"status": "failed" if seen.count(a.job) == 1 and a.value != b"1" else "succeeded"}))
    edits = [f"{name} = {LAST}" for name in ("attempt", "failures", "version")] + [f"attempt = {LAST - 1}, version = {LAST - 1}"]
    jobs = {edit: api.make(topic=topic, delay="PT20M", retry=[500, 500]) for edit in edits}
    for edit, job in jobs.items():
        by_hand(stack, f"UPDATE jobs SET {edit} WHERE id = %s", job["id"])
        assert api.patch(f"/v1/jobs/{job['id']}", {"delay": "PT30M"}).status == 200, edit
    witnesses = [api.make(topic=topic, delay="PT20M", payload=1) for _ in range(20)]
    everything = [*jobs.values(), *witnesses]
    moved = api.post("/v1/jobs:reschedule", {"filter": {"topic": topic, "state": "scheduled"}, "delay": 500})
    assert moved.status in (200, 202), moved
    for witness in witnesses:
        consumer.wait(witness["id"])
    ends = {edit: "dead" if "failures" in edit else "succeeded" for edit in edits}
    for edit, job in jobs.items():
        path = f"/v1/jobs/{job['id']}"
        until(lambda path=path, edit=edit: api.get(path).json["state"] == ends[edit], lambda path=path: f"{api.get(path)}\n{stack.logs()}")
    assert len(everything) == len({arrival.job for arrival in consumer.all()})
    [again] = [job["id"] for edit, job in jobs.items() if "failures" in edit]
    assert api.post(f"/v1/jobs/{again}/redrive").status == 200
    consumer.wait(again, 2)


def test_a_job_moved_away_by_hand_does_not_arrive_at_its_old_time(stack, api, topic, consume):
    consumer = consume(topic)
    api.put(f"/v1/topics/{topic}", {"paused": True})  # the job stays, even if the edit is slow
    job, witness = api.make(topic=topic, delay=300), api.make(topic=topic, delay=600)
    by_hand(stack, "UPDATE jobs SET next_at = next_at + 3600000 WHERE id = %s", job["id"])
    api.post(f"/v1/topics/{topic}/resume")
    consumer.wait(witness["id"])
    assert consumer.of(job["id"]) == [] and api.get(f"/v1/jobs/{job['id']}").json["state"] == "scheduled"


def test_states_set_by_hand_take_effect(stack, api, topic, consume):
    consumer = consume(topic, f"{topic}-held", rule=lambda a: {"status": "gave_up"} if a.value == b"1" and a.attempt == 1 else None)
    api.put(f"/v1/topics/{topic}-held", {"paused": True})  # its job stays, even if the edit is slow
    cancelled = api.make(topic=f"{topic}-held", delay=300)
    dead = api.make(topic=topic, delay=0, payload=1)
    again = api.make(topic=topic, delay=0, payload=2)
    by_hand(stack, "UPDATE jobs SET state = 'cancelled' WHERE id = %s", cancelled["id"])
    api.post(f"/v1/topics/{topic}-held/resume")
    until(lambda: api.get(f"/v1/jobs/{dead['id']}").json["state"] == "dead", "dead")
    by_hand(stack, "UPDATE jobs SET state = 'scheduled', next_at = UNIX_TIMESTAMP(NOW(3)) * 1000 WHERE id = %s", dead["id"])
    consumer.wait(dead["id"], 2)
    consumer.wait(again["id"], 1)
    by_hand(stack, "UPDATE jobs SET state = 'scheduled', next_at = UNIX_TIMESTAMP(NOW(3)) * 1000 WHERE id = %s", again["id"])
    consumer.wait(again["id"], 2)
    assert consumer.of(cancelled["id"]) == []
    until(lambda: rows(connect(stack), "SELECT next_at IS NULL tidy FROM jobs WHERE id = %s", cancelled["id"])[0]["tidy"], "tidied")


def test_an_attempt_that_a_manual_edit_ends_frees_its_place_within_a_period(stack, api, topic):
    edits = ["state = 'succeeded', next_at = NULL", "state = 'dead', next_at = NULL", "state = 'cancelled', next_at = NULL", "state = 'cancelled'",
             "state = 'scheduled', next_at = next_at + 3600000"]
    assert api.put(f"/v1/topics/{topic}", {"delivery": "pull", "max_in_flight": 1, "ack_timeout": "PT1H"}).status == 201
    jobs = [api.make(topic=topic, delay=0)["id"] for _ in range(len(edits) + 1)]

    def pop():
        """Whichever is offered first: jobs of different shards have no order."""
        [job] = api.post(f"/v1/topics/{topic}/pop", {"wait": "PT5S"}).json["jobs"]
        jobs.remove(job["id"])
        return job["id"]
    taken = pop()
    until(lambda: rows(connect(stack), "SELECT waiting_for w FROM v_jobs WHERE id = %s", jobs[0])[0]["w"] == "limit", "it waits for the place")
    for edit in edits:
        by_hand(stack, f"UPDATE jobs SET {edit} WHERE id = %s AND state = 'dispatched'", taken)
        taken = pop()
    counted = "SELECT CONCAT_WS(' ', scheduled, dispatched, succeeded, dead, cancelled, miscounted) n FROM v_recount WHERE topic = %s"
    until(lambda: rows(connect(stack), counted, topic)[0]["n"] == "1 1 1 1 2 0", lambda: rows(connect(stack), counted, topic), 15)


def test_the_procedures_have_the_same_effects_as_the_api(stack, api, topic, consume):
    consumer = consume(topic)
    doomed, moved = api.make(topic=topic, delay="PT1H"), api.make(topic=topic, delay="PT1H")
    by_hand(stack, "CALL dt_cancel(%s)", doomed["id"])
    by_hand(stack, "CALL dt_reschedule(%s, UTC_TIMESTAMP(3) + INTERVAL 1 SECOND)", moved["id"])
    consumer.wait(moved["id"])
    assert api.get(f"/v1/jobs/{doomed['id']}").json["state"] == "cancelled"
    assert rows(connect(stack), "CALL dt_explain(%s)", moved["id"])


def test_a_locked_row_delays_only_its_own_results(stack, api, topic, consume):
    """Whichever partition of the results topic they lie in; REST says 503 for the locked one."""
    consumer = consume(topic)
    jobs = [line["id"] for line in api.batch([{"topic": topic, "delay": 0, "retry": ["1h"]}] * 40)]
    consumer.wait_count(40, 20)
    locked, others = jobs[0], jobs[1:]
    unfinished = "SELECT COUNT(*) n FROM jobs WHERE topic = %s AND state <> 'succeeded'"
    holder = connect(stack)
    holder.begin()
    rows(holder, "SELECT id FROM jobs WHERE id = %s FOR UPDATE", locked)
    try:
        consumer.report(locked, 1, "failed")
        for job in others[:20]:
            consumer.report(job, 1)
        until(lambda: rows(connect(stack), unfinished, topic)[0]["n"] == 20, "the first of the others are applied")
        consumer.report(locked, 1, "succeeded")
        for job in others[20:]:
            consumer.report(job, 1)
        until(lambda: rows(connect(stack), unfinished, topic)[0]["n"] == 1, "the others are applied")
        assert api.post(f"/v1/jobs/{locked}/results", {"attempt": 1, "status": "succeeded"}).status == 503
    finally:
        holder.rollback()
        holder.close()
    until(lambda: rows(connect(stack), unfinished, topic)[0]["n"] == 0, "all succeeded")
    assert api.get(f"/v1/jobs/{locked}").json["failures"] == 1  # the failure first: the order of one job's results is kept

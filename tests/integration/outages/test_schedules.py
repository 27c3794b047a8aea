"""Schedules on the whole stack: fires that wait, meet a locked row or an unfinished job. Dispatchers that die: row 56 of tests/faults."""
import uuid

from harness.checker import connect, now_ms, rows
from harness.soak import rfc3339
from harness.stack import until


def key_times(names, jobs):
    """Fires by schedule: nominal times of the keys."""
    found = {name: [] for name in names}
    for job in jobs:
        name, _, at = job["job_key"].decode().partition("@")
        found[name].append(int(at))
    return {name: sorted(times) for name, times in found.items()}


def make_schedules(api, topic, n):
    names = [f"s-{uuid.uuid4().hex[:10]}" for _ in range(n)]
    for name in names:
        answer = api.put(f"/v1/schedules/{name}", {"topic": topic, "cron": "* * * * * *", "payload": name, "catch_up": "PT10M"})
        assert answer.status == 201, answer
    return names


def look_at_all(connection):
    """Makers have work at once, not in a minute alone: each look makes what the passing seconds added."""
    with connection.cursor() as cursor:
        cursor.execute("UPDATE schedule_fires SET look_at = 1")


def test_locked_schedules_are_retried_periodically(stack, api, topic):
    [name] = make_schedules(api, topic, 1)
    connection, holder = connect(stack), connect(stack)

    def asked():
        return int(rows(connection, "SHOW GLOBAL STATUS LIKE 'Com_select'")[0]["Value"])
    stack.kill("dispatcher1")
    stack.kill("dispatcher2")
    look_at_all(connection)
    holder.begin()
    rows(holder, "SELECT * FROM schedule_fires FOR UPDATE")
    try:
        stack.heal()
        before, began = asked(), now_ms()
        until(lambda: now_ms() > began + 3000, "time passes")
        assert (asked() - before) / (now_ms() - began) < 1  # a millisecond; without a pause two makers ask for four and more
    finally:
        holder.rollback()
    assert api.ask("DELETE", f"/v1/schedules/{name}?cancel=true").status == 200


def test_the_first_fires_of_a_schedule_whose_jobs_may_not_overlap_come_on_time(stack, api, topic, consume):
    """The schedule makers sleep up to a minute when it is created, and catch up twenty seconds. Each fire is created when the job before it ends, or when it is due."""
    consume(topic)  # nobody reports
    name = f"s-{uuid.uuid4().hex[:10]}"
    began = int(now_ms() // 1000 + 2) * 1000
    answer = api.put(f"/v1/schedules/{name}", {"topic": topic, "every": "PT1S", "overlap": "skip", "starts_at": rfc3339(began), "catch_up": "PT20S"})
    assert answer.status == 201, answer
    connection, wanted = connect(stack), [began + 1000 * n for n in range(7)]

    def fires():
        jobs = rows(connection, "SELECT job_key FROM jobs WHERE topic = %s", topic)
        return key_times([name], jobs)[name]
    until(lambda: len(fires()) >= len(wanted), fires)
    assert fires()[:len(wanted)] == wanted
    assert api.ask("DELETE", f"/v1/schedules/{name}?cancel=true").status == 200


def test_a_fire_that_meets_an_unfinished_job_is_skipped(stack, api, topic, consume):
    consume(topic)  # nobody reports
    name = f"s-{uuid.uuid4().hex[:10]}"
    assert api.put(f"/v1/schedules/{name}", {"topic": topic, "every": "PT1S", "overlap": "skip"}).status == 201
    connection = connect(stack)

    def skipped():
        return rows(connection, "SELECT job_key FROM jobs WHERE topic = %s AND state = 'cancelled' AND error_code = 'overlap'", topic)
    until(lambda: len(skipped()) >= 3, lambda: rows(connection, "SELECT job_key, state, error_code FROM jobs WHERE topic = %s", topic))
    dispatched = lambda: rows(connection, "SELECT id FROM jobs WHERE topic = %s AND state = 'dispatched'", topic)  # noqa: E731
    [job] = until(dispatched, "one of them runs")
    assert api.post(f"/v1/jobs/{job['id']}/results", {"attempt": 1, "status": "succeeded"}).status == 200
    [following] = until(dispatched, "the next one runs")
    assert following["id"] != job["id"]
    assert api.ask("DELETE", f"/v1/schedules/{name}?cancel=true").status == 200

"""What comes due, by step and topic: jobs of every distance, deadlines that are none, schedules that have no jobs yet."""
import time
from urllib.parse import urlencode

import pytest

from harness.problems import refused
from harness.soak import rfc3339
from harness.stack import until

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000


@pytest.fixture
def now_ms(db):
    return int(db("SELECT CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 AS SIGNED) ms")[0]["ms"])


def forecast(api, **query):
    answer = api.get("/v1/forecast?" + urlencode({name: rfc3339(value) if isinstance(value, int) else value for name, value in query.items()}))
    assert answer.status == 200, answer
    return answer.json


def due(answer):
    return [step["due"] for step in answer["steps"]]


def test_the_next_hour_is_forecast_by_minute(api, topic):
    for seconds in (90, 90, 20 * 60):
        api.make(topic=topic, delay=f"PT{seconds}S")
    answer = forecast(api, topic=topic)
    assert len(answer["steps"]) == 60 and answer["step"] == "PT1M"
    assert answer["steps"][0]["from"] == answer["from"] and answer["counted_until"] == answer["to"] and answer["topics_counted"]
    assert sum(due(answer)) == 3 and max(due(answer)) == 2
    assert all(step["topics"] == ([{"topic": topic, "due": step["due"]}] if step["due"] else []) for step in answer["steps"])


def test_a_step_has_the_jobs_of_all_topics_the_largest_first(api, topic, now_ms):
    start = now_ms + 5 * HOUR
    for n, (name, delay) in enumerate([(topic, 0), (topic, 1), (f"{topic}.b", 2), (topic, 10 * MINUTE)]):
        api.make(topic=name, key=f"k{n}", run_at=rfc3339(start + delay))
    answer = forecast(api, **{"from": start, "to": start + 20 * MINUTE, "step": "PT10M"})
    of_test = [[part for part in step["topics"] if part["topic"].startswith(topic)] for step in answer["steps"]]
    assert of_test == [[{"topic": topic, "due": 2}, {"topic": f"{topic}.b", "due": 1}], [{"topic": topic, "due": 1}]]
    assert all(step["due"] == sum(part["due"] for part in step["topics"]) for step in answer["steps"])


@pytest.mark.parametrize("more, steps", [(-1, 2), (0, 2), (1, 3), (10 * MINUTE, 3)])
def test_the_last_step_of_a_forecast_includes_the_end_of_the_requested_range(api, topic, now_ms, more, steps):
    start = now_ms + 5 * HOUR
    answer = forecast(api, topic=topic, step="PT10M", **{"from": start, "to": start + 20 * MINUTE + more})
    assert [len(answer["steps"]), answer["to"]] == [steps, rfc3339(start + steps * 10 * MINUTE)]


def test_the_deadline_of_a_dispatched_job_is_not_forecast(api, topic, dispatched):
    dispatched(topic=topic, ack_timeout="PT30M")
    assert sum(due(forecast(api, topic=topic))) == 0


def test_the_forecast_follows_jobs_that_move_or_end(api, topic):
    moved, cancelled = (api.make(topic=topic, delay="PT10M")["id"] for _ in range(2))
    assert api.patch(f"/v1/jobs/{moved}", {"delay": "PT40M"}).status == api.delete(f"/v1/jobs/{cancelled}").status == 200
    found = due(forecast(api, topic=topic, step="PT30M"))
    assert sum(found) == 1 and found[0] == 0


def test_far_jobs_are_spread_over_their_day(api, topic, now_ms):
    day = now_ms - now_ms % DAY + 40 * DAY
    for n in range(24):
        api.make(topic=topic, run_at=rfc3339(day + 9 * HOUR + n))
    answer = forecast(api, **{"from": day - DAY, "to": day + 2 * DAY, "step": "P1D", "topic": topic})
    assert due(answer)[0] == due(answer)[2] == 0 and due(answer)[1] >= 1
    hours = forecast(api, **{"from": day, "to": day + DAY, "step": "PT1H"})
    assert sum(due(hours)) >= 24 and hours["counted_until"] == hours["from"] and not hours["topics_counted"]
    whole = forecast(api, **{"from": day, "to": day + DAY, "step": "P1D"})
    assert sum(due(whole)) == sum(due(hours)) and whole["counted_until"] == whole["to"]


def test_fires_are_forecast_once_with_or_without_a_job(api, topic, now_ms):
    name = f"s-{topic}"
    assert api.put(f"/v1/schedules/{name}", {"topic": topic, "every": "PT5M", "payload": {}}).status == 201
    start = (now_ms // MINUTE + 1) * MINUTE
    found = due(forecast(api, **{"topic": topic, "from": start, "to": start + HOUR, "step": "PT5M"}))
    assert found == [1] * 12
    cron = {"topic": topic, "cron": "0 9 * * *", "time_zone": "Europe/Berlin", "payload": {}}
    assert api.put(f"/v1/schedules/{name}", cron).status == 200
    days = forecast(api, **{"topic": topic, "from": start - start % DAY + 50 * DAY, "to": start - start % DAY + 60 * DAY, "step": "P1D"})
    assert due(days) == [1] * 10
    assert api.post(f"/v1/schedules/{name}/pause").status == 200
    assert sum(due(forecast(api, **{"topic": topic, "from": start, "to": start + 2 * DAY, "step": "PT1H"}))) == 0
    assert api.delete(f"/v1/schedules/{name}?cancel=true").status == 200


def test_spikes_are_steps_with_more_jobs_than_are_dispatched(api, db, topic, swept, now_ms):
    start = now_ms + 30 * HOUR
    start -= start % HOUR
    stretch = urlencode({"from": rfc3339(start), "to": rfc3339(start + 10 * MINUTE)})
    db("INSERT INTO jobs (id, topic, state, run_at, next_at, near, retry, ack_timeout_ms, created_at, updated_at, maker, digest, payload)"
       " WITH RECURSIVE a (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM a WHERE n < 899)"
       " SELECT %s + n, %s, 'scheduled', %s + n, %s + n, 1, '', 1000, 0, 0, 1, 'dddddddddddddddd', '' FROM a",
       ((start // DAY - 20089) << 40) + (6 << 36) + now_ms % 10**8, topic, start + 2 * MINUTE, start + 2 * MINUTE)
    before = db("SELECT shard, drains FROM shard_stats")

    def spikes_at(drains):
        db("UPDATE shard_stats SET drains = %s WHERE shard < 2", drains)
        return api.get(f"/v1/forecast/spikes?{stretch}").json
    try:
        # Leaders write what they measure at any time, so both steps are repeated.
        until(lambda: spikes_at(5) == {"spikes": [{"from": rfc3339(start + 2 * MINUTE), "due": 900, "drains": 600, "takes": "PT1M30S"}],
                                       "measured": True}, lambda: spikes_at(5))
        until(lambda: spikes_at(0) == {"spikes": [], "measured": False}, "it is not measured any more")
    finally:
        for row in before:
            db("UPDATE shard_stats SET drains = %s WHERE shard = %s", row["drains"], row["shard"])


def test_frequent_schedules_are_forecast_up_to_the_last_of_ten_thousand_steps(api, topic, now_ms):
    """Far more fires than are reckoned one by one."""
    start = now_ms - now_ms % DAY + 3 * DAY
    names = [f"s{n}-{topic}" for n in range(4)]
    for n, name in enumerate(names):
        often = {"topic": f"{topic}.{n % 2}", "every": "PT1S", "starts_at": rfc3339(start), "payload": {}}
        assert api.put(f"/v1/schedules/{name}", often).status == 201
    try:
        answer = forecast(api, **{"from": start + MINUTE, "to": start + 10001 * MINUTE, "step": "PT1M"})
        of_test = [[part["due"] for part in step["topics"] if part["topic"].startswith(topic)] for step in answer["steps"]]
        assert len(of_test) == 10000 and {due for step in of_test for due in step} <= set(range(116, 125)) and {len(step) for step in of_test} == {2}
        assert answer["counted_until"] < answer["to"]
        alone = forecast(api, **{"topic": f"{topic}.1", "from": start + MINUTE, "to": start + 10001 * MINUTE, "step": "PT1M"})
        assert set(due(alone)) <= set(range(116, 125))
    finally:
        for name in names:
            assert api.delete(f"/v1/schedules/{name}?cancel=true").status == 200


@pytest.mark.parametrize("query, member", [
    ({"step": "soon"}, "step"), ({"step": "PT0.1S"}, "step"), ({"from": "today"}, "from"), ({"from": "1969-01-01T00:00:00Z"}, "from"),
    ({"from": "2030-01-02T00:00:00Z", "to": "2030-01-01T00:00:00Z"}, "to"), ({"from": "2030-01-01T00:00:00Z", "to": "2045-01-01T00:00:00Z"}, "to"),
    ({"from": "2030-01-01T00:00:00Z", "to": "2030-01-01T03:00:00Z", "step": "PT1S"}, "step"), ({"topic": "a b"}, "topic")])
def test_invalid_parameters_are_refused_by_name(api, query, member):
    refused(api.get("/v1/forecast?" + urlencode(query)), 422, "invalid", f"?{member}")


def test_more_jobs_than_are_looked_up_are_counted_and_their_topics_sampled(api, db, topic, swept, now_ms):
    start = now_ms + 26 * HOUR
    start -= start % HOUR
    first = ((start // DAY - 20089) << 40) + (6 << 36) + int(time.time()) % 100000 * 100000
    db("INSERT INTO jobs (id, topic, state, run_at, next_at, near, retry, ack_timeout_ms, created_at, updated_at, maker, digest, payload)"
       " WITH RECURSIVE a (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM a WHERE n < 159), b (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM b WHERE n < 149)"
       " SELECT %s + a.n * 150 + b.n, %s, 'scheduled', %s + a.n * 15000, %s + a.n * 15000, 1, '', 1000, 0, 0, 1, 'dddddddddddddddd', '' FROM a, b",
       first, topic, start, start)
    answer = forecast(api, **{"from": start, "to": start + HOUR, "step": "PT10M"})
    assert all(6000 <= n < 6100 for n in due(answer)[:4]) and answer["counted_until"] == answer["to"] and not answer["topics_counted"]
    assert all(step["topics"][0]["topic"] == topic and abs(step["topics"][0]["due"] - 6000) < 600 for step in answer["steps"][:4])


def fill(db, topic, first, start, jobs):
    """So many jobs of a topic, due one after the other within 40 minutes of start."""
    db("INSERT INTO jobs (id, topic, state, run_at, next_at, near, retry, ack_timeout_ms, created_at, updated_at, maker, digest, payload)"
       " WITH RECURSIVE a (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM a WHERE n < 999), b (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM b WHERE n < %s)"
       " SELECT %s + b.n * 1000 + a.n, %s, 'scheduled', %s, %s + (b.n * 1000 + a.n) * 2400000 DIV %s, 1, '', 1000, 0, 0, 1, 'dddddddddddddddd', '' FROM a, b",
       jobs // 1000 - 1, first, topic, start, start, jobs)


@pytest.fixture
def crowd(db, topic, now_ms):
    """The beginning of an hour in which another topic has 32,000 jobs, and the id of the first of them."""
    start = now_ms + 28 * HOUR
    start -= start % HOUR
    first = ((start // DAY - 20089) << 40) + (6 << 36) + int(time.time()) % 100000 * 1000000
    fill(db, f"{topic}.crowd", first, start, 32000)
    yield start, first
    db("DELETE FROM jobs WHERE topic LIKE %s", f"{topic}.%")


@pytest.mark.parametrize("jobs", [1, 3, 30, 702])
def test_the_forecast_of_a_topic_is_complete_even_if_other_topics_have_many_jobs(api, topic, crowd, jobs):
    start = crowd[0]
    lines = [{"topic": topic, "run_at": rfc3339(start + n * 997), "payload": n} for n in range(jobs)]
    assert {line["status"] for line in api.batch(lines)} == {201}
    answer = forecast(api, **{"topic": topic, "from": start, "to": start + HOUR})
    assert sum(due(answer)) == jobs and answer["counted_until"] == answer["to"] and answer["topics_counted"]
    assert due(answer) == [sum(n * 997 // MINUTE == step for n in range(jobs)) for step in range(60)]


def test_far_jobs_of_a_single_topic_are_forecast_at_their_times(api, topic, now_ms):
    day = now_ms - now_ms % DAY + 40 * DAY
    for n in range(3):
        api.make(topic=topic, run_at=rfc3339(day + (9 + n) * HOUR))
    hours = forecast(api, **{"topic": topic, "from": day, "to": day + DAY, "step": "PT1H"})
    assert due(hours) == [0] * 9 + [1] * 3 + [0] * 12 and hours["counted_until"] == hours["to"] and hours["topics_counted"]


@pytest.mark.in_turns(3)
def test_a_topic_is_estimated_and_never_zero_when_more_jobs_are_due_than_are_looked_up(api, db, topic, crowd):
    start, first = crowd
    fill(db, f"{topic}.crowd", first + 32000, start, 101000)
    early = [{"topic": f"{topic}.early", "run_at": rfc3339(start + n), "payload": n} for n in range(3)]
    late = [{"topic": f"{topic}.late", "run_at": rfc3339(start + 45 * MINUTE + n), "payload": n} for n in range(3)]
    assert {line["status"] for line in api.batch(early + late)} == {201}
    db("INSERT INTO job_counts (topic, piece, writer, scheduled) SELECT topic, (id >> 40) MOD 32, 31, COUNT(*) FROM jobs WHERE topic = %s GROUP BY 1, 2"
       " ON DUPLICATE KEY UPDATE scheduled = VALUES(scheduled)", f"{topic}.crowd")
    hour = {"from": start, "to": start + HOUR}
    found = forecast(api, topic=f"{topic}.early", **hour)
    assert sum(due(found)) == 3 and found["counted_until"] == found["to"]
    guessed = forecast(api, topic=f"{topic}.late", **hour)
    assert 1 <= sum(due(guessed)) <= 60 and not guessed["topics_counted"]
    assert rfc3339(start) < guessed["counted_until"] < rfc3339(start + 45 * MINUTE)


def test_a_forecast_needs_no_redis_and_no_leader(own_apis, topic):
    alone = own_apis.running("alone", {"redis.endpoints": ""})
    alone.rest.make(topic=topic, delay="PT10M")
    until(lambda: sum(due(forecast(alone.rest, topic=topic))) == 1, "the job is in the forecast")

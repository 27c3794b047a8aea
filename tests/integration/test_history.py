"""Finished jobs in history: moved by the dispatchers, killed at it, and answered for as before."""
import pytest

from harness.checker import connect, rows
from harness.problems import refused
from harness.stack import until

pytestmark = pytest.mark.in_turns(3)
PARTS = ("dispatcher1", "dispatcher2", "dispatcher3")


def archived(stack, topic):
    return rows(connect(stack), "SELECT COUNT(*) n FROM history WHERE topic = %s", topic)[0]["n"]


def live(stack, topic):
    return rows(connect(stack), "SELECT COUNT(*) n FROM jobs WHERE topic = %s", topic)[0]["n"]


def age(stack, topic):
    """As if history.after had passed since they finished: they may leave."""
    rows(connect(stack), "UPDATE jobs SET created_at = created_at - 60000, leave_at = IF(leave_at > 0, 1, 0) WHERE topic = %s", topic)


def is_archived(stack, topic, count=1):
    age(stack, topic)
    until(lambda: archived(stack, topic) == count, "finished jobs are in history")


def ended(api, job, state):
    until(lambda: api.get(f"/v1/jobs/{job['id']}").json["state"] == state, f"the job is {state}")


@pytest.fixture
def after_a_second(stack):
    """history.after = PT1S, and the usual settings afterwards."""
    for part in (*PARTS, "api1"):
        stack.restart(part, settings={"history.after": "PT1S", "history.dead_after": "PT2S", "history.keys": "PT3S"})
    yield
    for part in (*PARTS, "api1"):
        stack.restart(part)


def test_a_finished_job_is_served_from_history(stack, api, topic, consume):
    body = {"delay": 0, "payload": {"a": 1}}
    consumer = consume(topic, rule=lambda arrival: {"status": "succeeded"})
    job = api.put(f"/v1/topics/{topic}/jobs/k", body).json
    consumer.wait(job["id"])
    ended(api, job, "succeeded")
    before, attempts = api.get(f"/v1/jobs/{job['id']}").json, api.get(f"/v1/jobs/{job['id']}/attempts").json
    is_archived(stack, topic)
    after = api.get(f"/v1/jobs/{job['id']}").json
    assert {**after, "created_at": 0} == {**before, "created_at": 0}
    assert api.get(f"/v1/topics/{topic}/jobs/k").json == after
    assert api.get(f"/v1/jobs/{job['id']}/attempts").json == attempts and len(attempts["attempts"]) == 1
    assert [one["id"] for one in api.list(topic=topic)] == [job["id"]] == [one["id"] for one in api.list(topic=topic, state="succeeded", key_prefix="k")]
    assert api.list(topic=topic, state="scheduled") == []
    late = refused(api.delete(f"/v1/jobs/{job['id']}"), 409, "too-late")
    assert (late["state"], late["attempt"]) == ("succeeded", 1)
    refused(api.patch(f"/v1/jobs/{job['id']}", {"delay": "PT1H"}), 409, "too-late")
    refused(api.post(f"/v1/jobs/{job['id']}/redrive"), 409, "not-dead")
    assert api.post(f"/v1/jobs/{job['id']}/results", {"attempt": 1, "status": "succeeded"}).json["outcome"] == "duplicate"
    assert api.post(f"/v1/jobs/{job['id']}/results", {"attempt": 1, "status": "failed"}).json["outcome"] == "stale"
    again = api.put(f"/v1/topics/{topic}/jobs/k", body)
    assert (again.status, again.json["id"]) == (200, job["id"])
    refused(api.put(f"/v1/topics/{topic}/jobs/k", {**body, "payload": 2}), 409, "key-conflict")
    assert api.get(f"/v1/topics/{topic}").json["counts"]["succeeded"] == 1


def test_archivers_that_are_killed_lose_nothing_and_archive_nothing_twice(stack, api, topic):
    count = 6000
    ids = {line["id"] for line in api.batch([{"topic": topic, "delay": "PT1H", "key": f"k{n}"} for n in range(count)])}
    for part, point in zip(PARTS, ("archive.commit=crash@2", "archive.committed=crash@2", None)):
        stack.restart(part, env={"DUETIME_FAIL": point} if point else None)
    rows(connect(stack), "UPDATE jobs SET state = 'cancelled', next_at = NULL WHERE topic = %s", topic)
    until(lambda: rows(connect(stack), "SELECT COUNT(*) n FROM jobs WHERE topic = %s AND leave_at = 0", topic)[0]["n"] == 0, "tidied")
    age(stack, topic)
    for _ in PARTS[:2]:
        until(lambda: archived(stack, topic) == count or not all(stack.running(part) for part in PARTS[:2]), "one is killed, or all is done")
    until(lambda: archived(stack, topic) + live(stack, topic) == count, "each is there once")
    stack.heal()
    until(lambda: archived(stack, topic) == count, lambda: f"all are in history: {archived(stack, topic)}")
    for part in PARTS[:2]:
        stack.restart(part)
    assert live(stack, topic) == 0
    assert {str(row["id"]) for row in rows(connect(stack), "SELECT id FROM history WHERE topic = %s", topic)} == ids
    assert rows(connect(stack), "SELECT COALESCE(SUM(jobs), 0) n FROM history_counts WHERE topic = %s", topic)[0]["n"] == count
    assert rows(connect(stack), "SELECT COUNT(*) n FROM v_history_audit")[0]["n"] == 0
    def audit():
        row = rows(connect(stack), "SELECT created, cancelled, edited, missing FROM v_audit WHERE topic = %s", topic)[0]
        return row["created"], row["cancelled"], row["edited"], row["missing"]
    until(lambda: audit() == (count, count, 0, 0), lambda: f"the audit finds the jobs cancelled by hand: {audit()}", seconds=40)  # all 32 pieces
    assert rows(connect(stack), "SELECT SUM(miscounted + keys_without_job) n FROM v_recount WHERE topic = %s", topic)[0]["n"] == 0


def test_with_seconds_long_settings_jobs_are_archived_and_keys_become_free_by_themselves(stack, api, topic, consume, after_a_second):
    consumer = consume(topic, rule=lambda arrival: {"status": "succeeded"})
    job = api.make(topic=topic, key="k", delay=0)
    consumer.wait(job["id"])
    rows(connect(stack), "UPDATE jobs SET created_at = created_at - 25000 WHERE topic = %s", topic)
    until(lambda: archived(stack, topic) == 1, "the job is archived half a minute after it was created", seconds=40)
    until(lambda: api.get(f"/v1/topics/{topic}/jobs/k").status == 404, "its key is free")
    assert api.get(f"/v1/jobs/{job['id']}").json["state"] == "succeeded"
    assert api.make(topic=topic, key="k", delay="PT1H")["id"] != job["id"]
    assert rows(connect(stack), "SELECT COUNT(*) n FROM information_schema.PARTITIONS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'history'"
                                " AND PARTITION_NAME <> 'rest'")[0]["n"] >= 1

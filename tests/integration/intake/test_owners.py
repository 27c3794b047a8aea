"""What owners of topics cannot do to each other: many operations with a rate, many schedules, on an installation with tokens."""
import time

import pytest

from harness.checker import connect, now_ms, rows
from harness.operations import ended
from harness.problems import refused
from harness.rest import Rest
from harness.stack import Stack, until

OPTIONS = ["--apis", "1", "--dispatchers", "1", "--redis", "1", "--shards", "1", "--sanitize", "--without", "kafka", "--without", "zookeeper",
           "--set", "limits.prefix_schedules=100"]
JOBS = 12000  # an operation looks for its jobs in two pieces
PENDING = 100
pytestmark = pytest.mark.turn(0, 2)


@pytest.fixture(scope="module")
def stack():
    made = Stack("owners", *OPTIONS)
    yield made.up()
    made.reset()


@pytest.fixture(scope="module")
def admin(stack):
    first = Rest(stack["DUETIME_URL"])
    return token(stack, first, "admin", scopes=["admin"])


def token(stack, admin, name, **members):
    answer = admin.post("/v1/tokens", {"name": name, "scopes": ["write", "report", "read"], **members})
    assert answer.status == 201, answer
    made = Rest(stack["DUETIME_URL"], token=answer.json["token"])
    until(lambda: Rest(stack["DUETIME_URL"], token="").get("/v1/topics").status == 401, "the API asks for tokens")
    until(lambda: made.get("/v1/topics").status != 401, "the API accepts the token")
    return made


def test_an_operation_continues_while_another_owner_runs_hundreds_of_operations(stack, admin):
    crowd = token(stack, admin, "crowd", topics=["crowd."])
    assert admin.put("/v1/topics/crowd.jobs", {"delivery": "pull"}).status == 201
    assert admin.put("/v1/topics/calm.jobs", {"delivery": "pull"}).status == 201
    crowd.batch([{"topic": "crowd.jobs", "delay": "PT5H", "payload": n} for n in range(JOBS)])
    admin.batch([{"topic": "calm.jobs", "delay": "PT5H", "payload": n} for n in range(2000)])
    slow = {"delay": "PT6H", "wait": "PT0S", "rate": "1/m"}
    with stack.stopped("dispatcher1"):
        asked = [crowd.post("/v1/jobs:reschedule", {"filter": {"topic": "crowd.jobs"}, **slow}) for _ in range(300)]
        own = admin.post("/v1/jobs:cancel", {"filter": {"topic": "calm.jobs"}, "wait": "PT0S"})
        same = admin.post("/v1/jobs:cancel", {"filter": {"topic": "crowd.jobs", "run_from": "2090-01-01T00:00:00Z"}, "wait": "PT0S"})
    assert [answer.status for answer in asked] == [202] * 100 + [429] * 200
    refused(asked[-1], 429, "quota-exceeded")
    assert (asked[-1].json["quota"], asked[-1].json["limit"]) == ("running_operations", 100) and int(asked[-1].headers["Retry-After"]) > 0
    assert ended(admin, own)["changed"] == 2000
    assert ended(admin, same)["state"] == "done"
    untouched = rows(connect(stack), "SELECT COUNT(*) n FROM operations WHERE actor = 'crowd' AND changed = 0")[0]["n"]
    assert untouched > 50, "the others had their turns, and no more"
    stopped = [crowd.post(f"/v1/operations/{answer.json['id']}/stop").status for answer in asked[:100]]
    assert stopped == [200] * 100
    assert crowd.post("/v1/jobs:cancel", {"filter": {"topic": "crowd.jobs", "run_from": "2090-01-01T00:00:00Z"}, "wait": "PT0S"}).status in (200, 202)


def test_schedules_respect_their_owners_pending_quota_and_do_not_delay_others(stack, admin):
    greedy = token(stack, admin, "greedy", topics=["greedy."], jobs_per_second=10, pending_jobs=PENDING)
    other = token(stack, admin, "other", topics=["other."])
    for name in ("greedy", "other"):
        assert admin.put(f"/v1/topics/{name}.jobs", {"delivery": "pull"}).status == 201
    for n in range(100):
        assert greedy.put(f"/v1/schedules/greedy.{n}", {"topic": "greedy.jobs", "every": "PT0.1S", "payload": n}).status == 201
    refused(greedy.put("/v1/schedules/greedy.more", {"topic": "greedy.jobs", "every": "PT1S"}), 422, "invalid", "/topic")
    assert other.put("/v1/schedules/other.one", {"topic": "other.jobs", "every": "PT2S", "payload": 1}).status == 201
    mysql = connect(stack)

    def pending():
        return rows(mysql, "SELECT COUNT(*) n FROM jobs WHERE topic = 'greedy.jobs' AND state IN ('scheduled', 'dispatched')")[0]["n"]
    lateness = []
    end = time.monotonic() + 60
    while len(lateness) < 5 and time.monotonic() < end:
        assert pending() <= PENDING
        for job in other.post("/v1/topics/other.jobs/pop", {"max": 10, "wait": "PT1S"}).json["jobs"]:
            run_at = rows(mysql, "SELECT run_at FROM jobs WHERE id = %s", job["id"])[0]["run_at"]
            lateness.append(now_ms() - run_at)
    assert len(lateness) == 5 and sorted(lateness)[2] < 2000, lateness
    until(lambda: pending() == PENDING, pending, seconds=60)
    assert greedy.get("/v1/schedules/greedy.1").json["last_error"]["message"].startswith("the token's quota of")
    until(lambda: greedy.post("/v1/schedules/greedy.1/run-now").status == 429, "a job by hand spends the quota, too")
    before = rows(mysql, "SELECT COUNT(*) n FROM jobs WHERE topic = 'greedy.jobs'")[0]["n"]
    done = greedy.post("/v1/topics/greedy.jobs/pop", {"max": 10}).json["jobs"]
    for job in done:
        assert greedy.post(f"/v1/jobs/{job['id']}/results", {"attempt": job["attempt"], "status": "succeeded"}).status == 200
    assert len(done) == 10
    until(lambda: rows(mysql, "SELECT COUNT(*) n FROM jobs WHERE topic = 'greedy.jobs'")[0]["n"] > before, "fires that waited are made", seconds=60)

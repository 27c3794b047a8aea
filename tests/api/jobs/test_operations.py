"""Operations: one change for all jobs that a filter finds; preview, rate, stop, and a dispatcher that is killed in the middle."""
import json

import pytest

from harness.checker import now_ms
from harness.operations import ended
from harness.problems import refused
from harness.soak import rfc3339
from harness.stack import until


def make(api, topic, n, **job):
    lines = api.batch([{"topic": topic, "key": f"k{i:05}", "delay": "PT5H", "payload": i, **job} for i in range(n)])
    assert {line["status"] for line in lines} == {201}
    return [line["id"] for line in lines]


def ask(api, verb, topic, **body):
    answer = api.post(f"/v1/jobs:{verb}", {"filter": {"topic": topic}, "wait": "PT1M", **body})
    assert answer.status in (200, 202), answer
    return answer.json if "dry_run" in body else ended(api, answer)


def counts(api, topic):
    return {state: n for state, n in api.get(f"/v1/topics/{topic}").json["counts"].items() if n}


def test_all_jobs_of_a_topic_are_cancelled(api, topic, db):
    ids = make(api, topic, 30)
    other = api.make(topic=f"{topic}x", delay="PT5H")
    done = ask(api, "cancel", topic)
    assert (done["kind"], done["state"], done["matched"], done["changed"], done["refused"], done["dry_run"]) == ("cancel", "done", 30, 30, 0, False)
    assert len(done["sample"]) == 10 and set(done["sample"]) <= set(ids) and done["finished_at"] >= done["started_at"], done
    assert done["filter"] == {"topic": topic}
    assert api.get(f"/v1/operations/{done['id']}").json == done
    assert counts(api, topic) == {"cancelled": 30} and api.get(f"/v1/jobs/{other['id']}").json["state"] == "scheduled"
    assert db("SELECT MIN(version) a, MAX(version) b FROM jobs WHERE topic = %s", topic) == [{"a": 2, "b": 2}]


def test_a_dry_run_changes_nothing(api, topic, db):
    ids = make(api, topic, 15)
    before = db("SELECT MAX(id) id FROM operations")
    seen = ask(api, "cancel", topic, dry_run=True)
    assert (seen["matched"], seen["changed"], seen["dry_run"], seen["state"]) == (15, 0, True, "done") and "id" not in seen
    assert len(seen["sample"]) == 10 and set(seen["sample"]) <= set(ids)
    assert db("SELECT MAX(id) id FROM operations") == before and counts(api, topic) == {"scheduled": 15}


def test_jobs_are_rescheduled_shifted_and_spread(api, topic, db):
    ids = make(api, topic, 4)
    assert ask(api, "reschedule", topic, run_at="2031-01-01T00:00:00Z", spread="PT8S")["changed"] == 4
    times = [api.get(f"/v1/jobs/{job}").json for job in ids]
    assert [job["run_at"][17:19] for job in times] == ["00", "02", "04", "06"] and all(job["run_at"] == job["next_at"] for job in times), times
    ask(api, "reschedule", topic, shift="-P1D")
    assert api.get(f"/v1/jobs/{ids[1]}").json["run_at"] == "2030-12-31T00:00:02.000Z"
    ask(api, "reschedule", topic, shift=-1000.0)
    assert api.get(f"/v1/jobs/{ids[1]}").json["run_at"] == "2030-12-31T00:00:01.000Z"
    ask(api, "reschedule", topic, delay="PT3H")
    assert len(db("SELECT DISTINCT run_at FROM jobs WHERE topic = %s", topic)) == 1


def test_run_now_dispatches_all_jobs_of_the_filter(api, topic):
    ids = make(api, topic, 12, ack_timeout="PT1H")
    assert ask(api, "run-now", topic)["changed"] == 12
    until(lambda: counts(api, topic) == {"dispatched": 12}, lambda: counts(api, topic))
    again = ask(api, "cancel", topic)
    assert (again["matched"], again["state"]) == (0, "done") and api.get(f"/v1/jobs/{ids[0]}").json["attempt"] == 1


def test_dead_jobs_are_redriven(api, topic, held, db):
    ids = make(api, topic, 8)
    db("UPDATE jobs SET state = 'dead', next_at = NULL, failures = 1, error_code = IF(id = %s, 'other', 'boom'), purge_at = 8000000000000,"
       " leave_at = 8000000000000 WHERE topic = %s", ids[0], topic)
    assert ask(api, "redrive", topic, filter={"topic": topic, "error_code": "boom", "state": "dead"})["changed"] == 7
    assert db("SELECT COUNT(*) n FROM jobs WHERE topic = %s AND state = 'scheduled' AND failures = 0", topic) == [{"n": 7}]


def test_each_member_of_a_filter_narrows_it(api, topic, db):
    ids = make(api, topic, 20)
    db("UPDATE jobs SET error_code = 'boom', error_at = 1900000000000 WHERE id = %s", ids[3])
    failed = {"failed_from": rfc3339(1900000000000), "failed_to": rfc3339(1900000000001)}
    job = api.get(f"/v1/jobs/{ids[5]}").json
    later = api.make(topic=topic, run_at="2033-01-01T00:00:00Z")
    for member, n in (({"key_prefix": "k0000"}, 10), ({"run_from": "2032-12-31T00:00:00Z"}, 1), ({"run_to": "2032-12-31T00:00:00Z"}, 20),
                      ({"created_from": rfc3339(8000000000000)}, 0), ({"created_to": job["created_at"]}, 0), ({"error_code": "boom"}, 1),
                      ({"run_from": "1970-01-01T00:00:00Z", "created_from": "0000-01-01T00:00:00Z"}, 21), ({"run_to": "1970-01-01T00:00:00Z"}, 0),
                      ({"created_to": "1969-12-31T23:59:59Z"}, 0), (failed, 1), ({"failed_to": failed["failed_from"]}, 0), ({"failed_from": failed["failed_to"]}, 0),
                      ({"state": "scheduled"}, 21), ({"ids": ids[:3] + [later["id"], ids[0], "9"]}, 4)):
        assert ask(api, "cancel", topic, dry_run=True, filter={"topic": topic, **member})["matched"] == n, member
    assert ask(api, "cancel", topic, dry_run=True, filter={"topic": f"{topic}*"})["matched"] == 21
    assert ask(api, "cancel", topic, filter={"ids": [later["id"]]})["changed"] == 1


def test_a_filter_with_white_space_and_escapes_is_accepted_up_to_its_size_limit(api, topic):
    ids = make(api, topic, 2)
    body = {"filter": {"topic": topic, "key_prefix": 'k"\\ 0', "ids": [str(10 ** 17 + i) for i in range(998)] + ids}}
    done = api.post("/v1/jobs:cancel", json.dumps(body, indent=80))
    assert done.status == 200 and done.json["matched"] == 0 and done.json["filter"] == body["filter"], done
    ids = ",".join('"' + "".join(f"\\u003{digit}" for digit in str(10 ** 17 + i)) + '"' for i in range(1000))
    refused(api.post("/v1/jobs:cancel", '{"filter":{"topic":"%s","ids":[%s]}}' % (topic, ids)), 422, "invalid", "/filter")


WRONG = [({}, "/filter"), ({"filter": {}}, "/filter"), ({"filter": {"state": "scheduled"}}, "/filter/topic"), ({"filter": {"topic": "a", "state": "dead"}}, "/filter/state"),
         ({"filter": {"topic": "a", "ids": []}}, "/filter/ids"), ({"filter": {"topic": "a", "ids": ["x"]}}, "/filter/ids"), ({"filter": {"topic": "a/b"}}, "/filter/topic"),
         ({"filter": {"topic": "a", "color": 1}}, "/filter/color"), ({"filter": {"topic": "a"}, "rate": "fast"}, "/rate"), ({"filter": {"topic": "a"}, "run_at": "x"}, "/run_at"),
         ({"filter": {"topic": "a", "failed_from": 5}}, "/filter/failed_from"),
         ({"filter": {"topic": "a", "failed_from": "2031-01-02T00:00:00Z", "failed_to": "2031-01-01T00:00:00Z"}}, "/filter/failed_from"),
         ({"filter": {"topic": "a*", "key_prefix": "k"}}, "/filter/key_prefix"), ({"filter": {"topic": "a"}, "wait": "PT5M"}, "/wait"),
         ({"filter": {"ids": [str(i) for i in range(1, 1002)]}}, "/filter/ids")]


@pytest.mark.parametrize("body, pointer", WRONG, ids=lambda value: str(value)[:40])
def test_an_invalid_filter_is_refused_with_the_member(api, body, pointer):
    refused(api.post("/v1/jobs:cancel", body), 422, "invalid", pointer)


def test_a_reschedule_without_exactly_one_new_time_is_refused(api):
    for body, pointer in (({}, "/shift"), ({"run_at": "2031-01-01T00:00:00Z", "shift": "P1D"}, "/run_at"), ({"shift": "P1D", "spread": "PT1S"}, "/spread"),
                          ({"delay": "P20000D"}, "/delay"), ({"shift": "later"}, "/shift"), ({"delay": "P3650D", "spread": "P10D"}, "/spread"),
                          ({"run_at": rfc3339(int(now_ms()) + 3650 * 86400000), "spread": "P10D"}, "/spread")):
        refused(api.post("/v1/jobs:reschedule", {"filter": {"topic": "a"}, **body}), 422, "invalid", pointer)
    refused(api.get("/v1/operations/x"), 404, "not-found")
    refused(api.post("/v1/operations/99999999/stop"), 404, "not-found")


def test_an_operation_respects_its_rate_and_can_be_stopped(api, topic, db):
    make(api, topic, 600)
    answer = api.post("/v1/jobs:cancel", {"filter": {"topic": topic}, "rate": "600/m", "wait": 0})
    assert answer.status == 202 and answer.json["state"] == "running", answer
    where = answer.headers["Location"]
    assert where == f"/v1/operations/{answer.json['id']}"
    until(lambda: api.get(where).json["changed"] > 2, lambda: api.get(where))
    stopped = api.post(f"{where}/stop").json
    assert stopped["state"] == "stopped" and 2 < stopped["changed"] < 600 and stopped["matched"] == 600, stopped
    assert api.post(f"{where}/stop").json == stopped and api.get(where).json == stopped
    assert counts(api, topic) == {"scheduled": 600 - stopped["changed"], "cancelled": stopped["changed"]}
    assert any(op["id"] == stopped["id"] for op in api.get("/v1/operations?limit=1000").json["operations"])
    until(lambda: db("SELECT COUNT(*) n FROM operation_jobs WHERE operation = %s", int(stopped["id"]))[0]["n"] == 0, "the leftover rows are removed")


def test_an_operation_continues_when_its_caller_stops_waiting(api, topic, db):
    """The dispatchers' first piece comes a minute after the one that was done while the caller waited."""
    make(api, topic, 3)
    answer = api.post("/v1/jobs:cancel", {"filter": {"topic": topic}, "rate": "1/m", "wait": "PT1S"})
    assert answer.status == 202, answer
    [row] = db("SELECT changed, look_at - started_at AS ms FROM operations WHERE id = %s", int(answer.json["id"]))
    assert row["changed"] <= 1 and (row["ms"] >= 55000 or row["changed"] == 0), row
    assert api.post(f"/v1/operations/{answer.json['id']}/stop").json["state"] == "stopped"

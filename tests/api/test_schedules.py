"""Schedules by REST: what is set and shown, when they fire, pause and resume, keys that are theirs, refusals, tokens."""
import datetime
import uuid

import pytest

from harness.problems import refused
from harness.stack import until

DAILY = {"cron": "0 9 * * *", "time_zone": "Europe/Berlin", "payload": {"kind": "daily"}}


@pytest.fixture
def name():
    return f"s-{uuid.uuid4().hex[:10]}"


@pytest.fixture
def schedule(api, topic, name):
    """schedule(member=…) -> the path of the test's schedule, made or changed."""
    def put(**members):
        answer = api.put(f"/v1/schedules/{name}", {"topic": topic, **DAILY, **members})
        assert answer.status in (200, 201), answer
        return f"/v1/schedules/{name}"
    yield put
    api.ask("DELETE", f"/v1/schedules/{name}?cancel=true")


def ms_of(text):
    return int(datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp() * 1000)


def fire(api, topic, name, at):
    """The job of the fire at that time (as GET next tells it)."""
    return api.get(f"/v1/topics/{topic}/jobs/{name}@{ms_of(at)}")


def listed(api):
    names, cursor = [], ""
    while cursor is not None:
        page = api.get("/v1/schedules?limit=2" + (f"&cursor={cursor}" if cursor else "")).json
        names += [one["name"] for one in page["schedules"]]
        cursor = page["next_cursor"]
    return names


def following(api, path, query=""):
    return api.get(f"{path}/next{query}").json["next"]


def test_a_schedule_is_made_shown_and_put_back(api, api2, topic, name):
    body = {"topic": topic, "cron": "0 9 * * MON-FRI", "time_zone": "Europe/Berlin", "starts_at": "2031-01-01T00:00:00+01:00",
            "ends_at": "2032-01-01T00:00:00Z", "payload": {"a": 1}, "overlap": "skip", "catch_up": "PT1H", "catch_up_max": 1, "jitter": "PT30S",
            "retry": ["1m"], "ack_timeout": "PT2M", "headers": {"x": "y"}, "partition_key": "p", "paused": False}
    made = api.put(f"/v1/schedules/{name}", body)
    assert made.status == 201 and made.headers["ETag"] == '"1"', made
    shown = api2.get(f"/v1/schedules/{name}")
    assert shown.status == 200 and shown.json == made.json
    assert {member: shown.json[member] for member in body} == {**body, "starts_at": "2030-12-31T23:00:00.000Z", "ends_at": "2032-01-01T00:00:00.000Z"}
    assert shown.json["next_at"] == "2031-01-01T08:00:00.000Z"
    again = api.put(f"/v1/schedules/{name}", shown.json)
    assert again.status == 200 and again.json == made.json, again
    assert name in listed(api)
    every = {"topic": topic, "every": "PT0.1S", "starts_at": "2031-01-01T00:00:00.000Z", "payload_base64": "AAE=", "content_type": "text/plain", "paused": True}
    shown = api.put(f"/v1/schedules/{name}", every).json
    assert {member: shown[member] for member in every} == every and api.put(f"/v1/schedules/{name}", shown).json == shown
    gone = api.ask("DELETE", f"/v1/schedules/{name}?cancel=true")
    assert gone.status == 200 and api.get(f"/v1/schedules/{name}").status == 404


def test_next_and_preview_show_the_times_of_fires(api, topic, schedule):
    path = schedule()
    expected = ["2026-10-24T07:00:00.000Z", "2026-10-25T08:00:00.000Z", "2026-10-26T08:00:00.000Z"]
    assert following(api, path, "?count=3&from=2026-10-24T07:00:00Z") == expected
    answer = api.post("/v1/schedules:preview?count=3&from=2026-10-24T07:00:00Z", {"topic": topic, **DAILY})
    assert answer.status == 200 and answer.json == {"next": expected}
    assert len(following(api, path)) == 10
    answer = api.post("/v1/schedules:preview?count=2&from=2026-03-28T12:00:00Z", {"topic": topic, "every": "P1D", "starts_at": "2026-03-28T12:00:00Z",
                                                                                  "time_zone": "Europe/Berlin"})
    assert answer.json["next"] == ["2026-03-28T12:00:00.000Z", "2026-03-29T12:00:00.000Z"]
    answer = api.post("/v1/schedules:preview", {"topic": topic, "cron": "@daily", "ends_at": "2020-01-01T00:00:00Z"})
    assert answer.json == {"next": []}
    assert len(api.post("/v1/schedules:preview?count=1", {"cron": "@daily"}).json["next"]) == 1, "no topic is needed to look"


@pytest.mark.parametrize("at, first", [("1970-01-01T00:00:00Z", "1970-01-01T00:00:00.000Z"), ("1969-12-31T23:30:00Z", "1970-01-01T00:00:00.000Z"),
                                       ("0000-01-01T00:00:00Z", "0000-01-01T00:00:00.000Z")])
def test_next_begins_at_any_past_time(api, topic, schedule, at, first):
    path = schedule(cron=None, time_zone=None, every="PT1H", starts_at=at[:14] + "00:00Z")
    assert api.get(path).json["starts_at"] == at[:14] + "00:00.000Z"
    assert following(api, path, f"?count=1&from={at}") == [first]
    assert api.post(f"/v1/schedules:preview?count=1&from={at}", {"cron": "0 * * * *"}).json["next"] == [first]


def test_a_schedule_may_start_or_end_at_the_first_or_last_representable_time(api, topic, schedule):
    for member, at in (("starts_at", "9999-12-31T23:59:59.9999Z"), ("starts_at", "9999-12-31T23:59:59-23:59"), ("ends_at", "1970-01-01T00:00:00Z")):
        path = schedule(cron=None, time_zone=None, every="PT1H", jitter="P1D", **{member: at})
        assert following(api, path) == [] and api.get(path).json["next_at"] is None
    schedule(cron=None, time_zone=None, every="PT1H", jitter="P1D", starts_at="9999-12-31T23:59:59Z")


def test_a_pause_withdraws_the_fire_and_a_resume_returns_it(api, topic, name, schedule):
    path = schedule()
    [at] = following(api, path, "?count=1")
    before = fire(api, topic, name, at).json
    assert api.post(f"{path}/pause").json["paused"] is True
    withdrawn = fire(api, topic, name, at).json
    assert withdrawn["state"] == "cancelled" and withdrawn["last_error"]["code"] == "withdrawn" and withdrawn["id"] == before["id"]
    assert api.get(path).json["next_at"] is None
    schedule(payload=2)
    assert api.get(path).json["paused"] is True, "a PUT without paused leaves it paused"
    assert api.post(f"{path}/resume").json["paused"] is False
    back = fire(api, topic, name, at).json
    assert (back["id"], back["state"], back["payload"]) == (before["id"], "scheduled", 2) and "last_error" not in back


def test_a_removed_schedule_keeps_its_next_fire_unless_cancelled(api, topic, name, schedule):
    path = schedule()
    [at] = following(api, path, "?count=1")
    assert api.ask("DELETE", path).status == 200
    assert fire(api, topic, name, at).json["state"] == "scheduled"
    schedule()
    assert api.ask("DELETE", f"{path}?cancel=true").status == 200
    assert fire(api, topic, name, at).json["state"] == "cancelled"


def test_run_now_makes_a_job_at_once(api, topic, name, schedule):
    path = schedule(paused=True)
    answer = api.post(f"{path}/run-now")
    assert answer.status == 201 and answer.json["key"].startswith(f"{name}@") and answer.headers["Location"] == f"/v1/jobs/{answer.json['id']}", answer
    until(lambda: api.get(f"/v1/jobs/{answer.json['id']}").json["state"] == "dispatched", "it is dispatched")


def test_fires_run_on_time_each_once(api, topic, name, schedule, db):
    path = schedule(cron=None, every="PT1S", time_zone=None, catch_up="PT1H")
    jobs = until(lambda: len(found := db("SELECT job_key, dispatched_at, due_at FROM jobs WHERE topic = %s AND state = 'dispatched'", topic)) >= 4 and found, "it fires")
    api.post(f"{path}/pause")
    times = sorted(int(job["job_key"].decode().split("@")[1]) for job in jobs)
    assert [b - a for a, b in zip(times, times[1:])] == [1000] * (len(times) - 1)
    assert all(job["dispatched_at"] >= job["due_at"] for job in jobs)


def test_keys_of_fires_are_reserved_for_their_schedule(api, topic, name, schedule):
    key = f"{name}@1900000000000"
    job = {"topic": topic, "key": key, "delay": "PT1H"}
    schedule()
    refused(api.post("/v1/jobs", job), 422, "invalid", "/key")
    refused(api.put(f"/v1/topics/{topic}/jobs/{key}", {"delay": "PT1H"}), 422, "invalid", "/key")
    lines = api.post("/v1/jobs:batch", [job, {**job, "key": "other@1"}]).json
    assert [line["status"] for line in lines] == [422, 201]
    assert api.ask("DELETE", f"/v1/schedules/{name}?cancel=true").status == 200
    assert api.post("/v1/jobs", job).status == 201


@pytest.mark.parametrize("change, pointers", [
    ({"cron": "0 0 31 2 *"}, ["/cron"]), ({"cron": "* * * * L"}, ["/cron"]), ({"cron": 5}, ["/cron"]), ({"every": "PT1S"}, ["/cron", "/every"]),
    ({"cron": None}, ["/cron"]), ({"cron": None, "every": 0}, ["/every"]), ({"cron": None, "every": "PT0.099S"}, ["/every"]),
    ({"cron": "61 * * * *"}, ["/cron"]), ({"time_zone": ""}, ["/time_zone"]), ({"time_zone": "Europe/Atlantis"}, ["/time_zone"]),
    ({"time_zone": "../etc/passwd"}, ["/time_zone"]), ({"time_zone": "localtime"}, ["/time_zone"]), ({"overlap": "never"}, ["/overlap"]), ({"catch_up": "P400D"}, ["/catch_up"]),
    ({"catch_up_max": 0}, ["/catch_up_max"]), ({"jitter": "P2D"}, ["/jitter"]), ({"paused": "no"}, ["/paused"]), ({"key": "k"}, ["/key"]),
    ({"run_at": "2031-01-01T00:00:00Z"}, ["/run_at"]), ({"delay": 1}, ["/delay"]), ({"unknown": 1}, ["/unknown"]), ({"topic": None}, ["/topic"]),
    ({"starts_at": "2031-01-01T00:00:00Z", "ends_at": "2031-01-01T00:00:00Z"}, ["/ends_at"]), ({"starts_at": "tomorrow"}, ["/starts_at"]),
    ({"name": "other"}, ["/name"]), ({"retry": "1m"}, ["/retry"]), ({"headers": {"ce_id": "1"}}, ["/headers/ce_id"])], ids=str)
def test_an_invalid_schedule_is_refused_with_a_pointer(api, topic, name, change, pointers):
    body = {member: value for member, value in {"topic": topic, **DAILY, **change}.items() if value is not None}
    refused(api.put(f"/v1/schedules/{name}", body), 422, "invalid", *pointers)
    if "name" not in change and "topic" not in change:
        refused(api.post("/v1/schedules:preview", body), 422, "invalid", *pointers)
    assert api.get(f"/v1/schedules/{name}").status == 404


def test_paths_and_queries_are_checked(api, topic, name, schedule):
    path = schedule()
    for query in ("?count=0", "?count=101", "?count=x", "?from=now"):
        assert api.get(f"{path}/next{query}").status == 422
    for bad in ("a%20b", "a%2Fb", "x" * 201):
        refused(api.put(f"/v1/schedules/{bad}", {"topic": topic, **DAILY}), 422, "invalid", "/name")
    assert api.get("/v1/schedules/none").status == api.post("/v1/schedules/none/pause").status == api.post("/v1/schedules/none/run-now").status == 404
    assert api.ask("DELETE", f"{path}?cancel=maybe").status == 422

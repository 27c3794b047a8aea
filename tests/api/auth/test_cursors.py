"""Cursors of every list of the API: each goes on with its own list, filter and view of topics, and with nothing else. Which lists there are is
read in openapi.yaml, so that a new one is met as well."""
import itertools

import pytest

import openapi
from harness.problems import refused
from harness.rest import Rest
from harness.stack import until

DOCUMENT = openapi.load()
FOR_ANY_FILTER = {"cursor", "limit", "include"}  # what these say decides nothing about which rows the list has
LISTS = {path: openapi.parameters(DOCUMENT, item, operation, "query") for method, path, item, operation in openapi.operations(DOCUMENT)
         if "cursor" in openapi.parameters(DOCUMENT, item, operation, "query")}
NARROWED = {"/v1/jobs": "topic=in.a"}  # some filters of jobs need a topic beside them
DAY = "failed_from=2030-01-01T00:00:00Z&failed_to=2030-01-02T00:00:00Z"
OTHERWISE = {"topic": "topic=in.b", "state": "state=scheduled", "id": "id=1", "key": "key=k0", "key_prefix": "key_prefix=k", "error_code": "error_code=x",
             "error_text": f"error_text=x&{DAY}", "actor": "actor=boss",
             **{name: f"{name}=2000-01-01T00:00:00Z" for name in ("from", "run_from", "due_from", "created_from", "failed_from", "finished_from")},
             **{name: f"{name}=2050-01-01T00:00:00Z" for name in ("to", "run_to", "due_to", "created_to", "failed_to", "finished_to")}}


@pytest.fixture(scope="module")
def callers(own_apis):
    """Rests by name on an API that has more than a page of each list; the jobs a and b have more than a page of attempts and events each."""
    own = own_apis("cursors").start()
    made = {}
    for name, topics in (("boss", []), ("clerk", ["--topics", "in."]), ("other", ["--topics", "in.,out."])):
        made[name] = Rest(own.url, token=own.command("--new-token", name, "--scopes", "admin", *topics).stdout.strip())
    until(lambda: own.rest.get("/v1/caller").status == 401 and all(rest.get("/v1/caller").status == 200 for rest in made.values()), "the API accepts the tokens")
    boss = made["boss"]
    jobs = {name: [boss.make(topic=f"in.{name}", key=f"k{n}", delay="P1D")["id"] for n in range(3)][0] for name in "ab"}
    for (name, job), n in itertools.product(jobs.items(), range(3)):
        assert boss.patch(f"/v1/jobs/{job}", {"delay": f"P{n + 2}D"}).status == 200
        assert boss.put(f"/v1/schedules/{name}{n}", {"topic": f"in.{name}", "cron": "@daily", "paused": True}).status == 201
        assert boss.post("/v1/jobs:cancel", {"filter": {"topic": f"in.{name}", "key_prefix": "none"}}).json["id"]
    own.rows("INSERT INTO processes (id, kind, name, started_at, seen_at) VALUES (1, 'dispatcher', 'judge', 1, 9000000000000)")
    own.rows("REPLACE INTO alert_judge VALUES (1, 1)")  # another process evaluates alerts, so these last
    own.rows("DELETE FROM alerts")  # those that the API began before
    own.rows("INSERT INTO alerts (topic, kind, value, bound, began_at) VALUES ('in.a', 'dead', 5, 1, 1000), ('in.a', 'backlog', 7, 7, 1000), ('in.b', 'dead', 1, 1, 1000)")
    for job in jobs.values():
        own.rows("INSERT INTO attempts (job_id, attempt, status) WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000) SELECT %s, i, 'failed' FROM n", job)
        own.rows("INSERT INTO attempts (job_id, attempt, status) VALUES (%s, 1001, 'failed')", job)
    return {**made, "jobs": jobs}


def asked(callers, path, *filters, job="a", limit="limit=1"):
    """The URL of a list with these filters."""
    return path.replace("{id}", callers["jobs"][job]) + "?" + "&".join(filter(None, (NARROWED.get(path), limit if "limit" in LISTS[path] else "", *filters)))


def cursor_of(rest, url):
    answer = rest.get(url)
    assert answer.status == 200 and answer.json["next_cursor"], (url, answer)
    return answer.json["next_cursor"]


def rows_of(answer):
    assert answer.status == 200, answer
    [found] = [value for name, value in answer.json.items() if name != "next_cursor"]
    return found


def is_none(answer):
    """The cursor is refused as such, whatever else is wrong with the request."""
    assert answer.status == 422 and "?cursor" in [error["pointer"] for error in answer.json["errors"]], answer
    assert "start without a cursor" in answer.text


def test_every_list_with_a_cursor_in_the_api_description_is_tested():
    assert len(LISTS) >= 8 and {"/v1/jobs", "/v1/topics", "/v1/operations", "/v1/alerts", "/v1/schedules", "/v1/events"} <= set(LISTS)


@pytest.mark.parametrize("path", LISTS)
def test_a_cursor_continues_its_list_with_any_page_size(callers, path):
    url = asked(callers, path)
    first, cursor = rows_of(callers["boss"].get(url)), cursor_of(callers["boss"], url)
    assert cursor != cursor_of(callers["boss"], url), "what is sealed twice looks different each time"
    included = "include=payload" if "include" in LISTS[path] else ""
    for limit, more in (("limit=1", ""), ("limit=3", ""), ("limit=1", included)):
        onward = rows_of(callers["boss"].get(asked(callers, path, f"cursor={cursor}", more, limit=limit)))
        assert onward and not any(row in first for row in onward)


@pytest.mark.parametrize("path", LISTS)
def test_a_cursor_of_another_list_is_refused(callers, path):
    for other in LISTS:
        if other != path:
            is_none(callers["boss"].get(asked(callers, path, f"cursor={cursor_of(callers['boss'], asked(callers, other))}")))


@pytest.mark.parametrize("path", [path for path, names in LISTS.items() if names - FOR_ANY_FILTER or "{id}" in path])
def test_a_cursor_of_another_filter_is_refused(callers, path):
    """A parameter that is not in the table fails here."""
    cursor = f"cursor={cursor_of(callers['boss'], asked(callers, path))}"
    others = [asked(callers, path, OTHERWISE[name], cursor) for name in sorted(LISTS[path] - FOR_ANY_FILTER)]
    others += [asked(callers, path, cursor, job="b")] if "{id}" in path else []
    for url in others:
        is_none(callers["boss"].get(url.replace("topic=in.a&limit=1&topic=", "limit=1&topic=")))


@pytest.mark.parametrize("path", LISTS)
def test_a_cursor_of_a_token_that_sees_other_topics_is_refused(callers, path):
    cursors = {name: cursor_of(callers[name], asked(callers, path)) for name in ("boss", "clerk", "other")}
    for name, cursor in cursors.items():
        for own in cursors:
            answer = callers[own].get(asked(callers, path, f"cursor={cursor}"))
            if name == own:
                assert answer.status == 200, answer
            else:
                is_none(answer)


@pytest.mark.parametrize("path", LISTS)
def test_a_damaged_or_forged_cursor_is_refused(callers, path):
    cursor = cursor_of(callers["boss"], asked(callers, path))
    changed = [cursor[:at] + ("A" if cursor[at] != "A" else "Q") + cursor[at + 1:] for at in (0, len(cursor) // 2, len(cursor) - 2)]
    for spoilt in (*changed, cursor[:-1], cursor[1:], cursor[:20], cursor + "A", cursor * 2, cursor[::-1], "", "1", "0", "in.a", "k0", "MQ", "A" * 38, "%00"):
        answer = callers["boss"].get(asked(callers, path, f"cursor={spoilt}"))
        refused(answer, 422, "invalid", "?cursor")
        is_none(answer)

"""Lists of jobs: filters, order, cursors, bad queries."""
import datetime
import itertools

import pytest

from harness.problems import refused
from harness.stack import until


@pytest.fixture
def filled(api, topic):
    """25 jobs on as many days, keys k00 to k24; their ids."""
    return [api.make(topic=topic, key=f"k{n:02}", run_at=f"2027-01-{n + 1:02}T00:00:00Z", payload=n)["id"] for n in range(25)]


def test_a_list_is_in_the_order_of_ids(api, topic, filled):
    assert [job["id"] for job in api.list(topic=topic, limit=7)] == sorted(filled, key=int)


def test_a_list_has_payloads_only_on_request(api, topic, filled):
    assert all("payload" not in job for job in api.list(topic=topic))
    assert {job["payload"] for job in api.list(topic=topic, include="payload", limit=10)} == set(range(25))


def test_from_times_are_inclusive_and_to_times_exclusive(api, topic, filled):
    jobs = api.list(topic=topic, run_from="2027-01-02T00:00:00Z", run_to="2027-01-05T01:00:00+01:00")
    assert [job["key"] for job in jobs] == ["k01", "k02", "k03"]


@pytest.mark.parametrize("query", ["limit=0", "limit=1001", "limit=x", "limit=", "limit=-1", "state=no", "state=", "include=headers", "cursor=zzz", "cursor=",
                                   "run_from=yesterday", "run_to=2027-01-01", "key_prefix=x", "topic=a%20b", "topic=", "colour=red", "limit=5&limit=5",
                                   "id=x", "id=-1", "key=x", "key_prefix=a&topic=t&key=b", "due_from=now", "created_to=1", "finished_from=", "failed_from=2027-13-01T00:00:00Z",
                                   "created_from=2027-01-02T00:00:00Z&created_to=2027-01-01T00:00:00Z", "error_code=", f"error_code={'x' * 201}",
                                   "finished_to=2027-01-01T00:00:00Z&due_from=2027-01-01T00:00:00Z"])
def test_an_invalid_query_is_refused_with_a_pointer(api, query):
    refused(api.get(f"/v1/jobs?{query}"), 422, "invalid", "?" + query.split("=")[0])


def test_a_job_is_found_by_its_id_and_by_its_key(api, topic, filled):
    assert [job["id"] for job in api.list(id=filled[7])] == [job["id"] for job in api.list(topic=topic, key="k07")] == [filled[7]]
    assert api.list(topic=topic, key="k0") == api.list(id=filled[7], state="dead") == api.list(id="5") == []


def test_jobs_are_listed_in_the_order_in_which_they_are_due(api, topic, filled):
    made = [api.make(topic=topic, key=f"near{n}", delay=f"PT{n + 1}H")["id"] for n in (2, 0, 1)]
    whole = [made[1], made[2], made[0], *filled]
    for limit in (1, 2, 5, 1000):
        assert [job["id"] for job in api.list(topic=topic, due_from="2020-01-01T00:00:00Z", limit=limit)] == whole, limit
    days = {"due_from": "2027-01-02T00:00:00Z", "due_to": "2027-01-05T00:00:00Z"}
    assert [job["key"] for job in api.list(topic=topic, **days)] == ["k01", "k02", "k03"]
    assert [job["payload"] for job in api.list(topic=topic, include="payload", **days)] == [1, 2, 3]
    assert [job["key"] for job in api.list(topic=topic, key_prefix="k0", **days)] == ["k01", "k02", "k03"]
    api.delete(f"/v1/jobs/{filled[2]}")
    assert [job["key"] for job in api.list(topic=topic, **days)] == ["k01", "k03"]


def test_jobs_are_found_by_creation_and_finish_time(api, topic, filled):
    jobs = {job["key"]: job for job in api.list(topic=topic)}
    first, last = jobs["k00"]["created_at"], jobs["k24"]["created_at"]
    assert {job["key"] for job in api.list(topic=topic, created_from=first, created_to=last)} == {key for key, job in jobs.items() if job["created_at"] < last}
    assert api.list(topic=topic, created_to=first) == []
    done = api.delete(f"/v1/jobs/{filled[3]}").json
    assert [job["id"] for job in api.list(topic=topic, finished_from=first, limit=1)] == [filled[3]]
    assert [job["id"] for job in api.list(topic=topic, finished_from=first, state="cancelled", include="payload")] == [filled[3]]
    assert api.list(topic=topic, finished_to=done["finished_at"]) == api.list(topic=topic, finished_from=first, state="dead") == []


def test_failures_are_found_by_code_text_and_time(api, topic):
    api.put(f"/v1/topics/{topic}", {"delivery": "pull", "retry": []})
    errors = [("http_503", "no route to 10.0.0.7"), ("http_500", "100% wrong"), ("odd", "Route_7")]
    ids = []
    for code, message in errors:
        ids.append(api.make(topic=topic, delay=0)["id"])
        until(lambda: api.post(f"/v1/topics/{topic}/pop").json["jobs"], "the job is popped")
        api.post(f"/v1/jobs/{ids[-1]}/results", {"attempt": 1, "status": "failed", "error": {"code": code, "message": message}})
    at = api.get(f"/v1/jobs/{ids[1]}").json["last_error"]["at"]
    day = {"failed_from": at, "failed_to": day_later(at)}
    found = lambda **query: [job["id"] for job in api.list(topic=topic, **query)]  # noqa: E731
    assert sorted(found(failed_from=at)) == sorted(ids[1:]) and found(failed_to=at) == ids[:1]
    assert found(error_code="http_503") == ids[:1] and found(error_code="http_5") == []
    assert found(error_text="0% w", **day) == [ids[1]] and found(error_text="route", **day) == [] and found(error_text="_", **day) == sorted(ids[1:], key=int)
    assert sorted(found(state="dead", finished_from=at)) == sorted(ids[1:])


def day_later(at):
    return (datetime.datetime.fromisoformat(at.replace("Z", "+00:00")) + datetime.timedelta(days=1)).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def test_a_search_in_error_texts_needs_one_topic_and_one_day(api, topic):
    day = "failed_from=2027-01-01T00:00:00Z&failed_to=2027-01-02T00:00:00Z"
    assert api.list(topic=topic, error_text="x", failed_from="2027-01-01T00:00:00Z", failed_to="2027-01-02T00:00:00Z") == []
    for pair in ("run", "due", "created", "finished"):
        assert api.get(f"/v1/jobs?topic={topic}&error_text=x&{day.replace('failed', pair)}").status == 200
    refused(api.get(f"/v1/jobs?error_text=x&{day}"), 422, "invalid", "?error_text")
    for less in ("", "&failed_from=2027-01-01T00:00:00Z", "&failed_to=2027-01-01T00:00:00Z", "&failed_from=2027-01-01T00:00:00Z&failed_to=2027-01-02T00:00:00.001Z"):
        refused(api.get(f"/v1/jobs?topic={topic}&error_text=x{less}"), 422, "invalid", "?error_text")


def test_all_faults_of_a_query_are_reported(api):
    refused(api.get("/v1/jobs?key_prefix=x&state=no&limit=0&cursor=q"), 422, "invalid", "?key_prefix", "?state", "?limit", "?cursor")


def test_cursors_list_1500_jobs_exactly_once(api, api2, topic, swept):
    ids = [line["id"] for line in api.batch([{"topic": topic, "key": f"k{n:04}", "delay": "P300D"} for n in range(1500)])]
    for query in ({"limit": 1000}, {"limit": 333, "state": "scheduled"}, {}):
        assert [job["id"] for job in api2.list(topic=topic, **query)] == sorted(ids, key=int), query
    assert [job["key"] for job in api2.list(topic=topic, key_prefix="k", limit=400)] == [f"k{n:04}" for n in range(1500)]
    first = lambda query: len(api.get(f"/v1/jobs?topic={topic}&key_prefix=k{query}").json["jobs"])  # noqa: E731
    assert (first(""), first("&limit=1000"), first("&limit=1"), first("01&limit=1000")) == (100, 1000, 1, 100)


def test_jobs_of_all_topics_are_listed_without_a_topic(api, topic):
    ids = {api.make(topic=f"{topic}-{n}", run_at="2029-05-05T05:05:05Z")["id"] for n in range(5)}
    assert ids <= {job["id"] for job in api.list(run_from="2029-05-05T05:05:05Z", run_to="2029-05-05T05:05:05.001Z", limit=1000)}


def test_a_cursor_works_at_every_api_of_the_installation(api, api2, topic, filled):
    seen, cursor, apis = [], "", itertools.cycle((api, api2))
    while cursor is not None:  # a page may end early: it looks at a bounded number of rows, those of other tests among them
        page = next(apis).get(f"/v1/jobs?topic={topic}&limit=3{cursor}").json
        seen += [job["id"] for job in page["jobs"]]
        cursor = page["next_cursor"] and f"&cursor={page['next_cursor']}"
    assert seen == sorted(filled, key=int)

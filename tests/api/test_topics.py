"""Topics: settings, defaults, what can be put back, pause and resume, what is not offered."""
import concurrent.futures

import pymysql
import pytest

from harness.operations import ended
from harness.problems import refused
from harness.stack import until


def url(topic):
    return f"/v1/topics/{topic}"


def settings(body):
    return {name: value for name, value in body.items() if name not in ("updated_at", "version")}


def test_settings_are_kept_and_copied_into_jobs(api, topic):
    answer = api.put(url(topic), {"retry": ["1s", 1500], "ack_timeout": "PT30S", "retention": "P1D", "kafka_topic": f"k-{topic}", "delivery": "kafka"})
    assert answer.status == 201, answer
    shown = answer.json
    assert (shown["name"], shown["delivery"], shown["kafka_topic"], shown["retry"], shown["ack_timeout"], shown["retention"], shown["paused"]) == \
        (topic, "kafka", f"k-{topic}", ["1s", "PT1.5S"], "PT30S", "P1D", False)
    job = api.make(topic=topic, delay="PT1H")
    assert job["retry"] == ["1s", "PT1.5S"] and job["ack_timeout"] == "PT30S"
    assert api.put(url(topic), {"ack_timeout": "PT9S"}).status == 200
    assert api.get(f"/v1/jobs/{job['id']}").json["ack_timeout"] == "PT30S"
    assert api.make(topic=topic, delay="PT1H")["ack_timeout"] == "PT9S"


def test_the_answer_of_get_can_be_put_back(api, topic):
    api.put(url(topic), {"retry": [], "retention": 0})
    api.make(topic=topic, delay="PT1H")
    shown = api.get(url(topic)).json
    assert shown["counts"] == {"scheduled": 1, "dispatched": 0, "succeeded": 0, "dead": 0, "cancelled": 0} and shown["oldest_overdue_ms"] is None
    answer = api.put(url(topic), shown)
    assert answer.status == 200 and settings(answer.json) == settings(shown), answer


def test_omitted_settings_are_defaults_but_paused_stays(api, topic):
    api.put(url(topic), {"retry": ["1s"], "ack_timeout": 1000})
    assert api.post(f"{url(topic)}/pause").json["paused"] is True
    shown = api.put(url(topic), {}).json
    assert shown["retry"] is None and shown["ack_timeout"] is None and shown["paused"] is True
    assert shown["effective"] == {"kafka_topic": topic, "retry": "15s 3m 10m 30m 30m 1h 2h 6h 15h".split(), "ack_timeout": "PT5M", "callback_timeout": "PT10S",
                                   "retention": "P30D"}
    assert api.put(url(topic), {"paused": False}).json["paused"] is False


def test_pausing_a_missing_topic_is_404(api, topic):
    refused(api.post(f"{url(topic)}/pause"), 404, "not-found")
    refused(api.post(f"{url(topic)}/resume"), 404, "not-found")


@pytest.mark.parametrize("body, pointer", [({"delivery": "mail"}, "/delivery"), ({"delivery": 1}, "/delivery"), ({"callback_url": "ftp://x/"}, "/callback_url"),
                                           ({"rate_limit": 5}, "/rate_limit"), ({"rate_limit": "5/h"}, "/rate_limit"), ({"rate_limit": "0/s"}, "/rate_limit"),
                                           ({"max_in_flight": 0}, "/max_in_flight"), ({"max_in_flight": "5"}, "/max_in_flight"), ({"colour": 1}, "/colour"),
                                           ({"kafka_topic": "a b"}, "/kafka_topic"), ({"kafka_topic": "__x"}, "/kafka_topic"), ({"kafka_topic": "x" * 250}, "/kafka_topic"),
                                           ({"name": "other"}, "/name"), ({"retry": ["?"]}, "/retry/0"), ({"ack_timeout": 0}, "/ack_timeout"),
                                           ({"retention": -1}, "/retention"), ({"paused": "yes"}, "/paused"), ([], "")])
def test_wrong_and_unknown_settings_are_named_by_a_pointer(api, topic, body, pointer):
    refused(api.put(url(topic), body), 422, "invalid", pointer)
    assert api.get(url(topic)).status == 404


def test_delivery_http_is_refused_if_callbacks_are_disabled(plain, topic):
    """By default; the local stack has them, within the loopback."""
    refused(plain.rest.put(url(topic), {"delivery": "http", "callback_url": "http://127.0.0.1:1/"}), 422, "invalid", "/delivery")
    assert plain.rest.get(url(topic)).status == 404


@pytest.mark.parametrize("name", ["duetime.results", "__a", "a%20b", "x" * 201, "%2E", "%2E%2E"])
def test_an_invalid_name_is_refused(api, name):
    if name == "duetime.results":
        name = api.get("/v1/info").json.get("installation", {}).get("name", "duetime") + ".results"
    refused(api.put(url(name), {}), 422, "invalid", "/name")


def test_topic_names_that_collide_in_kafka_are_refused(api, topic):
    assert api.put(url(f"{topic}.x"), {}).status == 201
    refused(api.put(url(f"{topic}_x"), {}), 422, "invalid", "/name")
    refused(api.put(url(f"{topic}-y"), {"kafka_topic": f"{topic}_x"}), 422, "invalid", "/kafka_topic")


def test_topics_are_listed_by_name(api, topic):
    mine = sorted(f"{topic}-{n}" for n in range(5))
    for name in mine:
        api.put(url(name), {})
    names, cursor = [], None
    while True:
        page = api.get("/v1/topics?limit=2" + (f"&cursor={cursor}" if cursor else "")).json
        names += [one["name"] for one in page["topics"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert names == sorted(names) and set(mine) <= set(names)
    refused(api.get("/v1/topics?limit=x&cursor=y"), 422, "invalid", "?limit", "?cursor")


def test_other_apis_see_new_settings_soon(api, api2, topic):
    api.put(url(topic), {"retry": ["1s"]})
    assert api2.make(topic=topic, delay="PT1H")["retry"]  # now it is in the other API's memory
    api.put(url(topic), {"retry": ["2s"]})
    assert api.make(topic=topic, delay="PT1H")["retry"] == ["2s"]
    until(lambda: api2.make(topic=topic, delay="PT1H")["retry"] == ["2s"], "the other API knows")


def test_a_topic_shows_its_counts_by_state_and_its_oldest_overdue_job(api, topic, dispatched):
    dispatched(topic=topic)
    done, dead = dispatched(topic=topic), dispatched(topic=topic)
    api.post(f"/v1/jobs/{done['id']}/results", {"attempt": 1, "status": "succeeded"})
    api.post(f"/v1/jobs/{dead['id']}/results", {"attempt": 1, "status": "gave_up"})
    api.delete(f"/v1/jobs/{api.make(topic=topic, delay='PT1H')['id']}")
    api.post(f"{url(topic)}/pause")
    for delay in (0, "PT1H"):
        api.make(topic=topic, delay=delay)
    shown = until(lambda: (seen := api.get(url(topic)).json)["oldest_held_ms"] and seen, lambda: api.get(url(topic)))
    assert shown["counts"] == {"scheduled": 2, "dispatched": 1, "succeeded": 1, "dead": 1, "cancelled": 1}
    assert 0 < shown["oldest_held_ms"] < 60000 and shown["oldest_overdue_ms"] is None
    api.post(f"{url(topic)}/resume")
    assert api.get(url(topic)).json["oldest_held_ms"] is None


def test_pause_and_resume_may_be_repeated(api, topic):
    api.put(url(topic), {})
    for _ in range(2):
        assert api.post(f"{url(topic)}/pause").json["paused"] is True
    for _ in range(2):
        assert api.post(f"{url(topic)}/resume", {}).json["paused"] is False


def test_a_body_that_cannot_be_read_is_refused(api, topic, nothing_made):
    refused(api.put(url(topic), "{"), 400, "malformed")
    refused(api.put(url(topic), '{"retry":[],"retry":[]}'), 400, "malformed")
    refused(api.put(url(topic), "{}", content_type="text/plain"), 415, "unsupported-media-type")
    refused(api.put(url(topic), {"retry": ["x"], "ack_timeout": "y", "rate_limit": 5}), 422, "invalid", "/retry/0", "/ack_timeout", "/rate_limit")


def test_concurrent_creates_make_a_topic_once(api, api2, topic, db):
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda n: (api, api2)[n % 2].put(url(topic), {"retry": ["1s"]}).status, range(16)))
        jobs = list(pool.map(lambda n: (api, api2)[n % 2].post("/v1/jobs", {"topic": f"{topic}-auto", "delay": "PT1H"}).status, range(16)))
    assert sorted(answers) == [200] * 15 + [201] and jobs == [201] * 16
    assert db("SELECT COUNT(*) n FROM topics WHERE name IN (%s, %s)", topic, f"{topic}-auto")[0]["n"] == 2


def test_without_auto_create_an_unknown_topic_is_refused(own_apis, topic):
    strict = own_apis.beside("strict", {"topics.auto_create": "false"})
    refused(strict.rest.post("/v1/jobs", {"topic": topic, "delay": 0}), 422, "invalid", "/topic")
    refused(strict.rest.put(f"{url(topic)}/jobs/k", {"delay": 0}), 422, "invalid", "/topic")
    assert [line["status"] for line in strict.rest.batch([{"topic": topic, "delay": 0}])] == [422]
    told = strict.rest.post("/v1/commands", {"command": "add", "topic": topic, "id": "k", "delay": 0}).json
    assert told["success"] is False and "the topic does not exist" in told["error"]
    assert not strict.rows("SELECT id FROM jobs WHERE topic = %s", topic) and strict.rest.get(url(topic)).status == 404
    assert strict.rest.put(url(topic), {}).status == 201
    assert strict.rest.post("/v1/jobs", {"topic": topic, "delay": "PT1H"}).status == 201


INTERNAL = ["other.ledger", "other.results", "other.results.rejected", "other.commands", "other.commands.rejected", "other.dead", "other.alerts", "a.b.ledger", "__consumer_offsets"]


@pytest.mark.parametrize("name", INTERNAL)
def test_no_topic_may_send_jobs_to_an_installations_own_kafka_topics(api, topic, name, nothing_made):
    refused(api.put(url(topic), {"kafka_topic": name}), 422, "invalid", "/kafka_topic")
    refused(api.put(url(name), {}), 422, "invalid", "/name")
    job = {"topic": name, "delay": "PT1H"}
    refused(api.post("/v1/jobs", job), 422, "invalid", "/topic")
    refused(api.put(f"{url(name)}/jobs/k", {"delay": "PT1H"}), 422, "invalid", "/topic")
    assert [line["status"] for line in api.batch([job, job])] == [422, 422]
    assert [element["status"] for element in api.post("/v1/jobs:batch", [job]).json] == [422]


@pytest.mark.parametrize("ending", [".ledger", ".results", ".results.rejected", ".commands", ".commands.rejected", ".dead", ".alerts"])
def test_a_name_reserved_in_kafka_is_allowed_for_a_topic_that_kafka_does_not_deliver(api, db, topic, ending):
    name = f"{topic}{ending}"
    assert api.put(url(name), {"delivery": "pull"}).status == 201
    assert api.post("/v1/jobs", {"topic": name, "delay": "PT1H"}).status == 201
    assert api.post("/v1/commands", {"command": "add", "topic": f"{topic}-made{ending}", "id": f"{topic}-1", "delay": 3600, "body": "x"}).json["success"] is True
    kept = api.get(url(name)).json
    assert api.put(url(name), {member: kept[member] for member in ("delivery", "kafka_topic", "retention")}).status == 200
    refused(api.put(url(name), {"delivery": "kafka"}), 422, "invalid", "/name")
    refused(api.put(url(name), {"delivery": "pull", "kafka_topic": name}), 422, "invalid", "/kafka_topic")
    assert api.put(url(name), {"delivery": "kafka", "kafka_topic": f"{topic}.x"}).status == 200
    for setting in ({}, {"delivery": "kafka", "kafka_topic": None}):
        refused(api.put(url(name), setting), 422, "invalid", "/name")
    assert api.get(url(name)).json["kafka_topic"] == f"{topic}.x"
    assert api.put(url(name), {"delivery": "pull"}).status == 200
    with pytest.raises(pymysql.MySQLError):
        db("UPDATE topics SET delivery = 'kafka' WHERE name = %s", name)


def test_a_name_that_only_looks_internal_is_allowed(api, topic):
    for ending in ("_results", ".commands.create", ".deadline", ".results.daily", ".dead.letters", ".Ledger", "-unledgered", ".alerts.sms"):
        assert api.post("/v1/jobs", {"topic": topic + ending, "delay": "PT1H"}).status == 201, ending
    assert api.put(url(f"{topic}.ledger"), {"kafka_topic": f"{topic}.bookings"}).status == 201
    assert api.post("/v1/jobs", {"topic": f"{topic}.ledger", "delay": "PT1H"}).status == 201


def test_a_name_clash_does_not_reveal_another_tenants_topic(api, topic):
    assert api.put(url(f"{topic}.x"), {"kafka_topic": f"{topic}.secret"}).status == 201
    for answer in (api.put(url(f"{topic}_secret"), {}), api.put(url(f"{topic}-y"), {"kafka_topic": f"{topic}_secret"}),
                   api.post("/v1/jobs", {"topic": f"{topic}_secret", "delay": "PT1H"})):
        assert answer.status == 422 and f"{topic}.x" not in answer.text and f"{topic}.secret" not in answer.text, answer


@pytest.fixture(scope="module")
def few(own_apis):
    """An API whose maximum of five topics is reached: t0 to t4."""
    api = own_apis("few", {"limits.topics": 5}).start()
    assert [api.rest.post("/v1/jobs", {"topic": f"t{n}", "delay": "PT1H"}).status for n in range(5)] == [201] * 5
    return api


def test_the_maximal_number_of_topics_is_enforced(few):
    rest, before = few.rest, few.rows("SELECT COUNT(*) n FROM topics")
    job = {"topic": "one-more", "delay": "PT1H"}
    for answer, pointer in ((rest.post("/v1/jobs", job), "/topic"), (rest.put("/v1/topics/one-more/jobs/k", {"delay": "PT1H"}), "/topic"), (rest.put(url("one-more"), {}), "/name")):
        refused(answer, 422, "invalid", pointer)
        assert "limits.topics" in answer.text and "(5)" in answer.text, answer
    lines = rest.batch([{"topic": f"new-{n}", "delay": "PT1H"} for n in range(50)] + [{"topic": "t0", "delay": "PT1H"}])
    assert [line["status"] for line in lines] == [422] * 50 + [201] and "limits.topics" in lines[0]["errors"][0]["reason"]
    assert [element["status"] for element in rest.post("/v1/jobs:batch", [job, {"topic": "t1", "delay": "PT1H"}]).json] == [422, 201]
    assert few.rows("SELECT COUNT(*) n FROM topics") == before
    assert rest.put(url("t0"), {"retry": ["1s"]}).status == 200 and rest.post(f"{url('t1')}/pause").status == 200


def test_a_topic_just_made_by_another_api_is_not_counted_as_new(few, own_apis, stack, tmp_path):
    """few's own limit is reached; what somebody with a larger one makes is there for it at once."""
    wide = own_apis("few_wide", {"limits.topics": 50, "mysql.database": few.database}, shared=True).start()
    for n in range(10):
        assert wide.rest.put(url(f"later-{n}"), {}).status == 201
        assert few.rest.post("/v1/jobs", {"topic": f"later-{n}", "delay": "PT1H"}).status == 201


def test_topics_created_before_the_limit_of_topics_keep_working(few, own_apis):
    lowered = own_apis("few_lowered", {"limits.topics": 1, "mysql.database": few.database}, shared=True).start()
    assert lowered.rest.post("/v1/jobs", {"topic": "t3", "delay": "PT1H"}).status == 201
    assert lowered.rest.put(url("t4"), {"ack_timeout": 5000}).status == 200
    refused(lowered.rest.put(url("another"), {}), 422, "invalid", "/name")


def test_a_topic_without_jobs_can_be_deleted(api, api2, topic):
    job = api.make(topic=topic, delay="PT1H")
    problem = refused(api.delete(url(topic)), 409, "topic-in-use")
    assert problem["detail"] == "1 jobs of the topic are not finished", problem
    api.delete(f"/v1/jobs/{job['id']}")
    shown = api.get(url(topic)).json
    gone = api.delete(url(topic))
    assert gone.status == 200 and gone.json == shown, gone
    refused(api.get(url(topic)), 404, "not-found")
    refused(api.delete(url(topic)), 404, "not-found")
    assert api.get(f"/v1/jobs/{job['id']}").json["state"] == "cancelled"
    until(lambda: topic not in [t["name"] for t in api2.get("/v1/topics?limit=1000").json["topics"]], "the other API knows")
    assert api2.make(topic=topic, delay="PT1H")["topic"] == topic
    shown = until(lambda: (seen := api.get(url(topic))).status == 200 and seen.json, "the topic is created again, whatever the other API has cached")
    assert shown["counts"]["scheduled"] == 1


def test_a_topic_with_a_schedule_is_not_deleted(api, topic):
    assert api.put(f"/v1/schedules/{topic}", {"topic": topic, "every": "PT1H", "paused": True}).status == 201
    assert topic in refused(api.delete(url(topic)), 409, "topic-in-use")["detail"]
    assert api.delete(f"/v1/schedules/{topic}?cancel=true").status == 200


def gone(api, topic):
    return until(lambda: api.get(url(topic)).status == 404, lambda: api.get(url(topic)))


def test_a_topic_is_deleted_with_its_jobs(api, topic, db):
    ids = [api.make(topic=topic, delay="PT1H")["id"] for _ in range(3)]
    other = api.make(topic=f"{topic}x", delay="PT1H")
    done = ended(api, api.delete(f"{url(topic)}?cancel=true&wait=PT1M"))
    assert (done["kind"], done["state"], done["changed"]) == ("delete-topic", "done", 3), done
    assert done["filter"] == {"topic": topic} and sorted(done["sample"]) == sorted(ids)
    refused(api.get(url(topic)), 404, "not-found")
    refused(api.delete(f"{url(topic)}?cancel=true&wait=PT1M"), 404, "not-found")
    assert {api.get(f"/v1/jobs/{job}").json["state"] for job in ids} == {"cancelled"}
    assert api.get(f"/v1/jobs/{other['id']}").json["state"] == "scheduled"
    assert api.make(topic=topic, delay="PT1H")["topic"] == topic
    assert api.get(url(topic)).json["deletion"] is None
    assert ended(api, api.delete(f"{url(topic)}?cancel=true&wait=PT1M"))["state"] == "done"


def test_a_topic_being_deleted_refuses_jobs_and_is_removed_after_its_last_attempt(api, api2, topic, db):
    """The attempt that is out ends as it does, and is the last one."""
    assert api.put(url(topic), {"delivery": "pull", "retry": ["1s"] * 3}).status == 201
    job = api.make(topic=topic, delay=0, key="k", ack_timeout="PT1H")
    [popped] = api.post(f"{url(topic)}/pop", {"wait": "PT1M"}).json["jobs"]
    waiting = api.make(topic=topic, delay="PT1H", key="later")
    began = api.delete(f"{url(topic)}?cancel=true&wait=PT0S")
    assert began.status == 202 and began.json["state"] == "running", began
    operation = began.json["id"]
    assert began.headers["Location"] == f"/v1/operations/{operation}"
    again = api2.delete(f"{url(topic)}?cancel=true&wait=PT0S")
    assert again.status == 202 and again.json["id"] == operation, again
    assert api.get(url(topic)).json["deletion"] == operation
    assert api.put(url(topic), api.get(url(topic)).json).status == 200
    refused(api.delete(url(topic)), 409, "topic-in-use")
    for ask in (lambda: api.post("/v1/jobs", {"topic": topic, "delay": "PT1H"}), lambda: api.put(f"{url(topic)}/jobs/other", {"delay": "PT1H"}),
                lambda: api.put(f"{url(topic)}/jobs/other?replace=true", {"delay": "PT1H"}), lambda: api.put(f"/v1/schedules/{topic}", {"topic": topic, "every": "PT1H"})):
        refused(ask(), 409, "topic-deleting")
    assert [line["status"] for line in api.batch([{"topic": topic, "delay": "PT1H"}])] == [409]
    until(lambda: api2.post("/v1/jobs", {"topic": topic, "delay": "PT1H"}).status == 409, "the other API has heard of it")
    db("INSERT INTO job_inbox (topic, job_key, delay_ms, payload) VALUES (%s, 'inbox', 1, '1')", topic)
    errors = until(lambda: db("SELECT error FROM job_inbox WHERE topic = %s AND error IS NOT NULL", topic), "the row of the inbox is refused")
    assert errors[0]["error"].startswith("topic-deleting: "), errors
    db("DELETE FROM job_inbox WHERE topic = %s", topic)
    until(lambda: api.get(f"/v1/jobs/{waiting['id']}").json["state"] == "cancelled", "the waiting job is cancelled")
    assert api.get(url(topic)).json["counts"]["dispatched"] == 1
    assert api.post(f"/v1/jobs/{job['id']}/results", {"attempt": popped["attempt"], "status": "failed"}).status == 200
    gone(api, topic)
    last = api.get(f"/v1/jobs/{job['id']}").json
    assert (last["state"], last["attempt"]) == ("cancelled", 1), last
    done = ended(api, began)
    assert (done["state"], done["refused"]) == ("done", 0) and done["changed"] >= 2, done


@pytest.mark.parametrize("query", ["cancel=yes", "cancel=true&wait=later", "cancel=true&wait=PT61S", "wait=PT1S", "cancel=false&wait=PT1S"])
def test_the_parameters_of_a_deletion_are_checked(api, topic, query):
    refused(api.delete(f"{url(topic)}?{query}"), 422, "invalid", "?" + query.split("&")[-1].split("=")[0])

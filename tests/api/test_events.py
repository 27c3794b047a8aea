"""Who did what: each change by REST is an event, written with it, by the token's name; making and dispatching jobs are none."""
from urllib.parse import urlencode

from harness.operations import ended
from harness.problems import refused
from harness.rest import Rest
from harness.stack import until


def events(api, path="/v1/events", **query):
    found, cursor = [], None
    while True:
        answer = api.get(f"{path}?" + urlencode({**query, **({"cursor": cursor} if cursor else {})}))
        assert answer.status == 200, answer
        found += answer.json["events"]
        cursor = answer.json["next_cursor"]
        if not cursor:
            return found


def told(found):
    return [event["action"] for event in reversed(found)]


def test_coming_days_have_event_partitions(stack, db):
    """A dispatcher looks after them, and drops a day as a whole (contract/test_store_events). What is later still has one together."""
    today = db("SELECT FLOOR(UNIX_TIMESTAMP() / 86400) day")[0]["day"]

    def partitions():
        return [row["name"] for row in db("SELECT partition_name name FROM information_schema.partitions WHERE table_schema = DATABASE() AND"
                                          " table_name = 'job_events' ORDER BY partition_ordinal_position")]
    until(lambda: {f"d{today + ahead}" for ahead in range(2)} <= set(partitions()), lambda: stack.log("dispatcher1"))
    assert partitions()[-1] == "later" and all(name.startswith("d") for name in partitions()[:-1])


def test_each_change_of_a_job_is_an_event_with_before_and_after(api, held):
    job = api.make(topic=held, key="k", delay="PT1H", payload={"secret": 1})
    path = f"/v1/jobs/{job['id']}"
    assert events(api, f"{path}/events") == []
    assert api.patch(path, {"delay": "PT2H", "payload": {"secret": 22}}).status == 200
    assert api.put(f"/v1/topics/{held}/jobs/k?replace=true", {"delay": "PT3H", "payload": 3}).status == 200
    assert api.post(f"{path}/run-now").status == api.delete(path).status == api.delete(path).status == 200
    story = events(api, f"{path}/events")
    assert told(story) == ["change", "replace", "run_now", "cancel"]
    assert all(event["actor"] == "-" and event["topic"] == held and event["job_id"] == job["id"] for event in story)
    cancel, change = story[0], story[3]
    assert (cancel["before"]["state"], cancel["after"]["state"], cancel["after"]["next_at"]) == ("scheduled", "cancelled", None)
    assert change["before"]["run_at"] == job["run_at"] != change["after"]["run_at"]
    assert change["before"]["payload"] == change["after"]["payload"] == "***" and "secret" not in str(change)


def test_creates_dispatches_and_reports_are_no_events(api, topic, dispatched):
    job = dispatched(topic=topic)
    assert api.post(f"/v1/jobs/{job['id']}/results", {"attempt": 1, "status": "failed"}).status == 200
    assert events(api, topic=topic) == [] == events(api, f"/v1/jobs/{job['id']}/events")


def test_a_change_without_effect_or_a_refused_one_is_no_event(api, held):
    job = api.make(topic=held, delay="PT1H")
    before = len(events(api, topic=held))
    assert api.patch(f"/v1/jobs/{job['id']}", {"run_at": job["run_at"]}).status == 200
    refused(api.post(f"/v1/jobs/{job['id']}/redrive"), 409, "not-dead")
    assert api.post(f"/v1/topics/{held}/pause").status == 200
    assert len(events(api, topic=held)) == before


def test_events_of_topics_and_schedules_show_the_difference_without_secrets(api, topic):
    name = f"s-{topic}"
    assert api.put(f"/v1/topics/{topic}", {"max_in_flight": 5}).status == 201
    assert api.put(f"/v1/topics/{topic}", {"max_in_flight": 7, "retry": ["1s"]}).status == 200
    assert api.put(f"/v1/schedules/{name}", {"topic": topic, "cron": "0 9 * * *", "payload": {}}).status == 201
    for verb in ("pause", "resume", "run-now"):
        assert api.post(f"/v1/schedules/{name}/{verb}").status in (200, 201)
    assert api.delete(f"/v1/schedules/{name}?cancel=true").status == 200
    assert api.post(f"/v1/topics/{topic}/pause").status == 200
    found = events(api, topic=topic)
    assert told(found) == ["topic_create", "topic_change", "schedule_create", "schedule_pause", "schedule_resume", "schedule_run_now", "schedule_delete", "topic_pause"]
    change = found[-2]
    assert change["before"] == {"retry": None, "max_in_flight": 5} and change["after"] == {"retry": "1s", "max_in_flight": 7}
    assert found[0]["before"] == {"paused": False} and {event["subject"] for event in found if event["action"].startswith("schedule")} == {name}


def test_an_operation_is_one_event_and_is_in_the_history_of_each_job(api, held):
    jobs = [api.make(topic=held, delay="PT1H")["id"] for _ in range(3)]
    operation = ended(api, api.post("/v1/jobs:reschedule", {"filter": {"topic": held}, "shift": "P1D", "wait": "PT1M"}))
    assert operation["state"] == "done" and operation["changed"] == 3
    assert ended(api, api.post("/v1/jobs:cancel", {"filter": {"topic": held}, "wait": "PT1M"}))["changed"] == 3
    own = [event for event in events(api, topic=held) if event["action"] == "operation_start"]
    assert [event["subject"] for event in own][1] == operation["id"] and own[1]["after"]["kind"] == "reschedule"
    for job in jobs:
        story = events(api, f"/v1/jobs/{job}/events")
        assert told(story) == ["change", "cancel"] and story[1]["operation_id"] == operation["id"]
        assert story[1]["before"]["next_at"] < story[1]["after"]["next_at"] == story[0]["before"]["next_at"]


def test_events_are_listed_page_by_page(api, held):
    job = api.make(topic=held, delay="PT1H")["id"]
    for n in range(5):
        assert api.patch(f"/v1/jobs/{job}", {"delay": f"PT{n + 2}H"}).status == 200
    whole = events(api, f"/v1/jobs/{job}/events")
    assert len(whole) == 5 and events(api, f"/v1/jobs/{job}/events", limit=2) == whole
    assert events(api, topic=held, limit=1)[:5] == whole
    first = whole[2]["at"]
    assert events(api, topic=held, **{"from": first}) == [event for event in events(api, topic=held) if event["at"] >= first]
    assert events(api, topic=held, to=first) == [event for event in events(api, topic=held) if event["at"] < first]
    assert events(api, topic=held, to="1970-01-01T00:00:00Z") == [] == events(api, topic=held, to="1969-12-31T23:59:59Z")
    assert events(api, topic=held, **{"from": "0000-01-01T00:00:00Z"}) == events(api, topic=held)
    cursor = api.get(f"/v1/jobs/{job}/events?limit=2").json["next_cursor"]
    refused(api.get(f"/v1/events?limit=2&cursor={cursor}"), 422, "invalid", "?cursor")
    refused(api.get("/v1/jobs/12345/events"), 404, "not-found")
    refused(api.get("/v1/events?actor="), 422, "invalid", "?actor")


def test_the_actor_is_the_token_and_a_token_with_prefixes_sees_only_its_topics(own_apis):
    own = own_apis("eventful").start()
    text = [own.command("--new-token", *args).stdout.split()[0] for args in (("boss", "--scopes", "admin"), ("clerk", "--scopes", "write,read", "--topics", "in."))]
    boss, clerk = (Rest(own.url, token=token) for token in text)
    until(lambda: own.rest.get("/v1/info").status == 401 and boss.get("/v1/info").status == clerk.get("/v1/jobs").status == 200, "the API accepts the tokens")
    inside, outside = (boss.make(topic=name, delay="PT1H")["id"] for name in ("in.side", "outside"))
    assert boss.delete(f"/v1/jobs/{outside}").status == clerk.post(f"/v1/jobs/{inside}/run-now").status == 200
    assert [event["actor"] for event in events(boss)] == ["clerk", "boss", "duetime-api", "duetime-api"]
    assert told(events(boss, actor="duetime-api")) == ["token_create", "token_create"] and told(events(boss, actor="clerk")) == ["run_now"]
    assert events(boss, actor="duetime-api")[0]["after"] == {"scopes": "write,read", "topics": "in."}
    assert told(events(clerk)) == ["run_now"]
    refused(clerk.get(f"/v1/jobs/{outside}/events"), 404, "not-found")
    refused(clerk.get("/v1/events?topic=outside"), 404, "not-found")
    assert all(token not in str(events(boss)) for token in text)

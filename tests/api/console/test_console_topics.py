"""Topics and schedules in the console."""
import time

import pytest

from harness.stack import until

pytestmark = pytest.mark.in_turns(3)


def test_a_topic_is_made_changed_paused_and_deleted(console, api, topic):
    console.open("#/topics")
    console.press_button("New topic")
    console.browser.fill(label="Name", value=topic)
    console.browser.choose(label="Delivery", value="pull")
    console.browser.fill(label="Max rate", value="fast")
    console.press_button("Create", within="dialog")
    console.browser.sees(css="dialog [role=alert]:has-text('/rate_limit')")
    console.browser.fill(label="Max rate", value="100/s")
    console.answer("Create")
    console.says("at most 100/s")
    api.make(topic=topic, delay="PT1H")
    console.press_button("Settings")
    console.browser.fill(label="Max in flight", value="7")
    console.browser.fill(label="Retries after", value="15s, 3m")
    console.answer("Save")
    console.says("at most 7")
    settings = api.get(f"/v1/topics/{topic}").json
    assert (settings["delivery"], settings["max_in_flight"], settings["rate_limit"], settings["retry"]) == ("pull", 7, "100/s", ["15s", "3m"])
    console.browser.sees(css="a.figure:has-text('scheduled'):has-text('1')")
    console.press_button("Pause")
    console.browser.sees(css="dialog:has-text('1 scheduled job')")
    console.answer("Pause")
    console.says("This topic is paused")
    assert api.get(f"/v1/topics/{topic}").json["paused"]
    console.is_sound()
    console.press_button("Resume")
    console.answer("Resume")
    console.press_button("Delete")
    console.press_button("Delete the topic", within="dialog")
    console.browser.sees(css="dialog [role=alert]")  # a job is not finished
    console.press_button("Back", within="dialog")
    api.post("/v1/jobs:cancel", {"filter": {"topic": topic}})
    console.press_button("Delete")
    console.answer("Delete the topic")
    until(lambda: api.get(f"/v1/topics/{topic}").status == 404, "it is deleted")
    assert console.view() == "#/topics"


def test_topics_are_listed(console, api, held):
    assert any(topic["name"] == held for topic in api.get("/v1/topics?limit=1000").json["topics"])
    console.open("#/topics")
    console.browser.sees(css="table[aria-label=Topics] .state")
    console.is_sound()


@pytest.fixture
def schedule(api, topic):
    """A schedule of the test's own; gone afterwards."""
    yield f"s-{topic}"
    api.delete(f"/v1/schedules/s-{topic}?cancel=true")


def test_a_schedule_is_made_shown_changed_and_deleted(console, api, topic, schedule):
    console.open("#/schedules")
    console.press_button("New schedule")
    console.browser.fill(label="Name", value=schedule)
    console.browser.fill(css="dialog #field-topic", value=topic)
    console.browser.fill(label="Cron", value="0 9 31 2 *")
    console.browser.sees(css="dialog .note.bad:has-text('/cron')")
    console.browser.fill(label="Cron", value="0 9 1 1 *")
    console.browser.fill(label="Time zone", value="Europe/Berlin")
    console.browser.sees(css="dialog:has-text('-01-01 08:00:00')")
    console.answer("Create")
    console.browser.sees(css="[aria-label='Next fires'] time:has-text('-01-01 08:00:00')")
    console.is_sound()
    console.press_button("Change")
    console.browser.choose(label="If the previous job is unfinished", value="skip")
    console.answer("Save")
    until(lambda: api.get(f"/v1/schedules/{schedule}").json["overlap"] == "skip", "it is saved")
    console.press_button("Pause")
    console.answer("Pause")
    console.browser.sees(css=".facts .state.paused")
    assert api.get(f"/v1/schedules/{schedule}").json["paused"]
    console.press_button("Delete")
    console.answer("Delete the schedule")
    until(lambda: api.get(f"/v1/schedules/{schedule}").status == 404, "it is deleted")


def test_a_schedule_that_fires_each_minute_shows_its_last_fires(console, api, db, held, schedule):
    minute = int(time.time()) // 60 * 60000
    made = api.batch([{"topic": held, "key": f"{schedule}@{minute - n * 60000}", "delay": 0} for n in range(1300)])
    assert {line["status"] for line in made} == {201}
    db("UPDATE jobs SET run_at = CAST(SUBSTRING_INDEX(job_key, '@', -1) AS SIGNED) WHERE topic = %s", held)  # as if it had fired all day
    assert api.put(f"/v1/schedules/{schedule}", {"topic": held, "cron": "* * * * *", "payload": {}}).status == 201
    console.open(f"#/schedules/{schedule}")
    console.browser.sees(css=f"table[aria-label=Fires] a.row:has-text('{schedule}@{minute}')")
    console.browser.click(role="link", name="a day", exact=True)
    console.says("Only the earliest fires are shown")
    console.is_sound()
    api.post("/v1/jobs:cancel", {"filter": {"topic": held}})


def test_the_late_jobs_of_a_topic_are_its_due_jobs(console, api, topic):
    """A job that was due once and whose retry lies ahead is not late."""
    assert api.put(f"/v1/topics/{topic}", {"delivery": "pull"}).status == 201
    api.make(topic=topic, key="retried", delay=0, retry=["PT1H"])
    job = until(lambda: api.post(f"/v1/topics/{topic}/pop", {"wait": "PT5S"}).json["jobs"], "the job is popped")[0]
    assert api.post(f"/v1/jobs/{job['id']}/results", {"attempt": 1, "status": "failed"}).status == 200
    api.make(topic=topic, key="tardy", delay=0)
    console.open(f"#/topics/{topic}")
    console.browser.click(css="a.figure:has-text('overdue for')")
    console.browser.sees(css="a.row:has-text('tardy')")
    assert console.browser.count(css="a.row:has-text('retried')") == 0


def test_a_schedule_shows_the_outcome_of_its_fires(console, api, held, schedule):
    assert api.put(f"/v1/schedules/{schedule}", {"topic": held, "every": "P300D"}).status == 201
    console.open(f"#/schedules/{schedule}")
    console.press_button("Run now")
    console.answer("Create 1 job")
    console.browser.sees(css=".reason:has-text('paused')")
    console.goto(f"#/schedules/{schedule}")
    console.browser.sees(css=f"table[aria-label=Fires] a.row:has-text('{schedule}@')")
    console.browser.click(role="link", name="a month", exact=True)
    console.browser.sees(css="[aria-label=Fires] a[aria-current]:has-text('a month')")
    console.browser.sees(css=f"table[aria-label=Fires] a.row:has-text('{schedule}@')")

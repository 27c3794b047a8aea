"""Jobs in the console: lists by filter, one job with its story, and what can be done with it."""
import pytest

from harness.stack import until

pytestmark = pytest.mark.in_turns(3)


def test_the_list_of_jobs_follows_its_filter_and_links_to_each_job(console, api, held):
    jobs = [api.make(topic=held, key=f"order-{n}", delay="PT1H", payload={"n": n}) for n in range(3)]
    api.post(f"/v1/jobs/{jobs[2]['id']}/cancel")
    console.open("#/jobs")
    console.browser.fill(label="Topic", value=held)
    console.press_button("Filter")
    console.browser.click(css="nav.tabs a:has-text('Scheduled')")
    console.browser.sees(role="link", name="order-1")
    console.browser.misses(role="link", name="order-2")
    assert f"topic={held}" in console.view() and "state=scheduled" in console.view()
    console.is_sound()
    console.browser.click(role="link", name="order-1")
    console.browser.sees(css=".reason")
    assert console.view() == f"#/jobs/{jobs[1]['id']}"
    console.browser.sees(css='pre:has-text(\'"n": 1\')')
    console.is_sound()


def test_a_list_has_pages_and_the_back_button_works(console, api, held):
    api.batch([{"topic": held, "key": f"k{n:03}", "delay": "PT1H"} for n in range(60)])
    console.open(f"#/jobs?topic={held}&key_prefix=k")
    console.browser.sees(role="link", name="k049")
    assert console.browser.count(css="main a.row") == 50
    console.browser.press(keys=["n"])
    console.browser.sees(role="link", name="k059")
    console.says("End of the list.")
    assert "cursor=" in console.view()
    console.browser.back()
    console.browser.sees(role="link", name="k000")


def test_a_list_updates_itself(console, api, held):
    console.open(f"#/jobs?topic={held}")
    console.says("No job matches.")
    api.make(topic=held, key="fresh", delay="PT1H")
    console.browser.sees(role="link", name="fresh")


def test_a_late_job_says_what_it_waits_for(console, api, held):
    job = api.make(topic=held, delay=0)
    console.open(f"#/jobs/{job['id']}")
    console.browser.sees(css=".reason:has-text('paused')")
    console.browser.sees(css=".reason.warn")


def test_the_timeline_shows_each_attempt_with_its_lateness_and_error(console, api, topic):
    assert api.put(f"/v1/topics/{topic}", {"delivery": "pull"}).status == 201
    api.make(topic=topic, key="told", delay=0, retry=[0, "PT1H"])
    for attempt, report in enumerate([{"status": "failed", "error": {"code": "E42", "message": "the mill stood still"}}, {"status": "failed"}], 1):
        job = api.post(f"/v1/topics/{topic}/pop", {"wait": "PT1M"}).json["jobs"][0]
        assert api.post(f"/v1/jobs/{job['id']}/results", {"attempt": attempt, **report}).status == 200
    console.open(f"#/jobs/{job['id']}")
    console.browser.sees(css=".timeline li:has-text('Attempt 1'):has-text('failed'):has-text('late'):has-text('the mill stood still')")
    console.browser.sees(css=".timeline li:has-text('Attempt 2'):has-text('failed')")
    console.browser.sees(css=".timeline li.ahead:has-text('Attempt 3')")
    console.is_sound()


def state_of(api, job):
    return api.get(f"/v1/jobs/{job['id']}").json["state"]


def test_cancel_asks_for_one_confirmation(console, api, topic):
    job = api.make(topic=topic, delay="PT1H")
    console.open(f"#/jobs/{job['id']}")
    console.press_button("Cancel")
    console.says("Cancel 1 job?")
    console.browser.press(keys=["Escape"])
    console.browser.misses(css="dialog")
    assert state_of(api, job) == "scheduled"
    console.press_button("Cancel")
    console.answer("Cancel the job")
    console.says("The job is cancelled.")
    assert state_of(api, job) == "cancelled"
    console.browser.misses(role="button", name="Cancel")


def test_a_change_sends_only_edited_members_and_shows_faults(console, api, topic):
    job = api.make(topic=topic, delay="PT1H", payload={"big": 1}, retry=["15s"])
    api.patch(f"/v1/jobs/{job['id']}", '{"payload":{"big":12345678901234567890,"small":1.50}}')
    console.open(f"#/jobs/{job['id']}")
    console.press_button("Change")
    console.browser.fill(label="Retries after", value="soon")
    console.press_button("Change", within="dialog")
    console.browser.sees(css="dialog [role=alert]:has-text('/retry')")
    console.browser.fill(label="Retries after", value="15s, 3m")
    console.browser.fill(label="Runs at (UTC)", value="2035-01-02 03:04:05")
    console.answer("Change")
    changed = api.get(f"/v1/jobs/{job['id']}")
    assert changed.json["run_at"] == "2035-01-02T03:04:05.000Z" and changed.json["retry"] == ["15s", "3m"]
    assert '"big":12345678901234567890,"small":1.50' in changed.text


def test_a_change_of_an_outdated_version_is_refused(console, api, topic):
    job = api.make(topic=topic, delay="PT1H", payload=1)
    console.open(f"#/jobs/{job['id']}")
    console.press_button("Change")
    api.patch(f"/v1/jobs/{job['id']}", {"payload": 2})
    console.browser.fill(label="Payload (JSON)", value="3")
    console.press_button("Change", within="dialog")
    console.browser.sees(css="dialog [role=alert]:has-text('version')")
    assert api.get(f"/v1/jobs/{job['id']}").json["payload"] == 2


def test_a_job_can_be_run_now_reported_and_redriven(console, api, topic):
    assert api.put(f"/v1/topics/{topic}", {"delivery": "pull"}).status == 201
    job = api.make(topic=topic, delay="PT1H", retry=[])
    console.open(f"#/jobs/{job['id']}")
    console.press_button("Run now")
    console.answer("Run it now")
    until(lambda: api.post(f"/v1/topics/{topic}/pop", {"wait": "PT1M"}).json["jobs"], "the job is popped")
    console.press_button("Report")
    console.browser.choose(label="Status", value="failed")
    console.browser.fill(label="Error code", value="E7")
    console.answer("Report")
    console.says("The report is applied.")
    console.browser.sees(css=".reason.bad")
    assert state_of(api, job) == "dead"
    console.press_button("Redrive")
    console.answer("Redrive 1 job")
    until(lambda: state_of(api, job) == "scheduled", "it is scheduled")
    console.browser.sees(role="button", name="Run now")


@pytest.mark.parametrize("words", ["id", "key"])
def test_a_job_is_found_by_its_id_or_its_topic_and_key(console, api, topic, words):
    job = api.make(topic=topic, key="a key/with all", delay="PT1H")
    console.open("#/jobs")
    console.browser.press(keys=["/"])
    console.browser.fill(css=".search input", value=job["id"] if words == "id" else f"{topic} a key/with all")
    console.browser.press(keys=["Enter"])
    console.browser.sees(css=".reason")
    assert console.view() == f"#/jobs/{job['id']}"


def test_a_missing_job_is_reported_as_missing(console):
    console.open("#/jobs/999999999999")
    console.says("Not found")
    console.is_sound()

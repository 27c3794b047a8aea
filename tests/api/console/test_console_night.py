"""What helps at night: findings that can be acted on, jobs by state with those that are late first, and times in the reader's zone."""
import pytest

pytestmark = pytest.mark.in_turns(2)

WRONG = "[aria-label='What is wrong']"


@pytest.fixture
def paused(api, topic):
    """A paused topic with a job that is due."""
    assert api.put(f"/v1/topics/{topic}", {"delivery": "pull", "paused": True}).status == 201
    api.make(topic=topic, key="waits", delay=0)
    return topic


def test_a_finding_resumes_its_topic_and_opens_its_runbook_page_in_place(console, api, paused):
    console.open("#/overview")
    finding = f"{WRONG} li:has(button:text-is('Resume {paused}'))"
    console.browser.sees(css=f"{finding} .severity.note:has-text('note')")
    console.press_button(f"Copy duetime topics resume {paused}")
    console.says("Copied.")
    console.browser.click(css=f"{finding} button:text-is('Open runbook')")
    console.browser.sees(css="[aria-label='Runbook: paused-and-due'] h3:has-text('Cured when')")
    console.browser.sees(css="[aria-label='Runbook: paused-and-due'] pre:has-text('duetime')")
    assert console.view() == "#/overview"
    console.is_sound()
    console.browser.click(css=f"{finding} button:text-is('Resume {paused}')")
    console.says("1 scheduled job can be dispatched again")
    console.answer("Resume")
    console.browser.misses(css=finding)
    assert api.get(f"/v1/topics/{paused}").json["paused"] is False


def test_a_page_of_the_runbook_links_to_others_and_an_unknown_one_is_reported(console):
    console.open("#/runbook/overdue")
    console.browser.click(css=".runbook a:text-is('not-popped')")
    console.browser.sees(css="h1:text-is('not-popped')")
    console.is_sound()
    console.goto("#/runbook/nothing")
    console.says("This API does not serve the page.")


def test_jobs_have_a_tab_for_each_state_with_a_count_and_the_latest_first(console, api, db, topic):
    assert api.put(f"/v1/topics/{topic}", {"delivery": "pull"}).status == 201
    for key, delay in (("later", "PT2H"), ("soon", "PT1H"), ("due", 0), ("gone", "PT1H")):
        job = api.make(topic=topic, key=key, delay=delay)
    api.post(f"/v1/jobs/{job['id']}/cancel")
    console.open(f"#/jobs?topic={topic}")
    console.browser.sees(css="nav.tabs a:has-text('Scheduled'):has-text('3')")
    console.browser.sees(css="nav.tabs a:has-text('Cancelled'):has-text('1')")
    console.browser.click(css="nav.tabs a:has-text('Scheduled')")
    for row, key in enumerate(("due", "soon", "later"), 1):
        console.browser.sees(css=f"table[aria-label=Jobs] tbody tr:nth-child({row}) a.row:has-text('{key}')")
    console.browser.sees(css="tr:has-text('due') td[data-label='Late by'] .late")
    assert console.view() == f"#/jobs?topic={topic}&state=scheduled"
    console.browser.click(css="nav.tabs a:has-text('Overdue')")
    console.browser.misses(css="a.row:has-text('soon')")
    console.browser.sees(css="a.row:has-text('due')")
    assert topic in console.browser.offers(css="#filter-topic")
    console.is_sound()


def test_a_held_job_of_a_paused_topic_is_not_late(console, paused):
    console.open(f"#/jobs?topic={paused}&state=scheduled")
    console.browser.sees(css="td[data-label='Late by']:has-text('held')")
    assert console.browser.count(css="td[data-label='Late by'] .late") == 0
    console.goto("#/jobs?state=scheduled&due_to=now")
    console.browser.sees(css="nav.tabs a:has-text('Overdue'):has-text(' held')")


def test_selected_jobs_are_moved_and_cancelled_together(console, api, held):
    api.batch([{"topic": held, "key": f"k{n}", "run_at": "2035-01-01T00:00:00Z"} for n in range(4)])
    console.open(f"#/jobs?topic={held}&state=scheduled")
    console.browser.click(css="[aria-label='Select k1']")
    console.browser.click(css="[aria-label='Select k2']")
    console.browser.sees(css=".selected:has-text('2 selected')")
    console.is_sound()
    console.press_button("Move…", within=".selected")
    console.browser.fill(label="By, or to", value="P1D")
    console.answer("Move 2 jobs")
    console.says("2 jobs moved.")
    assert {job["key"]: job["run_at"][8:10] for job in api.list(topic=held)} == {"k0": "01", "k1": "02", "k2": "02", "k3": "01"}
    console.browser.click(css="[aria-label='Select all rows']")
    console.browser.sees(css=".selected:has-text('4 selected')")
    console.press_button("Cancel…", within=".selected")
    console.answer("Cancel 4 jobs")
    console.says("4 jobs cancelled.")
    assert {job["state"] for job in api.list(topic=held)} == {"cancelled"}


def test_times_are_shown_and_read_in_the_zone_that_the_reader_chose(console, api, held):
    """The browser's zone is Tokyo's."""
    job = api.make(topic=held, key="k", run_at="2035-01-01T20:00:00Z")
    console.open(f"#/jobs/{job['id']}")
    console.browser.sees(css="time:has-text('2035-01-01 20:00:00.000 UTC')")
    console.browser.choose(label="Zone of all times", value="local")
    console.browser.sees(css="time:has-text('2035-01-02 05:00:00.000 GMT+9')")
    console.goto("#/jobs")
    console.goto(f"#/jobs/{job['id']}")
    console.browser.sees(css="time:has-text('2035-01-02 05:00:00.000 GMT+9')")
    console.press_button("Change")
    console.browser.fill(label="Runs at (Asia/Tokyo)", value="2035-01-02 06:00")
    console.answer("Change")
    assert api.get(f"/v1/jobs/{job['id']}").json["run_at"] == "2035-01-01T21:00:00.000Z"
    console.browser.choose(label="Zone of all times", value="other")
    console.browser.fill(css="dialog #field-zone", value="Mars/Olympus")
    console.press_button("Save", within="dialog")
    console.browser.sees(css="dialog [role=alert]:has-text('no such zone')")
    console.browser.fill(css="dialog #field-zone", value="Europe/Berlin")
    console.answer("Save")
    console.browser.sees(css="time:has-text('2035-01-01 22:00:00.000')")
    assert console.browser.storage()["local"] == {"duetime.zone": "Europe/Berlin"}
    console.is_sound()


def test_the_next_fires_of_a_schedule_are_shown_in_its_own_zone_and_in_the_readers(console, api, held):
    name = f"s-{held}"
    assert api.put(f"/v1/schedules/{name}", {"topic": held, "cron": "0 9 1 1 *", "time_zone": "Europe/Berlin", "paused": True}).status == 201
    try:
        console.open(f"#/schedules/{name}")
        console.browser.sees(css="[aria-label='Next fires'] li:has-text('-01-01 08:00:00.000 UTC'):has-text('-01-01 09:00 Europe/Berlin')")
    finally:
        api.delete(f"/v1/schedules/{name}?cancel=true")


def test_the_audit_log_shows_an_operation_as_one_event_with_its_jobs_below(console, api, held):
    api.batch([{"topic": held, "key": f"k{n}", "delay": "PT1H"} for n in range(3)])
    operation = api.post("/v1/jobs:cancel", {"filter": {"topic": held}, "wait": "PT1M"}).json
    assert operation["changed"] == 3
    console.open(f"#/events?topic={held}")
    one = f"tr:has(a:text-is('operation {operation['id']}'))"
    console.browser.sees(css=f"{one} summary:has-text('3 jobs')")
    assert console.browser.count(css=one) == 1
    console.browser.misses(css=f"{one} a:has-text('job ')")
    console.browser.click(css=f"{one} summary")
    console.browser.sees(css=f"{one} details a:has-text('job '):nth-of-type(1)")
    console.is_sound()


def test_a_dead_letter_shows_its_payload_and_the_answer_of_its_consumer(console, api, topic):
    assert api.put(f"/v1/topics/{topic}", {"delivery": "pull", "retry": []}).status == 201
    api.make(topic=topic, key="k", delay=0, payload={"mill": 12345678901234567})
    job = api.post(f"/v1/topics/{topic}/pop", {"wait": "PT1M"}).json["jobs"][0]
    report = {"attempt": 1, "status": "gave_up", "error": {"code": "E9", "message": "the mill stood still"}}
    assert api.post(f"/v1/jobs/{job['id']}/results", report).status == 200
    console.open(f"#/dead?topic={topic}&code=E9")
    console.browser.click(css="td summary:text-is('Show')")
    console.browser.sees(css="td pre:has-text('12345678901234567')")
    console.browser.sees(css="td details p:has-text('Answer to attempt 1'):has-text('the mill stood still')")
    console.is_sound()


def test_the_charts_of_the_overview_are_widened_to_a_day(console):
    console.open("#/overview")
    console.browser.sees(css="[aria-label='Throughput in the last hour (jobs/s)'] canvas")
    console.browser.click(css="[aria-label='Span of the charts'] a:text-is('24h')")
    console.browser.sees(css="[aria-label='Throughput in the last day (jobs/s)'] canvas")
    console.browser.sees(css="[aria-label='Lateness in the last day'] canvas")
    console.browser.sees(css="[aria-label='Throughput in the last day (jobs/s)'] .u-legend tr:has-text('created') td:text-matches('[0-9]')")  # without pointing
    assert console.view() == "#/overview?span=24h"
    console.is_sound()


def test_the_arrows_move_in_a_list(console, api, held):
    api.batch([{"topic": held, "key": f"k{n}", "delay": "PT1H"} for n in range(3)])
    console.open(f"#/jobs?topic={held}&key_prefix=k")
    console.browser.sees(css="a.row:has-text('k2')")
    console.browser.press(keys=["j", "ArrowDown", "ArrowDown", "ArrowUp"])
    assert console.browser.focused().startswith("k1")

"""Whole sets of jobs in the console: dead letters by error, and operations."""
import time

import pytest

from harness.stack import until

pytestmark = pytest.mark.in_turns(3)


@pytest.fixture
def dead(api, topic):
    """Five jobs that died of E1, and two of E2; their topic takes pops."""
    assert api.put(f"/v1/topics/{topic}", {"delivery": "pull", "retry": []}).status == 201
    api.batch([{"topic": topic, "key": f"k{n}", "delay": 0} for n in range(7)])
    reported = []

    def all_reported():
        for job in api.post(f"/v1/topics/{topic}/pop", {"max": 7, "wait": "PT1M"}).json["jobs"]:
            code = "E1" if job["key"] < "k5" else "E2"
            api.post(f"/v1/jobs/{job['id']}/results", {"attempt": 1, "status": "failed", "error": {"code": code, "message": f"{code} it was"}})
            reported.append(job["key"])
        return len(reported) == 7
    until(all_reported, lambda: reported)
    assert api.post(f"/v1/topics/{topic}/pause").status == 200
    return topic


def states(api, topic):
    jobs = api.list(topic=topic)
    return sorted(job["key"] for job in jobs if job["state"] == "dead")


def test_dead_letters_are_grouped_by_error_and_all_some_or_one_can_be_redriven(console, api, dead):
    console.open(f"#/dead?topic={dead}")
    console.browser.sees(css="tr:has-text('E1'):has-text('E1 it was') td.number:has-text('5')")
    console.browser.sees(css="tr:has-text('E2') td.number:has-text('2')")
    console.is_sound()
    console.press_button(f"Redrive all of {dead} with E2")
    console.says("Redrive 2 jobs?")
    console.browser.press(keys=["Escape"])
    assert len(states(api, dead)) == 7
    console.press_button(f"Redrive all of {dead} with E2")
    console.answer("Redrive 2 jobs")
    console.says("2 jobs redriven.")
    assert states(api, dead) == ["k0", "k1", "k2", "k3", "k4"]
    console.browser.click(css="a.row:has-text('E1')")
    console.browser.sees(css="a.row:has-text('k4')")
    console.is_sound()
    console.browser.click(css="input[aria-label='Select k1']")
    console.browser.click(css="input[aria-label='Select k3']")
    console.browser.sees(css=".selected:has-text('2 selected')")
    console.press_button("Redrive…", within=".selected")
    console.answer("Redrive 2 jobs")
    until(lambda: states(api, dead) == ["k0", "k2", "k4"], "the chosen ones are redriven")
    console.browser.misses(css="a.row:has-text('k1')")
    console.press_button("Redrive all")
    console.answer("Redrive 3 jobs")
    console.says("No dead jobs.")


def test_all_jobs_that_died_yesterday_are_redriven(console, api, db, held, swept):
    """More than the page names one by one."""
    api.batch([{"topic": held, "key": f"k{n}", "delay": "P9D"} for n in range(1100)])
    yesterday = (int(time.time()) // 86400 * 86400 - 3600) * 1000
    db("UPDATE jobs SET state = 'dead', next_at = NULL, error_code = 'E1', finished_at = %s, error_at = %s, purge_at = %s, leave_at = %s WHERE topic = %s",
       yesterday, yesterday, yesterday + 10**9, yesterday + 10**9, held)
    console.open(f"#/dead?topic={held}")
    console.browser.sees(css="tr:has-text('E1')")
    console.press_button("Redrive yesterday’s…")
    console.says("Redrive 1,100 jobs?")
    console.browser.press(keys=["Escape"])
    console.browser.click(css="[aria-label='When they died'] a:text-is('Yesterday')")
    console.browser.sees(css="[aria-label='When they died'] a[aria-current]:text-is('Yesterday')")
    console.press_button(f"Redrive all of {held} with E1")
    console.says("Redrive 1,100 jobs?")
    console.browser.press(keys=["Escape"])


def test_all_jobs_of_a_filter_are_moved_run_and_cancelled(console, api, held):
    api.batch([{"topic": held, "key": f"{'ab'[n % 2]}{n}", "run_at": "2035-01-01T00:00:00Z"} for n in range(6)])
    console.open(f"#/jobs?topic={held}&key_prefix=a")
    console.press_button("Move…")
    console.browser.fill(label="By, or to", value="P1D")
    console.answer("Move 3 jobs")
    console.says("3 jobs moved.")
    assert {(job["key"][0], job["run_at"][:10]) for job in api.list(topic=held)} == {("a", "2035-01-02"), ("b", "2035-01-01")}
    console.press_button("Cancel…")
    console.answer("Cancel 3 jobs")
    console.says("3 jobs cancelled.")
    assert {(job["key"][0], job["state"]) for job in api.list(topic=held)} == {("a", "cancelled"), ("b", "scheduled")}
    console.press_button("Run now…")
    console.says("No job matches that this action applies to.")


def test_the_progress_of_an_operation_is_shown_and_it_can_be_stopped(console, api, held):
    api.batch([{"topic": held, "key": f"k{n}", "run_at": "2035-01-01T00:00:00Z"} for n in range(40)])
    console.open(f"#/jobs?topic={held}&state=scheduled")
    console.press_button("Cancel…")
    console.browser.fill(label="Max rate", value="1/m")
    console.answer("Cancel 40 jobs")
    console.browser.sees(css="h1:has-text('cancel')")
    console.browser.sees(css=".facts .state.running")
    console.is_sound()
    console.press_button("Stop")
    console.answer("Stop it")
    console.browser.sees(css=".facts .state.stopped")
    operation = console.view().rsplit("/", 1)[1]
    assert api.get(f"/v1/operations/{operation}").json["state"] == "stopped"
    console.goto("#/operations")
    console.browser.sees(css=f"tr:has-text('{operation}') .state.stopped")
    console.is_sound()

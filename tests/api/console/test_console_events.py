"""Who did what, in the console; and lists of jobs by what is seldom asked for."""
import pytest

from harness.stack import until

pytestmark = pytest.mark.in_turns(3)


def test_events_show_who_did_what_and_link_to_the_job(console, api, held):
    job = api.make(topic=held, key="moved", delay="PT1H")
    assert api.patch(f"/v1/jobs/{job['id']}", {"ack_timeout": "PT7M"}).status == 200
    assert api.post(f"/v1/jobs/{job['id']}/cancel").status == 200
    console.open("#/events")
    console.browser.fill(label="Topic", value=held)
    console.press_button("Filter")
    console.browser.sees(css="tr:has-text('cancelled'):has-text('state: \"scheduled\" → \"cancelled\"')")
    console.browser.sees(css="tr:has-text('changed'):has-text('ack_timeout: ')")
    console.browser.sees(css=f"tr:has-text('cancelled'):has-text('next_at: {job['run_at'].replace('T', ' ').removesuffix('Z')} →')")
    console.is_sound()
    console.browser.fill(label="From", value="+1h")
    console.press_button("Filter")
    console.says("No events.")
    console.browser.back()
    console.browser.click(css=f"tr:has-text('cancelled') a:has-text('{job['id']}')")
    console.browser.sees(css=".timeline li:has-text('cancelled')")
    assert console.view() == f"#/jobs/{job['id']}"


def test_failures_can_be_listed_by_error(console, api, topic):
    assert api.put(f"/v1/topics/{topic}", {"delivery": "pull", "retry": []}).status == 201
    for key, message in (("k1", "the mill stood still"), ("k2", "the river was dry")):
        job = api.make(topic=topic, key=key, delay=0)
        until(lambda: api.post(f"/v1/topics/{topic}/pop").json["jobs"], "the job is popped")
        assert api.post(f"/v1/jobs/{job['id']}/results", {"attempt": 1, "status": "failed", "error": {"code": "E1", "message": message}}).status == 200
    console.open(f"#/jobs?topic={topic}")
    console.browser.sees(role="link", name="k1")
    console.browser.click(text="More filters")
    console.browser.fill(label="Error contains", value="mill stood")
    console.press_button("Filter")
    console.says("requires a range of at most one day")
    console.browser.fill(label="Failed from", value="-1h")
    console.browser.fill(label="Failed before", value="+1h")
    console.press_button("Filter")
    console.browser.sees(role="link", name="k1")
    console.browser.misses(role="link", name="k2")
    console.is_sound()

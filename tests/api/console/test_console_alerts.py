"""Alerts in the console: those that are active, and the alert settings of a topic."""
import pytest

from harness.stack import until

pytestmark = pytest.mark.in_turns(2)


def test_an_active_alert_links_to_its_cause_and_can_be_silenced(console, api, held):
    settings = api.get(f"/v1/topics/{held}").json
    assert api.put(f"/v1/topics/{held}", {**settings, "alerts": {"backlog": 1}}).status == 200
    api.make(topic=held, key="waits", delay=0)
    mine = until(lambda: [alert for alert in api.get("/v1/alerts?limit=1000").json["alerts"] if alert["topic"] == held], "the alert is raised")
    console.open("#/alerts")
    console.browser.sees(css=f"tr:has-text('{held}'):has-text('a backlog')")
    console.browser.sees(css="nav .badge")
    console.is_sound()
    console.press_button(f"Silence backlog {held}")
    console.browser.fill(css="dialog #field-how", value="PT2H")
    console.answer("Silence")
    console.browser.sees(css=f"tr:has-text('{held}') td[data-label='Silenced until'] time")
    assert next(alert for alert in api.get("/v1/alerts?limit=1000").json["alerts"] if alert["id"] == mine[0]["id"])["silenced_until"]
    console.browser.click(css=f"tr:has-text('{held}') a.row")
    console.browser.sees(css="a.row:has-text('waits')")
    assert api.put(f"/v1/topics/{held}", {**settings, "alerts": None}).status == 200


def test_the_alert_settings_of_a_topic_can_be_changed(console, api, topic):
    assert api.put(f"/v1/topics/{topic}", {"delivery": "pull", "rate_limit": "5/s"}).status == 201
    console.open(f"#/topics/{topic}")
    console.says("Defaults of the configuration.")
    console.browser.click(css="[aria-label=Alerts] button")
    console.browser.fill(label="Late for", value="soon")
    console.press_button("Save", within="dialog")
    console.browser.sees(css="dialog [role=alert]:has-text('/alerts/overdue')")
    console.browser.fill(label="Late for", value="PT2M")
    console.browser.fill(label="Dead", value="3")
    console.answer("Save")
    console.browser.sees(css="[aria-label=Alerts] dd:has-text('2 min')")
    told = api.get(f"/v1/topics/{topic}").json
    assert told["alerts"]["overdue"] == "PT2M" and told["alerts"]["dead"] == 3 and told["rate_limit"] == "5/s"

"""Alerts by REST: what a topic says of them, which stand, who sees and silences them. That they are raised: integration/alerts."""
import pytest

from harness.problems import refused
from harness.rest import Rest
from harness.stack import until

SECRET = "whsec_QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVo="
ALL = {"overdue": "PT1M", "backlog": 10000, "dead": 1, "unreported": "PT10M", "url": "https://team.example/alerts", "secret": SECRET, "mute_until": "2030-01-01T00:00:00+01:00"}


def put(api, topic, alerts, **settings):
    return api.put(f"/v1/topics/{topic}", {"delivery": "pull", **settings, "alerts": alerts})


@pytest.mark.in_turns(3)
def test_alert_settings_are_shown_without_the_secret_and_can_be_put_back(api, db, topic):
    shown = put(api, topic, ALL)
    assert shown.status == 201 and shown.json["alerts"] == {**ALL, "secret": "***", "mute_until": "2029-12-31T23:00:00.000Z"}, shown
    again = api.put(f"/v1/topics/{topic}", {**shown.json, "max_in_flight": 7})
    assert again.status == 200 and again.json["alerts"] == shown.json["alerts"]
    stored = lambda: db("SELECT CONVERT(alerts USING utf8mb4) a FROM topics WHERE name = %s", topic)[0]["a"]  # noqa: E731
    assert SECRET in stored()
    assert put(api, topic, {"dead": 0}).json["alerts"] == {name: 0 if name == "dead" else None for name in ALL}
    assert "secret" not in stored()
    assert put(api, topic, None).json["alerts"] is None and stored() is None
    refused(put(api, topic, {"secret": "***"}), 422, "invalid", "/alerts/secret")


@pytest.mark.parametrize("alerts, pointer", [
    ({"overdue": "soon"}, "overdue"), ({"overdue": "-PT1S"}, "overdue"), ({"unreported": True}, "unreported"), ({"backlog": -1}, "backlog"), ({"backlog": "PT1S"}, "backlog"),
    ({"backlog": 1.5}, "backlog"), ({"dead": 1000000001}, "dead"), ({"url": "ftp://team.example/"}, "url"), ({"url": "https://user:word@team.example/"}, "url"), ({"url": 1}, "url"),
    ({"secret": "nonsense"}, "secret"), ({"mute_until": "tomorrow"}, "mute_until"), ({"mute_until": "1969-01-01T00:00:00Z"}, "mute_until"), ({"overdu": "PT1S"}, "overdu")])
def test_invalid_alert_settings_are_refused_by_name(api, topic, alerts, pointer):
    refused(put(api, topic, alerts), 422, "invalid", f"/alerts/{pointer}")
    assert api.get(f"/v1/topics/{topic}").status == 404


def test_alerts_are_not_sent_to_hosts_forbidden_for_callbacks(own_apis, topic):
    own = own_apis.beside("alert_hosts", {"callbacks.enabled": "true", "callbacks.allow_hosts": "*.inside.example"})
    refused(put(own.rest, topic, {"url": "https://team.example/"}), 422, "invalid", "/alerts/url")
    assert put(own.rest, topic, {"url": "https://team.inside.example/"}).status == 201
    off = own_apis.running("plain")  # callbacks are off by default
    refused(put(off.rest, f"{topic}.off", {"url": "https://team.example/"}), 422, "invalid", "/alerts/url")


@pytest.fixture(scope="module")
def standing(own_apis):
    """An API whose database has five alerts, and tokens that see different ones."""
    own = own_apis("alerts_stand").start()
    tokens = {}
    for name, scopes, topics in (("boss", "admin", None), ("reader", "read", None), ("clerk", "read,write", "in.")):
        done = own.command("--new-token", name, "--scopes", scopes, *(["--topics", topics] if topics else []))
        tokens[name] = Rest(own.url, token=done.stdout.strip())
    own.rows("INSERT INTO processes (id, kind, name, started_at, seen_at) VALUES (1, 'dispatcher', 'a', 1, 4102444800000)")  # its alerts are judged by nobody here
    own.rows("REPLACE INTO alert_judge (only_row, process) VALUES (1, 1)")
    own.rows("DELETE FROM alerts")  # those that the API began before
    own.rows("INSERT INTO alerts (id, topic, kind, value, bound, began_at, told_at) VALUES (1, '', 'no_leader', 2, 1, 1000, 2000), (2, 'in.a', 'overdue', 61500, 60000, 1000, NULL),"
             " (3, 'out', 'dead', 5, 1, 1000, NULL), (4, 'in.b', 'backlog', 7, 7, 1000, NULL), (5, 'inner', 'dead', 1, 1, 1000, NULL)")
    until(lambda: own.rest.get("/v1/alerts").status == 401 and all(rest.get("/v1/caller").status == 200 for rest in tokens.values()), "the API accepts the tokens")
    return tokens


def ids(api, path="/v1/alerts?limit=2"):
    """Of all pages, of which each has two at most."""
    found, cursor = [], ""
    while cursor is not None:
        page = api.get(path + cursor).json
        assert len(page["alerts"]) <= 2
        found += [alert["id"] for alert in page["alerts"]]
        cursor = page["next_cursor"] and f"&cursor={page['next_cursor']}"
    return found


def test_a_token_sees_the_alerts_of_its_topics_page_by_page(standing):
    assert ids(standing["boss"]) == ids(standing["reader"]) == ["1", "2", "3", "4", "5"]
    assert ids(standing["clerk"]) == ["2", "4"]
    [first] = standing["boss"].get("/v1/alerts?limit=1").json["alerts"]
    assert first == {"id": "1", "topic": None, "kind": "no_leader", "value": 2, "limit": 1, "began_at": "1970-01-01T00:00:01.000Z", "told_at": "1970-01-01T00:00:02.000Z", "silenced_until": None}
    late = standing["clerk"].get("/v1/alerts").json["alerts"][0]
    assert (late["value"], late["limit"]) == ("PT1M1.5S", "PT1M")
    refused(standing["boss"].get("/v1/alerts?limit=0"), 422, "invalid", "?limit")


def test_an_alert_is_silenced_for_a_duration_until_a_time_or_until_its_end(standing):
    clerk = standing["clerk"]
    assert clerk.post("/v1/alerts/2/silence", {"until": "2031-01-01T00:00:00Z"}).json["silenced_until"] == "2031-01-01T00:00:00.000Z"
    assert "2026" <= clerk.post("/v1/alerts/2/silence", {"for": "PT1H"}).json["silenced_until"] < "2031"
    assert clerk.post("/v1/alerts/2/silence").json["silenced_until"] > "9000"
    assert clerk.post("/v1/alerts/2/silence", {"for": 0}).json["silenced_until"] < "2031", "it is heard of again"
    for other in ("1", "3", "5", "77", "x"):
        refused(clerk.post(f"/v1/alerts/{other}/silence"), 404, "not-found")
    refused(standing["reader"].post("/v1/alerts/2/silence"), 403, "forbidden")
    for body, pointer in (({"for": "soon"}, "/for"), ({"until": "soon"}, "/until"), ({"fo": 1}, "/fo"), ([], "")):
        refused(clerk.post("/v1/alerts/2/silence", body), 422, "invalid", pointer)
    assert clerk.post("/v1/alerts/2/silence", {"for": "PT1H", "until": "2031-01-01T00:00:00Z"}).status == 422

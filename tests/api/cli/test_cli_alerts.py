"""Alerts from the terminal: set, listed, silenced, gone."""
from harness.stack import until


def test_alerts_are_set_listed_silenced_and_removed(duetime, api, topic):
    done = duetime("topics", "set", topic, "--delivery", "pull", "--alerts", '{"backlog":1,"overdue":"PT1H"}', "--json")
    assert done.code == 0 and (done.json["alerts"]["backlog"], done.json["alerts"]["overdue"], done.json["alerts"]["dead"]) == (1, "PT1H", None), done
    api.make(topic=topic, delay=0)
    [row] = until(lambda: [row for row in duetime("alerts", "list").rows if row[1] == topic], "the alert is raised")
    assert row[2:5] == ["backlog", "1", "1"], row
    silenced = duetime("alerts", "silence", row[0], "--for", "PT1H", "--json")
    assert silenced.code == 0 and silenced.json["id"] == row[0] and silenced.json["silenced_until"] > silenced.json["began_at"], silenced
    assert duetime("topics", "set", topic, "--alerts", "null", "--json").json["alerts"] is None
    until(lambda: duetime("alerts", "silence", row[0]).code == 3, "it has ended")

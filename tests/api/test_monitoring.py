"""deploy/local up --monitoring: Prometheus scrapes a live stack, takes every rule, and answers every query of the dashboard; Grafana is given it."""
import json
import stat
import sys
import urllib.parse
import urllib.request

import pytest

from harness.stack import TREE, until
from monitoring import check

pytestmark = pytest.mark.in_turns(12)

GRAFANA = f"""#!{sys.executable}
# Stands for Grafana: what it was told stands in told.json, and it is well.
import http.server, json, os
told = {{name: value for name, value in os.environ.items() if name.startswith("GF_")}}
open(os.path.join(os.path.dirname(told["GF_PATHS_DATA"]), "told.json"), "w").write(json.dumps(told))
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == "/api/health" else 404)
        self.end_headers()
    def log_message(self, *_): pass
http.server.HTTPServer((told["GF_SERVER_HTTP_ADDR"], int(told["GF_SERVER_HTTP_PORT"])), Handler).serve_forever()
"""


@pytest.fixture(scope="module")
def monitored(stack, tmp_path_factory):
    program = tmp_path_factory.mktemp("bin") / "grafana"
    program.write_text(GRAFANA)
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(program.parent), prepend=":")
        stack.up_again("--monitoring")
        yield stack
        stack.up_again("--no-monitoring")
    assert not any(stack.running(part) for part in ("prometheus", "grafana"))


def ask(stack, path, **query):
    with urllib.request.urlopen(f"{stack['DUETIME_PROMETHEUS']}/api/v1/{path}?{urllib.parse.urlencode(query)}") as answer:  # 400: the query is none
        return json.load(answer)["data"]


def may_be_empty(query):
    """What there is only once something was wrong."""
    return "duetime_outage" in query or "ALERTS{" in query or query.endswith(" == 1")


def test_every_query_of_the_dashboard_has_an_answer_and_every_rule_is_evaluated(monitored, api, topic):
    for name in (topic, f"{topic}-held"):
        api.put(f"/v1/topics/{name}", {"delivery": "pull", "paused": name != topic})
        api.make(topic=name, delay=0)
    api.put(f"/v1/topics/{topic}-full", {"delivery": "kafka", "max_in_flight": 1})
    for _ in range(2):
        api.make(topic=f"{topic}-full", delay=0)
    assert api.post(f"/v1/topics/{topic}/pop", {"wait": "PT1M"}).json["jobs"]  # some metrics appear with the first pop
    queries = [(title, query.replace("$__rate_interval", "10s")) for title, query in check.queries()]

    def unanswered():
        return [each for each in queries if not ask(monitored, "query", query=each[1])["result"] and not may_be_empty(each[1])]
    until(lambda: not unanswered(), unanswered)
    rules = until(lambda: (found := [rule for group in ask(monitored, "rules")["groups"] for rule in group["rules"]])
                  and all(rule["health"] == "ok" for rule in found) and found, lambda: ask(monitored, "rules"))
    assert {rule["name"] for rule in rules} == {rule["alert"] for rule in check.rules()}
    alerts = until(lambda: [alert for alert in ask(monitored, "alerts")["alerts"] if alert["labels"]["alertname"] == "DuetimeOverdue"],
                   lambda: ask(monitored, "alerts"))
    until(lambda: [alert for alert in ask(monitored, "alerts")["alerts"] if alert["labels"]["alertname"] == "DuetimeHeld"], lambda: ask(monitored, "alerts"))
    assert (TREE / alerts[0]["annotations"]["runbook"]).is_file() and "{{" not in alerts[0]["annotations"]["summary"]


def test_grafana_has_the_data_source_and_the_dashboard(monitored):
    folder = monitored.home / "grafana"
    told = json.loads((folder / "told.json").read_text())
    assert told["GF_SERVER_HTTP_ADDR"] == "127.0.0.1" and told["GF_PATHS_PROVISIONING"] == str(folder / "provisioning")
    [source] = json.loads((folder / "provisioning/datasources/duetime.yaml").read_text())["datasources"]
    [boards] = json.loads((folder / "provisioning/dashboards/duetime.yaml").read_text())["providers"]
    assert source["url"] == monitored["DUETIME_PROMETHEUS"]
    assert json.loads(open(f"{boards['options']['path']}/duetime.json").read())["title"] == "duetime"

"""Grafana, where the machine has one, with the dashboard of deploy/monitoring; whoever opens it on the loopback may look without a password."""
import json
import os
import shutil
from pathlib import Path

from ..part import Part
from .prometheus import MONITORING, answers

HOMES = ["/usr/share/grafana", "/usr/local/share/grafana"]  # where packages put what it shows


def program():
    """The words that start a server, or None."""
    for words in (["grafana", "server"], ["grafana-server"]):
        if shutil.which(words[0]):
            return words
    return None


class Grafana(Part):
    def __init__(self, home, port, prometheus):
        super().__init__(home, "grafana")
        self.port = port
        self.prometheus = prometheus
        self.address = f"http://127.0.0.1:{port}"

    def _provisioned(self):
        """{file: contents}; YAML, of which JSON is a part."""
        source = {"name": "duetime", "type": "prometheus", "access": "proxy", "url": self.prometheus, "isDefault": True, "jsonData": {"timeInterval": "2s"}}
        boards = {"name": "duetime", "type": "file", "options": {"path": str(self.data / "dashboards")}}
        return {"provisioning/datasources/duetime.yaml": json.dumps({"apiVersion": 1, "datasources": [source]}),
                "provisioning/dashboards/duetime.yaml": json.dumps({"apiVersion": 1, "providers": [boards]}),
                "dashboards/duetime.json": (MONITORING / "dashboard.json").read_text(encoding="utf-8")}

    def prepare(self):
        for name, text in self._provisioned().items():
            path = self.data / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")

    def made_of(self):
        return [*super().made_of(), self.prometheus]

    def argv(self):
        homes = [path for path in HOMES if Path(path).is_dir()]
        return [*(program() or ["grafana-server"]), *(["--homepath", homes[0]] if homes else [])]

    def environment(self):
        return {**os.environ, "GF_SERVER_HTTP_ADDR": "127.0.0.1", "GF_SERVER_HTTP_PORT": str(self.port), "GF_PATHS_DATA": str(self.data / "data"),
                "GF_PATHS_LOGS": str(self.data / "data"), "GF_PATHS_PLUGINS": str(self.data / "plugins"),
                "GF_PATHS_PROVISIONING": str(self.data / "provisioning"), "GF_AUTH_ANONYMOUS_ENABLED": "true", "GF_ANALYTICS_REPORTING_ENABLED": "false",
                "GF_ANALYTICS_CHECK_FOR_UPDATES": "false", "GF_ANALYTICS_CHECK_FOR_PLUGIN_UPDATES": "false", "GF_NEWS_NEWS_FEED_ENABLED": "false"}

    def is_ready(self):
        return answers(f"{self.address}/api/health")

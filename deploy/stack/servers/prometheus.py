"""Prometheus, with the rules of deploy/monitoring, which scrapes every program of the stack."""
import http.client
import json
import urllib.request

from .. import paths
from ..part import Part
from .wire import PROBE_SECONDS

SCRAPE = "2s"
MONITORING = paths.TREE / "deploy" / "monitoring"


def answers(url):
    try:
        with urllib.request.urlopen(url, timeout=PROBE_SECONDS) as answer:
            return answer.status == 200
    except (OSError, http.client.HTTPException):
        return False


class Prometheus(Part):
    """`jobs` is {name: addresses of programs}."""

    def __init__(self, home, port, jobs):
        super().__init__(home, "prometheus")
        self.port = port
        self.jobs = jobs
        self.address = f"http://127.0.0.1:{port}"
        self.config = self.data / "prometheus.yml"

    def _text(self):
        """YAML, of which JSON is a part."""
        scrapes = [{"job_name": name, "static_configs": [{"targets": [address.removeprefix("http://") for address in addresses]}]}
                   for name, addresses in self.jobs.items()]
        return json.dumps({"global": {"scrape_interval": SCRAPE, "evaluation_interval": SCRAPE}, "rule_files": [str(MONITORING / "alerts.yml")],
                           "scrape_configs": scrapes}, indent=1)

    def prepare(self):
        self.config.write_text(self._text(), encoding="utf-8")

    def made_of(self):
        return [*super().made_of(), self._text()]

    def argv(self):
        return ["prometheus", f"--config.file={self.config}", f"--storage.tsdb.path={self.data / 'series'}", "--storage.tsdb.retention.time=7d",
                f"--web.listen-address=127.0.0.1:{self.port}"]

    def is_ready(self):
        return answers(f"{self.address}/-/ready")

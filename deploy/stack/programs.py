"""duetime's own programs as parts of the stack: their configuration files, their readiness.

Each program gets a file of its own with everything in it. Variables that `deploy/local env` prints are kept from
it (the environment would win over the file, and may be another stack's); all other DUETIME_* settings pass.
"""
import hashlib
import http.client
import json
import os
import ssl
import urllib.error
import urllib.request

from . import build
from .part import Part
from .servers.wire import PROBE_SECONDS

DATABASE = "duetime"
OURS = ("DUETIME_URL", "DUETIME_TOKEN", "DUETIME_CA_FILE", "DUETIME_KAFKA", "DUETIME_REDIS", "DUETIME_ZOOKEEPER", "DUETIME_MYSQL_", "DUETIME_PID_",
        "DUETIME_METRICS_", "DUETIME_PROMETHEUS", "DUETIME_GRAFANA", "DUETIME_HTTP_PORT", "DUETIME_SHARDS_COUNT", "DUETIME_INSTALLATION_NAME", "DUETIME_DISPATCH_METRICS_PORT")


def ini(sections):
    return "".join(f"[{section}]\n" + "".join(f"{key} = {value}\n" for key, value in keys.items()) + "\n"
                   for section, keys in sections.items() if keys)


def environment():
    kept = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
    kept.setdefault("ASAN_OPTIONS", "abort_on_error=1:detect_leaks=1")
    kept.setdefault("UBSAN_OPTIONS", "print_stacktrace=1")
    return kept


class Program(Part):
    """`settings` is {section: {key: value}}: where the servers are, and what the user asked for with --set."""

    program = ""
    token, ca = None, None  # of an API that is asked by TLS

    def __init__(self, home, name, port, preset, settings):
        super().__init__(home, name)
        self.port = port
        self.address = f"http://127.0.0.1:{port}"
        self.preset = preset
        self.settings = settings
        self.config = self.data / "duetime.ini"
        self.once_settings = {}  # {section: {key: value}}: of this start alone
        self.once_config = None  # a file that is read in place of the one that is made here, at this start alone

    def _text(self):
        sections = {section: dict(keys) for section, keys in self.settings.items()}
        for more in (self.own_settings(), self.once_settings):
            for section, keys in more.items():
                sections.setdefault(section, {}).update(keys)
        return ini(sections)

    def prepare(self):
        with open(os.open(self.config, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as out:
            out.write(self._text())

    def made_of(self):
        return [*super().made_of(), hashlib.sha256(self._text().encode()).hexdigest()]

    def own_settings(self):
        return {}

    def argv(self):
        return [build.program(self.preset, self.program), "--config", self.once_config or self.config]

    def environment(self):
        return environment()

    def get(self, path, seconds=PROBE_SECONDS):
        """(status, body) of a GET; (0, b"") when nothing answers."""
        try:
            request = urllib.request.Request(self.address + path, headers={"Authorization": f"Bearer {self.token}"} if self.token else {})
            trust = ssl.create_default_context(cafile=self.ca) if self.ca else None
            with urllib.request.urlopen(request, timeout=seconds, context=trust) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as problem:
            return problem.code, problem.read()
        except (OSError, http.client.HTTPException):
            return 0, b""


class Api(Program):
    program = "duetime-api"

    def own_settings(self):
        return {"http": {"listen": "127.0.0.1", "port": self.port}}

    def secured(self, ca, token):
        """It is asked by https, with a token."""
        self.ca, self.token, self.address = ca, token, self.address.replace("http:", "https:")

    def is_ready(self):
        return self.get("/readyz")[0] == 200

    def leaderless(self):
        """Numbers of the shards that nobody leads; None when the API cannot say. Where it asks for a token: none."""
        status, body = self.get("/v1/info")
        if status in (401, 403):
            return []
        if status != 200:
            return None
        return [shard["shard"] for shard in json.loads(body).get("shards", []) if not shard.get("leader")]


class Dispatcher(Program):
    program = "duetime-dispatcher"

    def own_settings(self):
        return {"dispatch": {"metrics_port": self.port}}

    def is_ready(self):
        return self.get("/healthz")[0] == 200

"""REST over one keep-alive connection a thread; nothing of the product is used.

An https URL of a stack is checked with the stack's authority, and asked with its token, unless there are a context and a token of its own
(`TRUST`); unix:/path is a Unix socket.
"""
import http.client
import json
import re
import socket
import ssl
import threading
import time
import urllib.parse

IDLE_SECONDS = 20
TRUST = {}  # URL of a secured stack: (file of its authority, its token)


class Answer:
    def __init__(self, status, headers, body):
        self.status = status
        self.headers = headers
        self.body = body

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def text(self):
        return self.body.decode()

    @property
    def lines(self):
        return [json.loads(line) for line in self.body.splitlines() if line.strip()]

    def __repr__(self):
        return f"{self.status} {self.body[:500]!r}"


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path, timeout):
        super().__init__("localhost", timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Rest:
    def __init__(self, url, token=None, timeout=120, tls=None):
        parts = urllib.parse.urlsplit(url)
        self.host, self.port, self.path = parts.hostname, parts.port, parts.path if parts.scheme == "unix" else None
        authority, known = TRUST.get(url, (None, None))
        self.tls = tls or ssl.create_default_context(cafile=authority) if parts.scheme == "https" else None
        self.url, self.token = url, known if token is None else token  # "": none
        self.timeout = timeout
        self._local = threading.local()

    def _connection(self):
        """A connection that was idle for long may be closed by the server just now: it is not used again."""
        connection = getattr(self._local, "connection", None)
        idle, self._local.used = time.monotonic() - getattr(self._local, "used", 0), time.monotonic()
        if connection is not None and idle > IDLE_SECONDS:
            self.close()
            connection = None
        if connection is None:
            connection = self._local.connection = self._connect()
        return connection

    def _connect(self):
        if self.path:
            return UnixConnection(self.path, self.timeout)
        if self.tls:
            return http.client.HTTPSConnection(self.host, self.port, timeout=self.timeout, context=self.tls)
        return http.client.HTTPConnection(self.host, self.port, timeout=self.timeout)

    def close(self):
        connection = getattr(self._local, "connection", None)
        if connection:
            connection.close()
            self._local.connection = None

    def ask(self, method, path, body=None, headers=None, content_type="application/json"):
        """One request; a body that is not bytes or text is sent as JSON."""
        data = body if isinstance(body, (bytes, str, type(None))) else json.dumps(body)
        sent = dict(headers or {})
        if data is not None and content_type:
            sent.setdefault("Content-Type", content_type)
        if self.token:
            sent.setdefault("Authorization", f"Bearer {self.token}")
        connection = self._connection()
        try:
            connection.request(method, path, data, sent)
            answer = connection.getresponse()
            result = Answer(answer.status, answer.headers, answer.read())
            if answer.will_close:
                self.close()
            return result
        except Exception:
            self.close()
            raise

    def get(self, path, **options):
        return self.ask("GET", path, **options)

    def post(self, path, body=None, **options):
        return self.ask("POST", path, body, **options)

    def put(self, path, body=None, **options):
        return self.ask("PUT", path, body, **options)

    def patch(self, path, body=None, **options):
        return self.ask("PATCH", path, body, **options)

    def delete(self, path, **options):
        return self.ask("DELETE", path, **options)

    def make(self, **job):
        """A job that must be created; its body."""
        answer = self.post("/v1/jobs", job)
        assert answer.status == 201, answer
        return answer.json

    def metric(self, name, missing=None, **labels):
        """The value of a metric; of several lines with these labels, the sum. A process that has no such metric yet has `missing`, or fails the test."""
        text = self.get("/metrics").text
        lines = re.findall(rf"^{name}(\{{.*\}})? (\S+)$", text, re.M)
        assert lines or missing is not None, f"there is no {name} in\n{text}"
        values = [float(value) for shown, value in lines if all(f'{label}="{wanted}"' in shown for label, wanted in labels.items())]
        return sum(values) if lines else missing

    def batch(self, jobs):
        """NDJSON; the lines of the answer."""
        answer = self.post("/v1/jobs:batch", "".join(json.dumps(job) + "\n" for job in jobs), content_type="application/x-ndjson")
        assert answer.status == 200, answer
        return answer.lines

    def list(self, **query):
        """All jobs of a list, page by page to its end."""
        jobs, cursor = [], None
        for _ in range(1000):
            answer = self.get("/v1/jobs?" + urllib.parse.urlencode({**query, **({"cursor": cursor} if cursor else {})}))
            assert answer.status == 200, answer
            jobs += answer.json["jobs"]
            cursor = answer.json["next_cursor"]
            if cursor is None:
                return jobs
        raise AssertionError("the list has no end")

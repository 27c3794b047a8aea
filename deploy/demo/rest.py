"""REST as any caller would use it: urllib and JSON, with the bearer token in DUETIME_TOKEN and the authorities in DUETIME_CA_FILE when there
are any."""
import http.client
import json
import os
import ssl
import time
import urllib.error
import urllib.request

from .times import LONG_SECONDS


class Rest:
    def __init__(self, url):
        self.url = url

    def ask(self, method, path, body=None, content_type="application/json"):
        """Returns (status, decoded body). If the body is bytes, it is sent unchanged. Without an answer it raises AssertionError."""
        data = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data=data, method=method)
        if os.environ.get("DUETIME_TOKEN"):
            request.add_header("Authorization", f"Bearer {os.environ['DUETIME_TOKEN']}")
        if data is not None:
            request.add_header("Content-Type", content_type)
        try:
            with urllib.request.urlopen(request, timeout=LONG_SECONDS, context=self._trust()) as answer:
                return answer.status, self._decode(answer)
        except urllib.error.HTTPError as problem:
            return problem.code, self._decode(problem)
        except (OSError, http.client.HTTPException) as fault:
            raise AssertionError(f"{method} {path}: no answer: {fault}") from None

    def _trust(self):
        return ssl.create_default_context(cafile=os.environ.get("DUETIME_CA_FILE")) if self.url.startswith("https:") else None

    @staticmethod
    def _decode(answer):
        text = answer.read()
        if "ndjson" in answer.headers.get("Content-Type", ""):
            return [json.loads(line) for line in text.splitlines() if line.strip()]
        return json.loads(text) if text else None

    def want(self, status, method, path, body=None, content_type="application/json"):
        """Returns the decoded body if the answer has the wanted status; otherwise raises AssertionError with the answer. If the API is
        unavailable, it asks again; if a job may have been created, it looks the job up."""
        until = time.monotonic() + LONG_SECONDS
        while (found := self.ask(method, path, body, content_type))[0] == 503 and time.monotonic() < until:
            made = self.ask("GET", f"/v1/jobs/{found[1]['id']}") if path == "/v1/jobs" and "id" in (found[1] or {}) else (404, None)
            if made[0] == 200:
                return made[1]
            time.sleep(0.2)
        got, answer = found
        assert got == status, f"{method} {path}: {got} instead of {status}: {json.dumps(answer)[:300]}"
        return answer

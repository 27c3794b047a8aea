"""REST as any caller would use it: urllib and JSON, with the bearer token in DUETIME_TOKEN and the authorities in DUETIME_CA_FILE when there
are any."""
import json
import os
import ssl
import urllib.error
import urllib.request


class Rest:
    def __init__(self, url):
        self.url = url

    def ask(self, method, path, body=None, content_type="application/json"):
        """(status, decoded body). A body that is bytes goes as it is."""
        data = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data=data, method=method)
        if os.environ.get("DUETIME_TOKEN"):
            request.add_header("Authorization", f"Bearer {os.environ['DUETIME_TOKEN']}")
        if data is not None:
            request.add_header("Content-Type", content_type)
        try:
            with urllib.request.urlopen(request, timeout=20, context=self._trust()) as answer:
                return answer.status, self._decode(answer)
        except urllib.error.HTTPError as problem:
            return problem.code, self._decode(problem)

    def _trust(self):
        return ssl.create_default_context(cafile=os.environ.get("DUETIME_CA_FILE")) if self.url.startswith("https:") else None

    @staticmethod
    def _decode(answer):
        text = answer.read()
        if "ndjson" in answer.headers.get("Content-Type", ""):
            return [json.loads(line) for line in text.splitlines() if line.strip()]
        return json.loads(text) if text else None

    def want(self, status, method, path, body=None, content_type="application/json"):
        """The decoded body, when the answer has the wanted status; else AssertionError with what came instead."""
        got, answer = self.ask(method, path, body, content_type)
        assert got == status, f"{method} {path}: {got} instead of {status}: {json.dumps(answer)[:300]}"
        return answer

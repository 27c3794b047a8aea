"""A receiver of callbacks as a user would write one, made of deploy/examples/receiver.py: it trusts only what is signed, and answers
with what the sample says: 204, a report as the body, or 202 and nothing more.
"""
import base64
import json
import secrets
import threading

from examples import receiver

from .arrivals import Arrival
from .times import now_ms, to_ms

REPORT = "application/vnd.duetime.result+json"


def handler(arrivals, key):
    class Handler(receiver.Receiver):
        keys = [key]

        def do_POST(self):
            received = now_ms()
            body = self._body()
            wrong = "has no body" if body is None else receiver.fault(self.keys, self.headers, body, received / 1000)
            if wrong:
                return self._answer(401, f"the request {wrong}")
            value = json.loads(body)
            if not arrivals.is_ours(value):
                return self._answer(204)
            return self._reply(arrivals.took(Arrival(self.headers["ce-jobid"], int(self.headers["ce-attempt"]), received,
                                                     to_ms(self.headers["ce-scheduledtime"]), value)))

        def _reply(self, report):
            if report is None:
                return self._answer(202)
            if report == {"status": "succeeded"}:
                return self._answer(204)
            body = json.dumps(report).encode()
            self.send_response(200)
            self.send_header("content-type", REPORT)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format, *args):
            pass
    return Handler


class CallbackReceiver:
    """On a free port of the loopback, with a secret of its own."""

    def __init__(self, arrivals):
        key = secrets.token_bytes(24)
        self.secret = "whsec_" + base64.b64encode(key).decode()
        self._server = receiver.ThreadingHTTPServer(("127.0.0.1", 0), handler(arrivals, key))
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def start(self):
        self._thread.start()

    def end(self):
        self._server.shutdown()
        self._server.server_close()

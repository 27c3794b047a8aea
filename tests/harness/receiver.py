"""A receiver of callbacks for tests: what it says is the test's, and it writes down every request that it has read.

Its log is the oracle of what went over the wire: a line (job, attempt) twice is a callback that was sent twice.
"""
import collections
import importlib.util
import pathlib
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

EXAMPLE = pathlib.Path(__file__).resolve().parents[2] / "deploy" / "examples" / "receiver.py"
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

Request = collections.namedtuple("Request", "at job attempt path headers body")


def example():
    """The receiver that users copy from: how signatures are checked is its, not ours."""
    spec = importlib.util.spec_from_file_location("receiver_example", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Receiver:
    """rule(request) -> (status, headers, body): what is answered; None: nothing, until the receiver ends."""

    def __init__(self, rule=None, port=0):
        self.rule = rule or (lambda request: (204, {}, b""))
        self.log = []
        self._ended = threading.Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                job, _, attempt = self.headers.get("webhook-id", "0/0").partition("/")
                request = Request(time.time(), int(job), int(attempt), self.path, dict(self.headers), body)
                outer.log.append(request)
                said = outer.rule(request)
                if said is None:
                    outer._ended.wait()
                    self.close_connection = True
                    return
                status, headers, text = said
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                if status != 204:
                    self.send_header("content-length", str(len(text)))
                self.end_headers()
                if status != 204:
                    self.wfile.write(text)

            def log_message(self, *_):
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 512

        self._server = Server(("127.0.0.1", port), Handler)
        self.port = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}/"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def end(self):
        self._ended.set()
        self._server.shutdown()
        self._server.server_close()

    def of(self, job):
        return [request for request in list(self.log) if request.job == job]

    def twice(self):
        """What went over the wire more than once."""
        counted = collections.Counter((request.job, request.attempt) for request in list(self.log))
        return [pair for pair, n in counted.items() if n > 1]

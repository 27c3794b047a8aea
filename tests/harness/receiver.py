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


class Handler(BaseHTTPRequestHandler):
    """One connection; `server.receiver` says what is answered."""
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        job, _, attempt = self.headers.get("webhook-id", "0/0").partition("/")
        request = Request(time.time(), int(job), int(attempt), self.path, dict(self.headers), body)
        self.server.receiver.note(request)
        said = self.server.receiver.rule(request)
        if said is None:
            self.server.receiver.ended.wait()
            self.close_connection = True
        elif callable(said):
            self.close_connection = True
            said(self)
        else:
            self._say(*said)

    def _say(self, status, headers, text):
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

    def handle_error(self, *_):
        """A client that has left."""


class Receiver:
    """rule(request) -> (status, headers, body): what is answered; a function of the handler, which writes it itself, and the
    connection ends after it; None: nothing, until the receiver ends."""

    def __init__(self, rule=None, port=0):
        self.rule = rule or (lambda request: (204, {}, b""))
        self.log = []
        self.ended = threading.Event()
        self.port, self._server = port, None
        self.listen()
        self.url = f"http://127.0.0.1:{self.port}/"

    def note(self, request):
        self.log.append(request)

    def listen(self):
        self._server = Server(("127.0.0.1", self.port), Handler)
        self._server.receiver = self
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def refuse(self):
        """Nobody listens there until listen(); connections that are open stay so."""
        self._server.shutdown()
        self._server.server_close()

    def end(self):
        self.ended.set()
        self.refuse()

    def of(self, job):
        return [request for request in list(self.log) if request.job == job]

    def twice(self):
        """What went over the wire more than once."""
        counted = collections.Counter((request.job, request.attempt) for request in list(self.log))
        return [pair for pair, n in counted.items() if n > 1]

#!/usr/bin/python3
"""The examples. The receiver takes the published vectors of Standard Webhooks, refuses whatever was changed, does an attempt once. The worker
pops, reports what became of the work, and puts off deadlines."""
import base64
import hashlib
import hmac
import importlib.util
import json
import sys
import threading
import time
import unittest
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

TREE = Path(__file__).resolve().parent.parent

sys.dont_write_bytecode = True


def example(name):
    spec = importlib.util.spec_from_file_location(name, TREE / "deploy" / "examples" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


receiver, worker = example("receiver"), example("worker")

# Of the specification's own libraries.
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
BODY = b'{"test": 2432232314}'
SENT_AT = 1614265330
HEADERS = {"webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek", "webhook-timestamp": str(SENT_AT),
           "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="}
OTHERS = "v1,Ceo5qEr07ixe2NLpvHk3FH9bwy/WavXrAFQ/9tdO6mc="


def fault(headers=None, body=BODY, now=SENT_AT, secret=SECRET):
    return receiver.fault(receiver.keys_of(secret), {**HEADERS, **(headers or {})}, body, now)


def signed(identity, body, secret=SECRET):
    sent_at = str(int(time.time()))
    digest = hmac.new(base64.b64decode(secret.removeprefix("whsec_")), f"{identity}.{sent_at}.".encode() + body, hashlib.sha256).digest()
    return {"webhook-id": identity, "webhook-timestamp": sent_at, "webhook-signature": "v1," + base64.b64encode(digest).decode()}


class Signatures(unittest.TestCase):
    def test_the_published_test_vector_verifies_and_is_the_one_of_our_page(self):
        self.assertIsNone(fault())
        page = (TREE / "api" / "README.md").read_text(encoding="utf-8")
        for text in (SECRET, BODY.decode(), *HEADERS.values()):
            self.assertIn(f"`{text}`", page)

    def test_one_signature_of_several_is_enough(self):
        several = f"{OTHERS} v2,{OTHERS[3:]} {HEADERS['webhook-signature']} {OTHERS}"
        self.assertIsNone(fault({"webhook-signature": several}))

    def test_either_of_two_secrets_is_enough(self):
        self.assertIsNone(fault(secret=f"whsec_QUJD {SECRET}"))
        self.assertIsNone(fault(secret=f"{SECRET} whsec_QUJD"))

    def test_a_request_whose_body_or_signed_headers_were_altered_is_refused(self):
        right = HEADERS["webhook-signature"]
        for headers in ({"webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJeK"}, {"webhook-timestamp": str(SENT_AT + 1)},
                        {"webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OA="}, {"webhook-signature": OTHERS},
                        {"webhook-signature": right.replace("v1", "v2")}, {"webhook-signature": right[3:]},
                        {"webhook-signature": "v1,"}, {"webhook-signature": "v1,%%%"}, {"webhook-signature": ","}):
            self.assertIsNotNone(fault(headers), headers)
        self.assertIsNotNone(fault(body=BODY + b" "))
        self.assertIsNotNone(fault(secret="whsec_QUJD"))

    def test_an_unsigned_request_is_refused(self):
        for name in HEADERS:
            self.assertIsNotNone(fault({name: None}), name)
            self.assertIsNotNone(fault({name: ""}), name)

    def test_old_and_future_timestamps_are_refused(self):
        self.assertIsNone(fault(now=SENT_AT + 300))
        self.assertIsNone(fault(now=SENT_AT - 300))
        for now in (SENT_AT + 301, SENT_AT - 301):
            self.assertIsNotNone(fault(now=now))
        for sent_at in ("hello", "-1", "1e9", "\u0661"):
            self.assertIsNotNone(fault({"webhook-timestamp": sent_at}))

    def test_a_malformed_secret_is_refused(self):
        for secret in ("", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_%", f"{SECRET} "):
            self.assertRaises(ValueError, receiver.keys_of, secret)


class Served(unittest.TestCase):
    def setUp(self):
        self.done = []
        self.work, receiver.work = receiver.work, self.take
        self.server = receiver.serve("127.0.0.1", 0, SECRET)
        self.server.RequestHandlerClass.log_message = lambda *told: None
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02})
        self.thread.start()
        self.connection = HTTPConnection(*self.server.server_address, timeout=10)

    def tearDown(self):
        self.connection.close()
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()
        receiver.work = self.work

    def take(self, headers, body):
        self.done.append((headers["webhook-id"], body))
        if body == b"bad":
            raise RuntimeError("cannot be done")

    def post(self, headers, body):
        self.connection.request("POST", "/", body, headers)
        answer = self.connection.getresponse()
        answer.read()
        return answer.status

    def test_an_attempt_is_processed_once(self):
        self.assertEqual(self.post(signed("42/1", BODY), BODY), 204)
        self.assertEqual(self.post(signed("42/1", BODY), BODY), 204)
        self.assertEqual(self.post(signed("42/2", BODY), BODY), 204)
        self.assertEqual(self.done, [("42/1", BODY), ("42/2", BODY)])

    def test_a_forged_request_is_not_processed(self):
        self.assertEqual(self.post(signed("42/1", BODY), BODY + b" "), 401)
        self.assertEqual(self.post({}, BODY), 401)
        self.assertEqual(self.done, [])

    def test_work_that_fails_fails_the_attempt(self):
        self.assertEqual(self.post(signed("42/1", b"bad"), b"bad"), 500)

    def test_a_body_beyond_the_size_limit_is_refused(self):
        self.connection.putrequest("POST", "/")
        self.connection.putheader("content-length", str(1 << 30))
        self.connection.endheaders()
        self.assertEqual(self.connection.getresponse().status, 413)


class Api(ThreadingHTTPServer):
    """Gives out the jobs that a test puts into it, and notes what is asked and reported."""

    def __init__(self):
        self.jobs, self.pops, self.reports, self.refuse = [], [], [], 0
        self.lock = threading.Lock()
        super().__init__(("127.0.0.1", 0), Handler)

    def answer(self, path, body):
        with self.lock:
            if path == "/v1/pop":
                self.pops.append(body)
                given, self.jobs = self.jobs[:body["max"]], self.jobs[body["max"]:]
                return 200, {"jobs": given}
            if self.refuse:
                self.refuse -= 1
                return 503, {"detail": "not just now"}
            self.reports += body
            return 200, [{"status": 200, "outcome": "applied"} for _ in body]


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        status, answer = self.server.answer(self.path, body)
        if answer == {"jobs": []}:
            time.sleep(0.02)  # as far as this one waits
        text = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *told):
        pass


class Worked(unittest.TestCase):
    def setUp(self):
        self.api = Api()
        self.thread = threading.Thread(target=self.api.serve_forever, kwargs={"poll_interval": 0.02})
        self.thread.start()
        worker.PAUSE_SECONDS = 0.02

    def tearDown(self):
        self.api.shutdown()
        self.thread.join()
        self.api.server_close()

    def run_until(self, reports, do, jobs=1, **options):
        """Works until there are so many reports; the worker, ended."""
        self.api.jobs = [{"id": str(i), "attempt": 1, "topic": "t", "payload": i} for i in range(jobs)]
        made = worker.Worker(worker.Server(f"http://127.0.0.1:{self.api.server_address[1]}"), ["t", "u"], do=do, **options)
        thread = threading.Thread(target=made.run)
        thread.start()
        end = time.monotonic() + 20
        while len(self.api.reports) < reports and time.monotonic() < end:
            time.sleep(0.01)
        made.stop()
        thread.join()
        return made

    def test_a_popped_job_is_processed_and_reported(self):
        done = []
        self.run_until(10, lambda job: done.append(job["id"]), jobs=10, hands=3, ttr=60)
        self.assertEqual(sorted(done), sorted(str(i) for i in range(10)))
        self.assertEqual({(r["job_id"], r["attempt"], r["status"]) for r in self.api.reports}, {(str(i), 1, "succeeded") for i in range(10)})
        self.assertEqual(len(self.api.reports), 10)
        self.assertTrue(all(pop["max"] <= 3 and pop["topics"] == ["t", "u"] and pop["ttr"] == "PT60S" for pop in self.api.pops), self.api.pops)

    def test_each_outcome_has_its_report(self):
        ends = [worker.Snooze(60), worker.GiveUp("never"), RuntimeError("once more")]

        def do(job):
            raise ends[job["payload"]]
        self.run_until(3, do, jobs=3)
        reports = {report["job_id"]: report for report in self.api.reports}
        self.assertEqual((reports["0"]["status"], reports["0"]["retry_after"]), ("snoozed", "PT60S"))
        self.assertEqual((reports["1"]["status"], reports["1"]["error"]["message"]), ("gave_up", "never"))
        self.assertEqual((reports["2"]["status"], reports["2"]["error"]["code"]), ("failed", "RuntimeError"))

    def test_a_failed_report_is_repeated(self):
        self.api.refuse = 3
        self.run_until(1, lambda job: None)
        self.assertEqual([report["status"] for report in self.api.reports], ["succeeded"])

    def test_long_work_extends_its_deadline(self):
        going_on = threading.Event()

        def do(job):
            going_on.wait(10)
        end = threading.Timer(1.5, going_on.set)
        end.start()
        self.run_until(2, do, ttr=1)
        statuses = [report["status"] for report in self.api.reports]
        self.assertEqual(statuses[0], "extended")
        self.assertEqual(statuses.count("succeeded"), 1)


if __name__ == "__main__":
    unittest.main()

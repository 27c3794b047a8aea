#!/usr/bin/python3
"""The example receiver: takes the published vectors of Standard Webhooks, refuses whatever was changed, does an attempt once."""
import base64
import hashlib
import hmac
import importlib.util
import sys
import threading
import time
import unittest
from http.client import HTTPConnection
from pathlib import Path

TREE = Path(__file__).resolve().parent.parent

spec = importlib.util.spec_from_file_location("receiver", TREE / "deploy" / "examples" / "receiver.py")
receiver = importlib.util.module_from_spec(spec)
sys.dont_write_bytecode = True
spec.loader.exec_module(receiver)

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
    def test_the_published_vector_is_genuine(self):
        self.assertIsNone(fault())

    def test_one_signature_of_several_is_enough(self):
        several = f"{OTHERS} v2,{OTHERS[3:]} {HEADERS['webhook-signature']} {OTHERS}"
        self.assertIsNone(fault({"webhook-signature": several}))

    def test_either_of_two_secrets_is_enough(self):
        self.assertIsNone(fault(secret=f"whsec_QUJD {SECRET}"))
        self.assertIsNone(fault(secret=f"{SECRET} whsec_QUJD"))

    def test_whatever_was_changed_is_refused(self):
        right = HEADERS["webhook-signature"]
        for headers in ({"webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJeK"}, {"webhook-timestamp": str(SENT_AT + 1)},
                        {"webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OA="}, {"webhook-signature": OTHERS},
                        {"webhook-signature": right.replace("v1", "v2")}, {"webhook-signature": right[3:]},
                        {"webhook-signature": "v1,"}, {"webhook-signature": "v1,%%%"}, {"webhook-signature": ","}):
            self.assertIsNotNone(fault(headers), headers)
        self.assertIsNotNone(fault(body=BODY + b" "))
        self.assertIsNotNone(fault(secret="whsec_QUJD"))

    def test_what_is_not_signed_is_refused(self):
        for name in HEADERS:
            self.assertIsNotNone(fault({name: None}), name)
            self.assertIsNotNone(fault({name: ""}), name)

    def test_old_and_future_ones_are_refused(self):
        self.assertIsNone(fault(now=SENT_AT + 300))
        self.assertIsNone(fault(now=SENT_AT - 300))
        for now in (SENT_AT + 301, SENT_AT - 301):
            self.assertIsNotNone(fault(now=now))
        for sent_at in ("hello", "-1", "1e9", "\u0661"):
            self.assertIsNotNone(fault({"webhook-timestamp": sent_at}))

    def test_a_secret_has_its_form(self):
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

    def test_an_attempt_is_done_once(self):
        self.assertEqual(self.post(signed("42/1", BODY), BODY), 204)
        self.assertEqual(self.post(signed("42/1", BODY), BODY), 204)
        self.assertEqual(self.post(signed("42/2", BODY), BODY), 204)
        self.assertEqual(self.done, [("42/1", BODY), ("42/2", BODY)])

    def test_what_is_not_genuine_is_not_done(self):
        self.assertEqual(self.post(signed("42/1", BODY), BODY + b" "), 401)
        self.assertEqual(self.post({}, BODY), 401)
        self.assertEqual(self.done, [])

    def test_work_that_fails_fails_the_attempt(self):
        self.assertEqual(self.post(signed("42/1", b"bad"), b"bad"), 500)

    def test_a_body_has_a_bound(self):
        self.connection.putrequest("POST", "/")
        self.connection.putheader("content-length", str(1 << 30))
        self.connection.endheaders()
        self.assertEqual(self.connection.getresponse().status, 413)


if __name__ == "__main__":
    unittest.main()

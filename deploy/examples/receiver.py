#!/usr/bin/python3
"""A receiver of callbacks, to copy from: checks the Standard Webhooks signature, does each attempt once, answers.

    DUETIME_CALLBACK_SECRET=whsec_… python3 receiver.py --port 9000
    PUT /v1/topics/orders {"delivery": "http", "callback_url": "http://127.0.0.1:9000/", "callback_secret": "whsec_…"}

Standard library only. What to keep in a receiver of your own: read the body as bytes and check it before parsing it; compare
signatures in constant time; refuse old timestamps; take `webhook-id` (<job>/<attempt>) as the key under which work is done once;
answer within the topic's `callback_timeout`, or answer 202 and report later.

| answer | then |
|---|---|
| 2xx | the job succeeded |
| 202 | the work goes on: a report must follow, by REST or Kafka |
| 2xx, `content-type: application/vnd.duetime.result+json` | the body is the report, `{"status": "snoozed", "retry_after": "PT5M"}` |
| 410 | the job is given up |
| anything else | the attempt failed: again by the retry schedule, or after `Retry-After` |
"""
import argparse
import base64
import binascii
import collections
import hashlib
import hmac
import os
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TOLERANCE_SECONDS = 300
BODY_MAX = 1 << 20
REMEMBERED = 10000


def keys_of(secret):
    """The keys of `whsec_<base64>`, or of two of them with a space between, while one replaces the other."""
    keys = []
    for one in secret.split(" "):
        if not one.startswith("whsec_"):
            raise ValueError("a secret begins with whsec_")
        keys.append(base64.b64decode(one.removeprefix("whsec_"), validate=True))
    return keys


def fault(keys, headers, body, now):
    """Why the request is not to be trusted; None: it is genuine. `headers` has a `get`; `now` is in seconds."""
    identity, sent_at, signatures = (headers.get(f"webhook-{name}") for name in ("id", "timestamp", "signature"))
    if not identity or not sent_at or not signatures:
        return "is not signed"
    if not (sent_at.isascii() and sent_at.isdigit()) or abs(now - int(sent_at)) > TOLERANCE_SECONDS:
        return "is too old, or from the future"
    signed = b".".join((identity.encode(), sent_at.encode(), body))
    wanted = [hmac.new(key, signed, hashlib.sha256).digest() for key in keys]
    for signature in signatures.split(" "):
        version, _, encoded = signature.partition(",")
        try:
            given = base64.b64decode(encoded, validate=True) if version == "v1" else b""
        except binascii.Error:
            continue
        if any([hmac.compare_digest(given, one) for one in wanted]):
            return None
    return "has no signature of ours"


class Once:
    """Remembers which attempts were done. A receiver of several processes keeps this in its database, in the transaction of the work."""

    def __init__(self):
        self._lock = threading.Lock()
        self._done = collections.OrderedDict()

    def first(self, identity):
        with self._lock:
            if identity in self._done:
                return False
            self._done[identity] = True
            if len(self._done) > REMEMBERED:
                self._done.popitem(last=False)
            return True


def work(headers, body):
    """The place for your own work. An exception makes the attempt fail."""
    print(f"job {headers['ce-jobid']} attempt {headers['ce-attempt']} of {headers['ce-type']}: {body!r}", flush=True)


class Receiver(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # connections are kept
    keys = []
    once = Once()

    def _answer(self, status, text=""):
        body = text.encode()
        self.send_response(status)
        if status != 204:
            self.send_header("content-type", "text/plain; charset=utf-8")
            self.send_header("content-length", str(len(body)))
        self.end_headers()
        if status != 204:
            self.wfile.write(body)

    def _body(self):
        length = self.headers.get("content-length", "")
        if not (length.isascii() and length.isdigit()) or int(length) > BODY_MAX:
            return None
        return self.rfile.read(int(length))

    def do_POST(self):
        body = self._body()
        if body is None:
            self.close_connection = True
            return self._answer(413, "a body with its length is wanted, 1 MiB at most")
        wrong = fault(self.keys, self.headers, body, time.time())
        if wrong:
            return self._answer(401, f"the request {wrong}")
        if self.once.first(self.headers["webhook-id"]):
            try:
                work(self.headers, body)
            except Exception as error:  # noqa: BLE001 - whatever it was, the next attempt may succeed
                return self._answer(500, str(error))
        return self._answer(204)

    def log_message(self, format, *args):
        print(f"{self.address_string()} {format % args}", file=sys.stderr, flush=True)


def serve(address, port, secret):
    handler = type("Keyed", (Receiver,), {"keys": keys_of(secret), "once": Once()})
    return ThreadingHTTPServer((address, port), handler)


def main():
    parser = argparse.ArgumentParser(description="Receives duetime's callbacks and checks their signatures.")
    parser.add_argument("--address", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=9000, help="0: any that is free; it is printed")
    options = parser.parse_args()
    secret = os.environ.get("DUETIME_CALLBACK_SECRET", "")
    try:
        server = serve(options.address, options.port, secret)
    except ValueError as error:
        sys.exit(f"DUETIME_CALLBACK_SECRET: {error}")
    print(f"listening on http://{options.address}:{server.server_address[1]}/", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()

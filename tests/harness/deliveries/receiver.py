"""The receiver of a load: answers by a plan that the seed decides, and keeps a journal of every request that it has read.

A fault is a mode: while it lasts, whatever comes is treated so, and the plan waits.

  mode = "silent"     nothing is answered, until the mode ends; then the connection is closed
  mode = "slow"       the plan's answer comes after most of the callback's time
  mode = "drip"       a head comes byte by byte, and is never whole
  mode = "failing"    500
  refuse(), listen()  nobody listens, and open connections are closed with their next request
"""
import threading
import time
import zlib

from ..consumer import Seen
from ..receiver import SECRET, Receiver, example
from ..retries import ACK_SECONDS, LAST_WORD

TIMEOUT_MS = 1500   # of a callback
SLOW_SECONDS = 0.8
REPORT = {"content-type": "application/vnd.duetime.result+json"}
RETRY = [100, 300, 1000, 2000, 4000]  # ms: jobs outlive an outage of some seconds
MODES = ("plan", "silent", "slow", "drip", "failing")


def close(_handler):
    """The connection ends without an answer."""


def drip(handler):
    end = time.monotonic() + 2 * TIMEOUT_MS / 1000
    for byte in b"HTTP/1.1 200 OK\r\nx-drip: " + b"." * 1000:
        if time.monotonic() > end:
            return
        handler.wfile.write(bytes([byte]))
        time.sleep(0.1)


class PlannedReceiver(Receiver):
    """`late(ms, call, …)` puts a call off, `report(seen, status)` reports by REST: both are the load's."""

    def __init__(self, seed, late, report, counts):
        self.seed, self._late, self._report, self._counts = seed, late, report, counts
        self._example = example()
        self._keys = self._example.keys_of(SECRET)
        self._lock, self._seen, self._jobs = threading.Lock(), [], set()
        self._changed = threading.Event()
        self._mode = "plan"
        self.unsigned = []  # problems of requests whose signature is not right
        super().__init__(self._answer)

    # ---- what a load asks ----

    @property
    def mode(self):
        return self._mode

    @mode.setter
    def mode(self, mode):
        assert mode in MODES, mode
        self._mode = mode
        before, self._changed = self._changed, threading.Event()
        before.set()

    def switch(self, mode):
        """Any mode, `refusing` too."""
        if (mode == "refusing") != (self._mode == "refusing"):
            self.refuse() if mode == "refusing" else self.listen()
        if mode != "refusing":
            self.mode = mode

    def settings(self):
        """Of a topic that is called back here."""
        return {"delivery": "http", "callback_url": self.url, "callback_secret": SECRET, "callback_timeout": TIMEOUT_MS,
                "ack_timeout": f"PT{ACK_SECONDS}S", "retry": RETRY}

    def refuse(self):
        self._mode = "refusing"
        super().refuse()

    def listen(self):
        super().listen()
        self.mode = "plan"

    def seen(self):
        with self._lock:
            return list(self._seen)

    def which(self, jobs):
        with self._lock:
            return [job for job in jobs if job in self._jobs]

    def end(self):
        if self._mode != "refusing":
            super().end()
        self.ended.set()
        self._changed.set()

    # ---- what is answered ----

    def note(self, request):
        seen = Seen(str(request.job), request.attempt, request.at * 1000)
        with self._lock:
            self._seen.append(seen)
            self._jobs.add(seen.job)
        headers = {name.lower(): value for name, value in request.headers.items()}
        why = self._example.fault(self._keys, headers, request.body, request.at)
        if why or headers.get("idempotency-key") != f"{request.job}/{request.attempt}":
            self.unsigned.append(f"O3: {request.job}/{request.attempt} came to the receiver, and {why or 'has another key'}")

    def _answer(self, request):
        self._counts["callbacks"] += 1
        return self._of_mode(Seen(str(request.job), request.attempt, request.at * 1000))

    def _of_mode(self, seen):
        mode, changed = self._mode, self._changed
        if mode == "silent":
            changed.wait()
        elif mode == "slow":
            time.sleep(SLOW_SECONDS)
        return {"refusing": close, "silent": close, "drip": drip, "failing": (500, {}, b"out of order")}.get(mode) or self._planned(seen)

    def _planned(self, seen):
        kind = zlib.crc32(f"{self.seed}/{seen.job}/{seen.attempt}/call".encode()) % 100
        if seen.attempt >= LAST_WORD or kind < 55:
            return 204, {}, b""
        if kind < 60:
            return 500, {}, b"as planned"
        if kind < 63:
            return (429, 503)[kind % 2], {"retry-after": "1"}, b"later"
        if kind < 65:
            return 302, {"location": "/elsewhere"}, b""
        if kind < 68:
            return 200, REPORT, b'{"status":"snoozed","retry_after":150}'
        if kind < 70:
            return 410, {}, b"never again"
        if kind < 72:
            return 200, REPORT, b"{junk"
        if kind < 74:
            return close
        if kind < 76:  # nothing comes in time
            time.sleep(TIMEOUT_MS / 1000 + 0.2)
            return 204, {}, b""
        return self._taken(seen, kind)

    def _taken(self, seen, kind):
        """202: a report follows, or none."""
        if kind < 86:
            self._late(20 + 40 * (kind % 7), self._report, seen, "succeeded" if kind < 84 else "failed")
        elif kind < 88 and seen.attempt > 1:
            self._late(20, self._report, seen, "succeeded")
        elif kind >= 88:
            time.sleep(0.02 * (kind - 88))
            return 200, {}, b"fine"
        return 202, {}, b""

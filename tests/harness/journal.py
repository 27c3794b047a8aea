"""What callers asked for and what they were told: the one thing that the checker believes beside what it reads itself.

Every job of a load carries a serial number in its payload, so that one whose create was answered by nothing at all can be
recognised later. An answer is one of three: a 2xx (it holds), a refusal (nothing happened), or silence (either may be).
"""
import json
import threading


class Asked:
    """A job that exists, as far as its caller knows."""

    __slots__ = ("due_ms", "due_attempt", "cancelled", "too_late", "ended", "fuzzy")

    def __init__(self, due_ms):
        self.due_ms = due_ms      # the earliest time that may hold …
        self.due_attempt = 1      # … for this attempt
        self.cancelled = None     # answered "cancelled" when so many attempts had been made: no further one may come
        self.too_late = 0         # answered "too late": this attempt was, or will be, sent
        self.ended = 0            # answered "succeeded" for this attempt
        self.fuzzy = False        # changed by hand: times and states are not the caller's alone


class Journal:
    """Thread-safe. Jobs are known by their id as text."""

    def __init__(self):
        self.jobs = {}
        self.lock = threading.Lock()
        self._early = {}      # told of before its create was answered: its end
        self.unknown = {}     # serial: due_ms; asked for, no answer: may exist
        self.refused = set()  # serials that were refused: must not exist
        self.serials = 0      # given out; 0: a load without serials, nothing is concluded from rows that nobody knows

    def serial(self):
        with self.lock:
            self.serials += 1
            return self.serials

    # ---- creates ----

    def made(self, job, due_ms, serial=0):
        with self.lock:
            self.unknown.pop(serial, None)
            if job not in self.jobs:
                self._known(job, due_ms)

    def _known(self, job, due_ms):
        self.jobs[job] = Asked(due_ms)
        self.jobs[job].ended = self._early.pop(job, 0)

    def asked(self, serial, due_ms):
        """Before the request leaves: whatever happens to us, it may exist."""
        with self.lock:
            self.unknown[serial] = due_ms

    def nothing_made(self, serial):
        with self.lock:
            self.unknown.pop(serial, None)
            self.refused.add(serial)

    # ---- changes ----

    def moving(self, job, due_ms):
        """Before the request leaves, and the last word when no answer comes: either time may hold."""
        with self.lock:
            asked = self.jobs[job]
            asked.due_ms = min(asked.due_ms, due_ms)

    def moved(self, job, due_ms, attempt=1):
        """It is due then, with that attempt."""
        with self.lock:
            self.jobs[job].due_ms, self.jobs[job].due_attempt = due_ms, attempt

    def cancelled(self, job, attempt=0):
        with self.lock:
            self.jobs[job].cancelled = attempt

    def too_late(self, job, attempt):
        with self.lock:
            self.jobs[job].too_late = max(attempt, self.jobs[job].too_late)

    def ended(self, job, attempt):
        with self.lock:
            if job in self.jobs:
                self.jobs[job].ended = attempt
            else:
                self._early[job] = attempt

    def edited(self, job, due_ms=0):
        with self.lock:
            self.jobs[job].fuzzy = True
            self.jobs[job].due_ms = min(self.jobs[job].due_ms, due_ms)

    # ---- afterwards ----

    def adopt(self, job, serial):
        """MySQL has a job that nobody was told of. False when nobody asked for it either."""
        with self.lock:
            if serial not in self.unknown:
                return False
            self._known(job, self.unknown[serial])
            return True

    def dump(self, path):
        with self.lock, open(path, "w", encoding="utf-8") as out:
            for job, asked in self.jobs.items():
                out.write(json.dumps({"job": job, **{name: getattr(asked, name) for name in Asked.__slots__}}) + "\n")
            for serial, due_ms in self.unknown.items():
                out.write(json.dumps({"serial": serial, "due_ms": due_ms, "answer": None}) + "\n")
            for serial in self.refused:
                out.write(json.dumps({"serial": serial, "answer": "refused"}) + "\n")

"""Honest work beyond that of honest.py, of every kind by which jobs leave and are dealt with as wholes: each at a steady pace, and measured from when
it was asked for, or due, to when it is there. WORK is the table of kinds; what each waits for goes into the `Waits` of honest.py.
"""
import itertools
import json
import threading
import time
from collections import namedtuple

from confluent_kafka.admin import AdminClient, NewTopic

from ..checker import now_ms
from ..commands import Commander, Messages
from ..receiver import Receiver
from ..rest import Rest
from ..soak import rfc3339
from .honest import go_first

AHEAD_MS = 300     # so far ahead jobs are due when they are made
NEW_NAME_EACH = 5  # one in so many callbacks is for a host that was not called before
MOVED = 20         # jobs of an operation
LONGEST = 60       # seconds that anything is waited for

Kind = namedtuple("Kind", "threads pause do promise_ms", defaults=(None,))


class Work:
    """`admin` may do everything, `token` what begins with `prefix`."""

    def __init__(self, stack, urls, admin, token, prefix, waits):
        self.prefix, self.waits = prefix, waits
        self.rest, self.admin = Rest(urls[-1], token=token, timeout=LONGEST + 30), Rest(urls[0], token=admin, timeout=LONGEST + 30)
        self.serials, self.failures = itertools.count(1), []
        self.receiver = Receiver(self._called)
        self.began, self.ended = {}, {}
        self.commander = Commander(stack["DUETIME_KAFKA"])
        self._kafka = stack["DUETIME_KAFKA"]
        self._stop = threading.Event()
        self._threads = []

    def start(self):
        for name, settings in (("pull", {"delivery": "pull"}), ("hooks", {"delivery": "http", "retry": ["PT1S"] * 100}), ("moved", {"delivery": "pull"})):
            answer = self.admin.put(f"/v1/topics/{self.prefix}{name}", settings)
            assert answer.status in (200, 201), answer
        kafka, replies = AdminClient({"bootstrap.servers": self._kafka}), f"{self.prefix}replies"
        kafka.create_topics([NewTopic(replies, 1, 1)])[replies].result(60)
        self._threads = [threading.Thread(target=self._run, args=(kind, n), daemon=True) for kind in WORK.values() for n in range(kind.threads)]
        self._threads.append(threading.Thread(target=self._read_replies, daemon=True))
        for thread in self._threads:
            thread.start()

    def end(self):
        self._stop.set()
        for thread in self._threads:
            thread.join(LONGEST)
        self.receiver.end()
        if self.failures:
            raise AssertionError(f"{len(self.failures)} pieces of honest work failed, the first: {self.failures[0]}")

    def _run(self, kind, number):
        go_first()
        due = time.monotonic() + number * kind.pause / kind.threads
        while not self._stop.wait(max(0.0, due - time.monotonic())):
            try:
                kind.do(self, number)
            except Exception as failure:  # shown at the end; others continue
                self.failures.append(repr(failure))
            due = max(due + kind.pause, time.monotonic() - 1)

    def _make(self, name, **job):
        """(id, due_ms)"""
        due = int(now_ms()) + AHEAD_MS
        answer = self.rest.post("/v1/jobs", {"topic": self.prefix + name, "run_at": rfc3339(due), **job, "payload": {"due": due}})
        if answer.status != 201:
            self.waits.refuse(name, answer.status, answer.text)
        return answer.json.get("id"), due

    # ---- kinds ----

    def pop(self, _number):
        """A job may be popped by another thread than the one that made it."""
        self._make("pull")
        since = now_ms()
        answer = self.rest.post(f"/v1/topics/{self.prefix}pull/pop", {"wait": "PT10S"})
        jobs = answer.json.get("jobs", [])
        self.waits.add("pop", now_ms() - (jobs[0]["payload"]["due"] if jobs else since))
        for job in jobs:
            self.rest.post(f"/v1/jobs/{job['id']}/results", {"attempt": job["attempt"], "status": "succeeded"})

    def callback(self, _number):
        serial = next(self.serials)
        name = f"h{serial}" if serial % NEW_NAME_EACH == 0 else "h"
        job, due = self._make("hooks", callback_url=f"http://{name}.fast.test:{self.receiver.port}/callback")
        if job:
            self.waits.expect("callback", int(job), due)

    def operation(self, _number):
        """In turns the tenant's and an administrator's."""
        serial = next(self.serials)
        rest, topic = (self.rest, self.admin)[serial % 2], f"{self.prefix}moved"
        self.rest.batch([{"topic": topic, "key": f"{serial}-{i}", "delay": "P1D"} for i in range(MOVED)])
        since = now_ms()
        answer = rest.post("/v1/jobs:cancel", {"filter": {"topic": topic, "key_prefix": f"{serial}-"}, "wait": "PT10S"})
        while answer.status == 202 and now_ms() < since + LONGEST * 1000 and not self._stop.wait(0.1):
            answer = rest.get(answer.headers["Location"]) if "Location" in answer.headers else rest.get(f"/v1/operations/{answer.json['id']}")
            answer.status = 202 if answer.json["state"] == "running" else answer.status
        self.waits.add("operation", now_ms() - since)
        if answer.status not in (200, 202):
            self.waits.refuse("operation", answer.status, answer.text)

    def alert(self, number):
        """A paused topic of this thread has a due job; when its team has heard of it, the job is cancelled, and they hear of that."""
        topic = f"{self.prefix}watched{number}"
        answer = self.admin.put(f"/v1/topics/{topic}", {"delivery": "pull", "paused": True, "alerts": {"backlog": 1, "url": self.receiver.url + "alert"}})
        assert answer.status in (200, 201), answer
        self.began[topic], self.ended[topic] = threading.Event(), threading.Event()
        self.waits.forget("alert", topic)  # a message may arrive twice
        job, due = self._make(f"watched{number}")
        self.waits.expect("alert", topic, due)
        self._await(self.began[topic])
        self.rest.delete(f"/v1/jobs/{job}")
        self._await(self.ended[topic])

    def _await(self, event):
        """Without a limit: an alert that stands does not begin again."""
        while not event.wait(1) and not self._stop.is_set():
            pass

    def reply(self, _number):
        key = f"{self.receiver.port}-{next(self.serials)}"
        self.waits.expect("reply", key, now_ms())
        self.commander.send({"action": "create", "topic": f"{self.prefix}asked", "key": key, "delay": "P1D"}, key=key,
                            headers=[("reply_to", f"{self.prefix}replies".encode())])
        self.commander.flush()

    # ---- what comes of it ----

    def _called(self, request):
        if request.path == "/callback":
            self.waits.came("callback", request.job, request.at * 1000)
        else:
            message = json.loads(request.body)
            topic, began = message["data"]["topic"], message["type"] == "alert.began"
            if began:
                self.waits.came("alert", topic, request.at * 1000)
            (self.began if began else self.ended)[topic].set()
        return 204, {}, b""

    def _read_replies(self):
        replies = Messages(self._kafka, f"{self.prefix}replies", beginning=True)
        while not self._stop.is_set():
            for message in replies.more():
                self.waits.came("reply", message.key().decode(), now_ms())
            replies.seen.clear()
        replies.close()


WORK = {
    "pop": Kind(4, 0.4, Work.pop),
    "callback": Kind(2, 0.2, Work.callback),
    "operation": Kind(2, 1.0, Work.operation),
    "alert": Kind(4, 1.0, Work.alert, promise_ms=10_000),
    "reply": Kind(1, 0.2, Work.reply),
}

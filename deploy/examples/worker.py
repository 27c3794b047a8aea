#!/usr/bin/python3
"""A worker that pops, to copy from: waits for due jobs, does each attempt, reports in bulk, puts off deadlines that come near.

    PUT /v1/topics/mails {"delivery": "pull"}
    python3 worker.py --url http://127.0.0.1:8080 --topic mails --topic letters

Standard library only. What to keep in a worker of your own: ask for few jobs more than you have hands; let the server wait (`wait`),
not yourself; take (id, attempt) as the key under which work is done once; report before `deadline`, or report `extended` while the work
goes on; when an answer is lost ask again, for a job that was popped is given out again only after its deadline.

| what the work does | report | then |
|---|---|---|
| returns | `succeeded` | the job is done |
| raises `Snooze(60)` | `snoozed`, `retry_after` | the job comes again after a minute, without spending a failure |
| raises `GiveUp` | `gave_up` | the job is dead |
| raises anything else | `failed` | it comes again by its retry schedule |
"""
import argparse
import concurrent.futures
import datetime
import http.client
import json
import os
import signal
import ssl
import sys
import threading
import time
import urllib.parse

WAIT_SECONDS = 20
PAUSE_SECONDS = 1


class Snooze(Exception):
    """Raise it to get the job again later."""

    def __init__(self, seconds):
        super().__init__(f"again in {seconds} s")
        self.seconds = seconds


class GiveUp(Exception):
    """Raise it when no attempt can succeed."""


def work(job):
    """The place for your own work."""
    print(f"job {job['id']} attempt {job['attempt']} of {job['topic']}: {job.get('payload', job.get('payload_base64'))!r}", flush=True)


class Server:
    """Requests to one API, a connection for each; what cannot be answered now is asked again. By https its certificate is checked with the
    authorities of DUETIME_CA_FILE, or with the system's."""

    def __init__(self, url, token=None):
        parts = urllib.parse.urlsplit(url)
        self.place = (parts.hostname, parts.port or (443 if parts.scheme == "https" else 80))
        self.trust = ssl.create_default_context(cafile=os.environ.get("DUETIME_CA_FILE")) if parts.scheme == "https" else None
        self.headers = {"content-type": "application/json", **({"authorization": f"Bearer {token}"} if token else {})}

    def post(self, path, body):
        wait = WAIT_SECONDS + 30
        connection = http.client.HTTPSConnection(*self.place, timeout=wait, context=self.trust) if self.trust else http.client.HTTPConnection(*self.place, timeout=wait)
        try:
            connection.request("POST", path, json.dumps(body), self.headers)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()


def report_of(job, outcome):
    """The report on a job whose work ended so: None, or what it raised."""
    report = {"job_id": job["id"], "attempt": job["attempt"], "status": "succeeded"}
    if isinstance(outcome, Snooze):
        report.update(status="snoozed", retry_after=f"PT{outcome.seconds}S")
    elif outcome is not None:
        error = {"code": type(outcome).__name__, "message": str(outcome)[:500]}
        report.update(status="gave_up" if isinstance(outcome, GiveUp) else "failed", error=error)
    return report


class Worker:
    def __init__(self, server, topics, hands=4, ttr=60, do=None):
        self.server, self.topics, self.ttr = server, topics, ttr
        self.do = do or work
        self.hands = hands
        self.ending = threading.Event()
        self.lock = threading.Lock()
        self.busy = {}  # (id, attempt) -> monotonic time at which its deadline is put off

    def pop(self, wanted):
        status, answer = self.server.post("/v1/pop", {"topics": self.topics, "max": wanted, "wait": f"PT{WAIT_SECONDS}S", "ttr": f"PT{self.ttr}S"})
        if status != 200:
            raise OSError(f"{status} {answer.get('detail')}")
        return answer["jobs"]

    def report(self, reports):
        """Until it is answered: a report that was applied already is answered `duplicate`."""
        while reports:
            try:
                status, answer = self.server.post("/v1/results", reports)
                if status == 200:
                    reports = [report for report, one in zip(reports, answer) if one["status"] == 503]
            except (OSError, http.client.HTTPException) as error:
                print(f"not reported yet: {error}", file=sys.stderr, flush=True)
            if reports:
                time.sleep(PAUSE_SECONDS)

    def attempt(self, job):
        outcome = None
        try:
            self.do(job)
        except Exception as error:  # noqa: BLE001 - whatever it was, it is reported
            outcome = error
        with self.lock:
            del self.busy[job["id"], job["attempt"]]
        self.report([report_of(job, outcome)])

    def take(self, job):
        with self.lock:
            self.busy[job["id"], job["attempt"]] = time.monotonic() + self.ttr / 2

    def extend(self):
        """Of attempts that have used half of their time."""
        now = time.monotonic()
        with self.lock:
            near = [key for key, at in self.busy.items() if at <= now]
            self.busy.update((key, now + self.ttr / 2) for key in near)
        if near:
            self.report([{"job_id": job, "attempt": attempt, "status": "extended"} for job, attempt in near])

    def keep_extending(self):
        while not self.ending.wait(min(1, self.ttr / 4)) or self.busy:
            self.extend()
            if self.ending.is_set():
                time.sleep(min(1, self.ttr / 4))

    def run(self):
        """Until stop: as many jobs at a time as there are hands."""
        free = threading.Semaphore(self.hands)
        keeper = threading.Thread(target=self.keep_extending)
        keeper.start()
        with concurrent.futures.ThreadPoolExecutor(self.hands) as pool:
            while not self.ending.is_set():
                wanted = self._wait_for_hands(free)
                jobs = self._popped(wanted)
                for job in jobs:
                    self.take(job)
                    pool.submit(self.attempt, job).add_done_callback(lambda _: free.release())
                for _ in range(wanted - len(jobs)):
                    free.release()
        keeper.join()

    def stop(self):
        """What was popped is done and reported; nothing more is popped."""
        self.ending.set()

    def _wait_for_hands(self, free):
        free.acquire()
        wanted = 1
        while wanted < self.hands and free.acquire(blocking=False):
            wanted += 1
        return wanted

    def _popped(self, wanted):
        try:
            return self.pop(wanted)
        except (OSError, http.client.HTTPException, ValueError) as error:
            print(f"nothing popped: {error}", file=sys.stderr, flush=True)
            self.ending.wait(PAUSE_SECONDS)
            return []


def main():
    parser = argparse.ArgumentParser(description="Pops jobs of duetime, does them, and reports.")
    parser.add_argument("--url", default=os.environ.get("DUETIME_URL", "http://127.0.0.1:8080"))
    parser.add_argument("--topic", action="append", required=True, help="may be given more than once")
    parser.add_argument("--hands", type=int, default=4, help="jobs at a time")
    parser.add_argument("--ttr", type=int, default=60, help="seconds for an attempt, before its deadline is put off")
    options = parser.parse_args()
    worker = Worker(Server(options.url, os.environ.get("DUETIME_TOKEN")), options.topic, options.hands, options.ttr)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: worker.stop())
    print(f"popping {', '.join(options.topic)} since {datetime.datetime.now():%H:%M:%S}", flush=True)
    worker.run()


if __name__ == "__main__":
    main()

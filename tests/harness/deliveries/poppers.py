"""Workers of a load that pop: over all APIs, one topic or several, with and without waiting; they report by a plan that the seed decides.

What was handed out is written down when the answer has been read. An answer that was lost is an attempt that nobody saw.
"""
import itertools
import random
import threading
import time
import zlib

from ..checker import now_ms
from ..consumer import Seen
from ..retries import ACK_SECONDS, LAST_WORD, RETRY

AN_API = 3  # workers


class Poppers:
    """`client(url)` gives the load's client of an API for this thread, `late(ms, call, …)` puts a call off."""

    def __init__(self, seed, urls, client, late, counts):
        self.seed, self._urls, self._client, self._late, self._counts = seed, urls, client, late, counts
        self.topics = []
        self._lock, self._seen, self._jobs = threading.Lock(), [], set()
        self._end = threading.Event()
        self._threads = []
        self.failure = None

    def settings(self):
        """Of a topic that is popped from."""
        return {"delivery": "pull", "ack_timeout": f"PT{ACK_SECONDS}S", "retry": RETRY}

    def begin(self, topics):
        self.topics = topics
        for url, n in itertools.product(self._urls, range(AN_API)):
            self._threads.append(threading.Thread(target=self._run, args=(url, random.Random(f"{self.seed}/{url}/{n}")), daemon=True))
            self._threads[-1].start()

    def seen(self):
        with self._lock:
            return list(self._seen)

    def which(self, jobs):
        with self._lock:
            return [job for job in jobs if job in self._jobs]

    def end(self):
        self._end.set()
        for thread in self._threads:
            thread.join(10)

    # ---- a worker ----

    def _run(self, url, chance):
        try:
            client = self._client(url)
            while not self._end.is_set():
                jobs = self._pop(client, chance)
                if jobs is None:
                    self._end.wait(0.05)
                    continue
                self._note(jobs)
                reports = [report for job in jobs for report in self._planned(job["id"], job["attempt"])]
                if reports:
                    self._report(client, reports, chance.random() < 0.8)
        except Exception as failure:
            self.failure = failure
            raise

    def _pop(self, client, chance):
        """What was handed out; None: no answer, or none that is of use just now."""
        asked = {"max": chance.choice((1, 5, 20, 100)), "ttr": f"PT{ACK_SECONDS}S", "wait": chance.choice((0, 300, 1500))}
        if chance.random() < 0.5:
            answer = client.ask("POST", f"/v1/topics/{chance.choice(self.topics)}/pop", asked)
        else:
            answer = client.ask("POST", "/v1/pop", {"topics": self.topics, **asked})
        if not answer or answer.status != 200:
            assert not answer or answer.status in (404, 409, 500, 503), answer
            self._counts["pops without a 2xx"] += 1
            return None
        self._counts["pops"] += 1
        if not answer.json["jobs"] and not asked["wait"]:
            self._end.wait(0.02)
        return answer.json["jobs"]

    def _note(self, jobs):
        at = now_ms()
        self._counts["jobs popped"] += len(jobs)
        with self._lock:
            for job in jobs:
                self._seen.append(Seen(job["id"], job["attempt"], at))
                self._jobs.add(job["id"])

    # ---- what is reported ----

    def _planned(self, job, attempt):
        kind = zlib.crc32(f"{self.seed}/{job}/{attempt}/pop".encode()) % 100
        report = {"job_id": job, "attempt": attempt, "status": "succeeded"}
        if attempt >= LAST_WORD or kind < 70:
            return [report]
        if kind < 78:
            return [{**report, "status": "failed", "error": {"code": "E1", "message": "as planned"}}]
        if kind < 82:
            return [{**report, "status": "snoozed", "retry_after": 150}]
        if kind < 84:
            return [{**report, "status": "gave_up"}]
        if kind < 88:
            return [report, report]                                  # a duplicate
        if kind < 91:                                                # stale and forged ones
            return [{**report, "attempt": attempt + 1}, {**report, "job_id": str(int(job) + (1 << 41))}, report]
        if kind < 94:
            self._put_off(400, [report])
            return [{**report, "status": "extended"}]
        if kind < 98:
            self._put_off(20 + 40 * (kind % 7), [report])
        return []                                                    # silence: its deadline passes

    def _put_off(self, ms, reports):
        self._late(ms, lambda: self._report(self._client(random.choice(self._urls)), reports, True))

    def _report(self, client, reports, together):
        self._counts["results by REST"] += len(reports)
        for some in [reports] if together else [[one] for one in reports]:
            answer = client.ask("POST", "/v1/results", some)
            if not answer or answer.status != 200:
                time.sleep(0.02)
                continue
            for report, said in zip(some, answer.json):
                if report["status"] == "succeeded" and said.get("outcome") == "applied":
                    client.journal.ended(report["job_id"], report["attempt"])

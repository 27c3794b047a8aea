"""A worker as a user would write one: pops a topic, does what the sample says, reports by REST. One thread, one waiting request."""
import threading

from .arrivals import Arrival
from .rest import Rest
from .times import now_ms, to_ms

WAIT = "PT1S"  # of one pop; it is answered at once when a job becomes due


class Worker(threading.Thread):
    def __init__(self, url, topic, arrivals):
        super().__init__(daemon=True)
        self._rest = Rest(url)
        self._topic = topic
        self._arrivals = arrivals
        self._stop_asked = threading.Event()

    def run(self):
        while not self._stop_asked.is_set():
            answer = self._rest.want(200, "POST", f"/v1/topics/{self._topic}/pop", {"max": 10, "wait": WAIT})
            received = now_ms()
            for job in answer["jobs"]:
                self._take(job, received)

    def _take(self, job, received_ms):
        if not self._arrivals.is_ours(job["payload"]):
            return
        attempts = self._rest.want(200, "GET", f"/v1/jobs/{job['id']}/attempts")["attempts"]
        due = next(attempt["due_at"] for attempt in attempts if attempt["attempt"] == job["attempt"])
        report = self._arrivals.took(Arrival(job["id"], job["attempt"], received_ms, to_ms(due), job["payload"]))
        if report is not None:
            self.report(job["id"], job["attempt"], report)

    def report(self, job, attempt, report):
        self._rest.want(200, "POST", "/v1/results", [{"job_id": job, "attempt": attempt, **report}])

    def end(self):
        self._stop_asked.set()
        self.join()

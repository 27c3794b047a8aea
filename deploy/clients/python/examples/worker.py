#!/usr/bin/env python3
"""A worker that pops: python3 worker.py TOPIC. The server lets it wait for due jobs; it has TTR for each attempt and asks for more while it works;
on SIGTERM it ends what it has begun, reports it, and takes nothing more."""
import os
import signal
import ssl
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

from orders import Effects, attend

import duetime

HANDS = 20
TTR = 3  # seconds that a worker which dies costs its jobs


class Worker:
    def __init__(self, client, topic):
        self.client, self.topic, self.effects = client, topic, Effects()
        self.free = threading.Semaphore(HANDS)
        self.ending, self.ended = threading.Event(), threading.Event()
        self.busy = set()

    def run(self):
        extending = threading.Thread(target=self.keep_extending)
        extending.start()
        with ThreadPoolExecutor(HANDS) as hands:
            while not self.ending.is_set():
                for job in self.pop():
                    self.busy.add((job["id"], job["attempt"]))
                    hands.submit(self.attend, job)
        self.ended.set()
        extending.join()

    def pop(self):
        """As many jobs as there are free hands, at least one."""
        self.free.acquire()
        wanted = 1
        while wanted < HANDS and self.free.acquire(blocking=False):
            wanted += 1
        jobs = []
        try:
            jobs = self.client.pop(self.topic, max=wanted, wait="PT5S", ttr=TTR * 1000)
        except duetime.DuetimeError as error:  # attempts whose answer was lost come again after their time
            print(f"nothing popped: {error}", file=sys.stderr, flush=True)
            self.ending.wait(1)
        for _ in range(wanted - len(jobs)):
            self.free.release()
        return jobs

    def attend(self, job):
        try:
            report = attend(self.effects, job["id"], job["attempt"], job["payload"])
            self.busy.discard((job["id"], job["attempt"]))
            if report:
                self.report(**report)
        finally:
            self.free.release()

    def report(self, **report):
        """Reports of several hands leave together. One that fails leaves its attempt to the deadline."""
        try:
            self.client.report(**report)
        except duetime.DuetimeError as error:
            print(f"job {report['job_id']}: {error}", file=sys.stderr, flush=True)

    def keep_extending(self):
        while not self.ended.wait(TTR / 3):
            for job, attempt in list(self.busy):
                self.report(job_id=job, attempt=attempt, status="extended")


def main(topic):
    tls = ssl.create_default_context(cafile=os.environ.get("DUETIME_CA_FILE"))
    with duetime.Client(os.environ["DUETIME_URL"], os.environ.get("DUETIME_TOKEN"), tls=tls) as client:
        worker = Worker(client, topic)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: worker.ending.set())
        worker.run()


if __name__ == "__main__":
    main(sys.argv[1])

"""Sends requests about jobs at their due instant, from many threads, on a slow machine too."""
import collections
import threading

from .checker import now_ms

STEP_MS = 4


class Storm:
    """Calls `act(url, job, due_ms)` for each of `jobs`, [(job, due_ms)] by time; it returns whether the request was too late, or None.
    Each thread aims: if a request was too late, the next one is earlier, otherwise later. The step doubles while
    the answers stay the same. If a job's time has passed, it is left for the end."""

    def __init__(self, jobs, urls, act, chance, threads=16):
        self.act, self.failures = act, []
        self._threads = [threading.Thread(target=self._run, args=(collections.deque(jobs[i::threads]), urls[i % len(urls)], chance.uniform(-12, 20)))
                         for i in range(threads)]
        for thread in self._threads:
            thread.start()

    def _run(self, jobs, url, offset):
        try:
            missed, step, before = [], STEP_MS, None
            while jobs:
                job, due = jobs.popleft()
                wait = (due + offset - now_ms()) / 1000
                if wait < -0.05 and jobs:
                    missed.append((job, due))
                    continue
                threading.Event().wait(max(0, wait))
                late = self.act(url, job, due)
                if late is not None:
                    step, before = (min(2 * step, 64 * STEP_MS) if late == before else STEP_MS), late
                    offset += -step if late else step
            for job, due in missed:
                self.act(url, job, due)
        except Exception as failure:  # noqa: BLE001 - end() reports it
            self.failures.append(failure)

    def end(self):
        for thread in self._threads:
            thread.join()
        assert not self.failures, self.failures

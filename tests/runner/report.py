"""Counts tests and prints the progress of the run, and each failure with the command that repeats it. Every test counts once: passed,
failed or skipped. The last line is the total.
"""
import sys
import threading
import time


class Report:
    def __init__(self, seed):
        self._lock = threading.Lock()
        self._began = time.monotonic()
        self._expected = {}  # part -> seconds that it takes on two idle cores
        self._started = {}  # part -> when
        self.times = {}  # part -> seconds that it took
        self.seed = seed
        self.passed = 0
        self.failed = 0
        self.skipped = 0

    def say(self, text):
        with self._lock:
            print(f"[{time.monotonic() - self._began:6.1f}s] {text}", flush=True)

    def plan(self, parts, at_one_time):
        """`parts`: {name: seconds on two idle cores}; so many of them run at one time."""
        self._expected, self._at_one_time = dict(parts), at_one_time
        self.say(f"plan: {', '.join(f'{name} ({_minutes(seconds)})' for name, seconds in parts.items())}; "
                 f"together about {_minutes(self._seconds_left())} on two idle cores")

    def begin(self, name):
        self._started[name] = time.monotonic()
        self.say(f"{name} begins")

    def end(self, name):
        took = self.times[name] = time.monotonic() - self._started[name]
        left = [part for part in self._expected if part not in self.times]
        self.say(f"{name}: done in {_minutes(took)}" + (f"; left: {', '.join(left)}, about {_minutes(self._seconds_left())}" if left else ""))

    def _seconds_left(self):
        """The first part runs alone, the others side by side. If the finished parts took longer than expected, the others will too, by the same factor."""
        now = time.monotonic()
        left = [0 if part in self.times else max(0, seconds - (now - self._started.get(part, now))) for part, seconds in self._expected.items()]
        slower = sum(self.times.values()) / max(1, sum(self._expected[part] for part in self.times))
        return max(1, slower) * (left[0] + max(max(left[1:]), sum(left[1:]) / self._at_one_time))

    def ok(self, count=1):
        with self._lock:
            self.passed += count

    def fail(self, name, detail, again=None, logs=""):
        """`again`: the arguments of tests/run that repeat this test alone. `logs`: the last lines of the servers' logs."""
        with self._lock:
            self.failed += 1
            indented = "\n".join(f"    {line}" for line in (*detail.rstrip().splitlines()[-100:], *logs.rstrip().splitlines()))
            alone = f"\n    alone: tests/run {again} --seed {self.seed}" if again else ""
            print(f"FAILED {name}\n{indented}{alone}", flush=True)

    def skip(self, name, reason):
        with self._lock:
            self.skipped += 1
            print(f"skipped {name}: {reason}", flush=True)

    def close(self):
        """Prints the sum; gives the exit code. Nothing run at all is no success."""
        skipped = f", {self.skipped} skipped" if self.skipped else ""
        sys.stdout.flush()
        print(f"{self.passed} passed, {self.failed} failed{skipped}", flush=True)
        return 0 if self.failed == 0 and self.passed > 0 else 1


def _minutes(seconds):
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.1f} min"

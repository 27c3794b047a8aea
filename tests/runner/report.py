"""Counts tests and tells of them. Every test counts once: passed, failed or skipped. The last line is the sum."""
import sys
import threading
import time


class Report:
    def __init__(self):
        self._lock = threading.Lock()
        self._began = time.monotonic()
        self.passed = 0
        self.failed = 0
        self.skipped = 0

    def say(self, text):
        with self._lock:
            print(f"[{time.monotonic() - self._began:6.1f}s] {text}", flush=True)

    def ok(self, count=1):
        with self._lock:
            self.passed += count

    def fail(self, name, detail):
        with self._lock:
            self.failed += 1
            indented = "\n".join(f"    {line}" for line in detail.rstrip().splitlines()[-60:])
            print(f"FAILED {name}\n{indented}", flush=True)

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

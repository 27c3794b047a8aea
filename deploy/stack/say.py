"""Talk, on stderr: stdout belongs to data (`env`, `status`). Every step that may take seconds is told before it starts."""
import sys
import time


class StackError(Exception):
    """Something that the user should read: printed without a traceback, exit code 1."""


_began = time.monotonic()


def step(text):
    print(f"[{time.monotonic() - _began:6.1f}s] {text}", file=sys.stderr, flush=True)


def note(text):
    print(f"          {text}", file=sys.stderr, flush=True)

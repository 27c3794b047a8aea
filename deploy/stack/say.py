"""Talk, on stderr: stdout belongs to data (`env`, `status`). Every step that may take seconds is told before it starts."""
import contextlib
import sys
import threading
import time

WAITING_SECONDS = 10  # between two lines about one wait


class StackError(Exception):
    """Something that the user should read: printed without a traceback, exit code 1."""


_began = time.monotonic()


def step(text):
    print(f"[{time.monotonic() - _began:6.1f}s] {text}", file=sys.stderr, flush=True)


def note(text):
    print(f"          {text}", file=sys.stderr, flush=True)


def tail(log, lines=25):
    """Returns the last lines of a log file."""
    try:
        return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])
    except FileNotFoundError:
        return "(no log)"


def tails(folder):
    """Returns the last lines of each log in the folder: more of duetime's programs than of the servers."""
    return "\n".join(f"--- {log.name}\n{tail(log, 20 if log.stem.startswith(('api', 'dispatcher')) else 6)}" for log in sorted(folder.glob("*.log")))


@contextlib.contextmanager
def waiting(what, last_line=lambda: ""):
    """While the block runs, prints from time to time what it waits for, since how long, and the last line of a log."""
    began, over = time.monotonic(), threading.Event()

    def tell():
        while not over.wait(WAITING_SECONDS):
            line = last_line()[:200]
            note(f"waiting for {what}, {time.monotonic() - began:.0f} s so far" + (f": {line}" if line else ""))

    threading.Thread(target=tell, daemon=True).start()
    try:
        yield
    finally:
        over.set()


@contextlib.contextmanager
def progress(what):
    """Yields tell(text), which says how far the work is: one line that is redrawn at a terminal, elsewhere a line from time to time."""
    if not sys.stderr.isatty():
        latest = [""]
        with waiting(what, lambda: latest[0]):
            yield lambda text: latest.__setitem__(0, text)
        return
    try:
        yield lambda text: print(f"\r          {text}\x1b[K", end="", file=sys.stderr, flush=True)
    finally:
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def bar(part):
    """A part of the whole, from 0 to 1, as a bar."""
    full = round(30 * min(part, 1))
    return f"[{'#' * full}{'.' * (30 - full)}]"

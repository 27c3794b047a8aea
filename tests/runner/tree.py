"""The tree under test and the parts of deploy/stack that the runner borrows."""
import contextlib
import fcntl
import os
import sys
from pathlib import Path

TREE = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TREE / "deploy"))

from stack import build, say  # noqa: E402,F401
from stack.stack import Stack  # noqa: E402,F401

PRESET = os.environ.get("DUETIME_TEST_PRESET", "sanitize")  # sanitize, tsan or coverage
BUILD = TREE / "build" / PRESET
RELEASE = TREE / "build" / "release"
WORK = TREE / ".local" / "tests"


@contextlib.contextmanager
def alone():
    """Two runs in one tree would take each other's servers down: the second waits."""
    WORK.mkdir(parents=True, exist_ok=True)
    with open(WORK / "lock", "w", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("another tests/run is at work in this tree: waiting for its end", flush=True)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield

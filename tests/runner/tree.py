"""The tree under test and the parts of deploy/stack that the runner borrows."""
import contextlib
import fcntl
import hashlib
import os
import shutil
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

MEMORY = Path("/dev/shm")
QUICK = MEMORY / f"duetime-{os.getuid()}-{hashlib.sha256(str(TREE).encode()).hexdigest()[:12]}"
NEEDED = 4 << 30  # bytes: what a suite's servers have at most, and as much again


def _memory_has_room():
    try:
        return shutil.disk_usage(MEMORY).free >= NEEDED and os.access(MEMORY, os.W_OK)
    except OSError:
        return False


def quick_folder(name):
    """A folder of the suite's for servers that outlive no crash of the machine: in memory where there is room, so that nothing waits for a disk."""
    quick = QUICK / name
    return quick if quick.exists() or _memory_has_room() else WORK / name  # one that a run left behind, which was ended, is taken over


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

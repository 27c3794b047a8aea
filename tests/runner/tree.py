"""The tree under test and the parts of deploy/stack that the runner borrows."""
import sys
from pathlib import Path

TREE = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TREE / "deploy"))

from stack import build, say  # noqa: E402,F401
from stack.stack import Stack  # noqa: E402,F401

BUILD = TREE / "build" / "sanitize"
WORK = TREE / ".local" / "tests"

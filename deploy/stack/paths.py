"""Where things lie. Owns the names of folders; makes none of them.

One stack a tree, under .local/stack, or wherever DUETIME_LOCAL_DIR says, so that tests can run several side by
side. What is downloaded lies beside it, in .local/cache, shared by all stacks of a tree and kept by `reset`.
"""
import os
from pathlib import Path

TREE = Path(__file__).resolve().parents[2]
CACHE = TREE / ".local" / "cache"


def home():
    """The folder of the stack that this command is about."""
    return Path(os.environ.get("DUETIME_LOCAL_DIR") or TREE / ".local" / "stack").resolve()


def build_folder(preset):
    return TREE / "build" / preset

"""What a forked process must not share with its parent: connections, locks, threads, keys. Each such object begins again in the child."""
from __future__ import annotations

import os
import weakref


class Forked:
    """`after_fork` runs in the child before anything else does. It takes no lock: a thread of the parent may hold it for ever."""

    def __init__(self) -> None:
        _all.add(self)

    def after_fork(self) -> None:
        raise NotImplementedError


_all: weakref.WeakSet[Forked] = weakref.WeakSet()


def _begin_again() -> None:
    for one in list(_all):
        one.after_fork()


if hasattr(os, "register_at_fork"):  # there is no fork elsewhere
    os.register_at_fork(after_in_child=_begin_again)

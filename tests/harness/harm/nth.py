"""The knobs of tests/support/nth/nth_call.c: which call for memory, a descriptor or a thread fails next in a program, or which of the database."""
import mmap
import re
import struct

from ..stack import PRESET, TREE

KINDS = ("memory", "descriptor", "thread")  # what runs out
KNOBS = (*KINDS, "statement")
SIZE = 8 * 3 * len(KNOBS)
REPORT = re.compile(r"AddressSanitizer|LeakSanitizer|runtime error:|Assertion|terminate called|stack smashing")


def no_report(text, what):
    """A program's log has nothing of a sanitizer's."""
    assert not REPORT.search(text), f"{what}\n{text[-6000:]}"


def program(name):
    """duetime-api or duetime-dispatcher, linked with the knobs."""
    return TREE / "build" / PRESET / "tests" / f"nth_{name}"


class Knobs:
    def __init__(self, path):
        self.path = path
        path.write_bytes(bytes(SIZE))
        with open(path, "r+b") as file:
            self._map = mmap.mmap(file.fileno(), SIZE)
        self.environment = {"DUETIME_NTH": str(path)}

    def _at(self, kind, what):
        return (KNOBS.index(kind) * 3 + ("left", "calls", "failed").index(what)) * 8

    def _get(self, kind, what):
        return struct.unpack_from("<q", self._map, self._at(kind, what))[0]

    def _set(self, kind, what, value):
        struct.pack_into("<q", self._map, self._at(kind, what), value)

    def arm(self, kind, n):
        """The n-th call from now on fails, once."""
        self._set(kind, "failed", 0)
        self._set(kind, "calls", 0)
        self._set(kind, "left", n)

    def disarm(self, kind):
        """True when a call had failed."""
        self._set(kind, "left", 0)
        return self._get(kind, "failed") > 0

    def failed(self, kind):
        return self._get(kind, "failed") > 0

    def calls(self, kind):
        """Since arm."""
        return self._get(kind, "calls")

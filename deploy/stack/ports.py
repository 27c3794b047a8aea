"""Free loopback ports, chosen once and kept with the stack so that a part comes back where it was.

They are taken from below the range that the kernel gives to outgoing connections: a port up there may be in use
by a client by the time that its server comes back (or the client may even connect to itself).

A server that is down leaves its port free to bind, and still it is not to be had by another stack: who has which is
noted in a folder that all stacks of a user share. A note holds for as long as the stack's folder is there.
"""
import os
import random
import socket
import tempfile
from pathlib import Path

from . import locks

FIRST = 20000
NOTES = Path(tempfile.gettempdir()) / f"duetime-ports-{os.getuid()}"


def _last():
    try:
        return min(32767, int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0]) - 1)
    except (OSError, ValueError):
        return 32767


def is_free(port):
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def _has_owner(port):
    note = NOTES / str(port)
    return note.exists() and Path(note.read_text(encoding="utf-8")).exists()


def choose(taken, owner):
    """A free port that is not in `taken`, and from now on that of the folder `owner`."""
    last = _last()
    with locks.held(NOTES / "lock"):
        for _ in range(1000):
            port = random.randint(FIRST, last) if last > FIRST else random.randint(10000, 60000)
            if port not in taken and not _has_owner(port) and is_free(port):
                (NOTES / str(port)).write_text(str(owner), encoding="utf-8")
                return port
    raise RuntimeError("no free loopback port was found")

"""Free loopback ports, chosen once and kept with the stack so that a part comes back where it was.

They are taken from below the range that the kernel gives to outgoing connections: a port up there may be in use
by a client by the time that its server comes back (or the client may even connect to itself).
"""
import random
import socket
from pathlib import Path

FIRST = 20000


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


def choose(taken):
    """A free port that is not in `taken`."""
    last = _last()
    for _ in range(1000):
        port = random.randint(FIRST, last) if last > FIRST else random.randint(10000, 60000)
        if port not in taken and is_free(port):
            return port
    raise RuntimeError("no free loopback port was found")

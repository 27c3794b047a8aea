"""A second client of somebody's ZooKeeper session, and what logs say when. A server gives a session's password away: it is drawn
from a random generator that is seeded with the session's number, so anybody who sees the number may close the session."""
import datetime
import re
import socket
import struct
import time

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

CLOSE = -11           # the request's type
SECRET = 0xB3415C00  # org.apache.zookeeper.server.ZooKeeperServer


def java_random_bytes(seed, count):
    """java.util.Random(seed).nextBytes()."""
    state = (seed ^ 0x5DEECE66D) & ((1 << 48) - 1)
    found = bytearray()
    while len(found) < count:
        state = (state * 0x5DEECE66D + 0xB) & ((1 << 48) - 1)
        word = state >> 16
        found += bytes((word >> shift) & 0xFF for shift in (0, 8, 16, 24))
    return bytes(found[:count])


def session_of(address, owner, members="/duetime"):
    """The session whose member node says `owner` (the end of host:pid)."""
    client = KazooClient(hosts=address)
    client.start(60)
    try:
        for path in _tree(client, members):
            data, stat = client.get(path)
            if stat.ephemeralOwner and data.decode(errors="replace").endswith(owner):
                return stat.ephemeralOwner
        raise AssertionError(f"no session belongs to {owner}")
    finally:
        client.stop()
        client.close()


def _tree(client, path):
    yield path
    for child in client.get_children(path):
        yield from _tree(client, f"{path.rstrip('/')}/{child}")


def close_session_of(address, owner):
    """Ends the session of a program as if it had expired; the time, in s. The program's client notices that somebody has taken its
    session, and takes it back: what closes must come in the same packet, and sometimes again."""
    session = session_of(address, owner)
    for _ in range(50):
        at = time.time()
        _close(address, session)
        if not _lives(address, session):
            return at
    raise AssertionError(f"the session {session:#x} cannot be closed")


def _close(address, session):
    password = java_random_bytes((session ^ SECRET) & ((1 << 64) - 1), 16)
    connect = struct.pack(">iqiqi", 0, 0, 2000, session, len(password)) + password + b"\0"
    close = struct.pack(">ii", 1, CLOSE)
    host, port = address.split(":")
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        connection.settimeout(2)
        connection.sendall(struct.pack(">i", len(connect)) + connect + struct.pack(">i", len(close)) + close)
        try:
            while connection.recv(4096):  # until the server hangs up
                pass
        except OSError:
            pass


def _lives(address, session):
    client = KazooClient(hosts=address)
    client.start(60)
    try:
        return any(client.get(path)[1].ephemeralOwner == session for path in _tree(client, "/duetime"))
    except NoNodeError:
        return True  # it is just going: look again
    finally:
        client.stop()
        client.close()


def logged(log, message):
    """The times, in s, of a program's log lines with that message."""
    found = re.finditer(rf'^time=(\S+) .*msg="?{re.escape(message)}', log, re.M)
    return [datetime.datetime.fromisoformat(match[1].replace("Z", "+00:00")).timestamp() for match in found]

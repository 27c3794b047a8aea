"""A second client of somebody's ZooKeeper session, and what logs say when. A server gives a session's password away: it is drawn
from a random generator that is seeded with the session's number, so anybody who sees the number may close the session."""
import datetime
import re

from kazoo.client import KazooClient

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
    client.start(10)
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
    """Ends the session of a program as if it had expired; its number."""
    session = session_of(address, owner)
    password = java_random_bytes((session ^ SECRET) & ((1 << 64) - 1), 16)
    client = KazooClient(hosts=address, client_id=(session, password))
    client.start(10)
    if client.client_id[0] != session:
        client.stop()
        raise AssertionError(f"the session {session:#x} was not taken over: got {client.client_id[0]:#x}")
    client.stop()
    client.close()
    return session


def logged(log, message):
    """The times, in s, of a program's log lines with that message."""
    found = re.finditer(rf'^time=(\S+) .*msg="?{re.escape(message)}', log, re.M)
    return [datetime.datetime.fromisoformat(match[1].replace("Z", "+00:00")).timestamp() for match in found]

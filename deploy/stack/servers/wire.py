"""The few bytes that tell whether a server answers."""
import socket

PROBE_SECONDS = 10  # for one request: a busy machine answers late; if the server has died, the wait ends at once


def ask(port, request, limit=200, seconds=PROBE_SECONDS):
    """What the server at a loopback port answers first, or b'' when it does not."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=seconds) as connection:
            connection.settimeout(seconds)
            connection.sendall(request)
            return connection.recv(limit)
    except OSError:
        return b""

"""The few bytes that tell whether a server answers."""
import socket


def ask(port, request, limit=200, seconds=1.0):
    """What the server at a loopback port answers first, or b'' when it does not."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=seconds) as connection:
            connection.settimeout(seconds)
            connection.sendall(request)
            return connection.recv(limit)
    except OSError:
        return b""

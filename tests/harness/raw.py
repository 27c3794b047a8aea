"""HTTP by hand over one socket, for what a decent client cannot send."""
import json
import socket
import time
import urllib.parse


class Raw:
    def __init__(self, url, seconds=120):
        parts = urllib.parse.urlsplit(url)
        self.host = f"{parts.hostname}:{parts.port}"
        self.socket = socket.create_connection((parts.hostname, parts.port), timeout=seconds)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data if isinstance(data, bytes) else data.encode())
        return self

    def request(self, line, *headers, body=b"", host=True):
        """The request line without its version, header lines as they stand, then the body as it stands."""
        body = body if isinstance(body, bytes) else body.encode()
        lines = [f"{line} HTTP/1.1", *([f"Host: {self.host}"] if host else []), *headers, "", ""]
        return self.send("\r\n".join(lines).encode() + body)

    def _more(self):
        data = self.socket.recv(65536)
        self.buffer += data
        return bool(data)

    def answer(self):
        """(status, headers with lower-case names, body) of the next answer; None when the connection ended instead."""
        while b"\r\n\r\n" not in self.buffer:
            if not self._more():
                return None
        head, self.buffer = self.buffer.split(b"\r\n\r\n", 1)
        first, *lines = head.decode().split("\r\n")
        headers = {name.lower(): value.strip() for name, value in (line.split(":", 1) for line in lines)}
        length = int(headers.get("content-length", 0))
        while len(self.buffer) < length:
            if not self._more():
                raise AssertionError(f"the connection ended within the body: {self.buffer!r}")
        body, self.buffer = self.buffer[:length], self.buffer[length:]
        return int(first.split()[1]), headers, body

    def closed(self, seconds=120):
        """Whether the server ends the connection within that time; what it still sends is dropped."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self.socket.settimeout(left)
            try:
                if not self.socket.recv(65536):
                    return True
            except ConnectionError:
                return True
            except TimeoutError:
                return False
        return False


def statuses_at_once(url, path, connections):
    """The set of statuses of one GET a connection, all asked before the first answer is read."""
    wires = [Raw(url) for _ in range(connections)]
    try:
        for wire in wires:
            wire.request(f"GET {path}")
        return {wire.answer()[0] for wire in wires}
    finally:
        for wire in wires:
            wire.socket.close()


def post(path, body, *headers):
    """The bytes of one POST with a JSON body."""
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"POST {path} HTTP/1.1", "Host: localhost", "Content-Type: application/json", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body

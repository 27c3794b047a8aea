"""HTTP/2 by hand over one socket: frames as they are, one connection with many streams. The server keeps no table of headers for it."""
import json
import socket
import ssl
import struct
import urllib.parse

DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 0, 1, 3, 4, 6, 7, 8, 9
END_STREAM, ACK, END_HEADERS = 1, 1, 4
CANCEL, CALM = 8, 11
STATUS = {8: 200, 9: 204, 10: 206, 11: 304, 12: 400, 13: 404, 14: 500}  # places 8 to 14 of the static table
DIGITS = {**{format(i, "05b"): str(i) for i in range(3)}, **{format(0x16 + i, "06b"): str(i) for i in range(3, 10)}}  # in Huffman's code


def number(value, prefix):
    """An integer of HPACK."""
    most = (1 << prefix) - 1
    if value < most:
        return bytes([value])
    out, value = [most], value - most
    while value >= 128:
        out.append(value % 128 | 128)
        value //= 128
    return bytes([*out, value])


def literal(name, value):
    return b"\0" + b"".join(number(len(text), 7) + text for text in (name.encode(), str(value).encode()))


def status_of(block):
    """The first header of an answer is its status; no dynamic table is in use."""
    while block[0] >> 5 == 1:  # the size of the table
        block = block[2 if block[0] & 31 == 31 else 1:]
    if block[0] & 128:
        return STATUS[block[0] & 127]
    text = block[2:2 + (block[1] & 127)]
    if not block[1] & 128:
        return int(text)
    bits, digits, code = "".join(format(byte, "08b") for byte in text), "", ""
    for bit in bits:
        code += bit
        if code in DIGITS:
            digits, code = digits + DIGITS[code], ""
    return int(digits)


class Stream:
    def __init__(self, window):
        self.status, self.body, self.ended, self.reset, self.window = None, b"", False, None, window


class H2:
    """One connection; context: with TLS, which must choose h2. window: of each stream, for answers."""

    def __init__(self, url, context=None, window=1 << 20, seconds=120):
        parts = urllib.parse.urlsplit(url)
        self.authority = f"localhost:{parts.port}"
        self.socket = socket.create_connection((parts.hostname, parts.port), timeout=seconds)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if context:
            context.set_alpn_protocols(["h2", "http/1.1"])
            self.socket = context.wrap_socket(self.socket, server_hostname="localhost")
            assert self.socket.selected_alpn_protocol() == "h2"
        self.buffer, self.streams, self.next, self.goaway, self.ended = b"", {}, 1, None, False
        self.windows = {0: 65535}
        self.socket.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        self.frame(SETTINGS, 0, 0, struct.pack(">HIHI", 1, 0, 4, window))
        self.frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 1 << 30))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def frame(self, kind, flags, stream, payload=b""):
        self.socket.sendall(struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload)

    def head(self, method, path, headers, authority=None):
        first = {":method": method, ":scheme": "http", ":authority": authority or self.authority, ":path": path}
        return b"".join(literal(name, value) for name, value in {**first, **headers}.items())

    def ask(self, method, path, body=None, *, authority=None, opens=False, **headers):
        """Sends a request, the body as the server takes it, or (opens) none of it; returns the number of its stream."""
        id, self.next = self.next, self.next + 2
        self.streams[id], self.windows[id] = Stream(65535), 65535
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        self.frame(HEADERS, END_HEADERS | (END_STREAM if body is None and not opens else 0), id, self.head(method, path, headers, authority))
        while body is not None:
            n = min(len(body), 16384, self.windows[0], self.windows[id])
            if n or not body:
                self.frame(DATA, END_STREAM if n == len(body) else 0, id, body[:n])
                self.windows[0], self.windows[id], body = self.windows[0] - n, self.windows[id] - n, body[n:] or None
            elif self.streams[id].ended or self.streams[id].reset is not None:
                break
            else:
                self.hear()
        return id

    def post(self, path, value, **headers):
        return self.ask("POST", path, json.dumps(value).encode(), content_type="application/json", **headers)

    def hear(self):
        """Takes one frame in. False: the connection has ended."""
        while len(self.buffer) < 9 or len(self.buffer) < 9 + int.from_bytes(self.buffer[:3], "big"):
            try:
                some = self.socket.recv(65536)
            except (ConnectionError, ssl.SSLError):
                some = b""
            if not some:
                self.ended = True
                return False
            self.buffer += some
        length, kind, flags, id = int.from_bytes(self.buffer[:3], "big"), *struct.unpack(">BBI", self.buffer[3:9])
        payload, self.buffer = self.buffer[9:9 + length], self.buffer[9 + length:]
        stream = self.streams.get(id) or Stream(0)
        if kind == HEADERS:
            stream.status = status_of(payload)
        elif kind == DATA:
            stream.body += payload
            if payload and not flags & END_STREAM:
                self.frame(WINDOW_UPDATE, 0, id, struct.pack(">I", len(payload)))
        elif kind == RST_STREAM:
            stream.reset = int.from_bytes(payload, "big")
        elif kind == SETTINGS and not flags & ACK:
            self.frame(SETTINGS, ACK, 0)
        elif kind == GOAWAY:
            self.goaway = int.from_bytes(payload[4:8], "big")
        elif kind == WINDOW_UPDATE:
            self.windows[id] = self.windows.get(id, 0) + int.from_bytes(payload, "big")
        if kind in (HEADERS, DATA) and flags & END_STREAM:
            stream.ended = True
        return True

    def answer(self, id):
        """(status, body) of the stream; None if it was reset or the connection has ended."""
        stream = self.streams[id]
        while not stream.ended and stream.reset is None:
            if not self.hear():
                return None
        return (stream.status, stream.body) if stream.ended else None

    def get(self, path, **headers):
        return self.answer(self.ask("GET", path, **headers))

    def until_ended(self):
        """Hears all that comes; returns the code of GOAWAY, if there was one."""
        while self.hear():
            pass
        return self.goaway

"""How far the fault proxy understands what passes: where a message ends, what kind it is, which reply answers it.

A protocol is one object a connection. `split(direction, data)` takes what came and gives the whole messages in it; what
is not whole yet waits inside. It never changes a byte. What it cannot read passes as one message without a kind, so that
a proxy is never stricter than the servers behind it.
"""
import struct
from collections import deque
from dataclasses import dataclass

REQUEST = "to the server"
REPLY = "to the client"


@dataclass
class Message:
    data: bytes
    kind: str = ""
    client_id: str = ""


class Raw:
    """Bytes as they come."""

    def split(self, _direction, data):
        return [Message(data)]


class _Framed:
    """Messages that begin with their own length; `_kind` is told by the subclass."""

    HEADER = struct.Struct(">i")

    def __init__(self):
        self._waiting = {REQUEST: bytearray(), REPLY: bytearray()}
        self._blind = False

    def _size(self, waiting):
        return self.HEADER.size + self.HEADER.unpack_from(waiting)[0] if len(waiting) >= self.HEADER.size else None

    def split(self, direction, data):
        waiting = self._waiting[direction]
        waiting += data
        if self._blind:
            found = [Message(bytes(waiting))]
            waiting.clear()
            return found
        found = []
        while True:
            size = self._size(waiting)
            if size is not None and not self.HEADER.size <= size <= 256 << 20:
                self._blind = True  # another protocol: let it pass
                return found + self.split(direction, b"")
            if size is None or len(waiting) < size:
                return found
            frame = bytes(waiting[:size])
            del waiting[:size]
            found.append(self._read(direction, frame))

    def _read(self, direction, frame):
        try:
            return self._request(frame) if direction == REQUEST else self._reply(frame)
        except (struct.error, IndexError):
            return Message(frame)


class Kafka(_Framed):
    """Requests carry size, api key, version, correlation id, client id; replies size and correlation id."""

    KINDS = {0: "Produce", 1: "Fetch", 2: "ListOffsets", 3: "Metadata", 8: "OffsetCommit", 9: "OffsetFetch", 10: "FindCoordinator",
             18: "ApiVersions", 19: "CreateTopics", 22: "InitProducerId", 24: "AddPartitionsToTxn", 25: "AddOffsetsToTxn", 26: "EndTxn",
             28: "TxnOffsetCommit"}

    def __init__(self):
        super().__init__()
        self._asked = {}

    def _request(self, frame):
        _, key, _version, correlation, length = struct.unpack_from(">ihhih", frame)
        client = frame[14:14 + length].decode(errors="replace") if length > 0 else ""
        kind = self.KINDS.get(key, f"api {key}")
        self._asked[correlation] = (kind, client)
        return Message(frame, kind, client)

    def _reply(self, frame):
        kind, client = self._asked.pop(struct.unpack_from(">ii", frame)[1], ("", ""))
        return Message(frame, kind, client)


class MySQL(_Framed):
    """Packets of a length of three bytes, a number, then the command. A COM_QUERY's kind is its first word in capitals.
    A reply is of the kind of the request before it: this client asks one thing at a time. A statement that the COMMIT is
    sent with is a COMMIT, too; it has two replies, and the last one is the COMMIT's."""

    COMMANDS = {0x01: "quit", 0x03: "query", 0x0E: "ping", 0x16: "prepare", 0x17: "execute", 0x19: "close"}

    def __init__(self):
        super().__init__()
        self._last = self._before = ""

    def _size(self, waiting):
        return 4 + int.from_bytes(waiting[:3], "little") if len(waiting) >= 4 else None

    def _request(self, frame):
        if frame[3] == 0 and len(frame) > 4:
            self._last = self.COMMANDS.get(frame[4], "")
            if self._last == "query":
                self._last = frame[5:60].lstrip(b"\x00\x01").split(None, 1)[0].strip(b";").decode(errors="replace").upper()
            self._before = ""
            if frame.endswith(b";COMMIT"):
                self._before, self._last = self._last, "COMMIT"
        return Message(frame, self._last)

    def _reply(self, frame):
        kind, self._before = self._before or self._last, ""
        return Message(frame, kind)


class ZooKeeper(_Framed):
    """The first message each way opens the session; then requests carry xid and operation, replies the xid."""

    KINDS = {1: "create", 2: "delete", 3: "exists", 4: "get", 5: "set", 8: "children", 11: "ping", 12: "children", 15: "create",
             -11: "close"}

    def __init__(self):
        super().__init__()
        self._opened = {REQUEST: False, REPLY: False}
        self._asked = {}

    def _first(self, direction):
        first, self._opened[direction] = not self._opened[direction], True
        return first

    def _request(self, frame):
        if self._first(REQUEST):
            return Message(frame, "connect")
        _, xid, operation = struct.unpack_from(">iii", frame)
        kind = self.KINDS.get(operation, f"operation {operation}")
        self._asked.setdefault(xid, deque()).append(kind)
        return Message(frame, kind)

    def _reply(self, frame):
        if self._first(REPLY):
            return Message(frame, "connect")
        kinds = self._asked.get(struct.unpack_from(">ii", frame)[1])
        return Message(frame, kinds.popleft() if kinds else "event")

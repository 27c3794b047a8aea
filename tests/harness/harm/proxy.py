"""A TCP fault proxy: listens on the loopback, forwards to one server, and does to the bytes what networks do.

    proxy = Proxy(lambda: ("127.0.0.1", 3306), protocol=MySQL)      # proxy.port
    proxy.hold(REPLY) … proxy.release() · proxy.cut() · proxy.refuse() … proxy.accept() · proxy.delay(0.05, REQUEST)
    proxy.limit(100, REPLY) · proxy.limit(100, REPLY, silent=True)
    rule = proxy.on("EndTxn", action="hold", client_id="duetime…");  rule.wait(5);  rule.release()

Directions: REQUEST is to the server, REPLY to the client; without one, both are meant. The faults are those of a TCP
network: bytes come late, or not at all and the connection ends; they are never left out of a stream that lives on. A
one-way cut is a hold of one direction, healed by `release` (they come late) or by `cut` (they never come).

  client ──read──▶ queue ──delay──▶ rules ──▶ gate ──write──▶ server        and the same back
                                                 │
                        a held message stays with the proxy though its client has gone: released, it is delivered

All sockets belong to one thread with an event loop; the methods may be called from any thread and return when the fault
is in force.
"""
import asyncio
import socket
import struct
import threading
from dataclasses import dataclass, field

from ..stack import changed
from .protocols import REPLY, REQUEST, Raw

__all__ = ["Proxy", "Rule", "REQUEST", "REPLY"]

QUEUE = 64  # reads that are kept in a direction before its sender has to wait


@dataclass(eq=False)
class Rule:
    """What to do with messages of a kind. The first `skip` pass, the next `count` are met; None: all.

    hold      the message, and all behind it in its direction, waits for release()
    cut       the connection ends before the message is forwarded
    cut after the message is forwarded, then the connection ends
    truncate  `size` bytes of it are forwarded, then the connection ends
    delay     it waits `seconds`
    watch     it passes; it is only counted
    """
    kind: str
    direction: str
    action: str
    client_id: str = ""
    skip: int = 0
    count: int = 1
    size: int = 0
    seconds: float = 0
    where: object = None
    hits: list = field(default_factory=list)  # the connections, in the order in which they were met
    _proxy: object = None
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _gate: asyncio.Event = field(default_factory=asyncio.Event)
    _ended: bool = False

    def meets(self, direction, message):
        if self._ended or direction != self.direction or message.kind != self.kind or not message.client_id.startswith(self.client_id):
            return False
        if self.where and not self.where(message):
            return False
        if self.skip:
            self.skip -= 1
            return False
        return self.count is None or len(self.hits) < self.count

    def hit(self, connection):
        with self._changed:
            self.hits.append(connection)
            self._changed.notify_all()

    def wait(self, seconds, count=1):
        """Until it was met; fails otherwise."""
        with self._changed:
            changed(self._changed, lambda: len(self.hits) >= count, lambda: f"{len(self.hits)} of {count} {self.kind} {self.direction}", seconds)
        return self

    def release(self):
        """What is held goes on its way; the rule is over."""
        def now():
            self._ended = True
            self._gate.set()
        self._proxy.call(now)


class _Direction:
    """One way through one connection."""

    def __init__(self, connection, name, reader, writer):
        self.connection, self.name, self.reader, self.writer = connection, name, reader, writer
        self.queue = asyncio.Queue(QUEUE)
        self.passed = 0

    async def read(self):
        loop = asyncio.get_running_loop()
        try:
            while data := await self.reader.read(65536):
                for message in self.connection.protocol.split(self.name, data):
                    await self.queue.put((loop.time(), message))
        except OSError:
            pass
        await self.queue.put((loop.time(), None))

    async def forward(self):
        while True:
            came, message = await self.queue.get()
            if message is None:
                break
            await self._delay(came)
            if not await self._by_rules(message):
                return
        await self._open()
        self.connection.close(self.writer)

    async def _delay(self, came):
        wait = came + self.connection.proxy.delays[self.name] - asyncio.get_running_loop().time()
        if wait > 0:
            await asyncio.sleep(wait)

    async def _open(self):
        await self.connection.proxy.gates[self.name].wait()

    async def _by_rules(self, message):
        """False: the connection has ended."""
        proxy = self.connection.proxy
        rule = next((rule for rule in proxy.rules if rule.meets(self.name, message)), None)
        if rule:
            rule.hit(self.connection)
            if rule.action == "hold":
                await rule._gate.wait()
            elif rule.action == "delay":
                await asyncio.sleep(rule.seconds)
            elif rule.action == "cut":
                return self.connection.abort()
            elif rule.action == "truncate":
                await self._write(message.data[:rule.size])
                return self.connection.abort()
        await self._open()
        if not await self._write_within_limit(message.data):
            return False
        return self.connection.abort() if rule and rule.action == "cut after" else True

    async def _write_within_limit(self, data):
        limit = self.connection.proxy.limits[self.name]
        if limit is None or self.passed + len(data) <= limit[0]:
            self.passed += len(data)
            await self._write(data)
            return True
        await self._write(data[:max(0, limit[0] - self.passed)])
        self.passed = limit[0]
        if limit[1]:
            await asyncio.Event().wait()  # silence, until somebody ends the connection
        return self.connection.abort()

    async def _write(self, data):
        if self.writer.is_closing():
            return
        try:
            self.writer.write(data)
            await self.writer.drain()
        except OSError:
            self.connection.close(self.writer)


class _Connection:
    def __init__(self, proxy, client, server):
        self.proxy, self.protocol = proxy, proxy.protocol()
        self.client, self.server = client[1], server[1]
        self.ways = [_Direction(self, REQUEST, client[0], server[1]), _Direction(self, REPLY, server[0], client[1])]

    async def run(self):
        tasks = [asyncio.ensure_future(step) for way in self.ways for step in (way.read(), way.forward())]
        self.tasks = tasks
        try:
            await asyncio.gather(*tasks, return_exceptions=True)
        finally:
            for task in tasks:
                task.cancel()
            self.client.transport.abort()
            self.server.transport.abort()

    @staticmethod
    def close(writer):
        if not writer.is_closing():
            writer.close()

    def abort(self):
        """Both sides see the connection reset."""
        for writer in (self.client, self.server):
            _reset(writer)
        for task in self.tasks:
            if task is not asyncio.current_task():
                task.cancel()
        return False


def _reset(writer):
    """Ends it with a reset and not with an end of file."""
    made = writer.get_extra_info("socket")
    try:
        if made is not None and made.fileno() >= 0:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    except OSError:
        pass
    writer.transport.abort()


class Proxy:
    def __init__(self, server, protocol=Raw, port=0):
        """server() gives the address of the server, asked for at every connection."""
        self._server, self.protocol = server, protocol
        self.rules, self.connections = [], []
        self.delays = {REQUEST: 0.0, REPLY: 0.0}
        self.limits = {REQUEST: None, REPLY: None}
        self.refusing = False
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind(("127.0.0.1", port))
        self._socket.listen(128)
        self.port = self._socket.getsockname()[1]
        self.gates = {REQUEST: asyncio.Event(), REPLY: asyncio.Event()}
        for gate in self.gates.values():
            gate.set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, daemon=True, name=f"proxy {self.port}")
        started = threading.Event()
        self._loop.call_soon(started.set)
        self._thread.start()
        started.wait()

    # ---- the thread ----

    def _serve(self):
        asyncio.set_event_loop(self._loop)
        listening = self._loop.run_until_complete(asyncio.start_server(self._accept, sock=self._socket))
        self._loop.run_forever()
        listening.close()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()

    async def _accept(self, reader, writer):
        if self.refusing:
            _reset(writer)
            return
        try:
            server = await asyncio.open_connection(*self._server())
        except OSError:
            _reset(writer)
            return
        for side in (writer, server[1]):  # asyncio does so by itself only where the listening socket was made with proto=TCP
            side.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection = _Connection(self, (reader, writer), server)
        self.connections.append(connection)
        try:
            await connection.run()
        finally:
            self.connections.remove(connection)

    def call(self, action):
        """Runs it on the proxy's thread; gives what it gives."""
        done, result = threading.Event(), []

        def run():
            try:
                result.append(action())
            finally:
                done.set()
        self._loop.call_soon_threadsafe(run)
        if not done.wait(60):
            raise AssertionError("the proxy's thread hangs")
        return result[0] if result else None

    # ---- faults ----

    @staticmethod
    def _directions(direction):
        return (direction,) if direction else (REQUEST, REPLY)

    def cut(self):
        """Every connection ends now."""
        self.call(lambda: [connection.abort() for connection in list(self.connections)] and None)

    def refuse(self):
        """Every connection ends, and new ones are refused."""
        self.refusing = True
        self.cut()

    def accept(self):
        self.refusing = False

    def hold(self, direction=None):
        """Nothing passes in this direction, of new connections neither, until release()."""
        self.call(lambda: [self.gates[name].clear() for name in self._directions(direction)])

    def release(self, direction=None):
        self.call(lambda: [self.gates[name].set() for name in self._directions(direction)])

    def delay(self, seconds, direction=None):
        self.call(lambda: self.delays.update({name: seconds for name in self._directions(direction)}))

    def limit(self, size, direction=None, silent=False):
        """After `size` bytes in a direction a connection ends, or (silent) stays and carries nothing more."""
        self.call(lambda: self.limits.update({name: (size, silent) for name in self._directions(direction)}))

    def on(self, kind, direction=REQUEST, action="hold", **more):
        rule = Rule(kind, direction, action, _proxy=self, **more)
        self.call(lambda: self.rules.append(rule))
        return rule

    def heal(self, late=True):
        """No fault is left. late: what was held is delivered; else the connections end with it."""
        if not late:
            self.cut()
        rules = self.call(lambda: (list(self.rules), self.rules.clear())[0])
        for rule in rules:
            rule.release()
        self.delay(0)
        self.call(lambda: self.limits.update({REQUEST: None, REPLY: None}))
        self.release()
        self.accept()

    def leave(self, connection):
        """The client's side of a connection ends; what is held of it stays, and is delivered when it is released."""
        self.call(lambda: _reset(connection.client))

    def end(self):
        self.cut()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

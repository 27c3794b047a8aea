"""The fault proxy itself, on a server that answers what it is asked: each fault does what it says, and no more."""
import socket
import struct
import threading
import time

import pytest

from harness.harm import protocols
from harness.harm.proxy import REPLY, REQUEST, Proxy
from harness.stack import until


class Answerer:
    """Frames of four bytes of length in, `answer(frame)` out, on as many connections as come; what came is kept."""

    def __init__(self, answer):
        self.answer, self.got, self.ended = answer, [], 0
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.address = self.socket.getsockname()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                threading.Thread(target=self._serve, args=(self.socket.accept()[0],), daemon=True).start()
            except OSError:
                return

    def _serve(self, client):
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # what waits is to be the proxy's
        try:
            with client, client.makefile("rb") as stream:
                while head := stream.read(4):
                    frame = head + stream.read(struct.unpack(">i", head)[0])
                    self.got.append(frame)
                    client.sendall(self.answer(frame))
        except OSError:
            pass
        self.ended += 1


def framed(body):
    return struct.pack(">i", len(body)) + body


def request(key, correlation=1, client="one", body=b""):
    return framed(struct.pack(">hhih", key, 1, correlation, len(client)) + client.encode() + body)


def reply(frame):
    return framed(frame[8:12] + b"reply to " + frame[4:6])


@pytest.fixture
def server():
    made = Answerer(reply)
    yield made
    made.socket.close()


@pytest.fixture
def proxy(server):
    made = Proxy(lambda: server.address, protocols.Kafka)
    yield made
    made.end()


@pytest.fixture
def connect(proxy):
    made = []

    def one():
        client = socket.create_connection(("127.0.0.1", proxy.port), timeout=60)
        made.append(client)
        return client
    yield one
    for client in made:
        client.close()


def whole_reply(client, seconds=60):
    client.settimeout(seconds)
    head = client.recv(4, socket.MSG_WAITALL)
    return client.recv(struct.unpack(">i", head)[0], socket.MSG_WAITALL) if len(head) == 4 else head


def silent(client, seconds=0.2):
    """Nothing comes for so long, and the connection lives."""
    client.settimeout(seconds)
    try:
        return client.recv(1) is None
    except TimeoutError:
        return True


def ended(client):
    client.settimeout(60)
    try:
        return client.recv(1000) == b""
    except ConnectionError:
        return True


def refused(connect):
    try:
        return ended(connect())
    except ConnectionError:
        return True


END_TXN, PRODUCE = 26, 0


def test_without_a_fault_every_byte_passes(connect, server):
    client = connect()
    frame = request(PRODUCE, body=bytes(range(256)) * 400)
    for part in (frame[:3], frame[3:9], frame[9:50000], frame[50000:]):
        client.sendall(part)
    assert whole_reply(client).endswith(b"reply to \0\0")
    assert server.got == [frame]


def test_many_small_messages_pass_without_waiting_for_acknowledgements(connect, proxy):
    """With a delayed acknowledgement, the second of two small messages would wait 40 ms in every round."""
    client = connect()

    def at_once():
        begun = time.monotonic()
        client.sendall(request(PRODUCE, 2) + request(PRODUCE, 3))
        return whole_reply(client) and whole_reply(client) and time.monotonic() - begun < 0.035
    for _ in range(20):  # the kernel acknowledges the first messages at once
        at_once()
    until(at_once, "a round without a delayed acknowledgement", every=0)


def test_a_hold_stops_one_direction_and_a_release_delivers_the_held_bytes(connect, server, proxy):
    client = connect()
    proxy.hold(REPLY)
    client.sendall(request(PRODUCE))
    until(lambda: server.got, "the request arrives")
    assert silent(client)
    proxy.release(REPLY)
    assert whole_reply(client)
    proxy.hold(REQUEST)
    client.sendall(request(PRODUCE))
    assert silent(client) and len(server.got) == 1
    proxy.release()
    assert whole_reply(client) and len(server.got) == 2


def test_a_hold_applies_to_new_connections(connect, proxy):
    proxy.hold(REPLY)
    client = connect()
    client.sendall(request(PRODUCE))
    assert silent(client)
    proxy.heal()
    assert whole_reply(client)


def test_a_cut_ends_both_sides_and_new_connections_are_served(connect, server, proxy):
    client = connect()
    client.sendall(request(PRODUCE))
    whole_reply(client)
    proxy.cut()
    assert ended(client)
    until(lambda: server.ended == 1, "the server sees the end")
    again = connect()
    again.sendall(request(PRODUCE))
    assert whole_reply(again)


def test_refused_connections_end_until_accepted_again(connect, proxy):
    proxy.refuse()
    assert refused(connect)
    proxy.accept()
    client = connect()
    client.sendall(request(PRODUCE))
    assert whole_reply(client)


def test_held_bytes_never_arrive_after_a_cut(connect, server, proxy):
    client = connect()
    proxy.hold(REQUEST)
    client.sendall(request(PRODUCE))
    assert silent(client)
    proxy.heal(late=False)
    assert ended(client)
    again = connect()
    again.sendall(request(END_TXN))
    assert whole_reply(again)
    assert [frame[5] for frame in server.got] == [END_TXN]


def test_a_delay_keeps_the_order_and_loses_nothing(connect, server, proxy):
    client = connect()
    proxy.delay(1, REPLY)
    for n in range(20):
        client.sendall(request(PRODUCE, correlation=n))
    until(lambda: len(server.got) == 20, "requests are not delayed")
    assert silent(client, 0.1)
    assert [struct.unpack(">i", whole_reply(client)[:4])[0] for _ in range(20)] == list(range(20))


@pytest.mark.parametrize("quiet", [False, True])
def test_a_limit_passes_exactly_that_many_bytes(connect, proxy, quiet):
    client = connect()
    proxy.limit(10, REPLY, silent=quiet)
    client.sendall(request(PRODUCE))
    client.settimeout(60)
    assert len(client.recv(10, socket.MSG_WAITALL)) == 10
    assert silent(client) if quiet else ended(client)


def test_a_rule_holds_one_kind_of_request_of_one_client_once(connect, server, proxy):
    rule = proxy.on("EndTxn", client_id="two", skip=1)
    one, two = connect(), connect()
    for client, name in ((one, "one"), (two, "two")):  # the first one of "two" is skipped
        client.sendall(request(END_TXN, client=name))
        assert whole_reply(client)
    two.sendall(request(PRODUCE, client="two"))
    assert whole_reply(two)
    two.sendall(request(END_TXN, client="two"))
    rule.wait(5)
    one.sendall(request(END_TXN, client="one"))
    assert whole_reply(one) and silent(two)
    rule.release()
    assert whole_reply(two)
    two.sendall(request(END_TXN, client="two"))
    assert whole_reply(two)


def test_a_held_request_is_delivered_after_its_client_has_gone(connect, server, proxy):
    rule = proxy.on("EndTxn")
    client = connect()
    client.sendall(request(END_TXN))
    rule.wait(5)
    proxy.leave(rule.hits[0])
    assert ended(client)
    again = connect()
    again.sendall(request(PRODUCE))
    assert whole_reply(again)
    rule.release()
    until(lambda: [frame[5] for frame in server.got] == [PRODUCE, END_TXN], "the held request arrives last")


def test_a_reply_is_known_by_its_request(connect, server, proxy):
    rule = proxy.on("EndTxn", REPLY, "cut")
    client = connect()
    client.sendall(request(PRODUCE, 1) + request(END_TXN, 2))
    assert whole_reply(client).endswith(b"\0\0")
    assert ended(client)
    rule.wait(1)
    assert len(server.got) == 2


@pytest.mark.parametrize("action, arrives", [("cut", 0), ("cut after", 1), ("truncate", 0)])
def test_a_rule_can_end_the_connection_before_after_or_within_a_request(connect, server, proxy, action, arrives):
    proxy.on("EndTxn", action=action, size=7)
    client = connect()
    client.sendall(request(END_TXN, body=b"x" * 100))
    assert ended(client)
    until(lambda: server.ended == 1, "the server sees the end")
    assert len([frame for frame in server.got if len(frame) > 100]) == arrives


def test_other_protocols_and_garbage_pass_without_being_parsed(server):
    for protocol in (protocols.Raw, protocols.MySQL, protocols.ZooKeeper):
        proxy = Proxy(lambda: server.address, protocol)
        with socket.create_connection(("127.0.0.1", proxy.port), timeout=60) as client:
            client.sendall(framed(b"\0" * 12))
            assert whole_reply(client), protocol
        proxy.end()
    echo = Answerer(lambda frame: b"\xff\xff\xff\xff\xff\xff not a frame")
    proxy = Proxy(lambda: echo.address, protocols.Kafka)
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=60) as client:
        client.sendall(request(PRODUCE))
        assert client.recv(100).endswith(b"not a frame")
    proxy.end()


def test_a_commit_and_its_reply_are_seen_among_mysqls_packets():
    packets = protocols.MySQL()
    query = lambda text: (len(text) + 1).to_bytes(3, "little") + b"\0\x03" + text  # noqa: E731
    ok = b"\x07\0\0\x01\0\0\0\x02\0\0\0"
    assert [message.kind for message in packets.split(REQUEST, query(b"START TRANSACTION; SELECT 1") + query(b"COMMIT"))] == ["START", "COMMIT"]
    assert [message.kind for message in packets.split(REPLY, ok)] == ["COMMIT"]
    assert [message.kind for message in packets.split(REQUEST, query(b"INSERT INTO t VALUES (1);COMMIT"))] == ["COMMIT"]
    assert [message.kind for message in packets.split(REPLY, ok + ok)] == ["INSERT", "COMMIT"]


def test_a_create_and_its_reply_are_seen_among_zookeepers():
    packets = protocols.ZooKeeper()
    session, create = framed(b"\0" * 40), framed(struct.pack(">ii", 7, 1) + b"path")
    assert [message.kind for message in packets.split(REQUEST, session + create)] == ["connect", "create"]
    assert [message.kind for message in packets.split(REPLY, session + framed(struct.pack(">iqi", 7, 1, 0)))] == ["connect", "create"]

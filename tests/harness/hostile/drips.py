"""Clients that say what they say a drop at a time."""
import contextlib
import time

from ..stack import until


def given_up(wire, drop, within=10):
    """Lets `drop` fall on a Raw ten times a second until the server gives up: (seconds, its answer or None)."""
    wire.socket.settimeout(0.1)
    answers, start = [], time.monotonic()

    def drip():
        try:
            wire.send(drop)
            answers.append(wire.answer())
        except TimeoutError:
            return False
        except ConnectionError:
            answers.append(None)
        return True
    until(drip, "the server gives up", seconds=within)
    return time.monotonic() - start, answers[0]


def falls_on(wire, drop):
    """Lets `drop` fall on a socket; whether the server has left it open. What it has answered is dropped."""
    wire.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        if wire.recv(4096) == b"":
            return False
    if drop:
        with contextlib.suppress(BlockingIOError):
            wire.send(drop)
    return True


def fall_on_all(wires, drop):
    """Those sockets that are still open; the others are closed."""
    left = []
    for wire in wires:
        try:
            if falls_on(wire, drop):
                left.append(wire)
                continue
        except OSError:
            pass
        wire.close()
    return left

"""Clients that mean no good, each in a process of its own, so that their work is not taken from the honest ones'. A flood is a
function of (target, deadline): it goes on until the deadline, survives every refusal, and gives a count of what it did.

They run when nothing else wants a processor: a hostile client has a machine of its own, and only what it makes the servers do may be felt.
"""
import json
import multiprocessing
import os
import random
import socket
import time
import urllib.parse
from dataclasses import dataclass

from .drips import fall_on_all

NAMES_A_BATCH = 300
LARGE_PAYLOAD = 860_000


@dataclass(frozen=True)
class Target:
    url: str
    token: str  # may write, report and read, in topics that begin with `prefix`
    prefix: str
    seed: int

    def connect(self, seconds=10):
        parts = urllib.parse.urlsplit(self.url)
        made = socket.create_connection((parts.hostname, parts.port), timeout=seconds)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return made

    def head(self, method, path, *headers):
        return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: localhost", f"Authorization: Bearer {self.token}", *headers, "", ""]).encode()

    def batch(self, body, media="application/x-ndjson"):
        return self.head("POST", "/v1/jobs:batch", f"Content-Type: {media}", f"Content-Length: {len(body)}") + body

    def ask(self, request, seconds=15):
        """Sends it on a connection of its own and reads until the server has answered or ended; the status, 0 for none."""
        with self.connect(seconds) as wire:
            wire.sendall(request)
            return status_of(wire.recv(65536))


def status_of(data):
    words = data.split(b" ", 2)
    return int(words[1]) if len(words) > 2 and words[1].isdigit() else 0


def repeat(deadline, action):
    """How often the action went through; one that the server cuts short counts as well."""
    done = 0
    while time.monotonic() < deadline:
        try:
            action()
        except OSError:
            time.sleep(0.01)
        done += 1
    return done


def close_all(wires):
    for wire in wires:
        wire.close()


# ---- connections ----

def hold_open(target, deadline, count, opening, drip=b""):
    """Keeps `count` connections open that have sent `opening`, opens anew those that were closed, and lets `drip` fall on each every second."""
    wires, opened = [], 0
    while time.monotonic() < deadline:
        while len(wires) < count and time.monotonic() < deadline:
            try:
                wires.append(target.connect(2))
                opened += 1
                wires[-1].sendall(opening)
            except OSError:
                time.sleep(0.05)
                break
        time.sleep(min(1.0, max(0.0, deadline - time.monotonic())))
        wires = fall_on_all(wires, drip)
    close_all(wires)
    return opened


def half_open_requests(target, deadline):
    """500 connections without a token whose requests never become whole."""
    return hold_open(target, deadline, 500, b"GET /v1/jobs HTTP/1.1\r\nHost: localhost\r\n")


def silent_connections(target, deadline):
    """500 connections that never say a word."""
    return hold_open(target, deadline, 500, b"")


def dripping_heads(target, deadline):
    """200 requests whose heads arrive a byte a second."""
    return hold_open(target, deadline, 200, b"GET /v1/info HTTP/1.1\r\nHost: localhost\r\nX-Slow: ", b"a")


def dripping_second_heads(target, deadline):
    """200 connections that have asked once, and whose next heads arrive a byte a second."""
    return hold_open(target, deadline, 200, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\nGET /v1/info HTTP/1.1\r\nHost: localhost\r\nX-Slow: ", b"a")


def dripping_bodies(target, deadline):
    """100 bodies that arrive a byte a second."""
    opening = target.head("POST", "/v1/jobs", "Content-Type: application/json", "Content-Length: 100000")
    return hold_open(target, deadline, 100, opening + b'{"topic":"', b"a")


def crowding_bodies(target, deadline):
    """More bodies than there are places for, a byte a second of each; those that lose their place come again."""
    opening = target.head("POST", "/v1/jobs", "Content-Type: application/json", "Content-Length: 100000")
    return hold_open(target, deadline, 520, opening + b'{"topic":"', b"a")


def crowding_second_heads(target, deadline):
    """More connections than there are places for that have asked once, and whose next heads arrive a byte a second."""
    return hold_open(target, deadline, 520, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\nGET /v1/info HTTP/1.1\r\nHost: localhost\r\nX-Slow: ", b"a")


def unread_answers(target, deadline):
    """Requests for large answers on connections that are never read from."""
    opening = target.head("GET", f"/v1/jobs?topic={target.prefix}large&limit=1000&include=payload") * 4
    return hold_open(target, deadline, 60, opening)


# ---- batches ----

def sent_and_left(target, deadline, count, request, after):
    """So many clients at a time send that and leave so many seconds later, whatever the answer is."""
    def some():
        wires = [target.connect() for _ in range(count)]
        try:
            for wire in wires:
                wire.sendall(request)
            time.sleep(after)
        finally:
            close_all(wires)
    return repeat(deadline, some)


def line_feeds(target, deadline):
    """Ten batches of 200,000 empty lines at a time, whose answers nobody reads."""
    return sent_and_left(target, deadline, 10, target.batch(b"\n" * 200_000), 0.5)


def abandoned_batches(target, deadline):
    """Batches of which half a body arrives before the client leaves."""
    line = json.dumps({"topic": f"{target.prefix}abandoned", "delay": "P30D"}).encode() + b"\n"
    body = line * 2000
    return sent_and_left(target, deadline, 20, target.batch(body)[:-len(body) // 2], 0.2)


def array_batches(target, deadline):
    """Twelve arrays of 20,000 jobs at a time, one after the other: more than there are workers."""
    body = json.dumps([{"topic": f"{target.prefix}arrays", "delay": "P30D", "payload": n} for n in range(20_000)]).encode()
    request = target.batch(body, "application/json")

    def twelve():
        wires = [target.connect(30) for _ in range(12)]
        try:
            for wire in wires:
                wire.sendall(request)
            for wire in wires:
                wire.recv(1000)
        finally:
            close_all(wires)
        time.sleep(1)
    return repeat(deadline, twelve)


# ---- what a token may ask for ----

def large_pages(target, deadline):
    """Four clients at a time that list jobs with large payloads; a few such jobs are made first."""
    job = json.dumps({"topic": f"{target.prefix}large", "delay": "P30D", "payload": "x" * LARGE_PAYLOAD}).encode()
    made = target.head("POST", "/v1/jobs", "Content-Type: application/json", f"Content-Length: {len(job)}") + job
    for _ in range(60):
        if time.monotonic() < deadline:
            try:
                target.ask(made)
            except OSError:
                time.sleep(0.1)
    request = target.head("GET", f"/v1/jobs?topic={target.prefix}large&limit=1000&include=payload", "Connection: close")

    def four():
        wires = [target.connect(30) for _ in range(4)]
        try:
            for wire in wires:
                wire.sendall(request)
            for wire in wires:
                while wire.recv(1 << 20):
                    pass
        finally:
            close_all(wires)
        time.sleep(0.2)
    return repeat(deadline, four)


def new_topics(target, deadline):
    """Batches of 300 jobs, due at once, each in a topic that nobody has heard of."""
    chance = random.Random(target.seed)

    def batch():
        names = [f"{target.prefix}{chance.getrandbits(48):x}" for _ in range(NAMES_A_BATCH)]
        target.ask(target.batch("".join(json.dumps({"topic": name, "delay": 0}) + "\n" for name in names).encode()), 30)
    return repeat(deadline, batch)


def forged_results(target, deadline):
    """Results of jobs that are not theirs or that nobody knows, and bodies that are none."""
    chance = random.Random(target.seed)

    def one():
        body = json.dumps({"attempt": 1, "status": "succeeded"}).encode() if chance.random() < 0.7 else b'{"attempt":1,"status":"succ'
        target.ask(target.head("POST", f"/v1/jobs/{chance.getrandbits(62)}/results", "Content-Type: application/json", f"Content-Length: {len(body)}",
                               "Connection: close") + body)
        time.sleep(0.002)
    return repeat(deadline, one)


def noise(target, deadline):
    """What is no request of anybody's: wrong tokens, wrong framing, long heads, bytes."""
    chance = random.Random(target.seed)
    kinds = [lambda: b"GET /v1/info HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + b"z" * 43 + b"\r\nConnection: close\r\n\r\n",
             lambda: b"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
             lambda: b"GET /" + b"a" * 40_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
             lambda: b"GET / HTTP/9.7\r\nHost: localhost\r\n\r\n",
             lambda: chance.randbytes(500)]

    def one():
        target.ask(chance.choice(kinds)(), 1)
        time.sleep(0.002)
    return repeat(deadline, one)


FLOODS = (half_open_requests, silent_connections, dripping_heads, dripping_second_heads, dripping_bodies, crowding_bodies, crowding_second_heads, unread_answers, line_feeds, abandoned_batches,
          array_batches, large_pages, new_topics, forged_results, noise)


class Flood:
    """A flood in another process. `idle`: it runs only when no other process needs a core."""

    def __init__(self, flood, target, seconds, idle=True, name=None):
        self.name, self.idle = name or flood.__name__, idle
        context = multiprocessing.get_context("fork")
        self._count = context.Value("q", -1)
        self._process = context.Process(target=self._run, args=(flood, target, seconds), daemon=True)
        self._process.start()

    def _run(self, flood, target, seconds):
        if self.idle:
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        self._count.value = flood(target, time.monotonic() + seconds)

    def descriptors(self):
        """The number of its open descriptors: its connections and a few others."""
        return len(os.listdir(f"/proc/{self._process.pid}/fd"))

    def stop(self):
        self._process.kill()
        self._process.join(5)

    def end(self, seconds):
        """What it did; -1 when it had to be stopped."""
        self._process.join(seconds)
        if self._process.is_alive():
            self._process.kill()
            self._process.join(5)
        return self._count.value

"""5,000 pops that wait on one API: single POSTs beside them and alone, in turn"""
import contextlib
import json
import resource
import socket

from harness.rest import Rest
from harness.stack import until

import clients

POPS = 5000
AT_ONCE = 100  # connections that are opened before it is looked whether they wait
CONNECTIONS = 64
TOPIC = "waiting"
BODY = json.dumps({"wait": "PT60S"}).encode()


def waiting(stack):
    return Rest(stack["DUETIME_URL"]).metric("duetime_pops_waiting")


def pop(address):
    connection = socket.create_connection(address, timeout=30)
    connection.sendall(b"POST /v1/topics/%s/pop HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
                       % (TOPIC.encode(), len(BODY), BODY))
    return connection


@contextlib.contextmanager
def pops(stack):
    host, port = stack["DUETIME_URL"].removeprefix("http://").split(":")
    with contextlib.ExitStack() as opened:
        for n in range(AT_ONCE, POPS + 1, AT_ONCE):
            for _ in range(AT_ONCE):
                opened.enter_context(pop((host, int(port))))
            until(lambda: waiting(stack) >= n, lambda: f"{waiting(stack)} of {n} pops wait", every=0.01)  # noqa: B023
        yield
        if waiting(stack) != POPS:
            raise RuntimeError(f"{waiting(stack)} of {POPS} pops wait still")
    until(lambda: waiting(stack) == 0, lambda: f"{waiting(stack)} pops wait, and their clients have left")


def posts(stack, account, seconds):
    found = clients.Posts(stack, "beside", CONNECTIONS, seconds)
    account.accepted("beside", found.accepted, found.unanswered)
    return found


def measure(bench):
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    stack = bench.stack()
    account, seconds = bench.account(stack), bench.seconds(8, 4)
    clients.make_topic(stack, TOPIC, delivery="pull")
    clients.make_topic(stack, "beside")
    posts(stack, account, 2)
    rounds, before = [], posts(stack, account, seconds)
    for _ in range(bench.count(3, 2)):
        with pops(stack):
            beside = posts(stack, account, seconds)
        after = posts(stack, account, seconds)
        rounds.append((beside, (before.rate + after.rate) / 2, (before.p99_ms + after.p99_ms) / 2))
        before = after
    bench.figure(None, f"single POSTs beside {POPS} waiting pops ÷ alone", [beside.rate / alone for beside, alone, _ in rounds], "×",
                 f"{rounds[-1][0].rate:,.0f}/s, alone {rounds[-1][1]:,.0f}/s")
    bench.figure(None, "p99 of their answers ÷ alone", [beside.p99_ms / alone for beside, _, alone in rounds], "×",
                 f"{rounds[-1][0].p99_ms} ms, alone {rounds[-1][2]:.1f} ms")

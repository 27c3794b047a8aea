"""many jobs due whose receiver never answers: memory of the dispatchers, and what it costs the topic of another receiver"""
import itertools
import pathlib
import re
import statistics

from harness.rest import Rest
from harness.stack import until

import callbacks
import clients
from rest import wait

TOPIC = "unanswered"
TIMEOUT_S = 5  # of each callback: places are taken again and again


def resident(stack, part):
    return int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{stack.pid(part)}/status").read_text())[1])


def growth(stack, parts, seconds):
    """(first, largest) KiB of each while so many seconds pass."""
    seen = {part: [] for part in parts}
    for _ in range(seconds):
        wait(1, "a second")
        for part in parts:
            seen[part].append(resident(stack, part))
    return {part: (values[0], max(values)) for part, values in seen.items()}


def in_hands(stack):
    return sum(int(float(n)) for n in clients.of_dispatchers(stack, r"(?m)^duetime_callbacks_in_hands(?:{[^}]*})? (\S+)"))


def places_taken(stack):
    """A receiver that does not answer is left half of its places."""
    until(lambda: in_hands(stack) >= callbacks.CONNECTIONS // 2, lambda: f"its places are taken: {in_hands(stack)}")


def beside(stack, measure):
    """What is measured while the topic runs; otherwise it is paused."""
    rest = Rest(stack["DUETIME_URL"])
    assert rest.post(f"/v1/topics/{TOPIC}/resume").status == 200
    places_taken(stack)
    measured = measure()
    assert rest.post(f"/v1/topics/{TOPIC}/pause").status == 200
    until(lambda: in_hands(stack) == 0, lambda: f"its places are free: {in_hands(stack)}")
    return measured


def measure(bench):
    stack, count = bench.stack(*callbacks.ALLOWED), 100000
    account, parts = bench.account(stack), [part for part in stack.parts() if part.startswith("dispatcher")]
    answerer = callbacks.Answerer(count, 3600, "silent")
    bench.at_end(answerer.kill)
    clients.make_topic(stack, TOPIC, delivery="http", callback_url=answerer.url, callback_timeout=f"PT{TIMEOUT_S}S", retry=["PT1H"])
    clients.write_due(stack, TOPIC, [clients.now()] * count)
    places_taken(stack)
    wait(3 * TIMEOUT_S, "each place was taken a few times")
    for part, (first, most) in growth(stack, parts, bench.seconds(180, 30)).items():
        bench.figure(None, f"{part}: growth with {count} jobs due that nobody answers", (most - first) / first * 100, "%",
                     f"{first / 1024:.1f} → {most / 1024:.1f} MiB resident")
    names, seconds = (f"beside-{n}" for n in itertools.count()), bench.seconds(15, 8)
    alive = lambda: callbacks.stream(stack, account, next(names), seconds)[1]  # noqa: E731
    beside(stack, lambda: 0)
    pairs = bench.rounds(lambda: beside(stack, alive), alive, bench.count(3, 1))
    bench.figure(None, "p99 of callbacks beside a receiver that never answers ÷ alone", [dead / alone for dead, alone in pairs], "×",
                 f"{statistics.median(dead for dead, _ in pairs):.0f} ms, alone {statistics.median(alone for _, alone in pairs):.0f} ms")

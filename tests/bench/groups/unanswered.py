"""memory of the dispatchers with many jobs due whose receiver never answers"""
import itertools
import pathlib
import re

from harness.stack import until

import callbacks
import clients
from rest import wait

TOPIC = "unanswered"
TIMEOUT = "PT5S"  # of each callback: places are taken again and again


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


def measure(bench):
    stack, count = bench.stack(*callbacks.ALLOWED), bench.count(100000, 100000)
    parts = [part for part in stack.parts() if part.startswith("dispatcher")]
    answerer = callbacks.Answerer(count, 3600, "silent")
    bench.at_end(answerer.kill)
    clients.make_topic(stack, TOPIC, delivery="http", callback_url=answerer.url, callback_timeout=TIMEOUT, retry=["PT1H"])
    dues = itertools.repeat(clients.now(), count)
    clients.write_due(stack, TOPIC, list(dues))
    until(lambda: in_hands(stack) >= callbacks.CONNECTIONS // 2, 60, lambda: f"every place is taken: {in_hands(stack)}")
    wait(3 * 5, "each place was taken a few times")
    for part, (first, most) in growth(stack, parts, bench.seconds(180, 30)).items():
        bench.figure(None, f"{part}: growth with {count} jobs due that nobody answers", (most - first) / first * 100, "%",
                     f"{first / 1024:.1f} → {most / 1024:.1f} MiB resident")


def in_hands(stack):
    return sum(int(float(n)) for n in clients.of_dispatchers(stack, r"(?m)^duetime_callbacks_in_hands(?:{[^}]*})? (\S+)"))

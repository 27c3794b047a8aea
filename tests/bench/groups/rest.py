"""At rest with many pending jobs: what the programs use when nothing is due"""
import pathlib
import re
import time

from harness.checker import now_ms
from harness.rest import Rest
from harness.soak import rfc3339
from harness.stack import until


def usage(pid):
    """(voluntary context switches, CPU seconds, resident KiB) of a process, all threads."""
    wakes = 0
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        wakes += int(re.search(r"voluntary_ctxt_switches:\s+(\d+)", (task / "status").read_text())[1])
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    resident = int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text())[1])
    return wakes, (int(fields[11]) + int(fields[12])) / 100, resident


def wait(seconds, what):
    end = time.monotonic() + seconds
    until(lambda: time.monotonic() > end, what, seconds=seconds + 10)


def measure(bench):
    stack, count = bench.stack(), bench.count(1000000, 100000)
    account = bench.account(stack)
    rest = Rest(stack["DUETIME_URL"], timeout=300)
    base = now_ms() + 600000
    for first in range(0, count, 100000):
        spread = [base + (first + i) * (30 * 86400000 / count) for i in range(min(100000, count - first))]
        body = "".join(f'{{"topic":"rest","run_at":"{rfc3339(int(ms))}","payload":{{"n":1}}}}\n' for ms in spread)
        answer = rest.post("/v1/jobs:batch", body, content_type="application/x-ndjson")
        account.accepted("rest", answer.body.count(b'"status":201'))
    wait(20, "quiet")
    parts = {part: stack.pid(part) for part in stack.parts() if part.startswith(("api", "dispatcher"))}
    before, began = {part: usage(pid) for part, pid in parts.items()}, time.monotonic()
    wait(bench.seconds(30, 10), "rest")
    for part, pid in parts.items():
        took, (wakes, cpu, resident) = time.monotonic() - began, usage(pid)
        bench.figure(None, f"at rest, {part}", (wakes - before[part][0]) / took, "wake-ups/s",
                     f"{(cpu - before[part][1]) / took * 100:.2f} % of a core, {resident / 1024:.0f} MiB resident, {count} pending")

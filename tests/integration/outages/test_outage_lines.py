"""An outage is told of when it begins, once a minute and when it ends, whatever number of shards meets it."""
import time

import pytest

from harness.rest import Rest
from harness.stack import Stack, until

PROGRAMS = ("api1", "dispatcher1")
OPTIONS = ["--apis", "1", "--dispatchers", "1", "--shards", "16", "--sanitize", "--set", "reconcile.period=PT1S"]
SECONDS = 8


@pytest.fixture(scope="module")
def wide():
    made = Stack("wide", *OPTIONS).up()
    yield made
    made.reset()


def leads_all(stack):
    return len({line.split(" shard=")[1].split()[0] for line in stack.log("dispatcher1").splitlines() if 'msg="took over"' in line}) == 16


def loud(stack, part, since):
    return [line for line in stack.log(part).splitlines()[since:] if "level=warn" in line or "level=error" in line]


@pytest.mark.in_turns(8)
@pytest.mark.parametrize("server", ["mysql", "kafka", "zookeeper", "redis1"])
def test_an_outage_of_sixteen_shards_is_logged_a_few_times(wide, server):
    rest = Rest(wide["DUETIME_URL"])
    until(lambda: leads_all(wide), wide.logs)
    rest.make(topic="wide", delay=0, retry=[])
    marks = {part: len(wide.log(part).splitlines()) for part in PROGRAMS}
    wide.kill(server)
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:  # asked for all the time
        try:
            rest.post("/v1/jobs", {"topic": "wide", "delay": 0, "retry": []})
        except OSError:
            rest = Rest(wide["DUETIME_URL"])
        time.sleep(0.02)
    wide.start(server)
    until(lambda: rest.post("/v1/jobs", {"topic": "wide", "delay": 0, "retry": []}).status == 201, wide.logs)
    until(lambda: "outage ended" in "\n".join(wide.log("dispatcher1").splitlines()[marks["dispatcher1"]:]), wide.logs, seconds=20)
    told = {part: loud(wide, part, marks[part]) for part in PROGRAMS}
    size = {part: sum(map(len, lines)) for part, lines in told.items()}
    print(server, {part: len(lines) for part, lines in told.items()}, size)
    if server in ("mysql", "redis1"):
        assert len(told["api1"]) >= 1, told
    assert len(told["dispatcher1"]) >= 1, told
    for part, lines in told.items():
        assert len(lines) <= 12, f"{part}: {len(lines)} lines\n" + "\n".join(lines)

"""A program ends within the time that deploy/README.md says, whichever server is away when it is asked to."""
import signal

import pytest

from harness.stack import until

PROGRAMS = ("dispatcher2", "api2")
PATIENT = 60  # a program that is held up for ever is seen; how long it takes is measured by who runs this by hand


@pytest.mark.in_turns(4)
@pytest.mark.parametrize("server", ["kafka", "mysql", "redis1", "zookeeper"])
def test_programs_stop_while_a_server_is_down(stack, api, topic, consume, server):
    consumer = consume(topic)
    first = api.make(topic=topic, delay=0)["id"]
    until(lambda: consumer.of(first), stack.logs)
    with stack.stopped(server):
        if server != "mysql":  # shards are in the middle of something
            for _ in range(20):
                api.make(topic=topic, delay=0)
        for part in PROGRAMS:
            stack.signal(part, signal.SIGTERM)
        until(lambda: not any(stack.running(part) for part in PROGRAMS), stack.logs, seconds=PATIENT)
    for part in PROGRAMS:
        stack.start(part)
    last = api.make(topic=topic, delay=0)["id"]
    until(lambda: consumer.of(last), stack.logs)

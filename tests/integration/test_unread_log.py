"""Programs whose stderr is a pipe that is full and that nothing reads. A write to it would wait for ever."""
import fcntl
import os
import signal
import subprocess

import pytest

from harness.program import environment
from harness.rest import Rest
from harness.stack import PRESET, TREE, until

PROGRAMS = {"api2": "api/duetime-api", "dispatcher1": "dispatcher/duetime-dispatcher", "dispatcher2": "dispatcher/duetime-dispatcher",
            "dispatcher3": "dispatcher/duetime-dispatcher"}
JOBS = 50


@pytest.fixture
def full_pipe():
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETFL, os.O_NONBLOCK)
    with pytest.raises(BlockingIOError):
        while True:
            os.write(writer, b"x" * 4096)
    fcntl.fcntl(writer, fcntl.F_SETFL, 0)
    yield writer
    os.close(reader)
    os.close(writer)


@pytest.fixture
def unread(stack, full_pipe):
    """All dispatchers and an API, with that pipe as stderr; they end without an error."""
    for part in PROGRAMS:
        stack.stop(part)
    started = [subprocess.Popen([TREE / "build" / PRESET / program, "--config", stack.home / part / "duetime.ini"], env=environment(), stdin=subprocess.DEVNULL,
                                stdout=full_pipe, stderr=full_pipe) for part, program in PROGRAMS.items()]
    yield started
    for process in started:
        process.send_signal(signal.SIGTERM)
    codes = [process.wait(120) for process in started]
    for part in PROGRAMS:
        stack.start(part)
    assert codes == [0] * len(started)


@pytest.mark.in_turns(2)
def test_programs_work_while_their_log_is_not_read(stack, unread, topic, consume):
    def answers():
        try:
            return api.get("/readyz").status == 200
        except OSError:
            return False
    api, consumer = Rest(stack["DUETIME_URL_API2"]), consume(topic)
    until(answers, "the API is ready")
    jobs = [api.make(topic=topic, delay=0)["id"] for _ in range(JOBS)]
    until(lambda: all(consumer.of(job) for job in jobs), lambda: [api.get(f"/v1/jobs/{job}/explain").json for job in jobs if not consumer.of(job)][:2])
    assert all(process.poll() is None for process in unread)
    assert api.metric("duetime_log_dropped_total") > 0
    for part in ("DISPATCHER1", "DISPATCHER2", "DISPATCHER3"):
        assert "duetime_log_dropped_total" in stack.metrics(part)
    api.close()

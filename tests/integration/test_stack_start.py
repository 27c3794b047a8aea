"""The local stack waits for a server while its process lives, and stops waiting when it ends."""
import os
import signal
import sys
import threading

import pytest

from harness.stack import LOCAL, TREE, until

sys.path.insert(0, str(TREE / "deploy"))

from stack import ports, say  # noqa: E402
from stack.part import Part  # noqa: E402
from stack.servers.redis import Redis  # noqa: E402
from stack.stack import Stack  # noqa: E402


class Lame(Part):
    """Runs a line of shell and is never ready."""

    def __init__(self, home, name, line):
        super().__init__(home, name)
        self.line = line

    def argv(self):
        return ["/bin/sh", "-c", self.line]

    def is_ready(self):
        return False


@pytest.fixture
def often(monkeypatch):
    monkeypatch.setattr(say, "WAITING_SECONDS", 0.1)


def redis(home, *options):
    return Redis(home, "redis1", ports.choose(set(), home), options)


def in_background(action):
    """A thread that runs a function; `.error` is the exception it raised."""
    def run():
        try:
            action()
        except BaseException as error:
            thread.error = error

    thread = threading.Thread(target=run, daemon=True)
    thread.error = None
    thread.start()
    return thread


def test_a_start_fails_with_the_last_log_lines_of_a_server_that_dies(tmp_path):
    part = redis(tmp_path, "--maxmemory", "some")
    part.start()
    with pytest.raises(say.StackError, match=r"(?s)redis1 ended while it started.*argument must be a memory value"):
        part.wait_ready()


def test_a_start_waits_for_a_slow_server_and_says_so(tmp_path, capfd, often):
    part = redis(tmp_path)
    part.start()
    part.process.signal(signal.SIGSTOP)
    try:
        with open(part.log, "a", encoding="utf-8") as log:
            log.write("loading what there is\n")
        waits, told = in_background(part.wait_ready), []
        until(lambda: told.append(capfd.readouterr().err) or "".join(told).count("waiting for redis1 to be ready") > 2, "it is said several times")
        assert waits.is_alive()
        assert "loading what there is" in "".join(told)
        part.process.signal(signal.SIGCONT)
        until(lambda: not waits.is_alive(), "Redis is ready")
        assert waits.error is None
    finally:
        part.process.kill()


def test_a_start_stops_waiting_for_a_slow_server_if_another_dies(tmp_path, monkeypatch):
    """After the failure the slow server is stopped, too: a failed start leaves no process."""
    stack, slow, dead = Stack(tmp_path / "stack"), Lame(tmp_path, "slow", "exec sleep 600"), Lame(tmp_path, "dead", "echo no such disk; exit 1")
    monkeypatch.setattr(Stack, "servers", [slow, dead])
    monkeypatch.setattr(stack, "configure", lambda wanted: None)
    monkeypatch.setattr(stack, "_fetch", lambda: None)
    with pytest.raises(say.StackError, match="(?s)dead ended while it started.*no such disk"):
        stack.servers_up({})
    assert slow.process.pid() is None


def test_the_wait_for_leaders_ends_if_a_dispatcher_dies(tmp_path, monkeypatch):
    stack, dispatcher = Stack(tmp_path / "stack"), Lame(tmp_path, "dispatcher1", "echo no such election; exit 1")
    monkeypatch.setattr(Stack, "servers", [])
    monkeypatch.setattr(stack, "dispatchers", [dispatcher])
    stack.apis[0].leaderless, stack.apis[0].check_alive = lambda: [0], lambda when: None
    dispatcher.start()
    with pytest.raises(say.StackError, match="(?s)dispatcher1 ended before every shard had a leader.*no such election"):
        stack._wait_leaders()


def test_ctrl_c_ends_a_start_and_stops_what_was_started(tmp_path):
    """Runs deploy/local like a user. MariaDB is stopped by a signal, so the stack would wait for ever."""
    home = tmp_path / "stack"
    words = [LOCAL, "up", "--small", "--no-build"]
    pid = os.posix_spawn(LOCAL, words, {**os.environ, "DUETIME_LOCAL_DIR": str(home)}, setsigdef=[signal.SIGINT])
    mysql = Stack(home).mysql.process
    try:
        until(lambda: mysql.signal(signal.SIGSTOP), "MariaDB has begun", every=0.001, seconds=60)
        os.kill(pid, signal.SIGINT)
        until(lambda: mysql.pid() is None, "MariaDB is stopped", seconds=60)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 130
    finally:
        mysql.kill()

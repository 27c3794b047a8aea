"""Both programs as services of a manager: the test listens where it would (NOTIFY_SOCKET, sd_notify(3))."""
import json
import signal
import socket

import pytest
from harness.program import PROGRAM, OwnApi
from harness.stack import PRESET, TREE, until

DISPATCHER = TREE / "build" / PRESET / "dispatcher" / "duetime-dispatcher"
ALONE = {"redis.endpoints": "", "kafka.brokers": "", "zookeeper.servers": ""}


class Manager:
    """Keeps every line that a program has told."""

    def __init__(self, path):
        self.lines = []
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(path))
        self.variables = {"NOTIFY_SOCKET": str(path), "WATCHDOG_USEC": "200000"}

    def hear(self):
        self.socket.setblocking(False)
        try:
            while True:
                self.lines += self.socket.recv(4096).decode().splitlines()
        except BlockingIOError:
            return self.lines

    def awaits(self, line, times=1):
        until(lambda: self.hear().count(line) >= times, lambda: f"{line} ({times}): {self.lines}")


@pytest.fixture(params=["api", "dispatcher"])
def service(request, stack, tmp_path):
    """(program, manager), started before its database has a schema."""
    manager = Manager(tmp_path / "notify")
    made = OwnApi(stack, tmp_path, f"service_{request.param}", ALONE, migrate=False, variables=manager.variables,
                  program=PROGRAM if request.param == "api" else DISPATCHER)
    made.launch()
    yield made, manager
    made.end()
    manager.socket.close()


def migrate(program):
    api = OwnApi(program.stack, program.config.parent / "api", program.name, ALONE, shared=True)
    assert api.command("--migrate").returncode == 0


def test_systemd_is_notified_when_the_service_is_ready_and_while_it_lives(service):
    program, manager = service
    manager.awaits("STATUS=waits for MySQL and its schema", 2)
    assert "READY=1" not in manager.lines and "EXTEND_TIMEOUT_USEC=30000000" in manager.lines
    program.process.send_signal(signal.SIGHUP)
    until(lambda: "reloaded the log level" in program.log(), program.log)
    assert "RELOADING=1" not in manager.hear() and "READY=1" not in manager.lines, "a reload ended the start"
    migrate(program)
    manager.awaits("READY=1")
    manager.awaits("WATCHDOG=1", 4)
    program.process.send_signal(signal.SIGHUP)
    manager.awaits("RELOADING=1")
    manager.awaits("READY=1", 2)
    assert program.end() == 0, program.log()
    manager.awaits("STOPPING=1")


def test_a_reload_changes_how_log_lines_are_written(service):
    program, manager = service
    manager.awaits("STATUS=waits for MySQL and its schema", 2)
    program.config.write_text(program.config.read_text() + "[log]\nformat = json\n")
    program.process.send_signal(signal.SIGHUP)
    until(lambda: "reloaded the log level" in program.log(), program.log)
    assert program.end() == 0, program.log()
    lines = program.log().splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("{"))
    messages = [json.loads(line)["msg"] for line in lines[first:]]
    assert lines[0].startswith("time=") and "reloaded the log level and secrets" in messages and messages[-1] in ("ended", "stopped")

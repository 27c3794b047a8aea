"""Processes of the stack: started in a session of their own, known by a record, ended by that record's pid alone.

A record is one JSON file a part: pid, start time in clock ticks since boot, and what it was started with. A pid counts as
ours only while /proc shows the same start time, so a pid that the system gave to somebody else is never signalled.
"""
import json
import os
import signal
import subprocess
import time
from pathlib import Path

from . import say

# On a quiet machine each process ends within 20 s, so only one that hangs is killed. A server that was killed has to repair its data at the next start.
STOP_SECONDS = 200


def _stat(pid):
    """(state, start time) of a process, or None when there is none."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = text[text.rindex(")") + 2:].split()
    return fields[0], int(fields[19])


def _reap(pid):
    """Collects the exit code where the process is a child of this one; otherwise nothing."""
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        pass


class Process:
    """One part's process. `run` is the folder of records, `name` the part."""

    def __init__(self, run, name):
        self.name = name
        self.file = Path(run) / f"{name}.json"

    def record(self):
        try:
            return json.loads(self.file.read_text())
        except (FileNotFoundError, json.JSONDecodeError):
            return None

    def pid(self):
        """The pid while it runs and is still ours, else None. A zombie does not run."""
        record = self.record()
        if record is None:
            return None
        stat = _stat(record["pid"])
        if stat is None or stat[1] != record["started"]:
            return None
        if stat[0] in "ZX":
            _reap(record["pid"])
            return None
        return record["pid"]

    def outdated(self, made_of):
        """True when it was started with something else than `made_of`, or its program was built anew since."""
        record, pid = self.record(), self.pid()
        if pid is None:
            return False
        try:
            replaced = os.readlink(f"/proc/{pid}/exe").endswith(" (deleted)")
        except OSError:
            replaced = False
        return replaced or record["made_of"] != made_of

    def start(self, argv, log, cwd, env, made_of):
        if self.pid() is not None:
            raise say.StackError(f"{self.name} runs already, as process {self.pid()}")
        argv = [str(arg) for arg in argv]
        with open(log, "ab", buffering=0) as out:
            child = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                                     cwd=cwd, env=env, start_new_session=True)
        child.returncode = 0  # it outlives this command: its record, not this handle, stands for it
        stat = _stat(child.pid)
        record = {"pid": child.pid, "started": stat[1] if stat else 0, "made_of": made_of}
        temporary = self.file.with_suffix(".new")
        temporary.write_text(json.dumps(record))
        temporary.replace(self.file)
        return child.pid

    def signal(self, number):
        """Sends the signal if the process is still ours; says whether it was."""
        pid = self.pid()
        if pid is None:
            return False
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return False
        return True

    def wait_gone(self, seconds):
        until = time.monotonic() + seconds
        while self.pid() is not None:
            if time.monotonic() > until:
                return False
            time.sleep(0.01)
        return True

    def kill(self):
        if self.signal(signal.SIGKILL) and not self.wait_gone(STOP_SECONDS):
            raise say.StackError(f"{self.name} (process {self.pid()}) does not end")

    def stop(self, seconds=STOP_SECONDS):
        """Asks it to end; a process that was paused is woken to hear it. After `seconds` it is killed."""
        if not self.signal(signal.SIGTERM):
            return
        self.signal(signal.SIGCONT)
        with say.waiting(f"{self.name} to end"):
            gone = self.wait_gone(seconds)
        if not gone:
            say.note(f"{self.name} did not end within {seconds} s: killing it")
            self.kill()

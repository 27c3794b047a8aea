"""A whole stack for a test: deploy/local run as a user would run it, in a folder of its own."""
import contextlib
import os
import pathlib
import shlex
import signal
import subprocess
import sys
import time
import urllib.request

from . import rest

TREE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TREE / "deploy"))

from stack import say  # noqa: E402

LOCAL = TREE / "deploy" / "local"
PRESET = os.environ.get("DUETIME_TEST_PRESET", "sanitize")  # what is tested: build/<preset>
PATIENCE = float(os.environ.get("DUETIME_TEST_PATIENCE") or 10)  # a wait may take this many times as long as on a quiet machine
WAITS = os.environ.get("DUETIME_TEST_WAITS")  # a file that records waits that took too long for a quiet machine


class Stack:
    def __init__(self, name, *options):
        self.home = TREE / ".local" / "tests" / (os.environ.get("DUETIME_TEST_PREFIX", "") + name)
        self.options = [f"--preset={PRESET}" if option == "--sanitize" else option for option in options]
        self.options += ["--secured"] if os.environ.get("DUETIME_TEST_SECURED") else []
        self.env = {}

    def _run(self, *arguments, check=True, seconds=600):
        done = subprocess.run([LOCAL, *arguments], env={**os.environ, "DUETIME_LOCAL_DIR": str(self.home)}, timeout=seconds,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if check and done.returncode:
            raise AssertionError(f"deploy/local {' '.join(arguments)}: exit code {done.returncode}\n{done.stdout[-4000:]}\n{self.logs()}")
        return done.stdout

    def up(self):
        if self.home.exists():
            self._run("reset")
        self._run("up", *self.options)
        return self.refresh()

    def up_again(self, *options):
        """Other settings on the same data: the programs are started anew."""
        self._run("up", "--no-build", *options)
        return self.refresh()

    def have(self, server, there=True):
        """Restarts the same installation with the server, or without it."""
        if (f"DUETIME_PID_{server.upper()}" in self.env) != there:
            self.up_again("--with" if there else "--without", server)
        return self

    def resume(self):
        """Up on the data that are there, with the programs brought up to date."""
        self._run("up", *self.options)
        return self.refresh()

    def refresh(self):
        lines = self._run("env").splitlines()
        self.env = dict(part.split("=", 1) for line in lines for part in shlex.split(line) if "=" in part)
        if "DUETIME_CA_FILE" in self.env:
            trust = (self.env["DUETIME_CA_FILE"], self.env["DUETIME_TOKEN"])
            rest.TRUST.update({value: trust for name, value in self.env.items() if name.startswith("DUETIME_URL")})
        return self

    def __getitem__(self, name):
        return self.env[name]

    def start(self, part, env=None, settings=None, ready=True):
        """`env` ({"DUETIME_FAIL": …}) and `settings` ({"kafka.brokers": …}) hold for this start alone."""
        words = [word for name, value in (env or {}).items() for word in ("--env", f"{name}={value}")]
        words += [word for name, value in (settings or {}).items() for word in ("--set", f"{name}={value}")]
        self._run("start", part, *words, *([] if ready else ["--no-wait"]))
        self.refresh()

    def restart(self, part, **options):
        self.stop(part)
        self.start(part, **options)

    def pid(self, part):
        return int(self.env[f"DUETIME_PID_{part.upper()}"])

    def running(self, part):
        """Of a part that was started before: its process is there, stopped or not, and is no zombie."""
        try:
            text = pathlib.Path(f"/proc/{self.pid(part)}/stat").read_text()
        except (KeyError, OSError):
            return False
        return text[text.rindex(")") + 2] not in "ZX"

    def core_seconds(self, part):
        """How long its process has had a core so far."""
        words = pathlib.Path(f"/proc/{self.pid(part)}/stat").read_text().rpartition(")")[2].split()
        return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")

    def parts(self):
        """The names of all parts that were running at the last look."""
        return [name[12:].lower() for name in self.env if name.startswith("DUETIME_PID_") and name != "DUETIME_PID_REDIS"]

    def heal(self):
        """Every part runs, as it was set up; what was stopped goes on."""
        for part in self.parts():
            if self.running(part):
                self.signal(part, signal.SIGCONT)
        self._run("up", "--no-build")
        return self.refresh()

    def stop(self, part):
        self._run("stop", part)

    def kill(self, part):
        """kill -9, at once: by the recorded pid, without the detour through the script."""
        os.kill(self.pid(part), signal.SIGKILL)
        self._run("kill", part, check=False)

    @contextlib.contextmanager
    def killed(self, part):
        self.kill(part)
        try:
            yield
        finally:
            self.start(part)

    def signal(self, part, number):
        os.kill(self.pid(part), number)

    @contextlib.contextmanager
    def stopped(self, part):
        """It stands still inside (SIGSTOP), each of its threads: one that runs on another core stops a moment after the signal."""
        self.refresh()
        self.signal(part, signal.SIGSTOP)
        try:
            until(lambda: self._stands_still(part), part)
            yield
        finally:
            self.signal(part, signal.SIGCONT)

    def _stands_still(self, part):
        return all(stat.read_text().rpartition(")")[2].split()[0] == "T" for stat in pathlib.Path(f"/proc/{self.pid(part)}/task").glob("*/stat"))

    def log(self, part):
        path = self.home / "log" / f"{part}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def metrics(self, dispatcher="DISPATCHER1"):
        """What a dispatcher tells Prometheus, as text."""
        with urllib.request.urlopen(self[f"DUETIME_METRICS_{dispatcher}"], timeout=30) as answer:
            return answer.read().decode()

    def logs(self):
        return say.tails(self.home / "log")

    def down(self):
        """Everything stops; the data stay for up_again."""
        self._run("down")

    def reset(self):
        self._run("reset", check=False)


def until(condition, what, every=0.05, seconds=12):
    """Polls until the condition returns a true value, and returns this. `seconds` is the longest wait on a quiet machine; after ten times
    as long it fails with `what`. If a wait took more than a tenth of its deadline, it is recorded for the runner."""
    return _wait(condition, lambda _left: time.sleep(every), what, seconds)


def changed(signal, condition, what, seconds=12):
    """until() for a state of another thread, which notifies the threading.Condition `signal`. The caller holds it."""
    return _wait(condition, signal.wait, what, seconds)


def _wait(condition, pause, what, seconds):
    began, deadline = time.monotonic(), seconds * PATIENCE
    while not (value := condition()):
        left = began + deadline - time.monotonic()
        if left <= 0:
            raise AssertionError(f"not within {deadline:.0f} s: {what() if callable(what) else what}")
        pause(left)
    took = time.monotonic() - began
    if took > deadline / 10 and WAITS:
        caller = sys._getframe(2)
        with open(WAITS, "a", encoding="utf-8") as file:
            file.write(f"{os.path.relpath(caller.f_code.co_filename, TREE)}:{caller.f_lineno} {took:.1f} of {deadline:.0f} s\n")
    return value

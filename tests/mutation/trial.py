"""Runs one suite of the copy with a deadline, and says whether everything passed. Servers start with the first suite that needs them, and
stay for the whole campaign; the stack of the suite api stays, too, and its programs are started anew for each run.
"""
import contextlib
import os
import signal
import time

from runner import cmocka, command, servers
from runner.tree import TREE

from .workshop import BUILD, COPY

SIM_WORLDS = 2500  # some ten seconds of the processor; a run of the suite has eight times as many
FIRST_SECONDS = 400  # of a suite whose time is not known yet
PATIENCE = 10  # so many seconds more may pass than the processor works: others have it, too (DUETIME_MUTANTS_PATIENCE: so many on a busy machine)
WAITS = "2"  # a wait for an event that the mutation prevents ends after twice its usual time
FAILED = "[  FAILED  ]"  # what cmocka begins a line with: the first is enough
PROGRAMS = ("duetime-api", "duetime-dispatcher", "duetime")
CHECKED = {"configuration": "duetime-dispatcher", "command_line": "duetime", "openapi": "duetime-api", "cron": "cron_next"}  # by a check of the sources
NTH = ("nth_api", "nth_dispatcher")  # which running out is tried with
PYTEST = ["/usr/bin/python3", "-m", "pytest", "-p", "no:cacheprovider", "-q", "-x"]


def busy():
    """Whether the campaign runs on what others leave over of the processors: what is starved proves nothing."""
    return "DUETIME_MUTANTS_PATIENCE" in os.environ


def _patience():
    return float(os.environ.get("DUETIME_MUTANTS_PATIENCE", PATIENCE))


def _worked(argv, seconds, environment=None, **more):
    """(exit code or None when it has no end, output): what needs no server may work so long, however many others work beside it."""
    code, output = command.run(["prlimit", f"--cpu={int(seconds) + 1}", *argv], _patience() + seconds, environment, **more)
    ended = code in (-signal.SIGXCPU, -signal.SIGKILL) and FAILED not in output
    return None if ended else code, output


def _has_calls_fail(kind, name):
    """Whether the pytest suite runs programs whose n-th call fails: those are linked for themselves."""
    return any("harness.harm.nth import" in text or "harness.harm import nth" in text
               for text in (path.read_text(encoding="utf-8") for path in (TREE / "tests" / kind).rglob(f"{name}.py")))


class Trials:
    def __init__(self, stack):
        self.stack = stack  # an ExitStack: what was started is ended with it
        self.environment = None
        self.kept = False

    def servers(self):
        if self.environment is None:
            self.environment = self.stack.enter_context(servers.running(f"mutants-{COPY.name}"))
        return self.environment

    def target(self, suite):
        """What must be built for it."""
        kind, _, name = suite.partition("/")
        if kind in ("api", "integration"):
            return [*PROGRAMS, *(NTH if _has_calls_fail(kind, name) else ())]
        if kind == "check":
            return [CHECKED[name]]
        return ["simulator"] if kind == "sim" else [f"{kind}_{name}"]

    def run(self, suite, seconds=None, only=None):
        """(passed, what failed, seconds). `only`: a single test of a pytest suite."""
        kind, _, name = suite.partition("/")
        begun = time.monotonic()
        good, what = getattr(self, f"_{kind}")(name, seconds or FIRST_SECONDS, only)
        return good, what, time.monotonic() - begun

    def _cmocka(self, kind, name, seconds, environment, run=command.run):
        environment = {**environment, "ASAN_OPTIONS": "detect_leaks=1", "CMOCKA_MESSAGE_OUTPUT": "STDOUT"}
        code, output = run([BUILD / "tests" / kind / f"{kind}_{name}"], seconds, environment, enough=lambda line: line.startswith(FAILED))
        failed = [test for test, outcome, _ in cmocka.outcomes(output) if outcome not in ("OK", "SKIPPED")]
        return code == 0 and not failed, "no end" if code is None else failed[0] if failed else f"exit code {code}"

    def _unit(self, name, seconds, _only):
        return self._cmocka("unit", name, seconds, os.environ, _worked)

    def _check(self, name, seconds, _only):
        words = f"import sys; from runner import checks; sys.exit(not checks.{name}()[0])"
        code, _ = _worked(["/usr/bin/python3", "-c", words], seconds, {**os.environ, "PYTHONPATH": str(COPY / "tests")}, cwd=COPY)
        return code == 0, "no end" if code is None else name

    def _simulated(self, name, seconds, _only):
        return self._cmocka("simulated", name, seconds, os.environ, _worked)

    def _contract(self, name, seconds, _only):
        return self._cmocka("contract", name, seconds, self.servers())

    def _sim(self, _name, seconds, _only):
        code, output = _worked([BUILD / "tests/simulator/simulator", "--seeds", str(SIM_WORLDS)], seconds)
        told = [line for line in output.splitlines() if line.startswith(("FAILED", "seed"))]
        return code == 0, told[0] if told else "no end" if code is None else f"exit code {code}"

    def _pytest(self, kind, name, seconds, only, **environment):
        found = next((COPY / "tests" / kind).rglob(f"{name}.py"))
        words = [str(found) + (f"::{only}" if only else "")]
        if only:
            environment["DUETIME_TEST_LONG"] = "1"  # among others it was its turn, and it is alone
        code, output = command.run([*PYTEST, *words], seconds, {"DUETIME_TEST_PATIENCE": WAITS, **os.environ, "DUETIME_TEST_PREFIX": "", **environment}, cwd=COPY)
        failed = [line.split(" ")[1].split("::")[-1] for line in output.splitlines() if line.startswith(("FAILED ", "ERROR "))]
        return code in ((0,) if only else (0, 5)), failed[0] if failed else "no end" if code is None else f"exit code {code}"

    def _api(self, name, seconds, only):
        if not self.kept:
            self.kept = True
            self.stack.callback(self._take_down, "mutants-api")
        return self._pytest("api", name, seconds, only, DUETIME_TEST_KEEP="mutants-api")

    def _integration(self, name, seconds, only):
        with contextlib.ExitStack() as ending:
            for home in ("integration", "wide"):
                ending.callback(self._take_down, home)
            return self._pytest("integration", name, seconds, only)

    @staticmethod
    def _take_down(name):
        home = COPY / ".local" / "tests" / name
        if home.exists():
            command.run([COPY / "deploy" / "local", "reset"], 120, {**os.environ, "DUETIME_LOCAL_DIR": str(home)})

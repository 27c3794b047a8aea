"""The command line of tests/run."""
import argparse
import os
import random
import signal
import subprocess
import sys

from . import suites, tree
from .report import Report


def parser():
    top = argparse.ArgumentParser(prog="tests/run", description="Builds with sanitizers and runs the suites; the last line is the sum.")
    top.add_argument("suites", nargs="*", metavar="SUITE",
                     help=f"{' '.join(suites.SUITES)} (all of them when none is named), and the lanes {' '.join(suites.LANES)}")
    top.add_argument("-k", dest="chosen", metavar="WORD", help="only tests (C: only files) whose name contains WORD")
    top.add_argument("--seed", type=int, help="of the rows of the fault catalogue and what else is drawn; else the commit decides")
    top.add_argument("--repeat", type=int, help="each of those rows so many times, with seeds that follow one another")
    top.add_argument("--long", action="store_true", help="with the rows that take minutes")
    return top


def interrupt(_number, _frame):
    raise KeyboardInterrupt


def seed_of_commit():
    """The same commit runs the same rows with the same seeds; without a commit chance decides."""
    try:
        asked = subprocess.run(["git", "-C", tree.TREE, "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
        return int(asked.stdout[:8], 16) >> 1
    except (OSError, subprocess.CalledProcessError):
        return random.SystemRandom().randrange(1 << 31)


def main():
    for number in (signal.SIGINT, signal.SIGTERM):  # so that servers are taken down on both
        signal.signal(number, interrupt)
    arguments = parser().parse_args()
    for name in ("seed", "repeat", "long"):
        if getattr(arguments, name):
            os.environ[f"DUETIME_TEST_{name.upper()}"] = str(int(getattr(arguments, name)))
    os.environ["DUETIME_TEST_SEED"] = os.environ.get("DUETIME_TEST_SEED") or str(seed_of_commit())
    known = {**suites.SUITES, **suites.LANES}
    unknown = [name for name in arguments.suites if name not in known]
    if unknown:
        print(f"tests/run: no suite {' '.join(unknown)}; there are: {' '.join(known)}", file=sys.stderr)
        return 2
    os.environ.setdefault("TSAN_OPTIONS", f"suppressions={tree.TREE}/tests/support/tsan/suppressions second_deadlock_stack=1")
    print(f"seed {os.environ['DUETIME_TEST_SEED']}", flush=True)
    with tree.alone():
        return run(arguments)


def wanted(arguments, report):
    """The suites to run; a lane that nobody asked for is told as skipped. The lane `tls` is the suite `integration` in another way."""
    asked = os.environ.get("DUETIME_LANES", "").replace(",", " ").split()
    if arguments.suites:
        return ["tls" if name == "integration" and "tls" in asked else name for name in arguments.suites]
    for lane in (name for name in suites.LANES if name not in asked):
        report.skip(f"lane {lane}", f"not asked for: `tests/run {lane}`, or DUETIME_LANES={lane}")
    return [*suites.SUITES, *(name for name in suites.LANES if name in asked)]


def run(arguments):
    report = Report()
    for name, suite in suites.planned(wanted(arguments, report)):
        try:
            suite(report, arguments.chosen)
        except KeyboardInterrupt:
            report.fail(name, "interrupted")
            break
        except tree.say.StackError as error:
            report.fail(name, str(error))
    return report.close()


if __name__ == "__main__":
    sys.exit(main())

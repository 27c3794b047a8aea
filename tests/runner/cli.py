"""The command line of tests/run."""
import argparse
import os
import random
import signal
import subprocess
import sys
import zlib

from . import suites, tree
from .report import Report


def parser():
    listed = "\n".join(f"  {name:<12} {suite.does}" for name, suite in {**suites.SUITES, **suites.LANES}.items())
    top = argparse.ArgumentParser(prog="tests/run", formatter_class=argparse.RawDescriptionHelpFormatter,
                                  description="Builds with sanitizers and runs tests; the last line is the total. Without SUITE it runs the short set "
                                              f"({' '.join(sorted(suites.SHORT))}),\nwhose slow tests partly take turns; the seed chooses.",
                                  epilog=f"suites:\n{listed}")
    top.add_argument("suites", nargs="*", metavar="SUITE", help="run this suite in full, including all tests that take turns otherwise")
    top.add_argument("--all", action="store_true", help="every suite in full; the lanes mysql and kafka4 only if they are named (or in DUETIME_LANES)")
    top.add_argument("--slice", action="store_true", help="the short set, and the slice of the other suites that the seed chooses: what .ci/run does")
    top.add_argument("-k", dest="chosen", metavar="WORD", help="only tests (C: only files) that have WORD in their name")
    top.add_argument("--seed", type=int, help="chooses the order of tests and which of the slow ones run; by default it follows from the commit")
    top.add_argument("--repeat", type=int, help="run each row of the fault catalogue this many times, each time with the next seed")
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


def slice_of(seed):
    """Chooses a slice independently of the seed's choices inside a suite."""
    return suites.SLICES[zlib.crc32(str(seed).encode()) % len(suites.SLICES)]


def wanted(arguments, seed):
    lanes = [name for name in os.environ.get("DUETIME_LANES", "").replace(",", " ").split() if name in suites.LANES]
    if arguments.suites:
        return arguments.suites
    if arguments.all:
        return [*suites.SHORT, *(name for name in suites.SUITES if name not in (*suites.SHORT, "fuzz")), *lanes]
    return [*suites.SHORT, *(slice_of(seed) if arguments.slice else ()), *lanes]


def main():
    for number in (signal.SIGINT, signal.SIGTERM):  # so that servers are taken down on both
        signal.signal(number, interrupt)
    arguments = parser().parse_args()
    seed = arguments.seed if arguments.seed is not None else int(os.environ.get("DUETIME_TEST_SEED") or seed_of_commit())
    names = wanted(arguments, seed)
    unknown = [name for name in names if name not in suites.SUITES and name not in suites.LANES]
    if unknown:
        print(f"tests/run: unknown suite {' '.join(unknown)}; the suites are: {' '.join([*suites.SUITES, *suites.LANES])}", file=sys.stderr)
        return 2
    os.environ["DUETIME_TEST_SEED"] = str(seed)
    if not arguments.chosen and (arguments.suites or arguments.all):
        os.environ["DUETIME_TEST_LONG"] = "1"
    if arguments.repeat:
        os.environ["DUETIME_TEST_REPEAT"] = str(arguments.repeat)
    os.environ.setdefault("TSAN_OPTIONS", f"suppressions={tree.TREE}/tests/support/tsan/suppressions second_deadlock_stack=1")
    report = Report(seed)
    print(f"seed {seed}", flush=True)
    with tree.alone():
        try:
            suites.run_all(report, names, arguments.chosen)
        except KeyboardInterrupt:
            report.fail("tests/run", "interrupted")
    return report.close()


if __name__ == "__main__":
    sys.exit(main())

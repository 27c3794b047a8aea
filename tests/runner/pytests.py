"""Runs pytest with Debian's Python and counts the tests from its JUnit report."""
import os
import xml.etree.ElementTree as ElementTree

from . import command, tree

SECONDS = 4800  # for a whole folder: CI has ninety minutes
STUCK = 900  # if one test takes longer, pytest prints its threads


def run(report, suite, paths, without, variables, chosen=None):
    result = tree.WORK / f"{suite}.xml"
    result.parent.mkdir(parents=True, exist_ok=True)
    result.unlink(missing_ok=True)
    waits = result.with_suffix(".waits")
    waits.unlink(missing_ok=True)
    env = {**os.environ, "DUETIME_TEST_PREFIX": "run-", "DUETIME_TEST_WAITS": str(waits), **variables}  # the prefix keeps stacks separate from those of a pytest started by hand
    times = 10 if env.get("DUETIME_TEST_LONG") else 1
    argv = ["/usr/bin/python3", "-m", "pytest", "-p", "no:cacheprovider", "-q", f"--junitxml={result}", "-o", "junit_logging=system-out",
            "-o", f"faulthandler_timeout={STUCK}", *paths, *(f"--ignore={path}" for path in without), *(["-k", chosen] if chosen else [])]
    code, output = command.run(argv, SECONDS * times, env, cwd=tree.TREE)
    result.with_suffix(".log").write_text(output)
    failed = _count(report, suite, ElementTree.parse(result).getroot()) if result.exists() else False
    if code not in (0, 5) and not failed:
        report.fail(suite, f"{output[-6000:]}\nexit code {code}", suite)
    if waits.exists():
        report.say(f"{suite}: these waits took more than a tenth of their deadline:\n" + waits.read_text().rstrip())


def _count(report, suite, root):
    """Counts each test. Returns True if one failed."""
    failed = False
    for case in root.iter("testcase"):
        name = f"{suite}: {case.get('name')}"
        bad = case.find("failure") if case.find("failure") is not None else case.find("error")
        skipped = case.find("skipped")
        if bad is not None:
            failed = True
            report.fail(name, bad.text or bad.get("message"), f"{suite} -k {case.get('name').split('[')[0]}", case.findtext("system-out") or "")
        elif skipped is not None:
            report.skip(name, skipped.get("message") or "the test gives no reason")
        else:
            report.ok()
    return failed

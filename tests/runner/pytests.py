"""Runs a folder of pytest tests with Debian's Python and counts them from its JUnit report."""
import xml.etree.ElementTree as ElementTree

from . import command


def run(report, folder, result, env, seconds, chosen=None):
    result.parent.mkdir(parents=True, exist_ok=True)
    result.unlink(missing_ok=True)
    env = {**env, "DUETIME_TEST_PREFIX": "run-"}  # stacks of pytest by hand, in the same tree, are left alone
    argv = ["/usr/bin/python3", "-m", "pytest", "-p", "no:cacheprovider", "-q",
            f"--junitxml={result}", "-o", "junit_logging=system-out", folder]
    code, output = command.run(argv + (["-k", chosen] if chosen else []), seconds, env, cwd=folder.parents[1])
    result.with_suffix(".log").write_text(output)
    if not result.exists() or code is None:
        what = f"no end within {seconds} s" if code is None else f"exit code {code}"
        report.fail(f"pytest {folder.name}", f"{output[-6000:]}\n{what}")
        return
    told = _count(report, folder.name, ElementTree.parse(result).getroot())
    if code not in (0, 5) and not told:
        report.fail(f"pytest {folder.name}", f"{output[-6000:]}\nexit code {code}")


def _count(report, suite, root):
    """Counts each test; True when a failure was told."""
    told = False
    for case in root.iter("testcase"):
        name = f"{suite}: {case.get('name')}"
        bad = case.find("failure") if case.find("failure") is not None else case.find("error")
        skipped = case.find("skipped")
        if bad is not None:
            told = True
            logs = case.findtext("system-out") or ""
            report.fail(name, f"{bad.text or bad.get('message')}\n{logs[-2000:]}")
        elif skipped is not None:
            report.skip(name, skipped.get("message") or "the test gives no reason")
        else:
            report.ok()
    return told

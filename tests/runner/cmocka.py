"""Runs cmocka executables and reads their plain output, so that a crash still shows which test it was."""
import re
import time
from pathlib import Path
from concurrent.futures import ThreadPoolExecutor

from . import command, tree

SECONDS = 1200
# These take the longest, so they begin first: the last one to begin keeps a worker waiting.
LONGEST = ("contract_test_reconcile", "contract_test_wake", "contract_test_kafka_results", "contract_test_results", "contract_test_elector_leases", "unit_test_kafka_faults")
_LINE = re.compile(r"^\[ +(RUN|OK|FAILED|SKIPPED) +\] (\w+)$")


def outcomes(output):
    """[(test, 'OK' | 'FAILED' | 'SKIPPED' | 'RUN', what it printed)]; RUN = it never ended."""
    found, inside = [], True
    for line in output.splitlines():
        if line.startswith("[=========="):
            inside = "Running" in line  # what follows "… run." lists failed tests a second time
        match = _LINE.match(line) if inside else None
        if match is None:
            if found and found[-1][1] == "RUN":
                found[-1][2].append(line)
        elif match[1] == "RUN":
            found.append((match[2], "RUN", []))
        elif found and found[-1][:2] == (match[2], "RUN"):
            found[-1] = (match[2], match[1], found[-1][2])
        else:
            found.append((match[2], match[1], []))
    return [(name, outcome, "\n".join(text)) for name, outcome, text in found]


def _server_logs(env):
    return tree.say.tails(Path(env["DUETIME_TEST_LOGS"])) if "DUETIME_TEST_LOGS" in env else ""


def run_one(report, executable, env):
    """Runs one executable; returns the seconds that it took."""
    began = time.monotonic()
    code, output = command.run([executable], SECONDS, env)
    log = executable.with_suffix(".log")
    log.write_text(output)
    suite = f"{executable.parent.name}/{executable.name.split('_', 1)[1]}"
    again = f"{'sim' if suite.startswith('simulated') else executable.parent.name} -k {executable.name.split('_', 1)[1]}"
    told = False
    for test, outcome, text in outcomes(output):
        if outcome == "OK":
            report.ok()
        elif outcome == "SKIPPED":
            report.skip(f"{suite}: {test}", text.strip() or "the test gives no reason")
        else:
            told = True
            ended = "" if outcome == "FAILED" else f"\nit never ended; exit code {code}"
            report.fail(f"{suite}: {test}", f"{text}{ended}", again, _server_logs(env))
    if code != 0 and not told:
        report.fail(suite, f"{output[-6000:]}\nexit code {code}; whole output: {log}", again, _server_logs(env))
    return time.monotonic() - began


def run_all(report, executables, env, workers=3):
    env = {**env, "ASAN_OPTIONS": env.get("ASAN_OPTIONS", "detect_leaks=1"), "UBSAN_OPTIONS": "print_stacktrace=1",
           "CMOCKA_MESSAGE_OUTPUT": "STDOUT"}
    with ThreadPoolExecutor(max_workers=workers) as pool:
        try:
            in_order = sorted(executables, key=lambda executable: executable.name not in LONGEST)
            took = {executable.name: pool.submit(run_one, report, executable, env) for executable in in_order}
            longest = sorted(((done.result(), name) for name, done in took.items()), reverse=True)[:8]
            report.say("slowest suites: " + ", ".join(f"{name} {seconds:.0f} s" for seconds, name in longest))
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)
            command.end_all()
            raise

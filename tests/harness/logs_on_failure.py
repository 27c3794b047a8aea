"""The programs' last log lines go with a failure.

For a conftest.py whose stack is the fixture `stack`: `from harness.logs_on_failure import pytest_runtest_makereport`.
"""
import pytest


def add_logs(item, report, stack):
    """Adds the logs to the test's captured output, which the JUnit report has."""
    if report.failed and stack is not None:
        item.add_report_section(report.when, "stdout", f"\n{stack.logs()}\n")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item):
    add_logs(item, (yield).get_result(), item.funcargs.get("stack"))

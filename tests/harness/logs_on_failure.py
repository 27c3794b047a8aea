"""The programs' last log lines go with a failure.

For a conftest.py whose stack is the fixture `stack`: `from harness.logs_on_failure import pytest_runtest_makereport`.
"""
import pytest


def add_logs(report, stack):
    if report.failed and stack is not None:
        report.sections.append(("logs of the stack", stack.logs()))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item):
    add_logs((yield).get_result(), item.funcargs.get("stack"))

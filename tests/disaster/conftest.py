"""Disasters: each test has a stack of its own under load, does the harm, and follows the page of deploy/disaster word for word.

Every test is seeded: DUETIME_TEST_SEED, printed with each failure. Files take turns: of fifteen runs with seeds one
after the other six have one of them.
"""
import os
import pathlib
import random
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from harness.logs_on_failure import add_logs  # noqa: E402
from harness.operator.clients import READER  # noqa: E402
from harness.operator.machines import make_machines  # noqa: E402
from harness.operator.person import Person  # noqa: E402
from harness.rotation import pytest_collection_modifyitems, pytest_configure  # noqa: E402,F401
from harness.stack import Stack  # noqa: E402

OPTIONS = ["--apis", "2", "--dispatchers", "2", "--redis", "1", "--shards", "4", "--sanitize", "--kafka", os.environ.get("DUETIME_TEST_KAFKA", "3"),
           "--mysql", READER, "--set", "reconcile.period=PT1S", "--set", "reconcile.walk=PT10S", "--set", "dispatch.rest_after=PT2S", "--set", "mysql.io_timeout=PT8S", "--set", "api.database_timeout=PT8S"]
SEED = int(os.environ.get("DUETIME_TEST_SEED") or random.SystemRandom().randrange(1 << 31))


@pytest.fixture
def seed():
    return SEED


@pytest.fixture
def stack(request):
    made = Stack(os.environ.get("DUETIME_TEST_STACK", "disaster"), *OPTIONS, *getattr(request, "param", []))
    request.node.stack = made
    yield made.up()
    made.reset()


@pytest.fixture
def person(stack, tmp_path):
    """person(**variables): somebody whose shell has these set, beside what the page of pages asks for, and whose server is READER."""
    machines = make_machines(stack, tmp_path)
    return lambda **variables: Person(tmp_path, {**machines, **variables}, READER)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item):
    report = (yield).get_result()
    if report.failed:
        item.add_report_section(report.when, "stdout", f"DUETIME_TEST_SEED={SEED}")
        add_logs(item, report, getattr(item, "stack", None))

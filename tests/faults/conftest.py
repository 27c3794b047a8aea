"""One stack for the whole suite, made anew after a failure: 4 shards, 2 Redis servers, 2 APIs, 2 dispatchers, with sanitizers.

Every row is seeded: DUETIME_TEST_SEED (printed with each failure), and DUETIME_TEST_REPEAT=n runs it with n seeds in a row.
The bounded suite takes every twelfth row, beginning where its seed says: twelve runs with seeds n to n+11 see them all.
What is marked in_turns (harness/rotation.py) takes turns beside the rows.
DUETIME_TEST_ROWS=test_row5_…,test_row31_… takes these instead, each in one form. With DUETIME_TEST_LONG=1 all of them run, those too that are marked `long` because they take minutes; a row that is named by -k runs.
"""
import os
import pathlib
import random
import re
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from harness import rotation  # noqa: E402
from harness.harm.detours import Detours  # noqa: E402
from harness.logs_on_failure import add_logs  # noqa: E402
from harness.rest import Rest  # noqa: E402
from harness.stack import Stack  # noqa: E402

OPTIONS = ["--apis", "2", "--dispatchers", "2", "--redis", "2", "--shards", "4", "--sanitize",
           "--kafka", os.environ.get("DUETIME_TEST_KAFKA", "3"), "--set", "reconcile.period=PT1S", "--set", "reconcile.walk=PT10S", "--set", "dispatch.rest_after=PT2S",
           "--set", "mysql.io_timeout=PT8S", "--set", "api.database_timeout=PT8S",
           "--kafka-set", "transaction.abort.timed.out.transaction.cleanup.interval.ms=1000",
           "--kafka-set", "auto.create.topics.enable=false",
           "--kafka-set", "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
           "--kafka-set", "allow.everyone.if.no.acl.found=true"]
SEED = int(os.environ.get("DUETIME_TEST_SEED") or random.SystemRandom().randrange(1 << 31))
ROWS = [name for name in os.environ.get("DUETIME_TEST_ROWS", "").split(",") if name]
REPEAT = int(os.environ.get("DUETIME_TEST_REPEAT") or 1)
PROXIED = [(part, server) for part in ("api1", "api2", "dispatcher1", "dispatcher2") for server in ("mysql", "redis1")] + [
    (part, server) for part in ("dispatcher1", "dispatcher2") for server in ("kafka", "zookeeper")]
ONE_REDIS = ["--redis", "1"]  # shards find their server by its address, which differs from proxy to proxy


class Shared:
    """The stack that the tests use one after the other: plain, or with a proxy between programs and servers; one at a time,
    whole and running at the start of each test, made anew after a failure."""

    def __init__(self):
        self.stack = self.detours = None
        self.failed = False

    def get(self, proxied):
        if self.stack and (self.failed or proxied != bool(self.detours)):
            self.end()
        self.failed = False
        if self.stack is None:
            self._make(proxied)
        else:
            if self.detours:
                self.detours.heal(late=False)
            self.stack.heal()
        return self.stack

    def _make(self, proxied):
        name = os.environ.get("DUETIME_TEST_STACK", "faults")
        self.detours = Detours(PROXIED) if proxied else None
        self.stack = Stack(f"{name}-proxied" if proxied else name, *OPTIONS, *([*ONE_REDIS, *self.detours.options] if proxied else []))
        if proxied:
            self.detours.attach(self.stack)
        self.stack.up()

    def end(self):
        if self.stack:
            self.stack.reset()
        if self.detours:
            self.detours.end()
        self.stack = self.detours = None


shared = Shared()


def pytest_configure(config):
    rotation.pytest_configure(config)
    config.addinivalue_line("markers", "one_of: a row in several forms; the bounded suite takes one of them, by its seed")
    config.addinivalue_line("markers", "long: takes longer than the bounded suite can bear; runs with DUETIME_TEST_LONG=1")


def pytest_collection_modifyitems(config, items):
    take_turns(config, items)
    items[:] = rotation.in_drawn_order(items, SEED)


def take_turns(config, items):
    if ROWS:
        rotation.leave_out(config, items, [item for item in items if item.originalname not in ROWS])
    if os.environ.get("DUETIME_TEST_LONG"):
        return
    rotation.leave_out(config, items, [item for item in items if item.get_closest_marker("long")])
    if ROWS or not config.option.keyword:
        one_of_each(config, items)
    if not ROWS and not config.option.keyword:
        every_twelfth(config, items)
        rotation.leave_out(config, items, rotation.not_in_turn(items, SEED))


def every_twelfth(config, items):
    """Of the rows, those whose turn it is by the seed; what is no row of the catalogue stays."""
    rows = sorted({item.originalname for item in items if re.match(r"test_row\d+_", item.originalname)})
    rotation.leave_out(config, items, [item for item in items if item.originalname in rows and (rows.index(item.originalname) + SEED) % 12])


def one_of_each(config, items):
    """Of a row that comes in several forms, the one that the seed says."""
    forms = {}
    for item in items:
        if item.get_closest_marker("one_of") and not item.get_closest_marker("long"):
            forms.setdefault((item.originalname, item.callspec.params.get("seed")), []).append(item)
    rotation.leave_out(config, items, [item for (_, seed), group in forms.items() for item in group if item is not group[(seed or 0) % len(group)]])


def pytest_generate_tests(metafunc):
    if "seed" in metafunc.fixturenames:
        metafunc.parametrize("seed", [SEED + i for i in range(REPEAT)])


@pytest.fixture(scope="session", autouse=True)
def taken_down():
    yield
    shared.end()


@pytest.fixture
def stack():
    return shared.get(proxied=False)


@pytest.fixture
def proxied():
    """(stack, detours): the same, with proxies in between."""
    return shared.get(proxied=True), shared.detours


@pytest.fixture
def own_stack(request):
    """own_stack(*options): a stack of the test's own, for what cannot be healed; taken down with the test."""
    made = []

    def start(*options):
        made.append(Stack(f"faults-{request.node.name.split('[')[0][5:10]}", *OPTIONS, *options).up())
        return made[-1]
    yield start
    for one in made:
        one.reset()


@pytest.fixture
def api(stack):
    rest = Rest(stack["DUETIME_URL_API1"])
    yield rest
    rest.close()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item):
    """A failure names its seed, shows the programs' last log lines, and costs the stack."""
    report = (yield).get_result()
    if report.failed:
        shared.failed = True
        if "seed" in item.funcargs:
            item.add_report_section(report.when, "stdout", f"DUETIME_TEST_SEED={item.funcargs['seed']}")
        add_logs(item, report, shared.stack)

"""The suites by name, their durations, and which of them form the short set and the slices."""
import os
from concurrent.futures import ThreadPoolExecutor
from typing import Callable, NamedTuple

from . import builds, checks, cmocka, command, fuzz, lanes, model, pytests, servers, tree

TESTS = tree.TREE / "tests"
AT_ONE_TIME = 4  # suites in parallel: they wait more than they work


class Suite(NamedTuple):
    seconds: int  # on two idle cores, without tests whose turn is in another run
    run: Callable  # (report, chosen): `chosen` narrows it to names that contain it
    does: str
    builds: Callable = builds.sanitize


def _executables(kind, chosen):
    """Returns the cmocka suites of this kind; with `chosen` only those whose source contains it."""
    folder = tree.BUILD / "tests" / kind
    found = [path for path in sorted(folder.glob(f"{kind}_test_*")) if os.access(path, os.X_OK) and path.suffix == ""]
    return [path for path in found if chosen is None or chosen in path.name or chosen in _source(path)]


def _source(executable):
    name = executable.name.split("_", 1)[1]
    return "".join(path.read_text(encoding="utf-8") for folder in ("unit", "contract") for path in (TESTS / folder).rglob(f"{name}.c"))


def page_has_the_table():
    missing = [row for row in table() if row not in (TESTS / "README.md").read_text(encoding="utf-8").splitlines()]
    return not missing, "\n".join(["tests/README.md lacks these rows:", *missing])


def sources(report, chosen):
    checks.run(report, {**checks.OF_SOURCES, **checks.OF_PROGRAMS, "tests/README.md lists the suites": page_has_the_table}, chosen)


def unit(report, chosen):
    cmocka.run_all(report, _executables("unit", chosen), dict(os.environ))


def sim(report, chosen):
    """A bounded number of the simulator's worlds; `tests/sim` runs on."""
    if chosen is None:
        code, output = command.run([tree.BUILD / "tests/simulator/simulator", "--seeds", "20000", "--seconds", "25"], 600)
        told = output.splitlines()
        if code == 0:
            report.say(next((line for line in told if " failed;" in line), ""))
            report.ok()
        else:
            report.fail("sim", "\n".join(told[-200:]), "sim")
    cmocka.run_all(report, _executables("simulated", chosen), dict(os.environ))


def contract(report, chosen):
    with servers.running("contract") as environment:
        cmocka.run_all(report, _executables("contract", chosen), environment)


def compilers(report, chosen):
    builds.clang(report)
    checks.run(report, checks.OF_COMPILERS, chosen)
    of_fuzz(report, chosen)


def of_fuzz(report, chosen):
    folder = builds.fuzz(report)
    if folder:
        fuzz.run(report, folder, chosen)


def release(report, chosen):
    if builds.release(report):
        checks.run(report, checks.OF_RELEASE, chosen)


def of_model(report, _chosen):
    model.run(report)


def _pytest(name, *paths, without=(), **variables):
    def run(report, chosen):
        pytests.run(report, name, [TESTS / path for path in paths], [TESTS / path for path in without], variables, chosen)
    return run


def mysql(report, chosen):
    """Lane: the store's contract suites, then the pages of disasters with the commands of MySQL, on MySQL 9.7."""
    reason = lanes.mysql_unavailable()
    if reason:
        report.skip("lane mysql", reason)
        return
    with servers.running("mysql", mysql="mysql") as environment:
        cmocka.run_all(report, [path for path in _executables("contract", chosen) if lanes.is_store_test(path)], environment)
    _pytest("mysql", "disaster", DUETIME_TEST_MYSQL="mysql", DUETIME_TEST_LONG="1")(report, chosen)


def kafka4(report, chosen):
    """Lane: contract suites, then the integration suite, on Kafka 4."""
    with servers.running("kafka4", kafka="4") as environment:
        cmocka.run_all(report, _executables("contract", chosen), environment)
    _pytest("kafka4", "integration", DUETIME_TEST_KAFKA="4")(report, chosen)


def nothing(_report):
    return True


APART = ("integration/secured", "integration/outages", "integration/clients", "integration/on_call")
HTTP = ("api/http_server", "api/auth")
CONSOLE = ("api/console", "api/cli", "api/doctor")
SUITES = {
    "sources": Suite(80, sources, "clang-format, clang-tidy, the rules of tests/house.py, pages that must agree with the programs"),
    "unit": Suite(50, unit, "C, without servers"),
    "sim": Suite(30, sim, "simulated worlds; the store's contract suites on the simulator's servers"),
    "contract": Suite(265, contract, "C, on real servers"),
    "integration": Suite(240, _pytest("integration", "integration", without=APART), "the whole stack: 2 APIs, 3 dispatchers, 4 shards"),
    "api": Suite(295, _pytest("api", "api", without=(*HTTP, *CONSOLE), DUETIME_TEST_STACK="api"), "REST"),
    "http": Suite(260, _pytest("http", *HTTP, DUETIME_TEST_STACK="http"), "the HTTP server; tokens and quotas"),
    "console": Suite(155, _pytest("console", *CONSOLE, DUETIME_TEST_STACK="console"), "the console in Chromium; the command line and the doctor"),
    "compilers": Suite(195, compilers, "all code compiled by clang; the product without a feature; the fuzz targets, built and run", nothing),
    "fuzz": Suite(130, of_fuzz, "the fuzz targets alone", nothing),
    "release": Suite(60, release, "a release and its packages"),
    "model": Suite(90, of_model, "the model of the dispatch, by Spin", nothing),
    "fault": Suite(390, _pytest("fault", "faults"), "the fault catalogue, under load"),
    "disaster": Suite(120, _pytest("disaster", "disaster"), "the pages of deploy/disaster, executed literally"),
    "secured": Suite(200, _pytest("secured", "integration", without=APART[2:], DUETIME_TEST_SECURED="1", DUETIME_TEST_SLICE="secured", DUETIME_TEST_STACK="slice"),
                     "TLS and authentication on every connection"),
    "outages": Suite(300, _pytest("outages", "integration/outages", DUETIME_TEST_STACK="outages"), "servers and dispatchers that start, stop and die; floods"),
    "clients": Suite(200, _pytest("clients", *APART[2:], DUETIME_TEST_STACK="clients"), "the clients in five languages; the tasks of an operator on call"),
}
LANES = {
    "mysql": Suite(900, mysql, "the store, and the pages of disasters, on MySQL 9.7"),
    "kafka4": Suite(900, kafka4, "contract and integration on Kafka 4"),
}
SHORT = ("integration", "api", "contract", "http", "console", "sources", "sim", "unit")  # the slowest first
# .ci/run runs one of these with the short set. Suites with many tests that take turns are listed more than once.
SLICES = (("compilers",), ("fault",), ("secured",), ("outages",), ("clients",), ("fault",), ("release", "model"), ("outages",), ("disaster",), ("fault",))


def table():
    """The suites as rows of the table in tests/README.md."""
    slices = {name for names in SLICES for name in names}
    kind = {name: "short" if name in SHORT else "slice" if name in slices else "by name" for name in SUITES}
    return [f"| `{name}` | {kind[name]} | {suite.does} | {suite.seconds} |" for name, suite in SUITES.items()]


def run_all(report, names, chosen=None):
    """Builds what the suites need, then runs them, AT_ONE_TIME in parallel."""
    known = {**SUITES, **LANES}
    report.plan({"build": 110, **{name: known[name].seconds for name in names}}, AT_ONE_TIME)
    report.begin("build")
    for build in dict.fromkeys(known[name].builds for name in names):
        build(report)
    report.end("build")
    with servers.none_left_behind(), ThreadPoolExecutor(max_workers=AT_ONE_TIME) as pool:
        try:
            for done in [pool.submit(_run, report, name, known[name], chosen) for name in names]:
                done.result()
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)
            command.end_all()
            raise


def _run(report, name, suite, chosen):
    report.begin(name)
    try:
        suite.run(report, chosen)
    except tree.say.StackError as error:
        report.fail(name, str(error), name)
    report.end(name)

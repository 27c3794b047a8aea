"""The suites by name. A suite is a function of (report, chosen): `chosen` narrows it to names that contain it."""
import functools
import os
from concurrent.futures import ThreadPoolExecutor

from . import builds, checks, cmocka, command, fuzz, lanes, model, pytests, servers, tree

PYTEST_SECONDS = 2700


def _executables(kind, chosen):
    folder = tree.BUILD / "tests" / kind
    found = [path for path in sorted(folder.glob(f"{kind}_test_*")) if os.access(path, os.X_OK) and path.suffix == ""]
    return [path for path in found if chosen is None or chosen in path.name]


def unit(report, chosen):
    if chosen is None:
        report.say("checking the sources")
        checks.run(report, checks.OF_SOURCES)
        builds.clang(report)
    builds.sanitize(report)
    if chosen is None:
        checks.run(report, checks.OF_PROGRAMS)
        if builds.release(report):
            checks.run(report, checks.OF_RELEASE)
    report.say("unit tests")
    cmocka.run_all(report, _executables("unit", chosen), dict(os.environ))


def contract(report, chosen):
    builds.sanitize(report)
    report.say("contract tests on real servers")
    with servers.running("contract") as environment:
        cmocka.run_all(report, _executables("contract", chosen), environment)


def _seconds():
    """A folder of tests may take so long; more when its rows are repeated or the long ones are in."""
    times = int(os.environ.get("DUETIME_TEST_REPEAT") or 1) * (3 if os.environ.get("DUETIME_TEST_LONG") else 1)
    return PYTEST_SECONDS * times


def _of_folder(report, name, chosen, variables=None):
    report.say(f"{name} tests on the whole stack")
    pytests.run(report, tree.TREE / "tests" / name, tree.WORK / f"{name}.xml", {**os.environ, **(variables or {})}, _seconds(), chosen)
    report.say(f"{name} tests have ended")


def _over_secured_connections(report):
    """The slice of the integration suite whose turn it is; the lane `tls` has all of it."""
    report.say("integration tests over secured connections, a slice")
    pytests.run(report, tree.TREE / "tests/integration", tree.WORK / "slice.xml",
                {**os.environ, "DUETIME_TEST_SECURED": "1", "DUETIME_TEST_SLICE": "secured", "DUETIME_TEST_STACK": "slice"}, PYTEST_SECONDS)
    report.say("the slice has ended")


def _parts(report, names, chosen):
    """What a pool is to run, in this order. A bounded integration suite is two: most of it in the clear, and a slice of it secured."""
    sliced = "integration" in names and chosen is None and not os.environ.get("DUETIME_TEST_LONG")
    variables = {"integration": {"DUETIME_TEST_SLICE": "plain"}} if sliced else {}
    each = [functools.partial(_of_folder, report, name, chosen, variables.get(name)) for name in names]
    return each + ([functools.partial(_over_secured_connections, report)] if sliced else [])


def _pytest(*names):
    """A folder of tests; several at one time, each on a stack of its own, since they wait more than they work."""
    def suite(report, chosen):
        builds.sanitize(report)
        with servers.none_left_behind(), ThreadPoolExecutor(max_workers=len(names)) as pool:
            try:
                for done in [pool.submit(part) for part in _parts(report, names, chosen)]:
                    done.result()
            except KeyboardInterrupt:
                pool.shutdown(wait=False, cancel_futures=True)
                command.end_all()
                raise
    return suite


def sim(report, chosen):
    """A bounded number of the simulator's worlds; `tests/sim` runs on."""
    builds.sanitize(report)
    report.say("simulated worlds")
    code, output = command.run([tree.BUILD / "tests/simulator/simulator", "--seeds", "20000", "--seconds", "25"], 120)
    told = output.splitlines()
    if code == 0:
        report.say(next((line for line in told if " failed;" in line), ""))
        report.ok()
    else:
        report.fail("sim", "\n".join(told[-200:]))
    report.say("contract tests on the simulator's servers")
    simulated = sorted(path for path in (tree.BUILD / "tests/simulated").glob("simulated_test_*") if path.suffix == "")
    cmocka.run_all(report, [path for path in simulated if chosen is None or chosen in path.name], dict(os.environ))


def mysql(report, chosen):
    """Lane: the store's contract suites, then the pages of disasters with the commands of MySQL, on MySQL 9.7."""
    reason = lanes.mysql_unavailable()
    if reason:
        report.skip("lane mysql", reason)
        return
    builds.sanitize(report)
    report.say("contract tests of the store on MySQL 9.7")
    with servers.running("mysql", mysql="mysql") as environment:
        cmocka.run_all(report, [path for path in _executables("contract", chosen) if lanes.is_store_test(path)], environment)
    report.say("disasters on MySQL 9.7")
    with servers.none_left_behind():
        pytests.run(report, tree.TREE / "tests/disaster", tree.WORK / "mysql.xml",
                    {**os.environ, "DUETIME_TEST_MYSQL": "mysql", "DUETIME_TEST_LONG": "1"}, _seconds(), chosen)


def kafka4(report, chosen):
    """Lane: contract suites, then the integration suite, on Kafka 4."""
    builds.sanitize(report)
    report.say("contract tests on Kafka 4")
    with servers.running("kafka4", kafka="4") as environment:
        cmocka.run_all(report, _executables("contract", chosen), environment)
    report.say("integration tests on Kafka 4")
    with servers.none_left_behind():
        pytests.run(report, tree.TREE / "tests/integration", tree.WORK / "kafka4.xml", {**os.environ, "DUETIME_TEST_KAFKA": "4"},
                    PYTEST_SECONDS, chosen)


def tls(report, chosen):
    """Lane: the integration suite with TLS and authentication on every connection."""
    builds.sanitize(report)
    report.say("integration tests with TLS and authentication on every connection")
    with servers.none_left_behind():
        pytests.run(report, tree.TREE / "tests/integration", tree.WORK / "tls.xml", {**os.environ, "DUETIME_TEST_SECURED": "1"}, 2 * _seconds(), chosen)


def of_model(report, chosen):
    if chosen is None:
        report.say("checking the model of the dispatch")
        model.run(report)


def of_fuzz(report, chosen):
    folder = builds.fuzz(report)
    if folder:
        report.say("fuzzing what reads text from outside")
        fuzz.run(report, folder, chosen)


SUITES = {"unit": unit, "sim": sim, "model": of_model, "fuzz": of_fuzz, "contract": contract, "api": _pytest("api"),
          "integration": _pytest("integration"), "faults": _pytest("faults"), "disaster": _pytest("disaster")}
AT_ONE_TIME = ("api", "integration")  # when both are asked for
LANES = {"mysql": mysql, "kafka4": kafka4, "tls": tls}


def planned(names):
    """[(name, suite)] in the order of `names`; those that go well together are one."""
    known = {**SUITES, **LANES}
    together = AT_ONE_TIME if set(AT_ONE_TIME) <= set(names) else ()
    plan = {(together if name in together else (name,)): None for name in names}
    return [(" and ".join(group), _pytest(*group) if group == together else known[group[0]]) for group in plan]

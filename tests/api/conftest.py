"""REST through real HTTP: one stack for the session (2 APIs, 1 dispatcher), and APIs of their own for other settings.

For work on these tests: DUETIME_TEST_KEEP=FOLDER takes the stack in that folder (made when missing) and lets it stand.
"""
import contextlib
import os
import pathlib
import sys
import time
import uuid

import pymysql
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from harness.checker import connect, rows  # noqa: E402
from harness.logs_on_failure import pytest_runtest_makereport  # noqa: E402,F401
from harness.program import PATIENT, OwnApi  # noqa: E402
from harness.rest import Rest  # noqa: E402
from harness.rotation import pytest_collection_modifyitems, pytest_configure  # noqa: E402,F401
from harness.stack import Stack, until  # noqa: E402
from runner.tree import quick_folder  # noqa: E402

KEEP = os.environ.get("DUETIME_TEST_KEEP")
OPTIONS = ["--apis", "2", "--dispatchers", "1", "--shards", "2", "--sanitize", "--no-build",
           "--kafka", os.environ.get("DUETIME_TEST_KAFKA", "3"), "--set", "reconcile.period=PT1S",
           "--set", "api.database_timeout=PT15S", "--set", "mysql.io_timeout=PT15S"]  # no request fails if the machine stalls for seconds


def complaints(stack):
    """What sanitizers had to say about the programs, their end included."""
    for part in ("api1", "api2", "dispatcher1"):
        stack.stop(part)
    return [line for part in ("api1", "api2", "dispatcher1") for line in stack.log(part).splitlines()
            if "runtime error:" in line or "Sanitizer" in line or "did not end" in line]


@pytest.fixture(scope="session")
def stack():
    made = Stack(KEEP or os.environ.get("DUETIME_TEST_STACK", "api"), *OPTIONS)
    if not KEEP:
        made.home = quick_folder(made.home.name)
    if KEEP and made.home.exists():
        made._run("up", *OPTIONS)
        made.refresh()
    else:
        made.up()
    yield made
    try:
        assert complaints(made) == []
    finally:
        if not KEEP:
            made.reset()


@pytest.fixture(scope="session")
def api(stack):
    rest = Rest(stack["DUETIME_URL_API1"])
    yield rest
    rest.close()


@pytest.fixture(scope="session")
def api2(stack):
    rest = Rest(stack["DUETIME_URL_API2"])
    yield rest
    rest.close()


@pytest.fixture
def topic():
    """A topic of the test's own."""
    return f"t-{uuid.uuid4().hex[:10]}"


@pytest.fixture
def held(api, topic):
    """A topic of the test's own, paused: due jobs stay where they are."""
    assert api.put(f"/v1/topics/{topic}", {"paused": True}).status == 201
    yield topic
    api.post("/v1/jobs:cancel", {"filter": {"topic": topic}})  # the overview lists late jobs first


@pytest.fixture(scope="session")
def db(stack):
    """db(sql, *values) -> rows, on a connection that is opened anew after MySQL was away."""
    connection = connect(stack)

    def ask(sql, *values):
        connection.ping(reconnect=True)
        return rows(connection, sql, *values)
    yield ask
    with contextlib.suppress(Exception):
        connection.close()


@pytest.fixture
def packet_limit(db):
    """packet_limit(bytes) sets max_allowed_packet for connections that are made from then on, which end with the test."""
    before = db("SELECT @@GLOBAL.max_allowed_packet AS n")[0]["n"]
    last = db("SELECT MAX(id) AS n FROM information_schema.processlist")[0]["n"]
    yield lambda n: db("SET GLOBAL max_allowed_packet = %s", n)
    db("SET GLOBAL max_allowed_packet = %s", before)
    for session in db("SELECT id FROM information_schema.processlist WHERE id > %s AND id <> CONNECTION_ID()", last):
        with contextlib.suppress(pymysql.err.OperationalError):  # it has ended by itself
            db("KILL %s", session["id"])
    time.sleep(1.1)  # an API looks at a connection that was idle for a second before it uses it


@pytest.fixture
def swept(db, topic):
    """Takes the many jobs of a test away again, so that counts and lists of other tests stay short. They must be far ahead."""
    yield
    db("DELETE FROM jobs WHERE topic = %s", topic)


@pytest.fixture
def nothing_made(db):
    """No job, key or topic comes of what the test does (tests run one after the other)."""
    def count():
        return db("SELECT (SELECT COUNT(*) FROM jobs) + (SELECT COUNT(*) FROM history) jobs, (SELECT COUNT(*) FROM job_keys) k, (SELECT COUNT(*) FROM topics) topics")
    before = count()
    yield
    assert count() == before


@pytest.fixture
def dispatched(api):
    """dispatched(topic=…, …) -> a job whose first attempt was sent and waits for its report."""
    def make(**job):
        made = api.make(**{"delay": 0, **job})
        path = f"/v1/jobs/{made['id']}"
        return until(lambda: (seen := api.get(path).json)["state"] == "dispatched" and seen, lambda: api.get(path))
    return make


@pytest.fixture(scope="session")
def own_apis(stack, tmp_path_factory):
    made, wanted = {}, {}

    def make(name, settings=None, **options):
        settings = {**PATIENT, **(settings or {})}
        if name not in made:
            made[name], wanted[name] = OwnApi(stack, tmp_path_factory.mktemp(name), name, settings, **options), (settings, options)
        assert wanted[name] == (settings, options), f"an API called {name} was made for another test, with other settings"
        return made[name]

    def running(*arguments, **options):
        """The same API; starts it if it is not running."""
        api = make(*arguments, **options)
        return api if api.process and api.process.poll() is None else api.start()

    def beside(name, settings=None):
        """A running API on a shared database, for tests that use only their own topics: creating a database takes longer than starting an API."""
        shared = make("plain")
        return running(name, {"mysql.database": shared.database, "installation.name": "plain", **(settings or {})}, shared=True)
    make.running, make.beside = running, beside
    yield make
    codes = {name: api.end() for name, api in made.items()}
    assert set(codes.values()) <= {0, None}, (codes, [api.log()[-3000:] for api in made.values()])


@pytest.fixture
def small(own_apis):
    """An API with small limits and one HTTP thread, and a fresh connection to it."""
    api = own_apis.beside("small", {"limits.batch_lines": 10, "limits.batch_body": 8192, "limits.body": 4096, "limits.payload": 2000, "http.threads": 1})
    yield api
    api.rest.close()


@pytest.fixture
def plain(own_apis):
    """An API without dispatchers on its database; a test may stop it."""
    api = own_apis.running("plain")
    yield api
    api.rest.close()


@pytest.fixture
def hasty(own_apis):
    """An API with one HTTP thread that gives requests two seconds."""
    api = own_apis.beside("hasty", {"http.threads": 1, "http.request_timeout": "PT2S"})
    yield api
    api.rest.close()


@pytest.fixture
def unhurried(own_apis):
    """One HTTP thread; 300 connections may wait for their client, half of them from one address. Timeouts are minutes long: if a caller is
    answered, it did not wait for the timeout of others."""
    api = own_apis.beside("unhurried", {"http.threads": 1, "http.waiting": 300, "http.head_timeout": "PT1M", "http.request_timeout": "PT10M",
                                        "http.idle_timeout": "PT10M"})
    yield api
    api.rest.close()

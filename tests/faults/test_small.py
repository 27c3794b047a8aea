"""Rows of the catalogue about installations that do without a server: the smallest one, and parts that come and go under load."""
import os

import pytest

from harness.checker import connect, rows
from harness.load import under_load
from harness.stack import Stack, until
from harness.takeover import leaders

BESIDE_KAFKA = ("http", "pull")
PROGRAMS = ("dispatcher1", "api1", "dispatcher2", "api2")
DISPATCHERS = ("dispatcher1", "dispatcher2")
LEASES = {"zookeeper.servers": ""}
WITHOUT = {"redis": {"redis.endpoints": ""}, "kafka": {"kafka.brokers": ""}, "zookeeper": LEASES}


@pytest.fixture
def small():
    made = Stack(os.environ.get("DUETIME_TEST_STACK", "faults") + "-small", "--small", "--sanitize", "--set", "mysql.io_timeout=PT8S", "--set", "api.database_timeout=PT8S",
                 "--set", "reconcile.period=PT1S")
    yield made.up()
    made.reset()


@pytest.mark.one_of
@pytest.mark.parametrize("way", ["killed", "ended"])
def test_row51_a_small_installation_continues_after_mysql_restarts(small, seed, way):
    with under_load(small, seed, kinds=BESIDE_KAFKA, finish_seconds=90) as run:
        for _ in range(2):
            run.goes_on(40, by="http")
            run.goes_on(40, by="pull")
            small.kill("mysql") if way == "killed" else small.stop("mysql")
            run.faults["restarted"] += 1
            run.wait(1)
            small.start("mysql")
        run.goes_on(40, seconds=60, by="http")
        run.goes_on(40, seconds=60, by="pull")


def led_by(stack, part):
    return list(leaders(stack).values()).count(stack.pid(part))


def each_leads(stack):
    until(lambda: all(led_by(stack, part) for part in DISPATCHERS), lambda: f"both lead: {leaders(stack)}\n{stack.logs()}")


def without_zookeeper(stack):
    for part in DISPATCHERS:
        stack.restart(part, settings=LEASES)
    stack.refresh()
    each_leads(stack)
    assert rows(connect(stack), "SELECT COUNT(*) n FROM leases")[0]["n"] > 0


def test_row52_a_dispatcher_stopped_past_its_leases_writes_and_sends_nothing(stack, seed):
    with under_load(stack, seed, kinds=("kafka", *BESIDE_KAFKA), finish_seconds=60) as run:
        without_zookeeper(stack)
        for part, other in (DISPATCHERS, DISPATCHERS[::-1]):
            with stack.stopped(part):
                run.faults["stopped"] += 1
                until(lambda: led_by(stack, part) == 0 and led_by(stack, other) > 0, lambda: f"{other} leads all: {leaders(stack)}")  # noqa: B023
                run.goes_on()
            run.goes_on(30, by="http")
            each_leads(stack)
        for part in DISPATCHERS:
            stack.restart(part)
        run.goes_on()


@pytest.mark.one_of
@pytest.mark.parametrize("server", ["redis", "kafka", "zookeeper"])
def test_row53_removing_and_adding_a_server_under_load_loses_no_job(stack, seed, server):
    """The lines of the configuration go and come, program by program; the server itself runs on. Who dies without a Kafka leaves no letter."""
    kinds = BESIDE_KAFKA if server == "kafka" else ("kafka", *BESIDE_KAFKA)
    with under_load(stack, seed, kinds=kinds, finish_seconds=60, skip=("letters",) if server == "kafka" else ()) as run:
        for settings in (WITHOUT[server], {}):
            for part in PROGRAMS if server != "zookeeper" else DISPATCHERS:
                stack.restart(part, settings=settings)
                run.faults["restarted"] += 1
                run.goes_on(40)
            run.goes_on(30, by="http")
            run.goes_on(30, by="pull")


# ---- row 61: the connection that waits in MySQL ----

WAITS = "SELECT id FROM information_schema.processlist WHERE info LIKE 'DO SLEEP%v_next%' OR info LIKE 'CALL dt_wait%'"


def row_of_the_inbox_is_a_job(stack, key):
    connection = connect(stack)
    rows(connection, "INSERT INTO job_inbox (topic, job_key, delay_ms, payload) VALUES ('watched', %s, 86400000, '1')", key)
    until(lambda: rows(connection, "SELECT 1 FROM job_keys WHERE topic = 'watched' AND job_key = %s", key), key, seconds=5)


@pytest.mark.parametrize("way", ["killed", "forbidden"])
def test_row61_without_the_waiting_connection_all_parts_poll_and_are_woken_again_later(small, seed, way):
    with under_load(small, seed, kinds=BESIDE_KAFKA, finish_seconds=90) as run:
        watcher = connect(small)
        until(lambda: rows(watcher, WAITS), "the dispatcher waits in MySQL")
        if way == "forbidden":
            definition = rows(watcher, "SHOW CREATE PROCEDURE dt_wait")[0]["Create Procedure"]
            rows(watcher, "DROP PROCEDURE dt_wait")
        for n in range(8):
            for each in rows(watcher, WAITS):
                try:
                    rows(watcher, f"KILL {each['id']}")
                except Exception:  # noqa: BLE001  (it has ended meanwhile)
                    continue
            run.goes_on(10, by=BESIDE_KAFKA[n % 2])
            for key in (f"{way}-{n}", f"{way}-{n}-next"):  # the second one finds the mover at rest
                row_of_the_inbox_is_a_job(small, key)
        run.faults[way] += 1
        if way == "forbidden":
            rows(watcher, definition)
        until(lambda: rows(watcher, WAITS), "it waits again", seconds=30)
        run.goes_on(40, by="http")
        row_of_the_inbox_is_a_job(small, "again")

"""Rows of the fault catalogue about what makes and changes jobs inside the dispatchers: the inbox, operations, schedules, messages.

Each has topics of its own beside the load, and an oracle of its own: every row of the inbox has one effect, every job of an operation is
changed once, every fire has one job, every message of the commands topic has one effect.
"""
import datetime
import random
import threading
import traceback

import pytest

from harness.checker import connect, now_ms, rows
from harness.commands import Commander
from harness.harm.nemesis import HOUR_MS, skewed
from harness.load import Run, under_load
from harness.rest import Rest
from harness.stack import until
from test_brokers import clear, copied, halted, restored
from test_machines import shim  # noqa: F401  (a fixture)
from test_points import begin as restart_with, dies, gone

DAY_MS = 86400000


# ---- row 54: movers of the inbox ----

class Writers:
    """Transactions of their own that insert rows, some of which are rolled back; a key's changes follow its create."""

    def __init__(self, stack, topic, seed):
        self.topic, self.wanted, self._end = topic, {}, threading.Event()
        self._threads = [threading.Thread(target=self._write, args=(connect(stack), random.Random(f"{seed}/{n}"), f"w{n}")) for n in range(4)]
        for thread in self._threads:
            thread.start()

    def _write(self, connection, chance, name):
        n = 0
        while not self._end.wait(chance.random() * .02):
            key, changes = f"{name}-{n}", chance.randrange(4)
            n += 1
            with connection.cursor() as cursor:
                cursor.execute("BEGIN")
                cursor.execute("INSERT INTO job_inbox (topic, job_key, delay_ms, payload) VALUES (%s, %s, %s, '1')", (self.topic, key, DAY_MS))
                if chance.random() < .2:
                    cursor.execute("ROLLBACK")
                    continue
                for change in range(changes):
                    if chance.random() < .5:
                        cursor.execute("COMMIT")
                        cursor.execute("BEGIN")
                    cursor.execute("INSERT INTO job_inbox (action, topic, job_key, delay_ms) VALUES ('change', %s, %s, %s)", (self.topic, key, (change + 2) * DAY_MS))
                cancelled = chance.random() < .3
                if cancelled:
                    cursor.execute("INSERT INTO job_inbox (action, topic, job_key) VALUES ('cancel', %s, %s)", (self.topic, key))
                cursor.execute("COMMIT")
            self.wanted[key] = ("cancelled" if cancelled else "scheduled", 1 + changes + cancelled)

    def end(self):
        self._end.set()
        for thread in self._threads:
            thread.join()


def made_in(connection, topic):
    """{key: (state, version)} of its jobs; a version counts what was done to a job."""
    made = rows(connection, "SELECT job_key, state, version FROM jobs WHERE topic = %s", topic)
    found = {row["job_key"].decode(): (row["state"], row["version"]) for row in made}
    assert len(made) == len(found), "what was asked for once made two jobs"
    return found


def is_as_wanted(found, wanted):
    assert found == wanted, [(key, found.get(key), wanted.get(key)) for key in {*found, *wanted} if found.get(key) != wanted.get(key)][:9]


def each_row_had_one_effect(stack, writers):
    connection = connect(stack)
    until(lambda: not rows(connection, "SELECT 1 FROM job_inbox WHERE topic = %s LIMIT 1", writers.topic),
          lambda: rows(connection, "SELECT id, job_key, action, error FROM job_inbox WHERE topic = %s LIMIT 9", writers.topic))
    is_as_wanted(made_in(connection, writers.topic), writers.wanted)


@pytest.mark.one_of
@pytest.mark.parametrize("point", ["inbox.locked", "inbox.carried_out", "inbox.written", "inbox.committed"])
def test_row54_movers_killed_at_each_step_give_each_row_of_the_inbox_one_effect(stack, seed, point):
    chance = random.Random(seed)
    with under_load(stack, seed) as run:
        writers = Writers(stack, f"inbox-{run.topics[0]}", seed)
        try:
            stack.kill("dispatcher2")  # so that the other one moves the rows
            dies(stack, "dispatcher1", point, chance.randrange(1, 20))
            run.faults[point] += 1
            stack.start("dispatcher2")  # now this one does
            run.goes_on()
            stack.start("dispatcher1")
        finally:
            writers.end()
        each_row_had_one_effect(stack, writers)


# ---- row 55: operations ----

def make_set(rest, topic, count):
    lines = "".join(f'{{"topic":"{topic}","key":"k{n:05}","delay":"P9D","payload":{n}}}\n' for n in range(count))
    answer = rest.post("/v1/jobs:batch", lines, content_type="application/x-ndjson")
    assert answer.body.count(b'"status":201') == count, answer


@pytest.mark.one_of
@pytest.mark.parametrize("point", ["operation.written", "operation.changed"])
def test_row55_operations_killed_in_the_middle_change_each_job_once(stack, seed, point):
    chance = random.Random(seed)
    rest, count = Rest(stack["DUETIME_URL_API2"]), 3000
    with under_load(stack, seed) as run:
        kept, leaving = f"kept-{run.topics[0]}", f"leaving-{run.topics[0]}"
        for topic in (kept, leaving):
            make_set(rest, topic, count)
        where = []

        def begin():
            where.append(rest.post("/v1/jobs:reschedule", {"filter": {"topic": kept}, "shift": "P1D", "wait": 0}).headers["Location"])
            where.append(rest.delete(f"/v1/topics/{leaving}?cancel=true&wait=PT0S").headers["Location"])
        stack.kill("dispatcher2")
        dies(stack, "dispatcher1", point, chance.randrange(1, 8), lead_there=begin)
        run.faults[point] += 1
        stack.heal()
        done = [until(lambda: (op := rest.get(path).json)["state"] != "running" and op, lambda: rest.get(path), seconds=90) for path in where]  # noqa: B023
        run.goes_on()
    assert [(op["state"], op["changed"], op["refused"]) for op in done] == [("done", count, 0)] * 2, done
    left = rows(connect(stack), "SELECT topic, state, MIN(version) a, MAX(version) b, COUNT(*) n FROM jobs WHERE topic IN (%s, %s) GROUP BY topic, state", kept, leaving)
    assert sorted((row["topic"].decode(), row["state"], row["a"], row["b"], row["n"]) for row in left) == \
        [(kept, "scheduled", 2, 2, count), (leaving, "cancelled", 2, 2, count)]
    assert rest.get(f"/v1/topics/{leaving}").status == 404


# ---- row 56: makers of fires ----

def fires(connection, name):
    found = rows(connection, "SELECT job_key FROM jobs WHERE topic = %s", name)
    return sorted(int(row["job_key"].decode().rpartition("@")[2]) for row in found)


def look_now(connection):
    """Makers have work at once, and not once a minute: each look makes what the passing seconds added."""
    rows(connection, "UPDATE schedule_fires SET look_at = 1")
    connection.close()


def each_fire_has_one_job(stack, names, from_ms, until_ms):
    """Every second of the time that is over; twice would be a key twice."""
    connection = connect(stack)
    wanted = list(range(from_ms, until_ms, 1000))
    for name in names:
        until(lambda: [at for at in fires(connection, name) if at < until_ms] == wanted,
              lambda: (len(wanted), [at for at in fires(connection, name) if at < until_ms]))  # noqa: B023
        due = rows(connection, "SELECT COUNT(*) n FROM jobs WHERE topic = %s AND run_at < %s AND attempt = 0", name, until_ms)
        assert due[0]["n"] == 0, f"{due[0]['n']} fires of {name} were not sent"


@pytest.mark.one_of
@pytest.mark.parametrize("harm", ["fires.inserted", "fires.written", "fires.committed", "clocks", "mysql"])
def test_row56_schedule_makers_that_die_or_have_a_wrong_clock_make_one_job_per_fire(stack, shim, seed, harm):  # noqa: F811
    """Where none dies of its own both dispatchers make fires, side by side."""
    rest = Rest(stack["DUETIME_URL_API2"])
    with under_load(stack, seed) as run:
        names, began = [f"fires-{n}-{run.topics[0]}" for n in range(3)], []

        def begin():
            began.append(int(now_ms() // 1000 + 3) * 1000)
            at = datetime.datetime.fromtimestamp(began[0] / 1000, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
            for name in names:
                answer = rest.put(f"/v1/schedules/{name}", {"topic": name, "every": "PT1S", "starts_at": at, "catch_up": "PT10M", "payload": 1})
                assert answer.status == 201, answer
        if harm == "clocks":
            begin()
            stack.restart("dispatcher1", env=skewed(shim, HOUR_MS))
            run.goes_on()
            stack.restart("dispatcher2", env=skewed(shim, -HOUR_MS))
            run.goes_on()
        elif harm == "mysql":
            begin()
            stack.kill("mysql")
            stack.start("mysql")
        else:
            stack.kill("dispatcher2")  # so that the other one makes them
            before = restart_with(stack, "dispatcher1", **{harm: f"crash@{random.Random(seed).randrange(1, 6)}"})[harm]
            begin()
            until(lambda: look_now(connect(stack)) or not stack.running("dispatcher1"), stack.logs, every=.3, seconds=120)
            gone(stack, "dispatcher1", harm, before)
            run.faults[harm] += 1
        stack.heal()
        run.goes_on()
        until_ms = int(now_ms() // 1000) * 1000 - 1000
        each_fire_has_one_job(stack, names, began[0], until_ms)
        for name in names:
            assert rest.delete(f"/v1/schedules/{name}?cancel=true").status == 200


def test_row56_a_restored_mysql_has_one_job_per_fire(own_stack, seed, tmp_path):
    """Fires that the copy does not have are made anew, and those that it has are not; whoever makes them believes no memory of his own."""
    stack = own_stack()
    run = Run(stack, seed, name="row56-restored")
    try:
        run.begin()
        rest, names, began = Rest(stack["DUETIME_URL_API2"]), [f"fires-{n}-{run.topics[0]}" for n in range(3)], int(now_ms() // 1000 + 2) * 1000
        at = datetime.datetime.fromtimestamp(began / 1000, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        for name in names:
            answer = rest.put(f"/v1/schedules/{name}", {"topic": name, "every": "PT1S", "starts_at": at, "catch_up": "PT10M", "payload": 1})
            assert answer.status == 201, answer
        until(lambda: all(len(sent_fires(stack, name)) > 2 for name in names), "the first fires are sent")
        copied(stack, tmp_path / "copy")
        before = {name: sent_fires(stack, name) for name in names}
        until(lambda: all(len(sent_fires(stack, name)) > len(before[name]) + 3 for name in names), "fires are sent that the copy does not have")
        restored(stack, tmp_path / "copy")
        run.shut_down()
        until(lambda: len(halted(stack)) == 4, lambda: f"every shard halts: {halted(stack)}")
        until(lambda: not halted(stack) or clear(stack, [*run.topics, *names]), lambda: f"all are cleared: {halted(stack)}", every=1)
        until_ms = int(now_ms() // 1000) * 1000 - 1000
        until(lambda: all(not unsent(stack, name, until_ms) for name in names), lambda: f"all fires are sent: {[unsent(stack, name, until_ms) for name in names]}")
        each_fire_has_one_job(stack, names, began, until_ms)
    except BaseException:
        print(f"journal, arrivals and logs are in {run.keep(traceback.format_exc())}")
        raise
    finally:
        run.end()


def unsent(stack, name, until_ms):
    connection = connect(stack)
    found = rows(connection, "SELECT id FROM jobs WHERE topic = %s AND run_at < %s AND attempt = 0", name, until_ms)
    connection.close()
    return found


def sent_fires(stack, name):
    connection = connect(stack)
    found = rows(connection, "SELECT id FROM jobs WHERE topic = %s AND attempt > 0", name)
    connection.close()
    return found


# ---- row 57: readers of commands ----

class Sayers:
    """Messages by which jobs are made and changed; those of a job lie in one partition, in their order."""

    def __init__(self, stack, topic, seed):
        self.topic, self.wanted, self._end = topic, {}, threading.Event()
        self._commander, self._chance = Commander(stack["DUETIME_KAFKA"]), random.Random(seed)
        self._thread = threading.Thread(target=self._say)
        self._thread.start()

    def _say(self):
        while not self._end.wait(self._chance.random() * .02):
            key, changes, cancelled = f"m{len(self.wanted)}", self._chance.randrange(4), self._chance.random() < .3
            name = {"topic": self.topic, "key": key}
            commands = [{"action": "create", **name, "delay": "P1D", "payload": 1}]
            commands += [{"action": "change", **name, "delay": f"P{change + 2}D"} for change in range(changes)]
            commands += [{"action": "cancel", **name}] * cancelled
            for command in commands:
                self._commander.send(command, key=key)
            self.wanted[key] = ("cancelled" if cancelled else "scheduled", len(commands))

    def end(self):
        self._end.set()
        self._thread.join()
        self._commander.flush()


def each_message_had_one_effect(stack, sayers):
    connection, asked = connect(stack), sum(n for _, n in sayers.wanted.values())
    until(lambda: sum(n for _, n in made_in(connection, sayers.topic).values()) >= asked, lambda: rows(connection, "SELECT * FROM v_commands"))
    is_as_wanted(made_in(connection, sayers.topic), sayers.wanted)


@pytest.mark.one_of
@pytest.mark.parametrize("point", ["commands.read", "commands.carried_out", "commands.raised", "commands.committed"])
def test_row57_a_killed_command_reader_applies_each_message_once(stack, seed, point):
    chance = random.Random(seed)
    with under_load(stack, seed) as run:
        sayers = Sayers(stack, f"commands-{run.topics[0]}", seed)
        try:
            stack.kill("dispatcher2")  # so that the other one reads all partitions
            dies(stack, "dispatcher1", point, chance.randrange(1, 12))
            run.faults[point] += 1
            stack.start("dispatcher2")  # now this one does
            run.goes_on()
            stack.start("dispatcher1")
            run.goes_on()
        finally:
            sayers.end()
        each_message_had_one_effect(stack, sayers)

"""MySQL is lost, and what comes back is a dump of a while ago: what the ledger knows is not sent again, and what was acknowledged before goes on."""
import time

import pytest

from harness.checker import Checker, at_most_once, connect, never_early, rows
from harness.load import Run
from harness.operator import clients
from harness.rest import Rest
from harness.stack import until

pytestmark = pytest.mark.turn(12, 15)

PAGE = "mysql-restored"
STATES = ("succeeded", "dead", "cancelled")


@pytest.fixture
def operator(stack, person):
    return person(ADMIN=clients.admin_options(stack["DUETIME_MYSQL_SOCKET"]), DATABASE=stack["DUETIME_MYSQL_DATABASE"],
                  BROKERS=stack["DUETIME_KAFKA"])


def dropped(stack):
    """Somebody takes one database for another."""
    client = connect(stack)
    rows(client, f"DROP DATABASE {stack['DUETIME_MYSQL_DATABASE']}")
    client.close()


def states(stack, jobs):
    found = {}
    for columns in ("next_at FROM jobs", "NULL next_at FROM history"):
        found.update({str(row["id"]): row for row in rows(connect(stack), f"SELECT id, state, attempt, {columns} WHERE id IN %s", tuple(jobs))})
    return found


def at_rest(stack, jobs):
    """Every one of them has ended, or is due much later."""
    later = (time.time() + 60) * 1000
    return all(row["state"] in STATES or (row["state"] == "scheduled" and row["next_at"] > later) for row in states(stack, jobs).values())


def test_after_a_restore_no_job_is_sent_twice_and_work_continues(stack, seed, operator):
    run = Run(stack, seed, name="mysql-restored")
    try:
        run.begin()
        with run.journal.lock:
            before = dict(run.journal.jobs)
        operator.follow(PAGE, "Before it happens")
        run.goes_on(300, seconds=45)
        run.shut_down()
        dropped(stack)
        told = operator.follow(PAGE, "When it has happened")
        assert any("marked" in output for output in told), told
        found = until(lambda: len(states(stack, before)) == len(before) and at_rest(stack, before) and states(stack, before),
                      lambda: f"what was acknowledged before the dump is there, and comes to its end: {len(before)} jobs, {states(stack, before)}"[:2000])
        rest = Rest(stack["DUETIME_URL"])
        fresh = [rest.make(topic=run.topics[0], delay=0)["id"] for _ in range(20)]
        until(lambda: set(run.consumer.which(fresh)) == set(fresh), "new jobs arrive")
        arrivals = Checker(stack).arrivals(run.topics)
        problems = at_most_once(arrivals) + never_early(arrivals, run.journal)
        assert not problems, problems[:20]
        seen = {arrival.job for arrival in arrivals}
        missing = [job for job, row in found.items() if row["attempt"] > 0 and job not in seen]
        assert not missing, f"claimed, and in no topic: {missing}"
        print(f"{len(before)} jobs were acknowledged before the dump and none is missing; {len(run.journal.jobs) - len(before)} since; {len(arrivals)} arrivals, none twice")
    except BaseException as failure:
        print(f"journal, arrivals and logs are in {run.keep(repr(failure))}")
        raise
    finally:
        run.end()

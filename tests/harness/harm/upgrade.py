"""Programs of one version replaced by those of another, one after the other, on a stack under load.

A version is a folder of built programs. The next version of the tree itself has one migration more (next_version.sql.in); the target `next`
builds it.
"""
import contextlib
import os
import pathlib
import subprocess

from ..checker import connect, rows
from ..stack import TREE, until

STEPS = ("dispatcher1", "dispatcher2", "api1", "api2")  # as deploy/README.md, "Upgrades", says; back in the opposite order
MORE = pathlib.Path(__file__).with_name("next_version.sql.in")


@contextlib.contextmanager
def programs(folder):
    """What is started inside is of this build."""
    kept = os.environ.get("DUETIME_LOCAL_BUILD")
    os.environ["DUETIME_LOCAL_BUILD"] = str(folder)
    try:
        yield
    finally:
        os.environ.pop("DUETIME_LOCAL_BUILD")
        if kept:
            os.environ["DUETIME_LOCAL_BUILD"] = kept


def next_version(preset):
    """The folder of the programs that a preset's tree would have with one migration more; builds them."""
    subprocess.run(["cmake", "--build", TREE / "build" / preset, "--target", "next"], check=True, stdout=subprocess.DEVNULL)
    return TREE / "build" / preset / "tests" / "next"


def migrate(stack, build):
    done = subprocess.run([build / "api/duetime-api", "--config", next(stack.home.glob("**/api1/duetime.ini")), "--migrate"],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    assert done.returncode == 0, done.stdout


def newest(stack):
    return rows(connect(stack), "SELECT MAX(version) newest FROM schema_migrations")[0]["newest"]


def runs(stack, part, build):
    return os.readlink(f"/proc/{stack.pid(part)}/exe").startswith(f"{build}/")


def there_and_back(stack, run, before, after):
    """The schema goes to the version after and stays there; the programs go there, and back."""
    run.goes_on(200)
    was = newest(stack)
    migrate(stack, after)
    assert newest(stack) > was, "the version after has no migration more"
    run.goes_on(200, seconds=60)
    for build, steps in ((after, STEPS), (before, reversed(STEPS))):
        for part in steps:
            with programs(build):
                stack.restart(part)
            assert runs(stack, part, build)
            run.faults["replaced"] += 1
            run.goes_on(200, seconds=60)


def refused(stack, before):
    """A migration that permits nobody beside it: a program before it waits, and says why."""
    rows(connect(stack), "UPDATE schema_migrations SET needs = NULL ORDER BY version DESC LIMIT 1")
    with programs(before):
        stack.stop("dispatcher1")
        stack.start("dispatcher1", ready=False)
    until(lambda: "which needs programs of" in stack.log("dispatcher1"), lambda: stack.log("dispatcher1")[-2000:])


def taken_back(stack):
    """The migration of the next version was never there."""
    connection = connect(stack)
    rows(connection, "ALTER TABLE topics DROP COLUMN IF EXISTS of_the_next_version")
    rows(connection, "ALTER TABLE jobs DROP COLUMN IF EXISTS of_the_next_version")
    rows(connection, "DROP TABLE IF EXISTS of_the_next_version")
    rows(connection, "DELETE FROM schema_migrations WHERE name = 'of_the_next_version'")

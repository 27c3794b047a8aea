"""A table of many pending jobs, spread over five years: built, found again, measured by the page and the byte."""
import json
import subprocess
import time

from harness.checker import connect, rows
from harness.stack import Stack, until

import clients
import programs

DAYS = 5 * 365 + 1
DAY_0 = 20089  # 2025-01-01
TOPIC = "filled"


# Options of every measured stack. A batch is slow on a busy machine. The times of takeovers do not include the session timeout.
OPTIONS = ("--apis", "1", "--dispatchers", "2", "--redis", "1", "--release", "--kafka-jvm", "full",
           "--set", "http.request_timeout=PT10M", "--set", "zookeeper.session_timeout=PT2S")


def stack_for(jobs):
    """The stack that has, or will have, that table."""
    return Stack(f"big-{jobs}", *OPTIONS)


def bring_up(jobs):
    """(that stack, it was there before). What was built before is kept."""
    stack = stack_for(jobs)
    if stack.home.exists():
        return stack.resume(), True
    return stack.up(), False


def today():
    return int(time.time()) // 86400 - DAY_0


def first_day(connection):
    """Of the table that is there; of a new one, tomorrow."""
    found = rows(connection, "SELECT id FROM jobs FORCE INDEX (PRIMARY) WHERE topic = %s AND id & 0xFFFFFFFFFF >= %s ORDER BY id LIMIT 1",
                 TOPIC, 6 << 37)
    return found[0]["id"] >> 40 if found else today() + 1


def fill(stack, jobs, say):
    """Brings the table to so many jobs; {"had", "made", "seconds"}."""
    connection = connect(stack)
    clients.make_topic(stack, TOPIC)
    for name in ("innodb_flush_log_at_trx_commit", "sync_binlog"):
        rows(connection, f"SET GLOBAL {name} = 0")  # a table that breaks is filled again
    try:
        words = [*clients.account_of(stack), jobs, first_day(connection), DAYS, today() + 2]
        done = subprocess.run([programs.program("filler"), *map(str, words)], stdout=subprocess.PIPE, text=True, check=True)
        found = json.loads(done.stdout)
        if found["made"]:
            say(f"  {found['made']} jobs made in {found['seconds']:.0f} s ({found['made'] / found['seconds']:,.0f}/s), {found['had']} were there")
    finally:
        for name in ("innodb_flush_log_at_trx_commit", "sync_binlog"):
            rows(connection, f"SET GLOBAL {name} = 1")
    settle(connection)
    return found


FLUSHING = {"innodb_max_dirty_pages_pct": 0, "innodb_io_capacity_max": 40000, "innodb_io_capacity": 20000}


def settle(connection, seconds=300):
    """Until what was written lies in its place on the disk, so that the next measurement does not pay for it."""
    before = {name: rows(connection, f"SELECT @@{name} v")[0]["v"] for name in reversed(FLUSHING)}
    set_all(connection, FLUSHING)
    try:
        until(lambda: status(connection, "Innodb_buffer_pool_pages_dirty") < 500, "all pages written", every=0.2, seconds=seconds)
    finally:
        set_all(connection, before)


def set_all(connection, values):
    for name, value in values.items():
        rows(connection, f"SET GLOBAL {name} = {value}")


def status(connection, name):
    return int(rows(connection, "SHOW GLOBAL STATUS WHERE Variable_name = %s", name)[0]["Value"])


def bytes_on_disk(stack, table="jobs"):
    """Of a table with its indexes (and partitions), by its files."""
    folder = stack.home / "mysql" / "data" / stack["DUETIME_MYSQL_DATABASE"]
    return sum(path.stat().st_size for path in [*folder.glob(f"{table}.ibd"), *folder.glob(f"{table}#P#*.ibd")])

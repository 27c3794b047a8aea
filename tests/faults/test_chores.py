"""Row 60 of the catalogue: a chore of a dispatcher (base/chores.h) that waits for a locked table, one that fails, and one that does not return."""
import re
import time

import pytest

from harness.checker import connect, rows
from harness.load import under_load
from harness.stack import until

# A table of each chore that asks MySQL, but not of those that are urgent.
TABLES = ("jobs", "messages", "operations", "schedules", "count_audits", "alert_judge", "figures", "history")
LOCKED_SECONDS = 8


def metric(stack, name, chore=None):
    label = f'{{chore="{chore}"}}' if chore else ""
    found = re.search(rf"^{name}{re.escape(label)} (\S+)$", stack.metrics(), re.MULTILINE)
    return float(found.group(1)) if found else 0.0


def age_ms(stack, watcher):
    """Returns the ages of the rows of the dispatchers that run. A dispatcher that was stopped before leaves its row for a while."""
    pids = ", ".join(f"'{stack.pid(part)}'" for part in ("dispatcher1", "dispatcher2"))
    found = rows(watcher, "SELECT CAST(UNIX_TIMESTAMP(SYSDATE(3))*1000 AS SIGNED) - seen_at age FROM processes "
                 f"WHERE kind = 'dispatcher' AND SUBSTRING_INDEX(name, ':', -1) IN ({pids})")
    return sorted(each["age"] for each in found)


def test_row60_heartbeat_and_shard_map_continue_while_other_chores_wait_for_a_lock(stack, seed):
    with under_load(stack, seed, finish_seconds=90) as run:
        run.goes_on(50)
        locker, watcher = connect(stack), connect(stack)
        with locker.cursor() as cursor:
            cursor.execute("LOCK TABLES " + ", ".join(f"{table} WRITE" for table in TABLES))
        run.faults["locked"] += 1
        until(lambda: metric(stack, "duetime_chore_longest_seconds") > 1, "a chore waits")
        names, ages = ("heartbeat", "shard-map"), []
        before = {name: metric(stack, "duetime_chore_ticks_total", name) for name in names}
        waiting = {name: metric(stack, "duetime_chore_ticks_total", name) for name in ("reconciler", "operations")}
        end = time.monotonic() + LOCKED_SECONDS
        while time.monotonic() < end:
            ages += age_ms(stack, watcher)
            time.sleep(0.1)
        after = {name: metric(stack, "duetime_chore_ticks_total", name) for name in names}
        still = {name: metric(stack, "duetime_chore_ticks_total", name) for name in waiting}
        locker.close()
        assert all(still[name] - waiting[name] <= 2 for name in waiting), (waiting, still)  # each wait ends with mysql.io_timeout
        assert after["heartbeat"] - before["heartbeat"] >= 2 * LOCKED_SECONDS, (before, after)
        assert after["shard-map"] > before["shard-map"], (before, after)
        assert len(ages) > LOCKED_SECONDS and max(ages) < 2000 + 1000, sorted(ages)[-5:]  # written once a second
        watcher.close()
        run.goes_on(50, seconds=60)


def test_row60_a_failing_chore_is_logged_and_recovers_by_itself(stack, seed):
    with under_load(stack, seed) as run:
        for part in ("dispatcher1", "dispatcher2"):
            stack.restart(part, env={"DUETIME_FAIL": "outbox.read=error@1-4"})
        run.faults["failed"] += 1
        until(lambda: metric(stack, "duetime_chore_failures_total", "outbox") >= 1, "the outbox failed")
        run.goes_on(100)


@pytest.mark.long
def test_row60_a_chore_that_does_not_return_is_a_finding_until_it_does(stack, api, seed):
    with under_load(stack, seed, finish_seconds=90) as run:
        stack.restart("dispatcher1", env={"DUETIME_FAIL": "outbox.sent=delay:75000@1"})
        run.faults["stuck"] += 1
        stuck = lambda: [each["subject"] for each in api.get("/v1/doctor").json["findings"] if each["finding"] == "chore-stuck"]  # noqa: E731
        until(lambda: stuck() == ["outbox"], stuck, seconds=100)
        run.goes_on(50)
        until(lambda: stuck() == [], stuck, seconds=60)

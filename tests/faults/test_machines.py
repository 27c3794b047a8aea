"""Rows of the catalogue about the machine: a full disk, a wrong clock, no descriptors."""
import datetime
import os
import pathlib
import random
import resource
import subprocess
import time

import pytest

from harness.load import under_load
from harness.harm.nemesis import HOUR_MS, make_shim, skewed
from harness.stack import until

ROOM = 1800 << 20  # bytes of the small file system: redo logs and binlogs need most of it


# ---- row 27: no room for MySQL ----

@pytest.fixture
def small_disk(tmp_path):
    if os.geteuid() != 0:
        pytest.skip("mounting a small file system needs root")
    folder = tmp_path / "small"
    folder.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={ROOM}", "tmpfs", folder], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"a small file system cannot be mounted here: {done.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "-l", folder], check=False)


def fill(folder):
    """Leaves no byte free."""
    with open(folder / "filler", "ab", buffering=0) as file:
        try:
            while True:
                file.write(b"\0" * 65536)
        except OSError:
            pass


@pytest.mark.long  # the server looks for new room once a minute only
def test_row27_a_full_disk_under_mysql_gives_errors_and_never_a_false_2xx(own_stack, small_disk, seed):
    stack = own_stack()
    stack.stop("mysql")
    data = stack.home / "mysql" / "data"
    subprocess.run(["cp", "-a", data, small_disk / "data"], check=True)
    subprocess.run(["rm", "-rf", data], check=True)
    data.symlink_to(small_disk / "data")
    stack.start("mysql")
    with under_load(stack, seed, finish_seconds=120) as run:
        before = run.counts["creates without a 2xx"]
        fill(small_disk)
        until(lambda: run.counts["creates without a 2xx"] > before + 20, "creates are refused or have no answer")
        (small_disk / "filler").unlink()
        if not stack.running("mysql"):  # a server that finds no room for its redo log ends itself
            stack.start("mysql")
        run.goes_on(seconds=150)
    stack.stop("mysql")  # before its file system goes away


# ---- row 32: a wrong clock ----

@pytest.fixture(scope="session")
def shim(tmp_path_factory):
    return make_shim(tmp_path_factory.mktemp("shim"))


@pytest.mark.one_of
@pytest.mark.parametrize("sign", [1, -1], ids=["ahead", "behind"])
def test_row32_a_clock_that_is_an_hour_wrong_makes_no_job_early_and_none_an_hour_late(stack, shim, seed, sign):
    """One API and one dispatcher, the API wrong the other way; MySQL's clock is the one that counts."""
    with under_load(stack, seed) as run:
        stack.restart("dispatcher1", env=skewed(shim, sign * HOUR_MS))
        stack.restart("api1", env=skewed(shim, -sign * HOUR_MS))
        assert wrong_by(stack, "dispatcher1") * sign > HOUR_MS * 0.9, "the shim does not work"
        stack.kill("dispatcher2")  # so that all of it is the wrong one's work
        run.goes_on(300)
        stack.start("dispatcher2")
        run.goes_on(200)
    late = sorted(seen.received_ms - run.journal.jobs[seen.job].due_ms for seen in run.consumer.all() if seen.attempt == 1 and seen.job in run.journal.jobs)
    assert late[len(late) * 9 // 10] < HOUR_MS / 10, f"late by {late[len(late) * 9 // 10]:.0f} ms at p90"


def wrong_by(stack, part):
    """ms between a program's clock, as its newest log line has it, and ours."""
    line = stack.log(part).splitlines()[-1]
    at = datetime.datetime.fromisoformat(line.split()[0][5:].replace("Z", "+00:00")).timestamp()
    return (at - time.time()) * 1000


# ---- row 37: what the machine has no more of ----

def without_descriptors(pid):
    """From now on the process gets none; gives what it takes to undo that. What is open stays open."""
    taken = {int(path.name) for path in pathlib.Path(f"/proc/{pid}/fd").iterdir()}
    free = next(n for n in range(len(taken) + 1) if n not in taken)
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (free, before[1]))
    return lambda: resource.prlimit(pid, resource.RLIMIT_NOFILE, before)


def test_row37_a_program_without_file_descriptors_loses_nothing_and_recovers(stack, seed):
    """While it gets none, a server that it talks to is restarted, so that it needs some. (Memory and threads, and each single
    descriptor: api/http_server/test_limits.py.)"""
    chance = random.Random(seed)
    with under_load(stack, seed) as run:
        for part in ("dispatcher1", "api1"):
            pid, give_back = stack.pid(part), without_descriptors(stack.pid(part))
            run.faults["no descriptors"] += 1
            stack.restart(chance.choice(["redis1", "zookeeper", "mysql"] if part == "dispatcher1" else ["redis1", "mysql"]))
            run.wait(4)
            if stack.running(part) and stack.pid(part) == pid:
                give_back()
            else:
                stack.start(part)  # it may have ended, in good order
            run.goes_on(seconds=45)

"""The sample jobs of deploy/quickstart behave: among them a row of the inbox, a schedule and an operation."""
import sys

import pytest

from harness.checker import connect
from harness.stack import TREE

sys.path.insert(0, str(TREE / "deploy"))

from demo import run, table  # noqa: E402

pytestmark = pytest.mark.in_turns(4)


class Served:
    """The suite's stack, as the quickstart sees one."""

    def __init__(self, stack):
        self._stack, self.mysql = stack, self

    def environment(self):
        return self._stack.env

    def sql(self, text, _database):
        found = ()
        with connect(self._stack).cursor() as cursor:
            for statement in text.split(";"):
                cursor.execute(statement)
                found = [list(row.values()) for row in cursor.fetchall()] or found
        return found


def test_each_sample_job_behaves(stack, api, monkeypatch):
    """How late they are is the machine's: here nothing is judged by time."""
    monkeypatch.setattr(run, "LATE_MS", 60000)
    for name in ("DUETIME_CA_FILE", "DUETIME_TOKEN"):
        if name in stack.env:
            monkeypatch.setenv(name, stack[name])
    stage = run.Stage(Served(stack))
    assert {"inbox", "schedule", "operation"} <= {sample.name for sample in stage.samples}
    assert run.run(stage), table.render(stage)

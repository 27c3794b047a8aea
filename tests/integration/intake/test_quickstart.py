"""The sample jobs of deploy/quickstart behave: among them a row of the inbox, a schedule and an operation."""
import sys
import types

import pytest

from harness.checker import connect
from harness.stack import TREE

sys.path.insert(0, str(TREE / "deploy"))

from demo import run, samples, table  # noqa: E402
from demo.arrivals import Arrival, Arrivals  # noqa: E402

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


def test_each_sample_job_ends_as_documented(stack, api, monkeypatch):
    for name in ("DUETIME_CA_FILE", "DUETIME_TOKEN"):
        if name in stack.env:
            monkeypatch.setenv(name, stack[name])
    stage = run.Stage(Served(stack))
    assert {"inbox", "schedule", "operation"} <= {sample.name for sample in stage.samples}
    assert run.run(stage), table.render(stage)


@pytest.mark.parametrize("late_ms, state, good, late", [
    ([20], "succeeded", True, False), ([1500], "succeeded", True, True), ([], "succeeded", False, False), ([20, 30], "succeeded", False, False),
    ([-1], "succeeded", False, False), ([20], "dead", False, False)],
    ids=["in time", "late", "missing", "twice", "early", "in another state"])
def test_a_late_job_is_a_warning_and_a_wrong_one_an_error(late_ms, state, good, late):
    sample = samples.Sample("one", "a job", None, topic="t", job="7", asked_ms=1000)
    arrivals = Arrivals("run", {})
    for ms in late_ms:
        arrivals.took(Arrival("7", 1, sample.asked_ms + ms, sample.asked_ms, {"sample": "one"}))
    rest = types.SimpleNamespace(want=lambda *_: {"state": state, "attempt": 1})
    stage = types.SimpleNamespace(rest=rest, arrivals=arrivals, everything=[sample], samples=[sample], load=(9.5, 4, 2), way=types.SimpleNamespace(topics={"t": "kafka"}))
    run._judge(stage, sample, 0)
    assert (not sample.complaints, sample.late) == (good, late)
    assert ("load average was 9.5 4.0 2.0" in table.render(stage)) == late


def test_an_unavailable_server_is_retried_and_a_doubtful_job_is_looked_up(monkeypatch):
    told = iter([(503, {"type": "/problems/unavailable"}), (503, {"type": "/problems/outcome-unknown", "id": "7"}), (200, {"id": "7"})])
    asked = []
    monkeypatch.setattr(run.Rest, "ask", lambda self, method, path, *_: asked.append((method, path)) or next(told))
    assert run.Rest("").want(201, "POST", "/v1/jobs", {}) == {"id": "7"}
    assert asked == [("POST", "/v1/jobs"), ("POST", "/v1/jobs"), ("GET", "/v1/jobs/7")]

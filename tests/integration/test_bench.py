"""The benchmark's own judgement: jobs that are missing are told, figures are medians beside their goals. Nothing is timed here."""
import subprocess
import sys

import pytest

from harness.stack import TREE

sys.path.insert(0, str(TREE / "tests" / "bench"))

import account  # noqa: E402
import clients  # noqa: E402
import programs  # noqa: E402
import surroundings  # noqa: E402
from bench import Bench  # noqa: E402
from goals import GOALS  # noqa: E402
from report import Figure, verdict  # noqa: E402

ENTRY = {"accepted": 100, "unanswered": 0, "reported": None}
ROW = {"jobs": 100, "sent": 100, "done": 0}
KAFKA = {"messages": 100, "distinct": 100}


def test_matching_counts_yield_no_complaints():
    assert account.wrong("t", ENTRY, ROW, KAFKA) == []
    assert account.wrong("t", {**ENTRY, "unanswered": 5}, {**ROW, "jobs": 103}, KAFKA) == []
    assert account.wrong("t", {**ENTRY, "reported": 100}, {**ROW, "done": 100}, KAFKA) == []


@pytest.mark.parametrize("what", [
    (ENTRY, {**ROW, "jobs": 99}, KAFKA), (ENTRY, {**ROW, "jobs": 101}, KAFKA), ({**ENTRY, "unanswered": 5}, {**ROW, "jobs": 106}, KAFKA),
    (ENTRY, {**ROW, "sent": 99}, KAFKA), (ENTRY, ROW, {"messages": 101, "distinct": 100}), (ENTRY, ROW, {"messages": 99, "distinct": 99}),
    ({**ENTRY, "reported": 99}, {**ROW, "done": 100}, KAFKA), ({**ENTRY, "reported": 100}, {**ROW, "done": 99}, KAFKA)])
def test_missing_or_surplus_jobs_are_reported(what):
    assert len(account.wrong("t", *what)) == 1


def test_a_figure_is_the_median_of_its_rounds_and_shown_with_its_floor_and_goal():
    assert Figure("G1", "x", [0.1, 0.4, 0.2]).value == 0.2
    assert [Figure("G1", "x", [value]).met for value in (0.1, 0.15, 0.35)] == ["no", "floor", "aim"]
    assert [Figure("G3", "x", [value]).met for value in (51, 50, 15)] == ["no", "floor", "aim"]


def test_a_goal_with_several_figures_is_judged_by_the_best_and_none_is_forgotten():
    told = verdict([Figure("G1", "16", [0.1]), Figure("G1", "64", [0.2]), Figure("G3", "x", [60]), Figure(None, "no goal", [1])])
    assert "floor met: G1\n" in told and "floor missed: G3\n" in told
    assert all(goal in told for goal in GOALS)


def test_percentiles_are_computed_from_the_growth_of_a_histogram():
    before = {0.01: 100, 0.02: 100, float("inf"): 100}
    after = {0.01: 150, 0.02: 200, float("inf"): 200}
    assert clients.percentile_ms(before, after, .5) == pytest.approx(10)
    assert clients.percentile_ms(before, after, .75) == pytest.approx(15)


@pytest.mark.parametrize("stolen, kept", [
    ([0.1, 0, 0.4], [0, 1, 2]),                                      # none was disturbed
    ([9, 0.1, 0.2, 0.3], [1, 2, 3]),                                 # one was: a fourth stands in for it
    ([9, 8, 0.1, 7, 6, 5, 4, 3, 2, 1.5, 1.2, 1.1, 0], [2, 10, 11])])  # there is an end to it: the least disturbed ones, in their order
def test_a_disturbed_round_is_reported_and_repeated(monkeypatch, stolen, kept):
    said, rounds = [], iter(range(100))
    monkeypatch.setattr(surroundings, "cpu_ticks", lambda: (0, 0))
    monkeypatch.setattr(surroundings, "stolen_percent", lambda _, left=iter(stolen): next(left))
    bench = Bench(type("Options", (), {"quick": False}), said.append)
    found, note = bench.quiet_rounds(lambda: next(rounds), 3)
    taken = min(len(stolen), 12)
    assert found == kept
    assert len(said) == sum(share > 0.5 for share in stolen[:taken])
    assert (f"{taken - 3} rounds set aside" in note) == (taken > 3)


@pytest.mark.parametrize("name", sorted(programs.PRODUCT))
def test_a_program_that_uses_the_products_headers_compiles(name):
    flags = subprocess.run(["pkg-config", "--cflags", *programs.LIBRARIES[name]], check=True, capture_output=True, text=True).stdout.split()
    includes = [flag for flag in programs.PRODUCT[name] if str(flag).startswith("-I")]
    subprocess.run(["cc", "-fsyntax-only", "-std=gnu17", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", programs.TOOLS / f"{name}.c",
                    *includes, *flags], check=True)

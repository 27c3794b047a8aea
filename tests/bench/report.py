"""Figures: a value a round, their median and spread, beside floor and aim; one JSON line each, and a table for people."""
import json
import statistics
import sys

from goals import GOALS


class Figure:
    def __init__(self, goal, name, values, unit=None, note=""):
        self.goal, self.name, self.values, self.note = goal, name, [float(value) for value in values], note
        self.unit = GOALS[goal].unit if unit is None and goal else unit or ""

    @property
    def value(self):
        return statistics.median(self.values)

    @property
    def met(self):
        return GOALS[self.goal].met(self.value) if self.goal else None

    def as_dict(self):
        goal = GOALS.get(self.goal)
        return {"figure": self.name, "goal": self.goal, "value": self.value, "low": min(self.values), "high": max(self.values),
                "rounds": self.values, "unit": self.unit, "floor": goal.floor if goal else None, "aim": goal.aim if goal else None,
                "met": self.met, "note": self.note}

    def cells(self):
        goal = GOALS.get(self.goal)
        unit = f" {self.unit}" if self.unit else ""
        spread = f"{number(min(self.values))} – {number(max(self.values))}" if len(self.values) > 1 else ""
        return [self.goal or "", self.name, number(self.value) + unit, spread, number(goal.floor) if goal else "",
                number(goal.aim) if goal else "", self.met or "", self.note]


def number(value):
    size = abs(value)
    if size >= 1000:
        return f"{value:,.0f}"
    return f"{value:.0f}" if size >= 100 else f"{value:.1f}" if size >= 10 else f"{value:.2f}" if size >= 1 else f"{value:.3f}"


def table(figures):
    rows = [["", "figure", "value", "spread", "floor", "aim", "met", ""]] + [figure.cells() for figure in figures]
    widths = [max(len(row[n]) for row in rows) for n in range(len(rows[0]) - 1)]
    return "\n".join("  ".join([*(cell.ljust(width) for cell, width in zip(row, widths)), row[-1]]).rstrip() for row in rows)


def verdict(figures):
    """A goal that has several figures (numbers of connections) is judged by the best of them."""
    best = {}
    for figure in figures:
        if figure.goal:
            best[figure.goal] = max(best.get(figure.goal, "no"), figure.met, key=("no", "floor", "aim").index)
    lines = [f"{word}: {', '.join(names) or 'none'}" for word, names in (
        ("aim met", [goal for goal, met in best.items() if met == "aim"]),
        ("floor met", [goal for goal, met in best.items() if met == "floor"]),
        ("floor missed", [goal for goal, met in best.items() if met == "no"]),
        ("not measured", [goal for goal in GOALS if goal not in best]))]
    return "\n".join(lines)


def write_json(figures, surroundings, path):
    """One line a figure; each carries what it was measured on."""
    lines = "".join(json.dumps({**figure.as_dict(), "on": surroundings}, ensure_ascii=False) + "\n" for figure in figures)
    if path == "-":
        sys.stdout.write(lines)
    else:
        with open(path, "a", encoding="utf-8") as out:
            out.write(lines)

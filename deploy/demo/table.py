"""The table of the sample jobs: expected, actual, lateness."""
import os

from .run import lateness

HEAD = ("job", "by", "asked", "expected", "actual", "late by, ms", "")


def _times(count):
    return {0: "never arrives", 1: "arrives once", 2: "arrives twice"}.get(count, f"arrives {count} times")


def _row(stage, sample):
    arrivals = stage.arrivals.of(sample.job) if sample.job else []
    late = ", ".join(str(ms) for ms in lateness(sample, arrivals)) or "-"
    expected = f"{sample.state}, {_times(sample.attempts)}"
    actual = "as expected" if not sample.complaints else "; ".join(sample.complaints)
    return sample.name, stage.way.topics[sample.topic], sample.asked, expected, actual, late + (" (cold)" if sample.warms_up else ""), "bad" if sample.complaints else "late" if sample.late else "ok"


def _quantile(numbers, share):
    return sorted(numbers)[min(len(numbers) - 1, int(share * len(numbers)))]


def render(stage):
    rows = [HEAD] + [_row(stage, sample) for sample in stage.everything]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEAD) - 1)]
    lines = ["  ".join([cell.ljust(width) for cell, width in zip(row, widths)] + [row[-1]]).rstrip() for row in rows]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(lines) + "\n\n" + _sum(stage)


def _sum(stage):
    bad = sum(1 for sample in stage.everything if sample.complaints)
    late = [ms for sample in stage.samples if sample.job for ms in lateness(sample, stage.arrivals.of(sample.job))]
    text = f"{len(stage.everything)} jobs, {'every one behaved' if bad == 0 else f'{bad} did not behave'}"
    if late:
        text += f"; late by {_quantile(late, 0.5)} ms (median), {max(late)} ms (worst)"
    if slow := sum(1 for sample in stage.everything if sample.late):
        text += (f"\nwarning: {slow} arrived more than a second late, or after the consumer's deadline for its report; the machine's load average was "
                 f"{' '.join(f'{load:.1f}' for load in stage.load)} on {os.cpu_count()} cores")
    return text

#!/usr/bin/python3
"""The page of all metrics, from the calls that make them: prints deploy/metrics.md.

`metrics.py --check` compares it with the page that is there, and exits with 1 when they differ, or when a metric is made in a way that
this program does not see.
"""
import re
import sys
from pathlib import Path

TREE = Path(__file__).resolve().parent.parent
PAGE = TREE / "deploy" / "metrics.md"
TEXT = r'(?:"(?:\\.|[^"\\])*"\s*)+'
CALL = re.compile(rf'dt_(counter|gauge|histogram_count|histogram)\(\s*({TEXT}|\w+),\s*({TEXT}|\w+),\s*({TEXT}|\w+)', re.S)
VARIABLE = r"(?<![.\w]){}\s*=\s*(" + TEXT + ")"
PROGRAMS = {"api": {"API"}, "dispatcher": {"dispatcher"}, "scheduler": {"API", "dispatcher"}}
ONE_PROGRAM = {"reconcile": {"dispatcher"}, "tls_files.c": {"API"}, "conns.c": {"API"}}  # of scheduler/
LABEL = re.compile(r'(\w+)=\\"')
NAME = re.compile(r'"(duetime_\w+)"')


def literal(text, source):
    """The value of an argument: a string, or a variable of the same file that is one. None: not known here."""
    if not text.startswith('"'):
        found = re.search(VARIABLE.format(re.escape(text)), source)
        if not found:
            return None
        text = found[1]
    return "".join(part.encode().decode("unicode_escape") for part in re.findall(r'"((?:\\.|[^"\\])*)"', text))


def labels_of(text, source, at):
    """Names of the labels: of a string, or of what was printed into a buffer last before the call, or anywhere in the file."""
    if text.startswith('"'):
        return set(LABEL.findall(text))
    printed = re.findall(rf"(?:snprintf|dt_strbuf_addf)\(\s*&?{re.escape(text)}\b[^;]*;", source[:at])
    return set(LABEL.findall(printed[-1] if printed else " ".join(re.findall(r"snprintf\([^;]*;", source))))


def programs_of(path):
    parts = path.relative_to(TREE).parts
    return next((ONE_PROGRAM[part] for part in parts if part in ONE_PROGRAM), PROGRAMS[parts[0]])


def metrics():
    """{name: (kind, programs, help, labels)}, and the names that stand in the sources."""
    made, named = {}, set()
    for path in sorted([*(TREE / "api").rglob("*.c"), *(TREE / "dispatcher").rglob("*.c"), *(TREE / "scheduler").rglob("*.c")]):
        source = path.read_text(encoding="utf-8")
        named |= set(NAME.findall(source))
        for call in CALL.finditer(source):
            name, meaning = literal(call[2], source), literal(call[3], source)
            if name is None or meaning is None:
                continue
            _, programs, _, labels = made.setdefault(name, (call[1], set(), meaning, set()))
            programs |= programs_of(path)
            labels |= labels_of(call[4], source, call.start())
    return made, named


def page(made):
    lines = ["# Metrics", "",
             "`GET /metrics` of each API (with an `admin` token for all topics, once there are tokens) and of each dispatcher (`dispatch.metrics_port`), in",
             "Prometheus's text format. A name that ends with `_total` is a counter, one without a mark a gauge. Made from the sources by `tests/metrics.py`."]
    for title, programs in (("API and dispatcher", {"API", "dispatcher"}), ("API", {"API"}), ("Dispatcher", {"dispatcher"})):
        lines += ["", f"## {title}", "", "| name | meaning |", "|---|---|"]
        for name, (kind, of, meaning, labels) in sorted(made.items()):
            if of == programs:
                of_labels = f"{{{','.join(sorted(labels))}}}" if labels else ""
                lines.append(f"| `{name}{of_labels}`{' (histogram)' if kind.startswith('histogram') else ''} | {meaning} |")
    return "\n".join(lines) + "\n"


def main():
    made, named = metrics()
    text, unseen = page(made), sorted(named - set(made))
    if "--check" not in sys.argv:
        sys.stdout.write(text)
        return 0
    if unseen:
        print("made in a way that tests/metrics.py does not see:", *unseen)
    stale = not PAGE.exists() or PAGE.read_text(encoding="utf-8") != text
    if stale:
        print("deploy/metrics.md is stale: write it anew with tests/metrics.py")
    return 1 if unseen or stale else 0


if __name__ == "__main__":
    sys.exit(main())

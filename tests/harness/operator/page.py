"""A runbook page as it stands: its commands in order, each with the lines that are to be seen when it has run.

A block of ```sh is run as it is. A block of ```text behind one is its output: each of its lines is found in the output, in this order,
where "…" stands for anything. Where a sentence of the paragraph above the commands begins with "Repeat", they are run until that is seen. A second
word behind ```sh or ```text (mariadb, mysql) names for whom the block is; others pass it by. Blocks of ```ini are lines for the configuration file of the server.
"""
import re
from dataclasses import dataclass, field

FENCE = re.compile(r"^```(\w+)?(?: (\w+))?\s*$")
REPEAT = re.compile(r"(^|[.:] )Repeat ")


@dataclass
class Step:
    line: int                 # of the page
    part: str                 # the "## " heading above
    commands: str
    repeat: bool
    seen: list = field(default_factory=list)


def blocks(text):
    """(line, part, kind, word, contents, the paragraph above) of each fenced block; blocks that follow one another have one paragraph."""
    lines, above, opened, part, ended = text.splitlines(), [], None, "", True
    for number, line in enumerate(lines, 1):
        fence = FENCE.match(line)
        if fence and opened is None:
            opened = (number, fence[1] or "", fence[2] or "", [])
        elif fence:
            at, kind, word, inside = opened
            yield at, part, kind, word, "\n".join(inside) + "\n", " ".join(above)
            opened, ended = None, True
        elif opened:
            opened[3].append(line)
        elif line.startswith("## "):
            part, above = line[3:].strip(), []
        elif line.strip():
            above = [line.strip()] if ended else [*above, line.strip()]
            ended = False
        else:
            ended = True


def steps(path, reader="", of=None):
    """What the page, or the part of it with this heading, has somebody do whose servers are `reader`."""
    found = []
    for line, part, kind, word, inside, above in blocks(path.read_text(encoding="utf-8")):
        if word not in ("", reader):
            continue
        if kind == "sh":
            found.append(Step(line, part, inside, bool(REPEAT.search(above))))
        elif kind == "text":
            found[-1].seen = [one for one in inside.splitlines() if one.strip()]
    found = [step for step in found if of in (None, step.part)]
    assert found, f"{path} has no commands{f' beneath {of}' if of else ''}"
    return found


def settings(path, reader):
    """[(name, value)] of all that the page has in the configuration file of servers of this kind, in its order."""
    found = []
    for _, _, kind, word, inside, _ in blocks(path.read_text(encoding="utf-8")):
        if kind == "ini" and word in ("", reader):
            lines = [line.partition("#")[0] for line in inside.splitlines() if "=" in line]
            found += [tuple(part.strip() for part in line.split("=", 1)) for line in lines]
    return found


def pattern(line):
    return re.compile(".*".join(re.escape(part) for part in re.split("…", re.sub(r"\s+", " ", line.strip()))))


def missing(seen, output):
    """The first line that is not in the output where it should be; None when all are."""
    rest = [re.sub(r"\s+", " ", line.strip()) for line in output.splitlines()]
    for line in seen:
        at = next((n for n, one in enumerate(rest) if pattern(line).fullmatch(one)), None)
        if at is None:
            return line
        rest = rest[at + 1:]
    return None

#!/usr/bin/python3
"""Measures of the product's functions: how long their bodies are, who calls them, and which only call another.

The sources are formatted by clang-format, so a function's name stands on a line that begins in the first column, and its
braces are alone in the first column. `house_functions.py [FOLDER]` prints the measures; `--list KIND [PREFIX]` prints the
places of one kind, where KIND is one of KINDS and PREFIX is the beginning of a path.
"""
import re
import sys
from collections import Counter, defaultdict
from itertools import accumulate
from pathlib import Path

PRODUCT = ("scheduler", "dispatcher", "api")
HEAD = re.compile(r"\b(\w+)\(")
NAME = re.compile(r"\w+")
FORWARDS = re.compile(r"\A\s*(?:return\s+)?(\w+)(\(.*\));\s*\Z", re.S)
MEMBER = re.compile(r"\(\s*&?(\w+)->\w")
DEFINED = re.compile(r"^struct (\w+) \{", re.M)
COMPUTES = re.compile(r"\?|[a-z]\w*\(|\bdt_sql_")  # a choice, a call, or a statement of SQL, which is its room's
IGNORED = re.compile(r"^\s*\(void\)\w+;\s*$", re.M)


def code_only(text):
    """The text with comments, strings and characters blanked; lines keep their numbers."""
    def blank(match):
        return re.sub(r"[^\n]", " ", match.group(0)) if match.group(0)[0] == "/" else match.group(0)[0] + match.group(0)[-1]
    return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', blank, text, flags=re.S)


class Function:
    def __init__(self, path, line, head, body, lines):
        self.path, self.line, self.head, self.body, self.lines = path, line, head, body, lines
        self.name = HEAD.search(head).group(1)
        self.static = bool(re.search(r"\bstatic\b", head))
        self.calls = self.named = 0  # how often it is called, and named without a call

    def forwards_to(self):
        """The name of the function that this one only calls, or None."""
        found = FORWARDS.match(IGNORED.sub("", self.body))
        if not found or ";" in found.group(2) or COMPUTES.search(found.group(2)):
            return None
        depths = list(accumulate((c == "(") - (c == ")") for c in found.group(2)))
        return found.group(1) if 0 not in depths[:-1] else None

    def hides(self, visible):
        """Does it hand a member of a parameter on whose struct is in no header that declares it? Its callers cannot reach that."""
        into = MEMBER.match(FORWARDS.match(IGNORED.sub("", self.body)).group(2))
        owner = into and re.search(rf"(\w+) \*{into.group(1)}\s*[,)]", self.head)
        return bool(owner) and owner.group(1) not in visible(self.name)


def functions_of(path, text):
    """Functions of a source; `text` is code_only."""
    lines = text.split("\n")
    for at, line in enumerate(lines):
        if line != "{":
            continue
        first = at
        while first > 0 and lines[first - 1].strip() and lines[first - 1] not in ("}", "};") and not lines[first - 1].startswith("#"):
            first -= 1
        head = " ".join(lines[first:at])
        if "(" not in head or "=" in head.split("(")[0]:
            continue
        end = next(n for n in range(at, len(lines)) if lines[n] == "}")
        yield Function(path, first + 1, head, "\n".join(lines[at + 1:end]), end - at - 1)


def read(tree):
    """(functions, {header: the files that include it}, those functions that only call another)"""
    functions, users, counts, texts = [], defaultdict(set), Counter(), {}
    names = sorted(p for room in PRODUCT for p in (tree / room).rglob("*.[ch]"))
    for path in names:
        name = str(path.relative_to(tree))
        raw = path.read_text()
        texts[name] = code_only(raw)
        functions += functions_of(name, texts[name])
        for included in re.findall(r'^#include "([^"]+)"', raw, re.M):
            users[included].add(name)
    by_file = {name: Counter(NAME.findall(text)) for name, text in texts.items()}
    called = {name: Counter(re.findall(r"\b(\w+)\s*\(", text)) for name, text in texts.items()}
    for part in by_file.values():
        counts.update(part)
    all_called = Counter()
    for part in called.values():
        all_called.update(part)
    defined = Counter(f.name for f in functions)
    for f in functions:
        named, calls = (by_file[f.path][f.name], called[f.path][f.name]) if f.static else (counts[f.name], all_called[f.name])
        declared = len(re.findall(rf"^[A-Za-z_].*\b{f.name}\([^{{}}]*?\)[^{{}};]*;", texts[f.path], re.M)) if f.static else 1
        f.calls, f.named = calls - 1 - declared * (1 if f.static else 1), named - calls
    for path in (tree / "tests").rglob("*.[ch]"):  # a header that a test includes as well has two users
        for included in re.findall(r'^#include "([^"]+)"', path.read_text(), re.M):
            users[included].add(str(path.relative_to(tree)))
    for path in (tree / "api").rglob("*.cmake"):  # a header that a generated source includes, as well
        for included in re.findall(r'#include \\"([^"\\]+)\\"', path.read_text()):
            users[included].add(str(path.relative_to(tree)))
    headers = {}
    for name in texts:
        if name.endswith(".h"):
            headers[name] = {user for included, who in users.items() if name == included or name.endswith("/" + included) for user in who}
    seen = {name: {name} for name in headers}  # with the headers that a header includes
    for _ in range(4):
        for name in headers:
            for user in headers[name] & headers.keys():
                seen[user] |= seen[name]
    visible = lambda name: {struct for header in headers if re.search(rf"\b{name}\(", texts[header]) for one in seen[header] for struct in DEFINED.findall(texts[one])}
    own = defaultdict(set)  # functions that only their file can name: callers of a function that hands one on cannot
    for f in functions:
        if f.static and f.path.endswith(".c"):
            own[f.path].add(f.name)
    forwards = {f for f in functions if f.forwards_to() in defined and not f.hides(visible)}
    return functions, headers, {f for f in forwards if f.static or not own[f.path] & set(NAME.findall(f.body))}


SOURCE_LINES = 700  # a header stays if the sources on its two sides are too long for one


def lines_of(path):
    return path.read_text().count("\n") if path.exists() else 0


def kinds(tree):
    """{kind: [functions, or names of headers]}; what libraries call through a pointer is in no kind but "functions"."""
    functions, headers, forwards = read(tree)
    static = [f for f in functions if f.static and f.path.endswith(".c")]
    once = [f for f in static if f.calls == 1 and not f.named]
    return {
        "functions": functions,
        "above-70": [f for f in functions if f.lines > 70],
        "above-45": [f for f in functions if f.lines > 45],
        "static": static,
        "called-once": once,
        "called-once-5": [f for f in once if f.lines <= 5],
        "called-once-3": [f for f in once if f.lines <= 3],
        "forwards": [f for f in functions if f in forwards],
        "forwards-public": [f for f in functions if f in forwards and not f.static],
        "headers-of-one": sorted(name for name, who in headers.items() if len(others := who - {name[:-1] + "c"}) <= 1
                                 and not any(one.startswith("tests/") for one in others)  # which cannot include the source
                                 and sum(lines_of(tree / source) for source in others | {name[:-1] + "c"}) <= SOURCE_LINES),
    }


BODY_LINES = 70  # at most, but in flat tables
FLAT_TABLES = set()
STOOD_IN_FOR = {"dt_mailbox_wait"}  # tests put a function of their own in its place
LIBRARY_SHAPED = "api/http/"  # functions there are cut as the HTTP library calls them
SHARES = (("called-once", "static", 32), ("above-45", "functions", 10))  # of the second kind so many per cent are of the first, at most


def faults(tree):
    """(path, line, what is wrong) of functions so long that they are several thoughts, or so short that they are a part of their caller's."""
    found = {kind: [f for f in of if not (f if isinstance(f, str) else f.path).startswith(LIBRARY_SHAPED)] for kind, of in kinds(tree).items()}
    for f in found["above-70"]:
        if f.name not in FLAT_TABLES:
            yield f.path, f.line, f"{f.name} has {f.lines} lines, {BODY_LINES} at most"
    for f in found["called-once-3"]:
        yield f.path, f.line, f"{f.name} has {f.lines} lines and one caller: it is a part of that"
    for f in (f for f in found["forwards-public"] if f.name not in STOOD_IN_FOR):
        yield f.path, f.line, f"{f.name} only calls {f.forwards_to()}: its callers can"
    for name in found["headers-of-one"]:
        yield name, 1, "one file includes this header: its text belongs there"
    for kind, of, most in SHARES:
        part, whole = found[kind], found[of]
        if len(part) * 100 > most * len(whole):
            yield part[0].path, part[0].line, f"{len(part)} of {len(whole)} functions ({of}) are {kind}, {most} % at most"


def main():
    args = [a for a in sys.argv[1:] if not a.startswith("--")]
    if "--list" in sys.argv:
        kind, prefix = args[0], args[1] if len(args) > 1 else ""
        for f in kinds(Path(__file__).resolve().parent.parent)[kind]:
            if isinstance(f, str):
                if f.startswith(prefix):
                    print(f)
            elif f.path.startswith(prefix):
                print(f"{f.path}:{f.line}: {f.name} ({f.lines} lines)")
        return
    tree = Path(args[0]).resolve() if args else Path(__file__).resolve().parent.parent
    found = kinds(tree)
    lengths = sorted(f.lines for f in found["functions"])
    at = lambda share: lengths[int(len(lengths) * share)]
    print(f"functions {len(lengths)}; bodies: half at most {at(.5)} lines, 90 % at most {at(.9)}, longest {lengths[-1]}; above 45: {len(found['above-45'])}, above 70: {len(found['above-70'])}")
    once, static = len(found["called-once"]), len(found["static"])
    print(f"static {static}; called once {once} ({100 * once / static:.0f} %); of at most five lines {len(found['called-once-5'])}, of at most three {len(found['called-once-3'])}")
    print(f"functions that only call another {len(found['forwards'])}, public {len(found['forwards-public'])}; headers with at most one user {len(found['headers-of-one'])}")


if __name__ == "__main__":
    try:
        main()
    except BrokenPipeError:
        sys.stderr.close()

#!/usr/bin/python3
"""The house rules that a program can check. Prints file:line: rule for each breach; exit code 1 when there is one.

Before the tree itself, every rule is tried on a small tree that breaks it (a rule that cannot fail is no rule), and on
the same tree mended. `house.py FOLDER` checks another tree.
"""
import fnmatch
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import house_functions
import house_pages
import house_words
from house_rooms import ADAPTERS, CLOCK_FILES, LAYERS, SQL_IN_C, VENDORS
from house_trees import BAD, GOOD

TREE = Path(__file__).resolve().parent.parent

TOP = {"CMakeLists.txt", "CMakePresets.json", "README.md", "LICENSE", "CHANGELOG.md",
       "scheduler", "dispatcher", "api", "sql", "deploy", "tests"}
PRODUCT = ("scheduler/", "dispatcher/", "api/")

SQL = re.compile(r"\b(SELECT\s+[\w*@(`]|INSERT\s+(IGNORE\s+)?INTO\b|REPLACE\s+INTO\b|UPDATE\s+\w+\s+SET\b|DELETE\s+FROM\b"
                 r"|(CREATE|ALTER|DROP)\s+(TABLE|VIEW|PROCEDURE|DATABASE|USER)\b|START\s+TRANSACTION\b|FORCE\s+INDEX\b"
                 r"|SET\s+(SESSION|GLOBAL)\b|GET_LOCK\()")
# A key's name has its shard in braces, so that all keys of a shard lie on one server; a JSON object opens behind a quote.
REDIS = re.compile(r'(?<!["\\]):\{|^(Z(ADD|REM|RANGE|REV|SCORE|CARD|COUNT|MSCORE|POP)\w*|[SH](ADD|REM|SET|GET|MEMBERS|DEL)\w*'
                   r"|EVAL(SHA)?|SCRIPT|PUBLISH|P?SUBSCRIBE|FLUSH(ALL|DB)|redis\.call)\b")

# Who may ask for the time, or for chance that decides something. (Secrets and seeds come from the kernel, by getrandom.)
CLOCK = re.compile(r"(?<![\w.>])(time|gettimeofday|clock_gettime|ftime|timespec_get|clock|s?rand|rand_r|s?random|random_r"
                   r"|[dlmn]rand48|erand48|srand48)\s*\(")

# Written in pieces, so that this file does not name them.
HOSTS = re.compile(r"(?<![\w-])(%s)\b" % "|".join(a + r"\." + b for a, b in (
    ("deb", "debian"), ("security", "debian"), ("repo1?", r"maven\.apache"), ("repo1", "maven"), ("archive", "apache"),
    ("downloads?", "apache"), ("dlcdn", "apache"), ("files", "pythonhosted"), ("pypi", "org"), ("registry", "npmjs"),
    ("proxy", "golang"), ("index", "crates"), ("static", "crates"), ("archive", "ubuntu"))))
MACHINE = re.compile(r"(?<![\w.~-])/(work|root|home|mnt|Users)/[\w.]|\.\./shar" + r"ed\b")


def breach(found, path, line, what):
    found.append(f"{path}:{line}: {what}")


# ---- reading ----

def files_of(tree):
    """Names of the files that belong to the tree: what git knows or would take, or all of them in a copy without git."""
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=tree, stdout=subprocess.PIPE,
                            stderr=subprocess.DEVNULL, text=True, check=False)
    if listed.returncode == 0 and listed.stdout:
        names = listed.stdout.splitlines()
    else:
        names = [str(path.relative_to(tree)) for path in tree.rglob("*") if path.is_file()]
        names = [name for name in names if not name.startswith((".git/", "build/", ".local/")) and "__pycache__" not in name]
    return sorted(name for name in names if (tree / name).is_file())


_TOKEN = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)


def without_comments(text):
    """The code with its comments blanked; lines keep their numbers."""
    def blank(match):
        token = match[0]
        return re.sub(r"[^\n]", " ", token) if token.startswith("/") else token
    return _TOKEN.sub(blank, text)


def code_only(text):
    """Comments and the insides of strings blanked."""
    return _TOKEN.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)


def strings_of(text):
    """(line, contents) of each string; neighbours that the compiler joins are joined."""
    joined, end = [], None
    code = without_comments(text)
    for match in _TOKEN.finditer(code):
        if not match[0].startswith('"'):
            continue
        if end is not None and not code[end:match.start()].strip():
            joined[-1][1] += match[0][1:-1]
        else:
            joined.append([code.count("\n", 0, match.start()) + 1, match[0][1:-1]])
        end = match.end()
    return joined


def lines_with(pattern, text):
    for match in pattern.finditer(text):
        yield text.count("\n", 0, match.start()) + 1, match[0].strip()


def allowed(name, patterns):
    return any(fnmatch.fnmatch(name, pattern) for pattern in patterns)


# ---- rules ----

def check_top(tree, names, found):
    """The top level has the names of the house only."""
    for name in sorted({name.split("/")[0] for name in names}):
        if name not in TOP and not name.startswith("."):
            breach(found, name, 1, "not a top-level name of the house")


def layer_of(name):
    parts = name.split("/")
    if parts[0] != "scheduler" or len(parts) < 3:
        return parts[0]
    return "/".join(parts[1:3]) if "/".join(parts[1:3]) in LAYERS else parts[1]


def check_quoted(tree, name, line, header, found):
    layer = layer_of(name)
    program = tree / name.split("/")[0] if layer in ("dispatcher", "api") else None
    target = layer_of(f"scheduler/{header}")
    if ".." in header.split("/"):
        breach(found, name, line, f'"{header}": no way upwards')
    elif program and (program / header).is_file():
        pass  # at the top of its own program, or in another room of it
    elif "/" not in header:
        if not (tree / name).with_name(header).is_file() and header != "migrations.h":
            breach(found, name, line, f'"{header}" is not in the same folder')
    elif target not in LAYERS or target not in LAYERS.get(layer, LAYERS):
        breach(found, name, line, f'"{header}": {layer} must not include {target}')


def check_vendor(name, line, header, found):
    known = [places for pattern, places in VENDORS.items() if re.fullmatch(pattern, header.removesuffix(".h"))]
    if not known:
        breach(found, name, line, f"<{header}>: no adapter is named for this library")
    elif not any(allowed(name, places) for places in known):
        breach(found, name, line, f"<{header}> belongs in {', '.join(known[0])} only")


INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(["<])([^">]+)', re.M)


def check_includes(tree, names, found):
    """Dependencies point one way; a vendor's headers are in its adapter only."""
    for name in names:
        if not name.startswith(PRODUCT) or not name.endswith((".c", ".h")):
            continue
        text = without_comments((tree / name).read_text())
        for match in INCLUDE.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            if match[1] == '"':
                check_quoted(tree, name, line, match[2], found)
            else:
                check_vendor(name, line, match[2], found)


def check_strings(tree, names, found):
    """SQL is in files of its own, keys and commands of Redis in the index only."""
    for name in names:
        if not name.startswith(PRODUCT) or not name.endswith((".c", ".h")):
            continue
        for line, text in strings_of((tree / name).read_text()):
            if SQL.search(text) and not allowed(name, SQL_IN_C):
                breach(found, name, line, f'SQL outside of a *.sql file: "{text[:60]}"')
            if REDIS.search(text) and not name.startswith(("scheduler/index/", "scheduler/redis/")):
                breach(found, name, line, f'Redis outside of scheduler/index: "{text[:60]}"')


def check_clock(tree, names, found):
    """Time and chance are passed in."""
    for name in names:
        if not name.startswith(PRODUCT) or not name.endswith((".c", ".h")) or name in CLOCK_FILES:
            continue
        for line, what in lines_with(CLOCK, code_only((tree / name).read_text())):
            breach(found, name, line, f"{what}…) outside of clock.c and main.c")


STATUS = r"(?:\w+(?:->|\.))*status\b"
DIALECT = [
    (re.compile(r"\bsizeof\s+\S"), "sizeof takes its operand in parentheses"),
    (re.compile(r"(?<!\)) [!=]= NULL(?=\s*(?:\)|&&|\|\||\?))"), "a pointer is tested as p or !p"),
    (re.compile(r"!" + STATUS + r"(?![\[(.]|->)"), "a status is compared with DT_OK"),
    (re.compile(r"\b(?:if|while) \(" + STATUS + r"\)|" + STATUS + r" \? |(?:&&|\|\|) " + STATUS + r"(?=[);]| (?:&&|\|\||\?))"),
     "a status is compared with DT_OK"),
    (re.compile(r"^static const (?:unsigned|u?int\w*|size_t|double) \w+ =", re.M), "a constant is a #define, or one of an enum"),
]


def check_dialect(tree, names, found):
    """One form each of sizeof, tests of pointers and statuses, and constants. (One declaration a line is clang-tidy's to see.)"""
    for name in names:
        if not name.startswith(PRODUCT) or not name.endswith((".c", ".h")):
            continue
        text = code_only((tree / name).read_text())
        for pattern, what in DIALECT:
            for line, _ in lines_with(pattern, text):
                breach(found, name, line, what)


SOURCE_LINES = 700


def check_sizes(tree, names, found):
    """Each source is short enough to have one subject."""
    for name in names:
        if name.startswith((*PRODUCT, "tests/")) and name.endswith((".c", ".h", ".py")):
            lines = (tree / name).read_text().count("\n")
            if lines > SOURCE_LINES and name not in ADAPTERS:
                breach(found, name, SOURCE_LINES, f"{lines} lines, {SOURCE_LINES} at most")


DEFINED = re.compile(r"^(?!static\b|typedef\b|extern\b)[A-Za-z_][\w \t*]*?\b(\w+)\((?=([^{};]*)\{)", re.M)


def calls_of(tree, names):
    """{source: {source that has a function named in it: its names}}"""
    texts = {name: code_only((tree / name).read_text()) for name in names if name.startswith(PRODUCT) and name.endswith(".c")}
    owner = {match[1]: name for name, text in texts.items() for match in DEFINED.finditer(text)}
    calls = {name: {} for name in texts}
    for name, text in texts.items():
        for word in set(re.findall(r"\w+", text)) & owner.keys():
            if owner[word] != name:
                calls[name].setdefault(owner[word], []).append(word)
    return calls


def circles(calls):
    """Groups of sources of which each can reach the others (Tarjan, 1972)."""
    number, low, path, groups = {}, {}, [], []

    def visit(name):
        number[name] = low[name] = len(number)
        path.append(name)
        for other in calls[name]:
            if other not in number:
                visit(other)
            if other in path:
                low[name] = min(low[name], low[other])
        if low[name] == number[name]:
            at = path.index(name)
            groups.append(sorted(path[at:]))
            del path[at:]

    for name in sorted(calls):
        if name not in number:
            visit(name)
    return [group for group in groups if len(group) > 1]


def check_circles(tree, names, found):
    """Files call downwards."""
    calls = calls_of(tree, names)
    for group in circles(calls):
        for name in group:
            down = "; ".join(f"{other} ({calls[name][other][0]})" for other in group if other in calls[name])
            breach(found, name, 1, f"stands in a circle: it calls {down}")


def check_header_circles(tree, names, found):
    """Headers include downwards, and so do the folders that they stand in."""
    headers = {name for name in names if name.startswith(PRODUCT) and name.endswith(".h")}
    files = {name: {} for name in headers}
    folders = {}
    for name in sorted(headers):
        folder, program = name.rsplit("/", 1)[0], name.split("/")[0]
        for match in INCLUDE.finditer(without_comments((tree / name).read_text())):
            places = [f"{place}/{match[2]}" for place in (folder, program, "scheduler")]
            target = next((place for place in places if place in headers), None)
            if not target or match[1] == "<":
                continue
            files[name][target] = [match[2]]
            folders.setdefault(folder, {})
            other = target.rsplit("/", 1)[0]
            folders.setdefault(other, {})
            if not f"{folder}/".startswith(f"{other}/") and not other.startswith(f"{folder}/"):  # a subroom is of its room
                folders[folder].setdefault(other, []).append(f"{name} includes {target}")
    for graph in (files, folders):
        for group in circles(graph):
            for name in group:
                down = "; ".join(f"{other} ({graph[name][other][0]})" for other in group if other in graph[name])
                breach(found, name, 1, f"stands in a circle of headers: it includes {down}")


FUNCTION = re.compile(r"^(?!typedef|struct \w+ \{|enum)[A-Za-z_][\w \t*]*?\b(\w+)\(([^;{}]*?)\)\s*\n\{", re.M)
PARAMETERS = 6


def parameters(text):
    """How many there are; those of a parameter that is itself a function are not counted."""
    inner = None
    while inner != text:
        inner, text = text, re.sub(r"\([^()]*\)", "", text)
    return 0 if text.strip() in ("", "void") else text.count(",") + 1


def check_parameters(tree, names, found):
    """Of a hundred functions at most one has more than six parameters."""
    functions, long = 0, []
    for name in names:
        if not name.startswith(PRODUCT) or not name.endswith(".c"):
            continue
        text = code_only((tree / name).read_text())
        for match in FUNCTION.finditer(text):
            functions += 1
            n = parameters(match[2])
            if n > PARAMETERS:
                long.append((name, text.count("\n", 0, match.start()) + 1, match[1], n))
    if len(long) * 100 <= functions:
        return
    for name, line, function, n in long:
        breach(found, name, line, f"{function} has {n} parameters; more than {PARAMETERS} in {len(long)} of {functions} functions")


def check_functions(tree, names, found):
    """A function is a whole thought."""
    for path, line, what in house_functions.faults(tree):
        breach(found, path, line, what)


def check_story(tree, names, found):
    """A file opens with what it owns."""
    for name in names:
        if name.startswith(PRODUCT) and name.endswith((".c", ".h")) and not (tree / name).read_text().startswith("/*"):
            breach(found, name, 1, "does not open with a comment that tells what it owns")


COMMENT = re.compile(r"/\*[\s*]*(That|Those|The same|So many|Until)\b")


def check_voice(tree, names, found):
    """A comment is a whole sentence with a subject of its own: it can be read without the comment before it."""
    for name in names:
        if not name.startswith(PRODUCT) or not name.endswith((".c", ".h")):
            continue
        for match in _TOKEN.finditer((tree / name).read_text()):
            begins = COMMENT.match(match[0])
            if begins:
                breach(found, name, match.string.count("\n", 0, match.start()) + 1, f'a comment begins with "{begins[1]}"')


FILE_IN_TEXT = re.compile(r"(?<![\w<.])((?:\w+/)*\w+\.(?:c|h|sql|lua))\b")


def check_named_files(tree, names, found):
    """A file that a comment names is there."""
    theirs = re.compile(r"zookeeper\.h|(?:linux|netinet)/tcp\.h|sql/NNNN_name\.sql")
    for name in names:
        if not name.startswith((*PRODUCT, "tests/")) or not name.endswith((".c", ".h", ".sql", ".lua")):
            continue
        text = (tree / name).read_text()
        comments = _TOKEN.finditer(text) if name.endswith((".c", ".h")) else re.finditer(r"--[^\n]*", text)
        for comment in comments:
            for file in FILE_IN_TEXT.finditer(comment[0]) if comment[0][0] in "/-" else ():
                if not theirs.fullmatch(file[1]) and not any(f"/{there}".endswith(f"/{file[1]}") for there in names):
                    breach(found, name, text.count("\n", 0, comment.start() + file.start()) + 1, f"names {file[1]}, which is not there")


def check_words(tree, names, found):
    """Comments use the words of the field as often as four other code bases do."""
    texts = ((tree / name).read_text() for name in names if name.startswith(PRODUCT) and name.endswith((".c", ".h")))
    for fault in house_words.faults(texts):
        breach(found, "tests/house_words.py", 1, fault)


COMMENT_COLUMNS = 120


def check_comment_width(tree, names, found):
    """A comment is as wide as the code: the formatter wraps the one, and leaves the other alone."""
    for name in names:
        if not name.startswith(PRODUCT) or not name.endswith((".c", ".h")):
            continue
        text = (tree / name).read_text()
        for match in _TOKEN.finditer(text):
            if not match[0].startswith("/"):
                continue
            begin, line = text.rfind("\n", 0, match.start()) + 1, text.count("\n", 0, match.start()) + 1
            for number, row in enumerate(text[begin:match.end()].split("\n"), line):
                if len(row) > COMMENT_COLUMNS:
                    breach(found, name, number, f"a comment reaches column {len(row)}, {COMMENT_COLUMNS} at most")


def check_machine(tree, names, found):
    """No addresses of package hosts, no paths of one machine."""
    for name in names:
        try:
            text = (tree / name).read_text()
        except UnicodeDecodeError:
            continue
        for pattern in (HOSTS, MACHINE):
            for line, what in lines_with(pattern, text):
                breach(found, name, line, f"names a host or a path of one machine: {what}")


STATEMENT = re.compile(r"(?m)^-- name: (\w+)$")
LIST = re.compile(r"\bIN \(\?,\.\.\.\)")


def check_statements(tree, names, found):
    """Every statement is used, and names the index by which it looks for a list of values: the server walks a table that it
    believes to be small, and a change that does so waits for every row that somebody has locked."""
    used = set(re.findall(r"\bdt_sql_(\w+)\b", "".join((tree / name).read_text() for name in names if name.startswith("scheduler/") and name.endswith(".c"))))
    for name in names:
        if not name.startswith("scheduler/") or not name.endswith(".sql"):
            continue
        text = (tree / name).read_text()
        matches = list(STATEMENT.finditer(text))
        for match, end in zip(matches, [*(later.start() for later in matches[1:]), len(text)]):
            statement, body, line = match[1], text[match.end():end], text.count("\n", 0, match.start()) + 1
            if statement not in used:
                breach(found, name, line, f"{statement} is not used")
            listed = LIST.search(body)
            if listed and statement != "release_leases" and "FORCE INDEX" not in body[:listed.start()]:  # leases: one row per shard
                breach(found, name, line, f"{statement} looks for a list without the name of an index")
            if re.search(r"(?m)^DELETE\b", body[:listed.start() if listed else 0]) and statement != "release_leases":
                breach(found, name, line, f"{statement} deletes by a list, so the server scans the whole table (use dt_id_list_delete)")


MIGRATION = re.compile(r"sql/(\d{4})_\w+\.sql")
NEEDS_FROM = 2  # the first is the baseline: no programs are older
PERMITS = re.compile(r"UPDATE schema_migrations SET needs = (\d+) WHERE applied_at = 0;")
REFUSES = re.compile(r"(?m)^-- No program before it: \S")


def check_needs(tree, names, found):
    """A migration begins by saying which older programs may work beside it, or tells why none may."""
    for name in names:
        number = MIGRATION.fullmatch(name)
        if not number or int(number[1]) < NEEDS_FROM:
            continue
        text = (tree / name).read_text()
        permits = PERMITS.match(re.sub(r"(?m)^--.*\n|^\n", "", text))
        if not permits and not REFUSES.search(text):
            breach(found, name, 1, "permits no older programs, and does not say why: its first statement is UPDATE schema_migrations SET needs = <n>"
                   " WHERE applied_at = 0; or it has a line -- No program before it: <why> (sql/README.md)")
        elif permits and not NEEDS_FROM - 1 <= int(permits[1]) < int(number[1]):
            breach(found, name, 1, f"permits programs of {permits[1]}: from {NEEDS_FROM - 1} to {int(number[1]) - 1} there are some that can ask")


CHECKED = re.compile(r"(?:CONSTRAINT (\w+) )?\bCHECK \(([^()]*)")


def check_reasons(tree, names, found):
    """Why a CHECK is there stands in sql/README.md, by the CHECK's name, or by its condition where it has no name."""
    page = tree / "sql/README.md"
    told = page.read_text() if page.exists() else ""
    texts = {name: re.sub(r"--.*", "", (tree / name).read_text()) for name in filter(MIGRATION.fullmatch, names)}
    dropped = {what for text in texts.values() for what in re.findall(r"DROP CONSTRAINT (\w+)", text)}
    for name, text in texts.items():
        for match in CHECKED.finditer(text):
            what = match[1] or match[2]
            if what not in dropped and f"`{what}`" not in told:
                breach(found, name, text.count("\n", 0, match.start()) + 1, f"sql/README.md has no reason for the CHECK {what}")


OWN_API = re.compile(r'\bown_apis\("(\w+)"')


def check_own_apis(tree, names, found):
    """An API that tests start for themselves is known by its name in the whole run: two of one name meet only when both are run."""
    first = {}  # name -> where it is made
    for name in names:
        if not (name.startswith("tests/api/") and name.endswith(".py")):
            continue
        text = (tree / name).read_text()
        for match in OWN_API.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            at = first.setdefault(match[1], f"{name}:{line}")
            if at != f"{name}:{line}":
                breach(found, name, line, f"makes an API called {match[1]}, as {at} does: two tests that run together need two names")


WRAPPED = re.compile(r"(?m)^ *(?!__typeof__\(|return )[a-z_][\w ]*[ *]\**(__(?:wrap|real)_[\w#]+)[( ][^={}]*?;")


def check_wraps(tree, names, found):
    """What stands in for a function is of that function's type: its own words for it would go on compiling when the function changes."""
    for name in names:
        if name.endswith((".c", ".h")):
            text = (tree / name).read_text()
            for match in WRAPPED.finditer(text):
                line = text.count("\n", 0, match.start()) + 1
                breach(found, name, line, f"{match[1]} is declared in words of its own: __typeof__({match[1].split('_', 3)[-1]}) {match[1]}")


DEFINITION_FILE = re.compile(r"sql/(?:views|procedures)/(\w+)\.sql")
DEFINES = re.compile(r"(?m)^-- defines (\w+)(?: ([0-9a-f]{12}))?$")
SQL_DEFINED = r"(?m)^CREATE (?:OR REPLACE SQL SECURITY INVOKER VIEW|PROCEDURE) (\w+)"


def check_definitions(tree, names, found):
    """A view or procedure has one file. The last migration that names it defines it, and says which text by its digest, so that nobody
    changes the text without a migration; what reads a view is defined with it, or later."""
    texts = {path[1]: (name, (tree / name).read_text()) for name in names if (path := DEFINITION_FILE.fullmatch(name))}
    last = {}  # name -> (migration, line, digest)
    for name in sorted(filter(MIGRATION.fullmatch, names)):
        text = (tree / name).read_text()
        for line, what in lines_with(re.compile(SQL_DEFINED), text):
            breach(found, name, line, f"{what}: the text belongs in sql/views/ or sql/procedures/, and here a line -- defines <name> <digest>")
        for match in DEFINES.finditer(text):
            last[match[1]] = name, text.count("\n", 0, match.start()) + 1, match[2]
    for what, (name, line, _) in last.items():
        if what not in texts:
            breach(found, name, line, f"defines {what}, which has no file in sql/views/ or sql/procedures/")
    for what, (name, text) in texts.items():
        digest = hashlib.sha256(text.encode()).hexdigest()[:12]
        if re.findall(SQL_DEFINED, text) != [what]:
            breach(found, name, 1, f"does not define {what}, and only that")
        if what not in last or last[what][2] != digest:
            breach(found, name, 1, f"is not the text of a migration: a new one has the line -- defines {what} {digest}")
        for view in set(re.findall(r"\bv_\w+", re.sub(r"--.*", "", text))) & set(last) - {what} if what.startswith("v_") and what in last else ():
            if (last[what][0], last[what][1]) < (last[view][0], last[view][1]):
                breach(found, *last[what][:2], f"defines {what} before {view}, which it reads")


SIGNPOSTS = "## Where is it decided"
# A definition of NAME: of a function or a table in C (its type begins the line), of a statement in SQL, of a function in Lua.
DEFINITION = r"(?m)^(?:[A-Za-z_][\w \t*]*?\bNAME\s*(?:\([^;{}]*\)\s*|(?:\[[^]]*\])+ = )\{|-- name: NAME$|(?:local )?function NAME\()"


def check_pages(tree, names, found):
    """Pages point at what is there, and are read in a few minutes."""
    for path, line, what in house_pages.faults(tree, names):
        breach(found, path, line, what)


def check_signposts(tree, names, found):
    """Where a page says that something is decided, it is: a row names what decides, and a file of the row defines that."""
    for name in names:
        if not name.endswith("README.md") or SIGNPOSTS not in (text := (tree / name).read_text()):
            continue
        begin = text.index(SIGNPOSTS)
        for number, line in enumerate(text[begin:].split("\n## ", 1)[0].split("\n"), text.count("\n", 0, begin) + 1):
            files = [(tree / name).parent / target for target in house_pages.LINK.findall(line) if line.startswith("|")]
            there = "\n".join(path.read_text() for path in files if path.is_file())
            names_of_row = re.findall(r"`(\w+)`", line.rstrip(" |").rsplit("|", 1)[-1])
            if files and not names_of_row:
                breach(found, name, number, "does not say which function or statement decides")
            for what in names_of_row if files else []:
                if not re.search(DEFINITION.replace("NAME", what), there):
                    breach(found, name, number, f"says that {what} is in a file that does not define it")


def check_rooms(tree, names, found):
    """Every folder with sources is named by the page of its room, or of a room around it."""
    folders = {name.rsplit("/", 1)[0] for name in names if name.startswith(PRODUCT) and name.endswith((".c", ".h", ".sql", ".lua"))}
    for folder in sorted(folders):
        parts = folder.split("/")
        if len(parts) < 2:
            continue
        told = False
        for n in range(1, len(parts)):
            page = tree / "/".join(parts[:n]) / "README.md"
            inner = re.escape("/".join(parts[n:]))
            told = told or page.is_file() and re.search(rf"(?<![\w/.-]){inner}/", page.read_text())
        if not told:
            breach(found, folder, 1, f"is not named by {parts[0]}/README.md, nor by a page of a folder around it")


def check_recipes(tree, names, found):
    """The files that a recipe names are there."""
    name = ".github/CONTRIBUTING.md"
    if name not in names:
        return
    for line, what in lines_with(re.compile(r"`[\w./]+/[\w.]+\.(?:[ch]|md|py|yaml)`"), (tree / name).read_text()):
        if not (tree / what.strip("`")).exists():
            breach(found, name, line, f"names {what.strip('`')}, which is not there")


def compilers():
    return [name for name in ("gcc", "clang") if shutil.which(name)]


def compile_alone(tree, compiler, name):
    """What the compiler objects to in a header that stands alone; None when nothing."""
    result = subprocess.run(
        [compiler, "-std=gnu17", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-Wno-c2x-extensions", "-fsyntax-only", "-x", "c",
         "-I", tree / "scheduler", "-I", (tree / name).parent, "-I", tree / "tests", "-I", tree / "dispatcher",
         "-I", tree / "api", "-include", tree / name, "/dev/null"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if result.returncode == 0:
        return None
    return next((text for text in result.stdout.splitlines() if "error" in text), result.stdout[:200])


def included_first(tree, names):
    """Headers that some source includes first: each build with either compiler proves that these compile alone."""
    found = set()
    for name in names:
        first = INCLUDE.search((tree / name).read_text()) if name.endswith(".c") else None
        if first and first[1] == '"':
            for folder in (os.path.dirname(name), "scheduler", "dispatcher", "api", "tests"):
                found.add(os.path.normpath(os.path.join(folder, first[2])))
    return found


def check_headers(tree, names, found):
    """Every header compiles alone."""
    shown = included_first(tree, names)
    headers = [name for name in names if name.startswith((*PRODUCT, "tests/")) and name.endswith(".h") and name not in shown]
    tries = [(compiler, name) for compiler in compilers() for name in headers]
    with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
        for (compiler, name), told in zip(tries, pool.map(lambda one: compile_alone(tree, *one), tries)):
            if told is not None:
                breach(found, name, 1, f"does not compile alone ({compiler}): {told}")


RULES = [check_top, check_includes, check_strings, check_statements, check_clock, check_dialect, check_sizes, check_circles,
         check_header_circles, check_parameters, check_functions, check_story, check_voice, check_named_files, check_words, check_comment_width, check_machine, check_pages, check_signposts, check_rooms,
         check_recipes, check_needs, check_reasons, check_definitions, check_own_apis, check_wraps, check_headers]


def check(tree, rules=RULES):
    names, found = files_of(tree), []
    for rule in rules:
        rule(tree, names, found)
    return found


# ---- each rule can fail ----

def make(tree, texts):
    for name, text in texts.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(text)


def put_back(tree, name):
    """The tree of GOOD with one file added or changed."""
    if name in GOOD:
        make(tree, {name: GOOD[name]})
    else:
        (tree / name).unlink()
    folder = (tree / name).parent
    if not any(folder.iterdir()):
        folder.rmdir()


def try_rules():
    """What is wrong with the rules themselves."""
    wrong = []
    if not compilers():
        wrong.append("house.py:1: neither gcc nor clang is there to compile headers alone")
    with tempfile.TemporaryDirectory(prefix="duetime-house-") as folder:
        tree = Path(folder)
        make(tree, GOOD)
        wrong += [f"house.py:1: a good tree is refused: {text}" for text in check(tree)]
        for name, text, want in BAD:
            make(tree, {name: text})
            found = check(tree, RULES if name.endswith(".h") else RULES[:-1])
            if not any(want in told for told in found):
                wrong.append(f"house.py:1: no rule objects to {name}: {want}; told: {found}")
            put_back(tree, name)
    return wrong


def main():
    tree = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else TREE
    found = try_rules() + check(tree)
    print("\n".join(found) if found else f"{len(BAD)} breaches of {len(RULES)} rules are seen; the tree has none")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

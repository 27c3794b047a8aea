#!/usr/bin/python3
"""Builds the product without a feature, and with it again, by the recipe "A feature" of .github/CONTRIBUTING.md.

A copy of the product loses what the recipe lists before "What stays": paths with <name> are deleted, and of the other files each row that names
the feature. Then the programs must compile without a warning, start, and offer nothing of the feature. After the copy got everything back,
they offer it again.

Usage: feature.py [FEATURE]
"""
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

TREE = Path(__file__).resolve().parent.parent
WORK = TREE / "build" / "feature"
COPY = WORK / "tree"
PRODUCT = ("CMakeLists.txt", "scheduler", "dispatcher", "api", "sql", "tests/openapi.py")
PROGRAMS = ("api/duetime-api", "dispatcher/duetime-dispatcher", "api/cli/duetime")


def recipe(feature):
    """Returns the paths that are deleted, the files that lose rows, and the paths that may name the feature afterwards."""
    text = (TREE / ".github" / "CONTRIBUTING.md").read_text(encoding="utf-8")
    section = re.search(r"^## A feature\n(.*?)(?=^## )", text, re.MULTILINE | re.DOTALL).group(1)
    paths, stays = (re.findall(r"`((?:scheduler|dispatcher|api)/[^`]+)`", part) for part in section.split("What stays", maxsplit=1))
    return [path.replace("<name>", feature) for path in paths if "<name>" in path], [path for path in paths if "<name>" not in path], tuple(stays)


def without_rows(text, word):
    """Removes the rows, declarations and statements of C that begin in a line with the word. A row ends where its brackets are closed."""
    kept, depth = [], 0
    for line in text.splitlines(keepends=True):
        if depth > 0 or word.search(line):
            plain = re.sub(r'"(\\.|[^"\\])*"', "", line)
            depth += sum(plain.count(c) for c in "({[") - sum(plain.count(c) for c in ")}]")
        else:
            kept.append(line)
    return "".join(kept)


def without_blocks(text, word):
    """Removes the members of YAML whose keys have the word, with what is indented below them, and the word from lists in brackets."""
    kept, inside = [], None
    for line in text.splitlines(keepends=True):
        indent = len(line) - len(line.lstrip())
        if inside is not None and line.strip() and indent <= inside:
            inside = None
        key = re.match(r" *(?:- name: (\S+)|([^\s:#-][^\s:]*):)", line)
        if inside is None and key and word.search(key[1] or key[2]):
            inside = indent
        if inside is None:
            kept.append(re.sub(rf", {word.pattern}(?=[,\]])", "", line))
    return "".join(kept)


def product():
    """Returns {path: bytes} of the product; the copy has no tests and no packages."""
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "--", *PRODUCT], cwd=TREE, check=True, capture_output=True, text=True)
    files = {name: (TREE / name).read_bytes() for name in listed.stdout.splitlines() if (TREE / name).is_file()}
    files["CMakeLists.txt"] = re.sub(rb"add_subdirectory\((deploy/debian|tests)\)\n", b"", files["CMakeLists.txt"])
    return files


def remove(files, feature):
    """Returns the files without the feature. Each path of the recipe must be needed."""
    word = re.compile(rf"(?<!\.)\b\w*{feature.removesuffix('s')}\w*", re.IGNORECASE)
    deleted, with_rows, stays = recipe(feature)
    left = {name: content for name, content in files.items() if not any(name == path or (path.endswith("/") and name.startswith(path)) for path in deleted)}
    told = [f"the recipe deletes {path}, which is not there" for path in deleted if not any(name.startswith(path) for name in files)]
    for name in with_rows:
        text = files[name].decode()
        shorter = (without_blocks if name.endswith(".yaml") else without_rows)(text, word)
        told += [f"no row of {name} names the feature"] if shorter == text else []
        left[name] = shorter.encode()
    for name in [name for name in left if name.endswith((".c", ".h", ".sql")) and name.startswith(("scheduler/", "dispatcher/", "api/")) and not name.startswith(stays)]:
        code = re.sub(r"/\*.*?\*/|^-- .*?$|TLS_ALERT\w*", "", left[name].decode(), flags=re.DOTALL | re.MULTILINE)
        told += [f"{name} still has {found[0]}" for found in word.finditer(code)]
    left["tests/openapi.py"] = without_rows(files["tests/openapi.py"].decode(), word).encode()
    return left, told


def build(files):
    """Makes the copy equal to the files, without touching those that are; returns what the compiler says if it fails."""
    for path in [path for path in COPY.rglob("*") if path.is_file() and str(path.relative_to(COPY)) not in files]:
        path.unlink()
    for name, content in files.items():
        path = COPY / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_bytes() != content:
            path.write_bytes(content)
    launcher = ["-DCMAKE_C_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []
    environment = {**os.environ, "CCACHE_BASEDIR": str(WORK), "CCACHE_NOHASHDIR": "1"}
    configure = ["cmake", "-G", "Ninja", "-S", COPY, "-B", WORK / "build", "-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_C_FLAGS_DEBUG=-O0", "-DDT_CONSOLE=OFF", *launcher]
    for command in (configure, ["ninja", "-C", WORK / "build", *[Path(name).name for name in PROGRAMS]]):
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if done.returncode != 0:
            return [line for line in done.stdout.splitlines() if "error:" in line][:20] or [done.stdout[-2000:]]
    return []


def output(program, option):
    return subprocess.run([WORK / "build" / program, option], check=True, capture_output=True, text=True).stdout


def offers(feature):
    """Returns which of the programs' tables name the feature: routes, settings, commands."""
    for program in PROGRAMS:
        assert "duetime" in output(program, "--version")
    tables = {"routes": (output(PROGRAMS[0], "--print-routes"), f"/v1/{feature}"), "settings": (output(PROGRAMS[1], "--config-reference"), f"`{feature}."),
              "commands": (output(PROGRAMS[2], "--reference"), f"duetime {feature} ")}
    return [name for name, (text, mark) in tables.items() if mark in text]


def main():
    feature = sys.argv[1] if len(sys.argv) > 1 else "alerts"
    files = product()
    left, told = remove(files, feature)
    told += build(left)
    if not told:
        told += [f"without {feature}, the {table} name it" for table in offers(feature)]
        described = subprocess.run(["/usr/bin/python3", COPY / "tests/openapi.py", WORK / "build" / PROGRAMS[0]], capture_output=True, text=True, check=False)
        told += [described.stderr[-2000:]] if described.returncode else []
    told += build(files)
    if not told and len(offers(feature)) != 3:
        told.append(f"with {feature} again, only {offers(feature)} name it")
    print("\n".join(told) or f"built without {feature}, and with it again")
    return bool(told)


if __name__ == "__main__":
    sys.exit(main())

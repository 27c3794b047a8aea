#!/usr/bin/python3
"""The rules for pages: links and tests that they name exist, the first one is short, and no README has a sentence of more than WORDS words.

`house_pages.py FILE…` prints how many words and sentences each page has, the median and the longest.
"""
import re
import statistics
import sys
from pathlib import Path

WORDS = 40
LINK = re.compile(r"\]\(([^)\s]+)\)")
TEST = re.compile(r"`(test_\w+)`|`(\w+)`(?=[^|]*\|$)")  # a test by its name; any name in the last cell of a row
CODE = re.compile(r"(?s)```.*?```")
BEGINS = re.compile(r"^\s*(?:[-*]|\d+\.) ")  # an item of a list
END = re.compile(r"(?<=[.!?])\s+(?=[A-Z(`0-9\"])")


def without_code(text):
    return CODE.sub(lambda block: "\n" * block[0].count("\n"), text)


def blocks(text):
    """(line, text) of each paragraph, item of a list and cell of a table."""
    begun, lines = 0, []
    for number, line in enumerate([*without_code(text).split("\n"), ""], 1):
        cells = line.strip().startswith("|")
        if lines and (cells or not line.strip() or line.startswith(("#", "!")) or BEGINS.match(line)):
            yield begun, " ".join(lines)
            lines = []
        if cells:
            yield from ((number, cell) for cell in line.strip().strip("|").split("|"))
        elif line.strip() and not line.startswith(("#", "!")):
            begun, lines = (begun if lines else number), [*lines, BEGINS.sub("", line).strip()]


def sentences(text):
    """(line of its paragraph, number of words, sentence); what is in backticks is a word."""
    for line, block in blocks(text):
        plain = re.sub(r"!?\[([^]]*)\]\([^)]*\)", r"\1", re.sub(r"`[^`]*`", "X", block)).replace("*", "")
        for sentence in END.split(plain):
            yield line, len(re.findall(r"\S*\w\S*", sentence)), sentence


def links(tree, name, text):
    """What a page of ours points at in the tree is there."""
    for number, line in enumerate(without_code(text).split("\n"), 1):
        for target in LINK.findall(line):
            path = target.split("#")[0]
            if path and "://" not in path and not ((tree / name).parent / path).exists():
                yield number, f"points at {path}, which is not there"


def missing_tests(there, text):
    """The tests that a page names, by name or in a column `test`, but the tree lacks."""
    column = False
    for number, line in enumerate(without_code(text).split("\n"), 1):
        column = line.startswith("|") and (column or line.endswith("| test |"))
        for by_name, in_last_cell in TEST.findall(line):
            test = by_name or (in_last_cell if column else "")
            if test and test not in there:
                yield number, f"names the test {test}, which does not exist"


def faults(tree, names):
    """(page, line, what is wrong)"""
    there = {word for name in names if name.startswith("tests/") and name.endswith((".c", ".py"))
             for word in re.findall(r"\w+", f"{Path(name).stem} {(tree / name).read_text()}")}
    for name in (name for name in names if name.endswith(".md")):
        text = (tree / name).read_text()
        yield from ((name, *fault) for fault in [*links(tree, name, text), *missing_tests(there, text)])
        if name == "README.md" and (len(text.splitlines()) > 130 or len(text.split()) > 1800):
            yield name, 1, "is longer than 130 lines or 1,800 words"
        for line, words, sentence in sentences(text) if name.endswith("README.md") else ():
            if words > WORDS:
                yield name, line, f"has a sentence of {words} words, {WORDS} at most: {sentence[:60]}"


def main():
    for name in sys.argv[1:]:
        text = Path(name).read_text(encoding="utf-8")
        lengths = [words for _, words, _ in sentences(text) if words > 3] or [0]
        print(f"{name}: {len(text.split())} words, {len(lengths)} sentences, median {statistics.median(lengths)}, longest {max(lengths)}")


if __name__ == "__main__":
    main()

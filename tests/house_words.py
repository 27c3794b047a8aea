#!/usr/bin/python3
"""The words of comments, per 10,000, against those of four code bases of the field: valkey, h2o, varnish and River.

A sentence is not clear because it lacks these words. But if a listed word is frequent, conditions hide in relative clauses and states in verbs of
motion. `house_words.py FILE…` prints the figures of these files.
"""
import re
import sys
from collections import Counter
from pathlib import Path

# Twice the highest of the four.
CEILINGS = {"anew": 0, "behind": 3.0, "but for": 1.4, "comes": 5.8, "goes": 2.4, "lies": 0.2, "nobody": 0.6, "somebody": 0.2, "stands": 0.1,
            "tells": 2.0, "those": 7.6, "told": 0.6, "others": 2.2, "whoever": 0.1}
# Above that today: these figures may only fall.
STILL = {"nobody": 0.8, "others": 9.2, "somebody": 0.5, "stands": 0.8, "those": 10.2, "told": 2.6, "whoever": 0.5}
IF_AT_LEAST = 60  # the four have 72 to 154
ENOUGH = 5000  # words; the figures of fewer mean nothing
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.S)


def count(texts):
    """How many words the comments of C texts have, and how often each occurs."""
    words, found = 0, Counter()
    for text in texts:
        for match in COMMENT.finditer(text):
            if match[0].startswith("/"):
                here = re.findall(r"[a-z']+", match[0].lower())
                words += len(here)
                found.update(here)
                found["but for"] += " ".join(here).count("but for")
    return words, found


def faults(texts):
    """What is wrong with the words of all comments together."""
    words, found = count(texts)
    if words < ENOUGH:
        return
    rate = {word: found[word] * 10000 / words for word in (*CEILINGS, "if")}
    for word, most in CEILINGS.items():
        if rate[word] > STILL.get(word, most):
            yield f"comments have '{word}' {rate[word]:.1f} times per 10,000 words, {STILL.get(word, most)} at most"
    if rate["if"] < IF_AT_LEAST:
        yield f"comments have 'if' {rate['if']:.1f} times per 10,000 words, {IF_AT_LEAST} at least"


def main():
    words, found = count(Path(name).read_text(encoding="utf-8") for name in sys.argv[1:])
    print(words, "words;", ", ".join(f"{word} {found[word] * 10000 / max(words, 1):.1f}" for word in ("if", *CEILINGS)))


if __name__ == "__main__":
    main()

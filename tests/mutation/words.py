"""C text as a list of words with their places: comments and directives are left out, a string is one word."""
import re
from dataclasses import dataclass

_PATTERN = re.compile(r"""
    (?P<skip>\s+|//[^\n]*|/\*.*?\*/)
  | (?P<string>"(?:\\.|[^"\\\n])*")
  | (?P<char>'(?:\\.|[^'\\\n])*')
  | (?P<number>\.?\d(?:[eE][+-]|[\w.])*)
  | (?P<name>[A-Za-z_]\w*)
  | (?P<sign>\.\.\.|<<=|>>=|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|.)
""", re.X | re.S)
_DIRECTIVE = re.compile(r"^[ \t]*\#(?:\\\n|/\*.*?\*/|[^\n])*", re.M | re.S)

PAIRS = {"(": ")", "[": "]", "{": "}"}


@dataclass(frozen=True)
class Word:
    kind: str  # string, char, number, name, sign
    text: str
    start: int
    end: int


def blank(match):
    return re.sub(r"[^\n]", " ", match[0])


def words_of(text):
    """Directives are blanked before; places are those of the whole text."""
    code = _DIRECTIVE.sub(blank, text)
    return [Word(match.lastgroup, match[0], match.start(), match.end())
            for match in _PATTERN.finditer(code) if match.lastgroup != "skip"]


def directives_of(text):
    return [(match.start(), match[0]) for match in _DIRECTIVE.finditer(text)]


class Code:
    """The words of a file, which bracket closes which, and the functions that they form."""

    def __init__(self, text):
        self.text = text
        self.words = words_of(text)
        self.partner = {}
        stack = []
        for i, word in enumerate(self.words):
            if word.text in PAIRS and word.kind == "sign":
                stack.append(i)
            elif word.text in PAIRS.values() and word.kind == "sign" and stack:
                self.partner[i] = stack.pop()
                self.partner[self.partner[i]] = i
        self.functions = list(self._functions())

    def at(self, i):
        return self.words[i].text if 0 <= i < len(self.words) else ""

    def _functions(self):
        """(name's index, first word inside, closing brace) of each function."""
        i = 0
        while i < len(self.words):
            if self.at(i) == "{" and i in self.partner:
                if self.at(i - 1) == ")":
                    yield self.partner[i - 1] - 1, i + 1, self.partner[i]
                i = self.partner[i]
            i += 1

    def skip(self, i):
        """The index behind the word at i, or behind what it opens."""
        return self.partner[i] + 1 if self.at(i) in PAIRS and i in self.partner else i + 1

    def until(self, i, stops, end):
        """The first index from i on, outside of inner brackets, whose word is one of `stops` (or a bracket that closes)."""
        while i < end and self.at(i) not in stops and self.at(i) not in PAIRS.values():
            i = self.skip(i)
        return i

    def since(self, i, stops, begin):
        """The same backwards: the index behind the last stop before i."""
        while i > begin and self.at(i - 1) not in stops and self.at(i - 1) not in PAIRS:
            i = self.partner[i - 1] if self.at(i - 1) in PAIRS.values() and i - 1 in self.partner else i - 1
        return i

    def span(self, first, behind):
        """Places in the text of the words first … behind - 1."""
        return self.words[first].start, self.words[behind - 1].end

    def source(self, first, behind):
        start, end = self.span(first, behind)
        return self.text[start:end]

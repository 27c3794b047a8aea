"""The faults that can be planted in a file, each one small, as a person makes them who is interrupted.

A fault replaces one piece of the text and keeps the number of lines. Left alone are: directives but for the sizes that they name, what
logs, fail points, and the guards of the protocol (tests/guards takes those out).
"""
import hashlib
import re
from dataclasses import dataclass

from .words import Code, directives_of

KINDS = ("comparison", "condition", "and-or", "swapped", "lost-status", "forgotten", "term", "constant", "jump", "negation", "sql", "size")

_COMPARED = {"<": ("<=", ">="), "<=": ("<", ">"), ">": (">=", "<="), ">=": (">", "<"), "==": ("!=",), "!=": ("==",)}
_ASSIGNED = {"=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>="}
_ENDS = {"&&", "||", "?", ":", ";", ",", "=", "return", "{", "}", *_ASSIGNED}
_KEYWORDS = {"if", "while", "for", "switch", "return", "sizeof", "case", "do", "else", "goto"}
_LEFT_ALONE = re.compile(r"DT_GUARD\w*|DT_UNGUARDED|DT_FAIL_POINT\w*|dt_log\w*|DT_LOG\w*|log_\w+|va_\w+|assert|static_assert|_Static_assert")
_SQL = re.compile(r"\b(SELECT|FROM|WHERE|UPDATE|INSERT|SET|AND|ORDER BY|VALUES)\b")
_SIZE = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+\(?(?:INT64_C\(|UINT64_C\()?(\d{2,})\b")


@dataclass(frozen=True)
class Fault:
    path: str
    line: int
    kind: str
    start: int
    end: int
    old: str
    new: str
    where: str  # the line as it stands, and how many like it came before: the same after changes elsewhere

    @property
    def name(self):
        told = f"{self.path}\0{self.where}\0{self.kind}\0{self.old}\0{self.new}"
        return hashlib.sha256(told.encode()).hexdigest()[:10]

    def planted(self, text):
        return text[:self.start] + self.new + "\n" * (self.old.count("\n") - self.new.count("\n")) + text[self.end:]

    def lot(self, seed, what):
        return hashlib.sha256(f"{seed}\0{what}\0{self.name}".encode()).digest()


class _Finder:
    def __init__(self, path, text):
        self.path, self.text, self.code, self.found, self.seen = path, text, Code(text), [], {}

    def fault(self, kind, start, end, new):
        old = self.text[start:end]
        if old == new or "GUARD" in old:
            return
        line = self.text.count("\n", 0, start) + 1
        begin = self.text.rfind("\n", 0, start) + 1
        stop = self.text.find("\n", start)
        whole = " ".join(self.text[begin:stop if stop >= 0 else None].split())
        key = (whole, start - begin - len(self.text[begin:start]) + len(self.text[begin:start].strip()), kind, old, new)
        self.seen[key] = self.seen.get(key, 0) + 1
        self.found.append(Fault(self.path, line, kind, start, end, old, new, f"{whole}#{key[1]}#{self.seen[key]}"))

    def words(self, kind, first, behind, new):
        self.fault(kind, *self.code.span(first, behind), new)

    # ---- expressions ----

    def comparison(self, i):
        for new in _COMPARED[self.code.at(i)]:
            self.words("comparison", i, i + 1, new)

    def both(self, i, begin, end):
        """&& and ||: turned into the other; one side dropped."""
        sign = self.code.at(i)
        stops = _ENDS if sign == "&&" else _ENDS - {"&&"}
        nothing = "true" if sign == "&&" else "false"
        self.words("and-or", i, i + 1, "||" if sign == "&&" else "&&")
        self.words("condition", i + 1, self.code.until(i + 1, stops, end), nothing)
        self.words("condition", self.code.since(i, stops, begin), i, nothing)

    def operand(self, i):
        """The index behind the operand that begins at i, with what multiplies it."""
        code = self.code
        while True:
            while code.at(i) in ("-", "+", "!", "~", "*", "&", "++", "--"):
                i += 1
            i = code.skip(i)
            while code.at(i) in ("(", "[", ".", "->", "++", "--"):
                i = code.skip(i) if code.at(i) in "([" else i + (1 if code.at(i) in ("++", "--") else 2)
            if code.at(i) not in ("*", "/", "%"):
                return i
            i += 1

    def term(self, i):
        before = self.code.words[i - 1]
        if before.kind not in ("name", "number") and before.text not in (")", "]") or before.text in _KEYWORDS:
            return
        self.words("term", i, i + 1, "-" if self.code.at(i) == "+" else "+")
        self.words("term", i, self.operand(i + 1), "")

    def constant(self, i):
        word, before = self.code.words[i], self.code.at(i - 1)
        if word.text in ("true", "false"):
            self.words("constant", i, i + 1, "false" if word.text == "true" else "true")
        elif re.fullmatch(r"\d+[uUlL]*", word.text) and before not in ("case", "[") and self.code.at(i + 1) != ":":
            number = re.match(r"\d+", word.text)[0]
            for new in {"0": (1,), "1": (0, 2)}.get(number, (int(number) + 1, int(number) - 1)):
                self.words("constant", i, i + 1, str(new) + word.text[len(number):])

    def swapped(self, i):
        """Neighbours among the arguments of a call."""
        code, close = self.code, self.code.partner[i]
        arguments, first = [], i + 1
        while first < close:
            behind = code.until(first, {","}, close)
            if behind > first:
                arguments.append((first, behind))
            first = behind + 1
        for one, two in zip(arguments, arguments[1:]):
            a, b = code.source(*one), code.source(*two)
            start, end = code.span(one[0], two[1])
            if a != b and not any(name in a + b for name in ("struct ", "err", '"')):
                self.fault("swapped", start, end, f"{b}, {a}")

    # ---- statements ----

    def taken_out(self, kind, first, behind):
        self.words(kind, first, behind, "{}")

    def begins(self, i):
        """Whether a statement begins at i: after ; { } else, or a condition in parentheses."""
        before = self.code.at(i - 1)
        if before in (";", "{", "}", "else", "do"):
            return True
        return before == ")" and i - 1 in self.code.partner and self.code.at(self.code.partner[i - 1] - 1) in ("if", "while", "for")

    def lvalue(self, i):
        """The index behind an lvalue that begins at i; i when there is none (a declaration)."""
        code, first = self.code, i
        while code.at(i) == "*":
            i += 1
        if code.at(i) == "(":
            i = code.skip(i)
        elif i < len(code.words) and code.words[i].kind == "name" and code.at(i) not in _KEYWORDS:
            i += 1
        else:
            return first
        while code.at(i) in (".", "->", "["):
            i = code.skip(i) if code.at(i) == "[" else i + 2
        return i

    def statement(self, i, end):
        code, word = self.code, self.code.at(i)
        stop = code.until(i, {";"}, end)
        if code.at(stop) != ";":
            return
        if word in ("return", "break", "continue", "goto"):
            if word != "return" or stop == i + 1:
                self.taken_out("jump", i, stop + 1)
            return
        if word in ("++", "--"):
            self.taken_out("forgotten", i, stop + 1)
            return
        behind = self.lvalue(i)
        if behind > i and code.at(behind) in (_ASSIGNED | {"++", "--"}):
            self.taken_out("forgotten", i, stop + 1)
        elif behind == i + 1 and code.at(behind) == "(" and word not in _KEYWORDS:
            self.taken_out("forgotten", i, stop + 1)

    def lost(self, i, end, function_status):
        """A call whose status is set to DT_OK: in an assignment to a status, in the return of a function that gives one."""
        code = self.code
        if code.at(i) == "return" and function_status:
            first = i + 1
        elif code.at(i) in ("=",) and (code.at(i - 1) == "status" or code.at(i - 2) == "dt_status"):
            first = i + 1
        else:
            return
        stop = code.until(first, {";", ","}, end)
        value = code.source(first, stop)
        if code.at(stop) != ";":
            return
        if re.fullmatch(r"DT_[A-Z_]+", value) and value != "DT_OK":
            self.words("lost-status", first, stop, "DT_OK")
        elif code.at(first + 1) == "(" and code.partner.get(first + 1) == stop - 1:
            self.words("lost-status", first, stop, f"((void)({value} == DT_OK), DT_OK)")

    def condition(self, i, end):
        """An if whose condition is looked at and decides nothing."""
        close = self.code.partner[i + 1]
        inside = self.code.source(i + 2, close)
        self.words("condition", i + 2, close, f"((void)({inside}), false)")
        self.words("condition", i + 2, close, f"((void)({inside}), true)")

    def sql(self, i):
        word = self.code.words[i]
        if not _SQL.search(word.text):
            return
        for match in re.finditer(r"(?<=[\w?)'] )(<=|>=|<|>)(?= )", word.text):
            self.fault("sql", word.start + match.start(), word.start + match.end(), _COMPARED[match[0]][0])
        for match in re.finditer(r" AND [^?()\"\\]+?(?= AND | OR | ORDER | LIMIT | FOR |\)|\"| *\\)", word.text):
            self.fault("sql", word.start + match.start(), word.start + match.end(), "")
        for match in re.finditer(r" [+-] 1\b", word.text):
            self.fault("sql", word.start + match.start(), word.start + match.end(), "")

    # ---- all of it ----

    def function(self, name, begin, end):
        code = self.code
        kind = code.at(name - 1) if code.at(name - 1) != "*" else ""
        i = begin
        while i < end:
            word = code.words[i]
            if word.kind == "name" and _LEFT_ALONE.fullmatch(word.text) and code.at(i + 1) == "(":
                i = code.skip(i + 1)
                continue
            self.one(i, begin, end, kind == "dt_status")
            i += 1

    def one(self, i, begin, end, gives_status):
        code, word = self.code, self.code.words[i]
        if word.kind == "string":
            self.sql(i)
        elif word.kind == "number" or word.text in ("true", "false"):
            self.constant(i)
        elif word.text in _COMPARED and word.kind == "sign":
            self.comparison(i)
        elif word.text in ("&&", "||"):
            self.both(i, begin, end)
        elif word.text in ("+", "-"):
            self.term(i)
        elif word.text == "!":
            self.words("negation", i, i + 1, "")
        elif word.text == "if" and code.at(i + 1) == "(":
            self.condition(i, end)
        elif word.text == "(" and code.words[i - 1].kind == "name" and code.at(i - 1) not in _KEYWORDS:
            self.swapped(i)
        if word.text in ("return", "="):
            self.lost(i, end, gives_status)
        if self.begins(i):
            self.statement(i, end)

    def sizes(self):
        """A size that a directive names, a hundred times as large or as small."""
        for start, text in directives_of(self.text):
            match = _SIZE.match(text)
            if match:
                number = int(match[2])
                for new in (number * 100, max(number // 100, 1)):
                    self.fault("size", start + match.start(2), start + match.end(2), str(new))


def faults_of(path, text):
    """Every fault of the file, in its order."""
    finder = _Finder(path, text)
    for function in finder.code.functions:
        finder.function(*function)
    finder.sizes()
    return sorted(set(finder.found), key=lambda fault: (fault.start, fault.kind, fault.new))


def drawn(faults, seed):
    """In the order of the seed: first places by lot, then one of the faults of each (a place with four faults comes no sooner than one with one).

    The same seed draws the same of a function that nobody changed, whatever happened to the file around it."""
    places = {}
    for fault in faults:
        places.setdefault((fault.path, fault.start, fault.kind), []).append(fault)
    chosen = [min(them, key=lambda fault: fault.lot(seed, "which")) for them in places.values()]
    return sorted(chosen, key=lambda fault: fault.lot(seed, "when"))

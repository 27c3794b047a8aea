"""The command line `duetime`, run as a user would run it; the https URL of a secured stack with that stack's authority and token."""
import json
import os
import subprocess

from .rest import TRUST
from .stack import PRESET, TREE

PROGRAM = TREE / "build" / PRESET / "api" / "cli" / "duetime"


class Told:
    def __init__(self, done):
        self.code, self.out, self.err = done.returncode, done.stdout, done.stderr

    @property
    def json(self):
        return json.loads(self.out)

    @property
    def lines(self):
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def rows(self):
        """The table: the words of each line."""
        return [line.split() for line in self.out.splitlines()]

    def __repr__(self):
        return f"{self.code}\n{self.out[:2000]}\n{self.err[:2000]}"


def trusted(url):
    authority, token = TRUST.get(url, (None, None))
    return {"DUETIME_CA_FILE": authority, "DUETIME_TOKEN": token} if authority else {}


def run(*words, variables=None, stdin="", home="/nonexistent"):
    variables = {**trusted((variables or {}).get("DUETIME_URL")), **(variables or {})}
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("DUETIME_", "XDG_", "NO_COLOR", "COLUMNS"))}
    told = Told(subprocess.run([PROGRAM, *words], env={**kept, "HOME": str(home), **variables}, input=stdin, capture_output=True, text=True,
                               timeout=60, check=False))
    assert "Sanitizer" not in told.err and "runtime error" not in told.err, told
    return told

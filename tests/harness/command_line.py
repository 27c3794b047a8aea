"""The command line `duetime`, run as a user would run it; the https URL of a secured stack with that stack's authority and token."""
import fcntl
import json
import os
import pty
import struct
import subprocess
import termios

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
                               timeout=300, check=False))
    assert "Sanitizer" not in told.err and "runtime error" not in told.err, told
    return told


# ---- at a terminal ----

def read_all(terminal):
    text = b""
    try:
        while piece := os.read(terminal, 65536):
            text += piece
    except OSError:
        pass  # the end of a terminal
    os.close(terminal)
    return text.decode().replace("\r\n", "\n")


def at_a_terminal(url, *words, typed="", columns=60, lines=24, out=None, code=0, **variables):
    """What a terminal of this size shows; `typed` is written there, and `out` takes standard output away from it."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("DUETIME_", "NO_COLOR", "COLUMNS", "LINES"))}
    done = subprocess.Popen([PROGRAM, *words, "--url", url], stdin=theirs, stdout=out or theirs, stderr=theirs,
                            env={**kept, "TERM": "xterm", **trusted(url), **variables})
    os.close(theirs)
    os.write(ours, typed.encode())
    text = read_all(ours)
    assert done.wait(300) == code, text
    return text

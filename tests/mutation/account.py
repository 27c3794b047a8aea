"""The account of all campaigns in this tree, .local/mutants/account.jsonl: a line for each fault that was tried.

A fault is known by its name (place, line and change); of several lines the last holds. What was tried once is not tried again
before its file changes, or is asked for again. Campaigns that run at one time, each with a copy of its own, share the account: a fault is
tried by the one that claims it.
"""
import contextlib
import fcntl
import hashlib
import json


def digest(text):
    return hashlib.sha256(text.encode()).hexdigest()[:16]


class Times(dict):
    """How long each suite takes without a fault, None when it fails then. Those that pass are kept for the next campaign on the same tree."""

    def __init__(self, path, tree):
        super().__init__()
        self.path, self.tree = path, tree
        if path.exists():
            kept = json.loads(path.read_text(encoding="utf-8"))
            self.update(kept["seconds"] if kept["tree"] == tree else {})

    def __setitem__(self, suite, seconds):
        super().__setitem__(suite, seconds)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        passing = {name: value for name, value in self.items() if value is not None}
        self.path.write_text(json.dumps({"tree": self.tree, "seconds": passing}), encoding="utf-8")


class Account:
    def __init__(self, path):
        self.path = path
        self.lines = {}
        self.size = 0
        self.read()

    def read(self):
        """What was written since, by others too."""
        if not self.path.exists():
            return
        with open(self.path, "rb") as file:
            file.seek(self.size)
            written = file.read()
        whole = written[:written.rfind(b"\n") + 1]
        self.size += len(whole)
        for line in whole.decode().splitlines():
            entry = json.loads(line)
            self.lines[entry["name"]] = entry

    @contextlib.contextmanager
    def claimed(self, name):
        """Whether the fault is ours to try: no other campaign is at it. Each name locks a byte of one file."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with open(self.path.parent / "claims", "a", encoding="utf-8") as file:
            try:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, int(name, 16))
            except OSError:
                yield False
                return
            self.read()
            yield True

    def add(self, entry):
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")
        self.lines[entry["name"]] = entry

    def known(self, fault, text):
        """What is known of the fault as the file stands; None when it must be tried. A judgement holds as long as its line does."""
        entry = self.lines.get(fault.name)
        if entry is None or (entry["outcome"] != "judged" and entry["file"] != digest(text)):
            return None
        return entry

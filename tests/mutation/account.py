"""The account of all campaigns in this tree, .local/mutants/account.jsonl: a line for each fault that was tried.

A fault is known by its name (place, line and change); of several lines the last holds. What was tried once is not tried again
before its file changes, or is asked for again.
"""
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
        if path.exists():
            for line in path.read_text(encoding="utf-8").splitlines():
                entry = json.loads(line)
                self.lines[entry["name"]] = entry

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

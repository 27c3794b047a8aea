"""A copy of the tree below .local/mutants (or in the folder DUETIME_MUTANTS_TREE, in memory say), where faults are planted, built and tried.
The work tree itself is only read.

The copy builds with the sanitizers and without what a debugger needs: a fault costs one compilation and a short link of each program that is run.
Warnings are errors as in the work tree, but for those that a fault makes as such (a variable that nobody uses any more).
"""
import hashlib
import json
import os
import shlex
import shutil
import subprocess
from pathlib import Path

from runner import command, tree

HOME = tree.TREE / ".local" / "mutants"
COPY = Path(os.environ.get("DUETIME_MUTANTS_TREE", HOME / "tree"))
BUILD = COPY / "build" / "sanitize"
SECONDS = 1800
FORGIVEN = ("unused", "unused-variable", "unused-but-set-variable", "unused-parameter", "unused-function", "unused-value", "unused-result", "unused-label",
            "unused-const-variable", "unused-macros", "implicit-fallthrough", "parentheses", "type-limits", "maybe-uninitialized", "uninitialized",
            "empty-body", "return-type", "bool-compare", "tautological-compare", "logical-op", "int-in-bool-context", "array-bounds",
            "stringop-overflow", "nonnull", "restrict", "format-truncation", "dangling-else", "misleading-indentation")
OPTIONS = ["-DCMAKE_C_COMPILER=gcc", "-DCMAKE_C_FLAGS_DEBUG="]


class CannotBuild(Exception):
    """The copy does not build without any fault."""


def _listed():
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=tree.TREE, stdout=subprocess.PIPE, text=True, check=True)
    return {name for name in listed.stdout.splitlines() if (tree.TREE / name).is_file()}


class Workshop:
    def __init__(self, say=print):
        self.say = say
        self.commands = {}
        self.objects = {}  # source -> its object without any fault
        self.tree = None  # a digest of the work tree, once the copy is that

    def refresh(self):
        """The copy is what the work tree is; what changed is built anew."""
        names = _listed()
        whole = hashlib.sha256()
        for name in sorted(names):
            source, target = tree.TREE / name, COPY / name
            bytes_of = source.read_bytes()
            whole.update(name.encode() + b"\0" + bytes_of)
            if not target.exists() or target.read_bytes() != bytes_of:
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(source, target)
        self.tree = whole.hexdigest()
        for path in COPY.rglob("*"):
            name = str(path.relative_to(COPY))
            if path.is_file() and not name.startswith(("build/", ".local/")) and "__pycache__" not in name and name not in names:
                path.unlink()
        if not (BUILD / "build.ninja").exists():
            launcher = ["-DCMAKE_C_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []
            flags = "-DCMAKE_C_FLAGS=" + " ".join(f"-Wno-error={name}" for name in FORGIVEN)
            self._must(["cmake", "--preset", "sanitize", "-B", BUILD, *OPTIONS, flags, *launcher])
        self._must(["cmake", "--build", BUILD])
        self.commands = {}
        for entry in json.loads((BUILD / "compile_commands.json").read_text(encoding="utf-8")):
            if "simulated.dir" not in entry["command"]:
                self.commands.setdefault(str(Path(entry["file"]).relative_to(COPY)), entry["command"])
        self.objects = {}

    def _must(self, argv):
        code, output = command.run(argv, SECONDS, cwd=COPY)
        if code != 0:
            raise CannotBuild(output[-4000:])

    def targets(self):
        """Names of the test programs that the copy builds."""
        return {path.name: path for kind in ("unit", "contract", "simulated", "simulator") for path in (BUILD / "tests" / kind).glob("*")
                if path.is_file() and os.access(path, os.X_OK) and path.suffix == ""}

    def text(self, path):
        return (tree.TREE / path).read_text(encoding="utf-8")

    def write(self, path, text):
        (COPY / path).write_text(text, encoding="utf-8")

    def restore(self, path):
        shutil.copyfile(tree.TREE / path, COPY / path)

    def build(self, targets):
        """Whether the copy builds as it stands: only what the planted file concerns is made anew."""
        code, _ = command.run(["cmake", "--build", BUILD, "--target", *targets], SECONDS, cwd=COPY)
        return code == 0

    def object_of(self, path):
        """The code that an ordinary build (-O2, neither debugger nor sanitizers) has of the file; None when it does not compile."""
        words = [word for word in shlex.split(self.commands[path]) if not word.startswith(("-g", "-fsanitize", "-fno-sanitize", "-O")) and not word.endswith("ccache")]
        target = BUILD / "judged.o"
        words[words.index("-o") + 1] = str(target)
        code, _ = command.run([*words, "-O2", "-g0"], 120, cwd=BUILD)
        return target.read_bytes() if code == 0 else None

    def verdict(self, path, text):
        """"does not compile"; "equivalent" when the compiler makes the same of the planted file as of the file; None otherwise."""
        if path not in self.objects:
            self.restore(path)
            self.objects[path] = self.object_of(path)
        self.write(path, text)
        mine = self.object_of(path)
        if mine is None:
            return "does not compile"
        return "equivalent" if mine == self.objects[path] else None

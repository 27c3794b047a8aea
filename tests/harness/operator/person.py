"""Whoever follows a page: a shell that keeps its variables from block to block, and reads what it is told to see."""
import os
import shlex
import subprocess
import time

from ..stack import PATIENCE, TREE
from . import page

PAGES = TREE / "deploy" / "disaster"
SECONDS = 30  # at most for one block on a quiet machine, or for one that repeats until its output is right


class Person:
    def __init__(self, folder, variables, reader="", say=print):
        self.state = folder / "variables"
        self.folder, self.reader, self.say = folder, reader, say
        self.state.write_text("".join(f"export {name}={shlex.quote(str(value))}\n" for name, value in variables.items()))

    def run(self, commands, seconds=SECONDS):
        """(exit code, output) of a block, run as it stands; what it sets is set for the next one."""
        script = f"set -euo pipefail; set -a; . {shlex.quote(str(self.state))}; trap {shlex.quote(f'export -p >{shlex.quote(str(self.state))}')} EXIT\n{commands}"
        kept = {name: value for name, value in os.environ.items() if not name.startswith("DUETIME_")}
        done = subprocess.run(["bash", "-c", script], cwd=self.folder, env=kept, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=seconds * PATIENCE, check=False)
        return done.returncode, done.stdout

    def follow(self, name, part=None):
        """Does all that the page, or the part of it with this heading, says. Gives the outputs."""
        return [self._do(name, step) for step in page.steps(PAGES / f"{name}.md", self.reader, part)]

    def _do(self, name, step):
        began = time.monotonic()
        while True:
            code, output = self.run(step.commands)
            wrong = f"exit code {code}" if code else page.missing(step.seen, output)
            if wrong is None:
                self.say(f"{name}.md, line {step.line}: done in {time.monotonic() - began:.1f} s")
                return output
            if not step.repeat or time.monotonic() > began + SECONDS * PATIENCE:
                raise AssertionError(f"{name}.md, line {step.line}: {wrong}\n{step.commands}gave:\n{output[-6000:]}")
            time.sleep(0.5)

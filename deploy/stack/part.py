"""What every part of the stack has in common: a name, a folder, a log, a process, a start and an end.

A part says how it is prepared (`prepare`), started (`argv`, `environment`) and known to be ready (`is_ready`). It
knows nothing of the other parts but what it is given.
"""
import os
import threading
import time

from . import say
from .process import Process

NEVER = threading.Event()  # never set


class GivenUp(say.StackError):
    """Another part failed, or the user pressed Ctrl-C: the stack stops waiting for this one."""


class Part:
    def __init__(self, home, name):
        self.home = home
        self.name = name
        self.data = home / name
        self.log = home / "log" / f"{name}.log"
        self.process = Process(home / "run", name)
        self.once = {}  # environment variables of this start alone

    # -- what a part fills in
    address = ""

    def prepare(self):
        """Makes folders and files. Called before every start; what exists already stays."""

    def argv(self):
        raise NotImplementedError

    def made_of(self):
        """What tells a start from another: the command line, and for some the configuration."""
        return [str(word) for word in self.argv()]

    def environment(self):
        return dict(os.environ)

    def is_ready(self):
        raise NotImplementedError

    def adjust(self):
        """What is to be done once it is ready, at every start; must bear repetition."""

    def discard(self):
        """Removes what it keeps outside of the stack's folder."""

    # -- what all parts do alike
    def start(self, given_up=NEVER):
        """Starts the process and returns when it exists, ready or not. Returns False if it was running already."""
        if self.process.pid() is not None:
            return False
        for folder in (self.data, self.log.parent, self.process.file.parent):
            folder.mkdir(parents=True, exist_ok=True)
        with say.waiting(f"what {self.name} needs before it starts"):
            self.prepare()
        if given_up.is_set():
            raise GivenUp(self.name)
        self.process.start(self.argv(), self.log, self.data, {**self.environment(), **self.once}, self._started_with())
        return True

    def _started_with(self):
        return [*self.made_of(), *(f"{name}={value}" for name, value in sorted(self.once.items()))]

    def wait_ready(self, given_up=NEVER):
        """Waits for as long as its process lives: a start can take minutes on a busy machine."""
        with say.waiting(f"{self.name} to be ready", lambda: self.log_tail(1)):
            while not self.is_ready():
                self.check_alive("while it started")
                if given_up.is_set():
                    raise GivenUp(self.name)
                time.sleep(0.03)
        self.adjust()

    def check_alive(self, when):
        if self.process.pid() is None:
            raise say.StackError(f"{self.name} ended {when}; the end of {self.log}:\n{self.log_tail()}")

    def log_tail(self, lines=25):
        return say.tail(self.log, lines)

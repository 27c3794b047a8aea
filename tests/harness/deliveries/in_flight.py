"""A reader beside a load that counts what is in flight of a topic with a limit, again and again, and knows which limits were asked for."""
import math
import threading
import time

import pymysql

from ..checker import connect, rows
from .account import never_over_the_limit

EVERY = 0.03  # seconds


class InFlight(threading.Thread):
    def __init__(self, stack, topic):
        super().__init__(daemon=True)
        self.stack, self.topic = stack, topic
        self.samples, self.limits = [], []
        self._end = threading.Event()
        self.start()

    def run(self):
        connection = None
        while not self._end.wait(EVERY):
            try:
                connection = connection or connect(self.stack)
                n = rows(connection, "SELECT COUNT(*) n FROM jobs WHERE topic = %s AND due_band < 2 AND state = 'dispatched'", self.topic)[0]["n"]
                self.samples.append((time.monotonic(), n))
            except (pymysql.Error, OSError):  # a server that is down has nothing to say
                connection = None

    def limit(self, number, ask):
        """ask(): sets the limit, and gives whether it was answered well; one that was not may hold or not."""
        asked, answered = time.monotonic(), math.inf
        try:
            assert ask()
            answered = time.monotonic()
        finally:
            self.limits.append((asked, answered, number))

    def most(self, since=0.0):
        return max((n for at, n in self.samples if at >= since), default=0)

    def end(self):
        """The problems that were seen."""
        self._end.set()
        self.join(10)
        return never_over_the_limit(self.topic, self.samples, self.limits)

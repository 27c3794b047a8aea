"""A reader beside a load that counts what is in flight of a topic with a limit, again and again, and knows which limits were asked for."""
import math
import threading
import time

import pymysql

from ..checker import connect, rows
from ..stack import until
from .account import never_over_the_limit

EVERY = 0.03  # seconds


def open_transactions_end(connection):
    """Waits until every transaction that is open now has ended: it may have read an old limit. MySQL refreshes its list only if it was not read
    for 0.1 s. A loop that reads it more often sees the same list for ever."""
    def listed():
        return {tuple(row.values()) for row in rows(connection, "SELECT trx_mysql_thread_id, trx_started FROM information_schema.innodb_trx")}
    begun = listed()
    time.sleep(0.2)
    begun |= listed()
    until(lambda: not begun & listed(), "transactions end", every=0.2)


class InFlight(threading.Thread):
    def __init__(self, stack, topic):
        super().__init__(daemon=True)
        self.stack, self.topic = stack, topic
        self.samples, self.limits = [], []
        self._end, self._stamp = threading.Event(), threading.Lock()  # held for a count and for each step of a limit, so that they do not overlap
        self.start()

    def run(self):
        connection = None
        while not self._end.wait(EVERY):
            try:
                connection = connection or connect(self.stack)
                with self._stamp:
                    n = rows(connection, "SELECT COUNT(*) n FROM jobs WHERE topic = %s AND due_band < 2 AND state = 'dispatched'", self.topic)[0]["n"]
                    self.samples.append((time.monotonic(), n))
            except (pymysql.Error, OSError):  # a server that is down has nothing to say
                connection = None

    def limit(self, number, ask):
        """ask(): sets the limit, and gives whether it was answered well; one that was not may hold or not."""
        asked, answered = self._now(), math.inf
        try:
            assert ask()
            with connect(self.stack) as connection:
                open_transactions_end(connection)
            answered = self._now()
        finally:
            self.limits.append((asked, answered, number))

    def _now(self):
        with self._stamp:
            return time.monotonic()

    def most(self, since=0.0):
        return max((n for at, n in self.samples if at >= since), default=0)

    def end(self):
        """The problems that were seen."""
        self._end.set()
        self.join(10)
        return never_over_the_limit(self.topic, self.samples, sorted(self.limits, key=lambda limit: limit[0]))

"""Lines that wait at the same time leave as one batch.

    put ──▶ waiting ──▶ a sender takes what there is (bounded) ──▶ one request ──▶ each line's own answer
               ▲                                                       │
               └── at the front, after a pause: refused for the moment, or outcome unknown and repeatable

A few senders, each with a connection of its own. A line that is alone leaves at once; while all connections are busy the next batch
gathers. Each line has a deadline, and is settled once: answer, problem, Unavailable or OutcomeUnknown. `put` waits while the bounds of
what waits are reached. The lock is held for bookkeeping only, never while a request is under way. After a fork the child has none of the
lines: the parent sends them.
"""
from __future__ import annotations

import random
import threading
import time
from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Callable

from .errors import DuetimeError, OutcomeUnknown, Unavailable, problem_of
from .forks import Forked
from .job import seconds_of
from .transport import NO_RESULT, Address, Answer, Broken, Connection, NotSent

LONGEST_PAUSE = 2.0
REFUSED_FOR_NOW = (408, 429, 503)
DOUBTED = (502, 504)  # a proxy has lost the server's answer


@dataclass(frozen=True)
class Limits:
    """`linger`: seconds for which a line waits for company. `batch_*`: of one request. `waiting_*`: beyond these, callers wait."""

    connections: int = 2
    linger: float = 0.0
    batch_lines: int = 1000
    batch_bytes: int = 1 << 20
    waiting_lines: int = 10_000
    waiting_bytes: int = 64 << 20


class Line:
    """One line and what its caller awaits. Once it was in a request its future cannot be cancelled any more."""

    __slots__ = ("data", "deadline", "future", "in_doubt", "put_at", "repeatable", "why")

    def __init__(self, data: bytes, repeatable: bool, deadline: float) -> None:
        self.data, self.repeatable, self.deadline = data, repeatable, deadline
        self.future: Future[Any] = Future()
        self.put_at = 0.0
        self.in_doubt = False  # an earlier request with it may have been carried out
        self.why = "it was not sent in time"

    def may_be_sent(self) -> bool:
        return self.future.running() or self.future.set_running_or_notify_cancel()

    def fail_late(self) -> None:
        """Settles it when its deadline has passed."""
        if self.may_be_sent():
            kind = OutcomeUnknown if self.in_doubt else Unavailable
            self.future.set_exception(kind(f"the deadline passed: {self.why}"))

    def disown(self) -> None:
        """In a forked process: the line is the parent's. Its future begins again, since a thread of the parent may have held its lock."""
        if self.future._state in ("PENDING", "RUNNING"):  # type: ignore[attr-defined]  # done() would wait for that lock
            Future.__init__(self.future)
            self.future.set_exception(OutcomeUnknown("the process was forked, and its parent awaits the answer"))


def _filled(told: list[dict[str, Any]], count: int) -> list[dict[str, Any]]:
    """A result for each line. A batch that the server ended early has fewer: the last one is a problem, and holds for the rest. When that
    is 413, the lines before it were made: what is left comes in a request of its own."""
    last = told[-1] if told else {"status": 0}
    if len(told) >= count:
        return told
    if last["status"] < 400:
        return told + [NO_RESULT] * (count - len(told))
    if last["status"] == 413 and len(told) > 1:
        last = {**last, "status": 503}
    return told[:-1] + [last] * (count - len(told) + 1)


def pause_of(failures: int, asked: float | None) -> float:
    """Seconds before the next try: more from time to time, not the same for all callers, and what the server asks for at least."""
    return max(asked or 0, min(LONGEST_PAUSE, 0.05 * 2.0 ** min(failures, 10)) * random.uniform(0.5, 1))


class Coalescer(Forked):
    """`read(answer)` makes a line's answer of what the server said about it (status below 400)."""

    def __init__(self, address: Address, path: str, read: Callable[[dict[str, Any]], Any], limits: Limits) -> None:
        super().__init__()
        self._address, self._path, self._read, self._limits = address, path, read, limits
        self._closing = False
        self._begin()

    def _begin(self) -> None:
        lock = threading.RLock()
        self._news, self._room = threading.Condition(lock), threading.Condition(lock)
        self._waiting: deque[Line] = deque()
        self._under_way: dict[threading.Thread, list[Line]] = {}  # by sender
        self._bytes = 0
        self._pause_until = 0.0
        self._failures = 0
        self._idle = 0
        self._senders: list[threading.Thread] = []

    def after_fork(self) -> None:
        """A copy of a line that the parent sends has no answer here, which its caller is told."""
        inherited = [*self._waiting, *(line for batch in self._under_way.values() for line in batch)]
        self._begin()
        for line in inherited:
            line.disown()

    def put(self, line: Line) -> None:
        """Waits for room, at most until the line's deadline; then the line is settled as Unavailable."""
        with self._room:
            roomy = self._room.wait_for(lambda: self._closing or self.has_room(), max(0, line.deadline - time.monotonic()))
            if self._closing:
                raise RuntimeError("the client is closed")
            if not roomy:
                line.why = "too many lines wait"
                line.fail_late()
                return
            line.put_at = time.monotonic()
            self._waiting.append(line)
            self._bytes += len(line.data)
            if not self._idle and len(self._senders) < self._limits.connections:
                self._start_sender()
            self._news.notify()

    def close(self) -> None:
        """What waits is sent, or fails at its deadline; then the senders end."""
        with self._news:
            self._closing = True
            self._news.notify_all()
            self._room.notify_all()
        for sender in self._senders:
            sender.join()

    def has_room(self) -> bool:
        limits = self._limits
        return len(self._waiting) < limits.waiting_lines and self._bytes < limits.waiting_bytes

    def _is_full(self) -> bool:
        return len(self._waiting) >= self._limits.batch_lines or self._bytes >= self._limits.batch_bytes

    def _start_sender(self) -> None:
        sender = threading.Thread(target=self._send_all, name=f"duetime {self._path}", daemon=True)
        self._senders.append(sender)
        sender.start()

    def _send_all(self) -> None:
        connection = Connection(self._address)
        while True:
            batch = self._take()
            if not batch:
                break
            self._under_way[threading.current_thread()] = batch
            try:
                self._send(connection, batch)
            except Exception as error:  # a token that no header can carry, say: its callers are told, and the sender goes on
                connection.close()
                self._fail(batch, error)
            del self._under_way[threading.current_thread()]
        connection.close()

    @staticmethod
    def _fail(batch: list[Line], error: Exception) -> None:
        for line in batch:
            if not line.future.done():
                line.future.set_exception(DuetimeError(f"{type(error).__name__}: {error}"))

    # ---- what waits ----

    def _take(self) -> list[Line]:
        """The next batch; empty when the client is closed and nothing waits."""
        with self._news:
            while True:
                self._drop_late()
                if self._closing and not self._waiting:
                    return []
                seconds = self._seconds_to_wait()
                if seconds is not None and seconds <= 0:
                    batch = self._cut()
                    if batch:
                        return batch
                    continue
                self._idle += 1
                self._news.wait(seconds)
                self._idle -= 1

    def _seconds_to_wait(self) -> float | None:
        """Until a batch may leave, or the first line's deadline; None while there is nothing to send."""
        if not self._waiting:
            return None
        now, first = time.monotonic(), self._waiting[0]
        ready = now if self._is_full() or self._closing else first.put_at + self._limits.linger
        return min(max(ready, self._pause_until), first.deadline) - now

    def _drop_late(self) -> None:
        now = time.monotonic()
        while self._waiting and self._waiting[0].deadline <= now:
            self._pop().fail_late()

    def _pop(self) -> Line:
        line = self._waiting.popleft()
        self._bytes -= len(line.data)
        return line

    def _cut(self) -> list[Line]:
        """As many of the first lines as one request may have; those that nobody awaits any more are dropped."""
        batch: list[Line] = []
        size, now = 0, time.monotonic()
        while self._waiting and len(batch) < self._limits.batch_lines:
            if batch and size + len(self._waiting[0].data) > self._limits.batch_bytes:
                break
            line = self._pop()
            if line.deadline <= now:
                line.fail_late()
            elif line.may_be_sent():
                batch.append(line)
                size += len(line.data)
        self._room.notify_all()
        return batch

    def _again(self, lines: list[Line], pause: float | None) -> None:
        """Back to the front, in order; nothing leaves before the pause is over."""
        with self._news:
            self._failures += 1
            self._pause_until = max(self._pause_until, time.monotonic() + pause_of(self._failures, pause))
            for line in lines:
                line.put_at = 0.0  # it has lingered
            self._waiting.extendleft(reversed(lines))
            self._bytes += sum(len(line.data) for line in lines)
            self._news.notify_all()

    # ---- one request ----

    def _send(self, connection: Connection, batch: list[Line]) -> None:
        seconds = max(0.001, max(line.deadline for line in batch) - time.monotonic())
        try:
            answer = connection.ask("POST", self._path, b"".join(line.data for line in batch), seconds,
                                    {"Content-Type": "application/x-ndjson"})
        except NotSent as error:
            self._refused(batch, str(error))
        except Broken as error:
            self._unknown(batch, str(error))
        else:
            self._answered(batch, answer)

    def _answered(self, batch: list[Line], answer: Answer) -> None:
        told = answer.lines() if answer.status == 200 else [answer.problem()] * len(batch)
        told = _filled(told, len(batch))
        again = [line for line, one in zip(batch, told) if not self._settled(line, one)]
        if again:
            pauses = [answer.retry_after, *(seconds_of(one.get("retry_after")) for one in told)]
            self._again(again, max((pause for pause in pauses if pause is not None), default=None))
        else:
            self._failures = 0

    def _settled(self, line: Line, told: dict[str, Any]) -> bool:
        """False for a line that is to be sent again."""
        status = told["status"]
        if status < 300:
            line.future.set_result(self._read(told))
            return True
        problem = problem_of(told)
        if problem.code == "outcome-unknown" or status in DOUBTED:
            return self._doubted(line, str(problem), told.get("id"))
        if status in REFUSED_FOR_NOW:
            line.why = str(problem)
            return False
        line.future.set_exception(problem)
        return True

    def _doubted(self, line: Line, why: str, id: str | None = None) -> bool:
        line.in_doubt, line.why = True, why
        if not line.repeatable:
            line.future.set_exception(OutcomeUnknown(why, id))
        return not line.repeatable

    def _refused(self, batch: list[Line], why: str) -> None:
        for line in batch:
            line.why = why
        self._again(batch, None)

    def _unknown(self, batch: list[Line], why: str) -> None:
        again = [line for line in batch if not self._doubted(line, why)]
        if again:
            self._again(again, None)

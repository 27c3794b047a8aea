"""Client: creates and reports are coalesced, everything else is a request of its own on a kept connection."""
from __future__ import annotations

import concurrent.futures
import contextvars
import itertools
import queue
import secrets
import ssl
import threading
import time
import urllib.parse
from collections.abc import Iterable
from types import TracebackType
from typing import Any, Union, cast

from .coalescer import DOUBTED, REFUSED_FOR_NOW, Coalescer, Limits, Line, pause_of
from .errors import OutcomeUnknown, Unavailable, problem_of
from .forks import Forked
from .job import Created, Job, body_of, encode, plain
from .transport import Address, Answer, Broken, Connection, NotSent

GRACE = 0.1  # whoever sends lines settles what is late; only one that is in a request is given up here
JobRef = Union[str, tuple[str, str]]


class GivenUp:
    """The caller of a request gives it up, from another thread: what it waits for ends, and it is not tried again."""

    def __init__(self) -> None:
        self._over, self._connection = False, cast("Connection | None", None)
        self._lock = threading.Lock()  # no other request has the connection yet when it is ended

    def give_up(self) -> None:
        with self._lock:
            self._over = True
            if self._connection:
                self._connection.interrupt()

    def use(self, connection: Connection | None) -> None:
        with self._lock:
            self._connection = connection
        if self._over:
            raise OutcomeUnknown("it was given up")


GIVEN_UP: contextvars.ContextVar[GivenUp] = contextvars.ContextVar("GIVEN_UP")  # of the request that this thread makes


class _NotNow(Exception):
    """The server refused for the moment, or gave no answer."""

    def __init__(self, why: str, doubted: bool, retry_after: float | None = None) -> None:
        super().__init__(why)
        self.why, self.doubted, self.retry_after = why, doubted, retry_after


class Client(Forked):
    """For any number of threads, and in each process after a fork. `url`: https://HOST, http://HOST, or unix:/PATH of the API's socket; `token`: a bearer token; `timeout`: seconds for each call, unless it brings its own; `limits`: how creates
    and reports are coalesced; `make_keys`: creates without a key get one, so that each may be sent again; `tls`: for https with an authority
    or a certificate of one's own, an ssl.create_default_context(cafile=…).

    A job is named by its id, or by (topic, key). Durations are "PT30M", "15s", milliseconds or a timedelta; times are RFC 3339 or a
    datetime with its offset. Use it as a context manager, or close it: what waits is sent then.
    """

    def __init__(self, url: str, token: str | None = None, *, timeout: float = 30.0, limits: Limits | None = None, make_keys: bool = False,
                 tls: ssl.SSLContext | None = None) -> None:
        super().__init__()
        self._address = Address(url, token, tls)
        self.timeout = timeout
        self.limits = limits or Limits()
        self._make_keys = make_keys
        self._creates = Coalescer(self._address, "/v1/jobs:batch", lambda told: Created(told["id"], told["status"] == 200), self.limits)
        self._reports = Coalescer(self._address, "/v1/results", lambda told: str(told["outcome"]), self.limits)
        self.after_fork()

    def after_fork(self) -> None:
        # Keys of one client ascend, which is what the server's index of keys likes best. No two processes make the same.
        self._keys = f"{int(time.time() * 1000):013d}-{secrets.token_hex(4)}-" if self._make_keys else None
        self._numbers = itertools.count()
        self._kept: queue.LifoQueue[Connection] = queue.LifoQueue()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self._creates.close()
        self._reports.close()
        while not self._kept.empty():
            self._kept.get().close()

    # ---- coalesced ----

    def create(self, topic: str, payload: Any = None, *, timeout: float | None = None, **members: Any) -> Created:
        """Makes a job and waits until it is durable. Members: key, delay or run_at, retry, ack_timeout, partition_key, headers,
        callback_url, content_type. With a key a repeat is harmless, so it is sent again when an outcome is unknown."""
        line = self._create_line(topic, payload, timeout, members)
        self._creates.put(line)
        return cast(Created, _awaited(line))

    def create_later(self, topic: str, payload: Any = None, *, timeout: float | None = None,
                     **members: Any) -> concurrent.futures.Future[Created]:
        """The same without waiting for the answer; it waits for room when too many lines wait already."""
        line = self._create_line(topic, payload, timeout, members)
        self._creates.put(line)
        return line.future

    def report(self, job_id: str, attempt: int, status: str = "succeeded", *, timeout: float | None = None, **members: Any) -> str:
        """Reports the result of an attempt: succeeded, failed, snoozed, gave_up, extended. Members: error={"code", "message"}, retry_after.
        "applied", "duplicate" or "stale"."""
        line = self._report_line(job_id, attempt, status, timeout, members)
        self._reports.put(line)
        return cast(str, _awaited(line))

    def report_later(self, job_id: str, attempt: int, status: str = "succeeded", *, timeout: float | None = None,
                     **members: Any) -> concurrent.futures.Future[str]:
        line = self._report_line(job_id, attempt, status, timeout, members)
        self._reports.put(line)
        return line.future

    def _create_line(self, topic: str, payload: Any, timeout: float | None, members: dict[str, Any]) -> Line:
        body = body_of({"topic": topic, "payload": payload, **members})
        if self._keys and body.get("key") is None:
            body["key"] = f"{self._keys}{next(self._numbers):09d}"
        return self._line(body, body.get("key") is not None, timeout)

    def _report_line(self, job_id: str, attempt: int, status: str, timeout: float | None, members: dict[str, Any]) -> Line:
        return self._line(body_of({"job_id": job_id, "attempt": attempt, "status": status, **members}), True, timeout)

    def _line(self, body: dict[str, Any], repeatable: bool, timeout: float | None) -> Line:
        return Line(encode(body) + b"\n", repeatable, self._deadline(timeout))

    def is_crowded(self) -> bool:
        """The next create or report would wait for room."""
        return not (self._creates.has_room() and self._reports.has_room())

    # ---- a request each ----

    def get(self, job: JobRef, *, timeout: float | None = None) -> Job:
        return cast(Job, self._asked("GET", _path(job), timeout=timeout))

    def attempts(self, job_id: str, *, timeout: float | None = None) -> list[dict[str, Any]]:
        return cast("list[dict[str, Any]]", self._asked("GET", f"/v1/jobs/{job_id}/attempts", timeout=timeout)["attempts"])

    def change(self, job_id: str, *, if_match: int | None = None, timeout: float | None = None, **members: Any) -> Job:
        """Replaces members of a job that is scheduled; None: the topic's default. `if_match`: only if this is its version; then it is
        not sent again when its outcome is unknown, for the version may be its own by then."""
        headers = {} if if_match is None else {"If-Match": f'"{if_match}"'}
        return cast(Job, self._asked("PATCH", f"/v1/jobs/{job_id}", body_of(members), repeatable=if_match is None, headers=headers,
                                     timeout=timeout))

    def cancel(self, job_id: str, *, retries: bool = False, timeout: float | None = None) -> Job:
        """Cancels the job; `retries`: a dispatched one gets no further attempt."""
        return cast(Job, self._asked("POST", f"/v1/jobs/{job_id}/cancel{'?retries=true' if retries else ''}", timeout=timeout))

    def pop(self, topics: str | Iterable[str], *, max: int = 1, wait: Any = 20_000, ttr: Any = None, timeout: float | None = None) -> list[Job]:
        """Claims due jobs of pull topics; waits until there is one (`wait`, at most a minute). `ttr`: time for each attempt. `timeout`: of the
        call, its wait included."""
        body = {"topics": [topics] if isinstance(topics, str) else list(topics), "max": max, "wait": plain(wait)}
        if ttr is not None:
            body["ttr"] = plain(ttr)
        return cast("list[Job]", self._asked("POST", "/v1/pop", body, repeatable=False,
                                             timeout=self.timeout + 60 if timeout is None else timeout)["jobs"])

    def put_topic(self, topic: str, **settings: Any) -> dict[str, Any]:
        """Sets a topic: delivery, retry, ack_timeout, rate_limit, max_in_flight …; what is left out takes its default."""
        return cast("dict[str, Any]", self._asked("PUT", f"/v1/topics/{urllib.parse.quote(topic, safe='')}", settings))

    def _asked(self, method: str, path: str, body: Any = None, *, repeatable: bool = True, headers: dict[str, str] | None = None,
               timeout: float | None = None) -> Any:
        """The decoded answer. Refused for the moment: again, until the deadline. Outcome unknown: again if that does no harm."""
        deadline, pauses, in_doubt = self._deadline(timeout), 0, False
        sent = {**({} if body is None else {"Content-Type": "application/json"}), **(headers or {})}
        data = None if body is None else encode(body)
        while True:
            try:
                return self._tried(method, path, data, deadline, sent)
            except _NotNow as error:
                in_doubt |= error.doubted
                if error.doubted and not repeatable:
                    raise OutcomeUnknown(error.why) from None
                pauses += 1
                seconds = pause_of(pauses, error.retry_after)
                if time.monotonic() + seconds >= deadline:
                    raise (OutcomeUnknown if in_doubt else Unavailable)(error.why) from None
            time.sleep(seconds)

    def _tried(self, method: str, path: str, body: bytes | None, deadline: float, headers: dict[str, str]) -> Any:
        try:
            answer = self._once(method, path, body, deadline, headers)
        except (NotSent, Broken) as error:
            raise _NotNow(str(error), isinstance(error, Broken)) from error
        if answer.status < 300:
            return answer.json()
        problem = problem_of(answer.problem())
        doubted = problem.code == "outcome-unknown" or answer.status in DOUBTED
        if doubted or answer.status in REFUSED_FOR_NOW:
            raise _NotNow(str(problem), doubted, answer.retry_after)
        raise problem

    def _once(self, method: str, path: str, body: bytes | None, deadline: float, headers: dict[str, str]) -> Answer:
        try:
            connection = self._kept.get_nowait()
        except queue.Empty:
            connection = Connection(self._address)
        given = GIVEN_UP.get(None)
        try:
            if given:
                given.use(connection)
            return connection.ask(method, path, body, max(0.001, deadline - time.monotonic()), headers)
        finally:
            try:
                if given:
                    given.use(None)
            finally:
                self._kept.put(connection)

    def _deadline(self, timeout: float | None) -> float:
        return time.monotonic() + (self.timeout if timeout is None else timeout)


def _awaited(line: Line) -> Any:
    """The line's answer; when its deadline passes while its request is under way, the outcome is unknown."""
    try:
        return line.future.result(max(0, line.deadline - time.monotonic()) + GRACE)
    except concurrent.futures.TimeoutError:
        kind = Unavailable if line.future.cancel() else OutcomeUnknown
        raise kind(f"the deadline passed: {line.why}") from None


def _path(job: JobRef) -> str:
    if isinstance(job, str):
        return f"/v1/jobs/{urllib.parse.quote(job, safe='')}"
    topic, key = job
    return f"/v1/topics/{urllib.parse.quote(topic, safe='')}/jobs/{urllib.parse.quote(key, safe='')}"

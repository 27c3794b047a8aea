"""AsyncClient: the same for asyncio. Creates and reports share the batches of a Client; other requests run in threads."""
from __future__ import annotations

import asyncio
import contextvars
import functools
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Any, Callable, TypeVar, cast

from .client import GIVEN_UP, GRACE, Client, GivenUp, JobRef
from .errors import OutcomeUnknown, Unavailable
from .forks import Forked
from .job import Created, Job

T = TypeVar("T")


class AsyncClient(Forked):
    """Takes what Client takes. `threads`: how many requests other than creates and reports are under way at a time, pops included. A call that is
    cancelled is given up: its connection ends, so that a pop gets no job that nobody awaits."""

    def __init__(self, url: str, token: str | None = None, *, threads: int = 16, **options: Any) -> None:
        super().__init__()
        self._client = Client(url, token, **options)
        self._count = threads
        self.after_fork()

    def after_fork(self) -> None:
        self._threads = ThreadPoolExecutor(self._count, "duetime")

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    async def close(self) -> None:
        await self._in_thread(self._client.close)
        self._threads.shutdown(wait=False)

    async def create(self, topic: str, payload: Any = None, **members: Any) -> Created:
        return await self._later(self._client.create_later, topic, payload, **members)

    async def report(self, job_id: str, attempt: int, status: str = "succeeded", **members: Any) -> str:
        return await self._later(self._client.report_later, job_id, attempt, status, **members)

    async def _later(self, put: Callable[..., Future[T]], *arguments: Any, timeout: float | None = None, **members: Any) -> T:
        """The loop itself never waits for room: a thread does. At its deadline the call ends, whoever shares its request."""
        loop = asyncio.get_running_loop()
        end = loop.time() + GRACE + (self._client.timeout if timeout is None else timeout)
        call = functools.partial(put, *arguments, timeout=timeout, **members)
        made = await self._in_thread(call) if self._client.is_crowded() else call()
        try:
            return await asyncio.wait_for(asyncio.wrap_future(made), max(0, end - loop.time()))
        except asyncio.TimeoutError:
            raise (Unavailable if made.cancelled() else OutcomeUnknown)("the deadline passed") from None

    async def get(self, job: JobRef, **options: Any) -> Job:
        return await self._in_thread(self._client.get, job, **options)

    async def attempts(self, job_id: str, **options: Any) -> list[dict[str, Any]]:
        return await self._in_thread(self._client.attempts, job_id, **options)

    async def change(self, job_id: str, **members: Any) -> Job:
        return await self._in_thread(self._client.change, job_id, **members)

    async def cancel(self, job_id: str, **options: Any) -> Job:
        return await self._in_thread(self._client.cancel, job_id, **options)

    async def pop(self, topics: str | Iterable[str], **options: Any) -> list[Job]:
        return await self._in_thread(self._client.pop, topics, **options)

    async def _in_thread(self, call: Callable[..., T], *arguments: Any, **options: Any) -> T:
        given, context = GivenUp(), contextvars.copy_context()
        context.run(GIVEN_UP.set, given)
        run = functools.partial(context.run, functools.partial(call, *arguments, **options))
        try:
            return cast(T, await asyncio.get_running_loop().run_in_executor(self._threads, run))
        except asyncio.CancelledError:
            given.give_up()
            raise

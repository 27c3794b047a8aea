"""The errors a caller can tell apart.

DuetimeError
├── Unavailable       nothing happened: the server refused for the moment, or could not be reached, until the deadline
├── OutcomeUnknown    it may have happened: ask again with the key, or by `id` where the server gave one
└── Problem           the server refused for good: `status`, `code` ("too-late"), `detail`, `errors`, `request_id`, `members`
    ├── Invalid, Unauthorized, Forbidden, NotFound, VersionMismatch
    └── Conflict
        ├── KeyConflict   another job has the key: `id`
        └── TooLate       the job is not scheduled any more: `state`, `attempt`
"""
from __future__ import annotations

from typing import Any


class DuetimeError(Exception):
    """Whatever a call can end with, other than its answer."""


class Unavailable(DuetimeError):
    """Nothing happened."""


class OutcomeUnknown(DuetimeError):
    """It may have happened."""

    def __init__(self, message: str, id: str | None = None) -> None:
        super().__init__(message)
        self.id = id


class Problem(DuetimeError):
    """A problem of RFC 9457."""

    def __init__(self, members: dict[str, Any]) -> None:
        self.members = members
        self.status = int(members.get("status", 0))
        self.code = str(members.get("type", "")).rpartition("/")[2]
        self.detail = members.get("detail") or members.get("title") or ""
        self.errors: list[dict[str, str]] = members.get("errors", [])
        self.request_id: str | None = members.get("request_id")
        where = "; ".join(f"{error['pointer']}: {error['reason']}" for error in self.errors)
        super().__init__(f"{self.status} {self.code}: {self.detail}{' (' + where + ')' if where else ''}")


class Invalid(Problem):
    """400, 413, 415, 422: the request itself is wrong."""


class Unauthorized(Problem):
    """401: no token, or an unknown one."""


class Forbidden(Problem):
    """403: the token lacks a scope."""


class NotFound(Problem):
    """404: no such job or topic, or none that the token reaches."""


class VersionMismatch(Problem):
    """412: the job has changed since `if_match`."""


class Conflict(Problem):
    """409."""


class KeyConflict(Conflict):
    """An unlike request made the job that has this key."""

    @property
    def id(self) -> str | None:
        return self.members.get("id")


class TooLate(Conflict):
    """The job was dispatched, or is final."""

    @property
    def state(self) -> str | None:
        return self.members.get("state")

    @property
    def attempt(self) -> int | None:
        return self.members.get("attempt")


_BY_CODE = {"key-conflict": KeyConflict, "too-late": TooLate}
_BY_STATUS = {400: Invalid, 401: Unauthorized, 403: Forbidden, 404: NotFound, 409: Conflict, 412: VersionMismatch, 413: Invalid,
              415: Invalid, 422: Invalid}


def problem_of(members: dict[str, Any]) -> Problem:
    """The problem as the type that fits best."""
    made = Problem(members)
    kind = _BY_CODE.get(made.code) or _BY_STATUS.get(made.status)
    return kind(members) if kind else made

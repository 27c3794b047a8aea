"""What is asked and answered: members of a job as Python has them, and as the server reads them."""
from __future__ import annotations

import base64
import datetime
import json
import re
from typing import Any, NamedTuple, TypedDict

_MILLISECOND = datetime.timedelta(milliseconds=1)
_DURATION = re.compile(r"PT(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?")


class Created(NamedTuple):
    """`existed`: an equal request had made the job before."""

    id: str
    existed: bool


class Job(TypedDict, total=False):
    """A job as the server tells it; members that a version adds are there as well."""

    id: str
    topic: str
    key: str
    state: str
    run_at: str
    next_at: str
    attempt: int
    max_attempts: int
    failures: int
    retry: list[str]
    ack_timeout: str
    partition_key: str
    headers: dict[str, str]
    payload: Any
    payload_base64: str
    content_type: str
    waiting_for: str
    last_error: dict[str, str]
    created_at: str
    updated_at: str
    version: int
    deadline: str


def plain(value: Any) -> Any:
    """A duration in milliseconds, rounded up; a time with its offset; a list of either."""
    if isinstance(value, datetime.timedelta):
        return -(-value // _MILLISECOND)
    if isinstance(value, datetime.datetime):
        if value.tzinfo is None:
            raise ValueError(f"{value} has no offset")
        return value.isoformat()
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    return value


def body_of(members: dict[str, Any]) -> dict[str, Any]:
    """Members with their values made plain. A payload of bytes travels as base64; any other payload is left as it is."""
    body = {name: value if name == "payload" else plain(value) for name, value in members.items()}
    if isinstance(body.get("payload"), (bytes, bytearray)):
        body["payload_base64"] = base64.b64encode(body.pop("payload")).decode()
        body.setdefault("content_type", "application/octet-stream")
    return body


def seconds_of(duration: Any) -> float | None:
    """Of a duration of hours, minutes and seconds, as the server writes pauses: "PT1M0.5S"."""
    found = _DURATION.fullmatch(duration) if isinstance(duration, str) else None
    if not found:
        return None
    hours, minutes, seconds = (float(part or 0) for part in found.groups())
    return hours * 3600 + minutes * 60 + seconds


def encode(body: Any) -> bytes:
    return json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode()

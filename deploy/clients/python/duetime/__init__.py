"""Client of duetime: jobs that are due later. `Client` is for threads, `AsyncClient` for asyncio."""
from .aio import AsyncClient
from .client import Client
from .coalescer import Limits
from .errors import (
    Conflict,
    DuetimeError,
    Forbidden,
    Invalid,
    KeyConflict,
    NotFound,
    OutcomeUnknown,
    Problem,
    TooLate,
    Unauthorized,
    Unavailable,
    VersionMismatch,
)
from .job import Created, Job

__all__ = [
    "AsyncClient", "Client", "Conflict", "Created", "DuetimeError", "Forbidden", "Invalid", "Job", "KeyConflict", "Limits", "NotFound",
    "OutcomeUnknown", "Problem", "TooLate", "Unauthorized", "Unavailable", "VersionMismatch",
]

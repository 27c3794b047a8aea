"""What arrived, whatever brought it: kept by whoever receives, asked for by whoever judges. Thread-safe."""
import threading
from dataclasses import dataclass


@dataclass
class Arrival:
    job: str
    attempt: int
    received_ms: int
    due_ms: int  # what this attempt was due at
    value: dict


class Arrivals:
    """`replies` maps the name of a sample to its reports, one an attempt: a dict, or None for silence. Arrivals of other runs on
    the same topic are passed over: the payload names the run and the sample."""

    def __init__(self, run, replies):
        self._run_name = run
        self._replies = replies
        self._changed = threading.Condition()
        self._arrivals = []

    def is_ours(self, value):
        return isinstance(value, dict) and value.get("run") == self._run_name

    def took(self, arrival):
        """Keeps the arrival; the report that its sample wants, None for silence."""
        with self._changed:
            self._arrivals.append(arrival)
            self._changed.notify_all()
        replies = self._replies.get(arrival.value["sample"], [])
        return replies[arrival.attempt - 1] if arrival.attempt <= len(replies) else {"status": "succeeded"}

    def of(self, job):
        with self._changed:
            return [arrival for arrival in self._arrivals if arrival.job == job]

    def wait_for(self, job, attempt, seconds):
        """True once the attempt has arrived."""
        with self._changed:
            return self._changed.wait_for(
                lambda: any(arrival.job == job and arrival.attempt == attempt for arrival in self._arrivals), seconds)

"""What the consumer and the worker have in common: the work, and the record of what was done, by which a repeated message, a repeated attempt
and an attempt that was overtaken are known."""
import os
import threading
import time


class Impossible(Exception):
    """No attempt can succeed."""


def work(order, attempt):
    """The place for your own work: it raises when it fails."""
    time.sleep(0.002)
    if order.get("impossible"):
        raise Impossible(f"order {order['n']} cannot be closed")
    if attempt <= order.get("fails", 0):
        raise RuntimeError(f"attempt {attempt} at order {order['n']} fails")


class Effects:
    """A line "JOB ATTEMPT STATUS" for each attempt that was worked on. In your application it is a row, written in the work's own transaction."""

    def __init__(self, path=None):
        self.path = path or os.environ.get("DUETIME_EFFECTS", "effects.log")
        self.last, self.lock = {}, threading.Lock()
        if os.path.exists(self.path):
            with open(self.path, encoding="utf-8") as lines:
                for job, attempt, status in map(str.split, lines):
                    self.last[job] = (int(attempt), status)

    def known(self, job, attempt):
        """The status to report without working, "stale" for an attempt that a later one has overtaken, or None: work."""
        last, status = self.last.get(job, (0, None))
        if last > attempt:
            return "stale"
        return status if last == attempt or status in ("succeeded", "gave_up") else None

    def record(self, job, attempt, status):
        with self.lock, open(self.path, "a", encoding="utf-8") as lines:
            lines.write(f"{job} {attempt} {status}\n")
        self.last[job] = (attempt, status)


def attend(effects, job, attempt, order):
    """Works on an attempt, unless it is known. The report, or None when there is nothing to say."""
    known = effects.known(job, attempt)
    if known:
        return None if known == "stale" else {"job_id": job, "attempt": attempt, "status": known}
    report = {"job_id": job, "attempt": attempt, "status": "succeeded"}
    try:
        work(order, attempt)
    except Exception as error:  # whatever it was, it is reported
        report["status"] = "gave_up" if isinstance(error, Impossible) else "failed"
        report["error"] = {"code": type(error).__name__, "message": str(error)[:500]}
    effects.record(job, attempt, report["status"])
    return report

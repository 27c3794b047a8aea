"""Consumers of two Kafka clusters, one after the other, and the account of what was lost with the first."""
from ..checker import Checker, answers_hold, at_most_once, caught_up, never_early, only_what_was_asked_for
from ..consumer import TestConsumer
from ..stack import until


class Both:
    """In the place of a load's consumer, once another cluster serves: reports go there, arrivals are those of both."""

    def __init__(self, first, brokers, topics, rule):
        self._first, self._second = first, TestConsumer(brokers, topics, rule=rule, keep=False)

    def __getattr__(self, name):
        return getattr(self._second, name)

    @property
    def count(self):
        return self._first.count + self._second.count

    def which(self, jobs):
        return sorted({*self._first.which(jobs), *self._second.which(jobs)})

    def all(self):
        return self._first.all() + self._second.all()

    def of_second(self):
        return self._second.all()

    def end(self):
        self._second.end()
        self._first.end()


def went_missing(table, seen):
    """Attempts that nobody received, and that are not told as such: neither as timed out nor as undeliverable."""
    problems = []
    for job, row in table.items():
        told = {past["attempt"] for past in [*row["past"], {"attempt": row["attempt"], "status": row["attempt_status"]}] if past["status"] in ("timed_out", "undeliverable")}
        problems += [f"O3: {job}/{attempt} was claimed, never arrived, and nobody says so"
                     for attempt in range(1, row["attempt"] + 1) if (job, attempt) not in seen and attempt not in told]
    return problems


class ClustersChecker(Checker):
    """By what callers were answered and what consumers received: no cluster has the whole of it, nor a ledger."""

    def check(self, journal, topics, settle_seconds=30, live=None, skip=(), ways=None):
        del skip, ways
        until(lambda: not self.unrest(topics), lambda: "\n".join(self.unrest(topics)[:20]), every=0.3, seconds=settle_seconds)
        arrivals, table = caught_up(live, []), self.table(topics)
        seen = {(int(arrival.job), arrival.attempt) for arrival in arrivals}
        problems = only_what_was_asked_for(table, journal) + at_most_once(arrivals) + never_early(arrivals, journal) + went_missing(table, seen)
        problems += [f"O1: {job} was answered, and is not in MySQL" for job in journal.jobs if int(job) not in table]
        problems += [problem for problem in answers_hold(arrivals, journal, table) if "answered too late" not in problem]
        if problems:
            raise AssertionError(f"{len(problems)} problems:\n" + "\n".join(problems[:40]))
        self.lost = sum(row["attempt"] for row in table.values()) - len(seen)
        return arrivals

"""The checker can fail: each oracle is shown a sound account, and one in which just one thing is wrong. No servers."""
import pytest

from harness import checker, load
from harness.consumer import Seen
from harness.deliveries import account as deliveries
from harness.journal import Journal

NOW = 1_800_000_000_000


def row(job, **more):
    return {"id": job, "topic": b"t", "state": "succeeded", "next_at": None, "attempt": 1, "attempt_status": "succeeded", "dispatched_at": NOW,
            "finished_at": NOW + 50, "ack_timeout_ms": 2000, "serial": job, "paused": 0, "undeliverable": set(), "past": [], "now": NOW + 10000, "failures": 0,
            **more}


def callback(job, **more):
    """Its first attempt was lost, its second one succeeded."""
    lost = {"attempt": 1, "status": "lost", "dispatched_at": NOW, "finished_at": NOW + 900, "http_status": None, "error_code": None}
    return row(job, topic=b"calls", attempt=2, past=[lost], failures=0, http_status=204, error_code=None, dispatched_at=NOW + 900,
               finished_at=NOW + 950, **more)


def pop(job):
    """The answer of the first one was lost, so that its deadline passed; of the second one a failure was reported."""
    late = {"attempt": 1, "status": "timed_out", "dispatched_at": NOW, "finished_at": NOW + 2000, "http_status": None, "error_code": None}
    return row(job, topic=b"pops", state="dead", attempt=2, attempt_status="failed", error_code=b"E1", past=[late], failures=2,
               http_status=None, dispatched_at=NOW + 2100, finished_at=NOW + 2200)


class Account:
    """Four jobs: one that succeeded at once, one that died after its second attempt; one that was called back, one that was popped."""

    def __init__(self):
        self.journal = Journal()
        for job in (1, 2, 3, 4):
            self.journal.asked(self.journal.serial(), NOW)
            self.journal.made(str(job), NOW, job)
        failed = {"attempt": 1, "status": "failed", "dispatched_at": NOW, "finished_at": NOW + 20}
        self.table = {1: row(1), 2: row(2, state="dead", attempt=2, attempt_status="failed", past=[failed]), 3: callback(3), 4: pop(4)}
        self.live = [Seen("1", 1, NOW + 5), Seen("2", 1, NOW + 5), Seen("2", 2, NOW + 150)]
        self.arrivals = list(self.live)
        self.ledger = {(1, 1): 1, (2, 1): 1, (2, 2): 1}
        self.other = [Seen("3", 2, NOW + 920), Seen("4", 2, NOW + 2120)]  # of a receiver and of workers
        self.hands, self.offers = [], []
        self.samples, self.limits = [(0, 0), (10, 2), (10.1, 1)], [(1, 1.1, 2)]
        self.dispatched = [NOW + 100 * i for i in range(90)]
        self.letters = {"2/2/dead", "4/2/dead"}
        self.leaders = []
        self.sets = [[], []]      # Redis: two shards
        self.expected = {}        # MySQL: what must be there
        self.alive = set()
        self.due(13)
        self.due(14)

    def due(self, job):
        """A job that waits for its time, in MySQL and in Redis."""
        self.expected[job] = NOW + 20000
        self.alive.add(job)
        self.sets[checker.shard_of(job, 2)].append((job, NOW + 20000))

    def problems(self):
        deliveries.forgive(self.table, ("calls", "pops"), self.journal)
        everything = self.arrivals + self.other
        return (checker.only_what_was_asked_for(self.table, self.journal) + checker.at_most_once(everything) +
                deliveries.lost_costs_nothing(self.table, ("calls",), self.journal) + deliveries.nothing_in_hands(self.hands) +
                deliveries.nothing_offered(self.offers) + deliveries.never_over_the_limit("pops", self.samples, self.limits) +
                deliveries.never_over_the_rate("pops", self.dispatched, 10) + checker.never_early(self.other, self.journal) +
                checker.nothing_lost(self.table, everything, self.journal) + checker.ledger_equals_topics(self.ledger, self.arrivals) +
                checker.answers_hold(everything, self.journal, self.table) + checker.attempts_follow_failures(self.table, self.journal) +
                checker.letters_left(self.table, self.letters) + checker.the_same_was_seen_live(self.live, self.arrivals) +
                checker.never_early(self.live, self.journal) + checker.nothing_in_flight(self.leaders) +
                checker.index_equals_table(self.sets, self.expected, self.alive))


def test_a_correct_account_has_no_problems():
    assert Account().problems() == []


def both(account, seen):
    account.arrivals.append(seen)
    account.live.append(seen)


def own(account, job):
    return account.sets[checker.shard_of(job, 2)]


def misplace(account, job):
    own(account, job).remove((job, NOW + 20000))
    account.sets[1 - checker.shard_of(job, 2)].append((job, NOW + 20000))


def change_time(account, job):
    own(account, job).remove((job, NOW + 20000))
    own(account, job).append((job, NOW))


WRONG = {
    "an answered job is not in MySQL": ("O1: 1 was answered", lambda a: a.table.pop(1)),
    "a refused create made a job": ("O1: 1 exists, and its create", lambda a: a.journal.nothing_made(1)),
    "one request made two jobs": ("O1: the request 1 made 2 jobs", lambda a: a.table.update({2: row(2, serial=1)})),
    "a job comes from nowhere": ("O1: 5 exists, and nobody", lambda a: a.table.update({5: row(5, state="scheduled", attempt=0, next_at=NOW + 20000)})),
    "a cancelled job is not cancelled": ("O1: 1 was answered cancelled", lambda a: a.journal.cancelled("1", 1)),
    "a success did not stay": ("O1: 2 was answered succeeded", lambda a: a.journal.ended("2", 2)),
    "an attempt arrives twice": ("O2: 1/1 arrived 2 times", lambda a: both(a, Seen("1", 1, NOW + 9))),
    "an attempt is in the ledger twice": ("O4: 1/1 is 2 times", lambda a: a.ledger.update({(1, 1): 2})),
    "an attempt follows a success": ("O2: 2/1 is succeeded", lambda a: a.table[2]["past"][0].update(status="succeeded")),
    "a claimed attempt never arrives": ("O3: 1/1 was claimed", lambda a: a.arrivals.pop(0)),
    "an attempt arrives that MySQL does not know": ("O3: 2/3 arrived", lambda a: both(a, Seen("2", 3, NOW + 900))),
    "a due job is not sent": ("O3: 1, scheduled, is overdue", lambda a: a.table[1].update(state="scheduled", next_at=NOW, attempt=0)),
    "a deadline that passed is not acted upon": ("O3: 1, dispatched, is overdue", lambda a: a.table[1].update(state="dispatched", next_at=NOW)),
    "a cancelled job arrives": ("O3: 1 was answered cancelled after 0", lambda a: a.journal.cancelled("1")),
    "what was too late never came": ("O3: 1 was answered too late with attempt 2", lambda a: a.journal.too_late("1", 2)),
    "a finished job is sent again": ("O3: 2 succeeded with attempt 1", lambda a: a.journal.ended("2", 1)),
    "a dead job leaves no letter": ("O3: 2 is dead", lambda a: a.letters.clear()),
    "a message is not in the ledger": ("O4: 1/1 is in its topic, not", lambda a: a.ledger.pop((1, 1))),
    "the ledger has what its topic lacks": ("O4: 1/2 is in the ledger", lambda a: a.ledger.update({(1, 2): 1})),
    "a committed message is gone": ("O2: 9/1 was read as committed", lambda a: a.live.append(Seen("9", 1, NOW))),
    "who reads along misses a message": ("O3: 1/1 is in its topic, and who", lambda a: a.live.pop(0)),
    "something is in flight for ever": ("O5: shard 1 has [[3,1,0]] in flight", lambda a: a.leaders.append({"shard": 1, "inflight": "[[3,1,0]]"})),
    "Redis lacks a job": ("O5: 13 is due", lambda a: own(a, 13).remove((13, NOW + 20000))),
    "Redis has another time": (f"O5: 13 is due {NOW + 20000}, Redis says {NOW}", lambda a: change_time(a, 13)),
    "Redis has a job twice": ("O5: 13 is 2 times in Redis", lambda a: own(a, 13).append((13, NOW + 9))),
    "an entry is in another shard's set": ("O5: 13 is in the set of shard", lambda a: misplace(a, 13)),
    "a finished job is in Redis": ("O5: Redis has 1, which is finished", lambda a: own(a, 1).append((1, NOW))),
    "a job arrives early": ("O6: 1/1 arrived 10 ms early", lambda a: a.journal.moved("1", NOW + 15)),
    "a callback is sent twice": ("O2: 3/2 arrived 2 times", lambda a: a.other.append(Seen("3", 2, NOW + 930))),
    "two pops get the same attempt": ("O2: 4/2 arrived 2 times", lambda a: a.other.append(Seen("4", 2, NOW + 2130))),
    "an attempt goes to Kafka and to a receiver": ("O2: 1/1 arrived 2 times", lambda a: a.other.append(Seen("1", 1, NOW + 9))),
    "a callback that was answered never came": ("O3: 3/2 was claimed", lambda a: a.other.pop(0)),
    "a callback that failed by its answer never came": ("O3: 3/1 was claimed", lambda a: a.table[3]["past"][0].update(status="failed", http_status=500)),
    "what was reported of a pop was handed to nobody": ("O3: 4/2 was claimed", lambda a: a.other.pop(1)),
    "a cancelled job is called back": ("O3: 3 was answered cancelled after 1", lambda a: a.journal.cancelled("3", 1)),
    "a cancelled job is popped": ("O3: 4 was answered cancelled after 1", lambda a: a.journal.cancelled("4", 1)),
    "a callback comes early": ("O6: 3/2 arrived 80 ms early", lambda a: a.journal.moved("3", NOW + 1000, 2)),
    "a pop comes early": ("O6: 4/2 arrived 880 ms early", lambda a: a.journal.moved("4", NOW + 3000, 2)),
    "an attempt is lost that was no callback": ("O2: 4/1 is lost", lambda a: a.table[4]["past"][0].update(status="lost")),
    "a lost attempt is counted as a failure": ("O2: 3 has 2 failures", lambda a: a.table[3].update(failures=2)),
    "an attempt stays in somebody's hands": ("O5: 3/2 is in the hands", lambda a: a.hands.append({"job_id": 3, "attempt": 2, "owner": 9})),
    "a finished job is offered to pops": ("O5: 4 is offered", lambda a: a.offers.append({"job_id": 4})),
    "more is in flight than allowed": ("O8: 3 attempts of pops", lambda a: a.samples.append((11, 3))),
    "more is claimed although a lower limit holds": ("O8: 2 attempts of pops", lambda a: (a.limits.append((9, 9, 1)), a.samples.append((11, 2)))),
    "more begins than the rate allows": ("O8: 111 attempts of pops", lambda a: a.dispatched.extend([NOW + 9000] * 22)),
    "an acknowledgement times out early": ("O6: 2/1 timed out 1980 ms early", lambda a: a.table[2]["past"][0].update(status="timed_out")),
}


@pytest.mark.parametrize("what", WRONG)
def test_the_checker_reports_an_account_that_violates_a_rule(what):
    expected, spoil = WRONG[what]
    account = Account()
    spoil(account)
    assert [problem for problem in account.problems() if problem.startswith(expected)], account.problems()


def test_growth_is_accepted_if_the_limit_was_set_after_the_last_count():
    """The limit began to hold between two counts."""
    limits = [(0.3, 0.6, 100)]
    assert deliveries.never_over_the_limit("pops", [(0, 399), (1, 445)], limits) == []
    assert deliveries.never_over_the_limit("pops", [(0, 399), (1, 445), (2, 446)], limits) != []


class Looker:
    """A consumer of whom every look finds more jobs made: they arrive, or nothing does."""
    count, failure = 0, None

    def __init__(self, journal, arrive):
        self.journal, self.arrive = journal, arrive

    def which(self, jobs):
        for n in range(50):
            self.journal.made(str(len(self.journal.jobs) + n), NOW)
        return jobs if self.arrive else []


def a_run_whose_jobs(arrive):
    run = load.Run({}, 1, urls=["http://127.0.0.1:1"])
    run.consumer = Looker(run.journal, arrive)
    return run


def test_the_load_notices_that_work_has_stopped():
    """O7: jobs are made, and none arrives."""
    a_run_whose_jobs(arrive=True).goes_on(100, 5)
    with pytest.raises(AssertionError, match="O7"):
        a_run_whose_jobs(arrive=False).goes_on(100, 0.3)

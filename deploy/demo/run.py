"""Makes the samples, waits for their ends, judges them."""
import itertools
import os
import time
import uuid

from . import samples
from .arrivals import Arrivals
from .rest import Rest
from .times import LONG_SECONDS, now_ms
from .ways import ByKafka, ByPopsAndCallbacks

LATE_MS = 1000  # a later job is a warning: lateness depends on the machine, too


class Stage:
    """What samples act on. `sql(text)` runs statements and gives the rows."""

    def __init__(self, stack, installation="duetime"):
        environment = stack.environment()
        self.run = uuid.uuid4().hex[:12]
        self.rest = Rest(environment["DUETIME_URL"])
        self.sql = lambda text: stack.mysql.sql(text, environment["DUETIME_MYSQL_DATABASE"])
        self.first = samples.warm_up()
        self.samples = samples.all_samples()
        replies = {sample.name: sample.replies for sample in self.samples}
        self.arrivals = Arrivals(self.run, replies)
        if environment["DUETIME_KAFKA"]:
            self.way = ByKafka(environment, self.arrivals, installation)
        else:
            self.way = ByPopsAndCallbacks(environment, self.arrivals, self.rest)
        for sample, topic in zip(self.everything, itertools.cycle(self.way.topics)):
            sample.topic = topic

    @property
    def everything(self):
        return [self.first, *self.samples]


def _make(stage):
    in_bulk = [sample for sample in stage.samples if sample.make is samples.bulk]
    for sample in stage.samples:
        try:
            if sample.make is not samples.bulk:
                sample.make(stage, sample)
            elif sample is in_bulk[0]:
                samples.bulk(stage, in_bulk)
        except AssertionError as unwanted:
            sample.complaints.append(str(unwanted))


def _end_of(stage, sample, until):
    """The job once it is in the state that is wanted, or as it is when time is up."""
    while True:
        job = stage.rest.want(200, "GET", f"/v1/jobs/{sample.job}")
        if job["state"] == sample.state or now_ms() > until:
            return job
        time.sleep(0.05)


def _judge_arrivals(sample, arrivals, attempts):
    numbers = [arrival.attempt for arrival in arrivals]
    wanted = list(range(1, attempts + 1))
    sample.expect(sorted(numbers) == wanted, f"attempts {numbers} arrived instead of {wanted}")
    for late in lateness(sample, arrivals):
        sample.expect(late >= 0, f"{-late} ms early")
        sample.late |= late > LATE_MS and not sample.warms_up


def _judge(stage, sample, until):
    if sample.job is None:
        sample.expect(sample.complaints, "it was not made")
        return
    job = _end_of(stage, sample, until)
    sample.expect(job["state"] == sample.state, f"{job['state']} instead of {sample.state}")
    # If a busy machine delays a report past the ack_timeout, the attempt is repeated, as it should be.
    more = max(job["attempt"] - sample.attempts, 0) if "timed_out" in (sample.history or []) else 0
    sample.late |= more > 0
    _judge_arrivals(sample, stage.arrivals.of(sample.job), sample.attempts + more)
    if sample.judge:
        sample.complaints += sample.judge(stage, sample, job)
    if sample.history:
        attempts = stage.rest.want(200, "GET", f"/v1/jobs/{sample.job}/attempts")["attempts"]
        told, wanted = [attempt["status"] for attempt in attempts], ["timed_out"] * more + sample.history
        sample.expect(told == wanted, f"history {told} instead of {wanted}")


def lateness(sample, arrivals):
    """Milliseconds, one an arrival: the consumer's receive time less the time asked for.

    For later attempts that is the time at which the retry was due."""
    return [arrival.received_ms - (sample.asked_ms if arrival.attempt == 1 else arrival.due_ms)
            for arrival in sorted(arrivals, key=lambda arrival: arrival.attempt)]


def _wait_until_past(moment_ms):
    """A job that must not come can only be judged after the time at which it would have come."""
    while now_ms() < moment_ms:
        time.sleep(0.05)


def run(stage):
    """Runs all samples. Afterwards each has its complaints and its `late`. Returns True if no sample has a complaint."""
    stage.way.start()
    try:
        try:
            stage.first.make(stage, stage.first)
        except AssertionError as unwanted:
            stage.first.complaints.append(str(unwanted))
            return False
        _end_of(stage, stage.first, now_ms() + LONG_SECONDS * 1000)
        _make(stage)
        until = now_ms() + LONG_SECONDS * 1000
        for sample in stage.everything:
            if sample.attempts == 0 and sample.job:
                _wait_until_past(sample.asked_ms + 1000)
            try:
                _judge(stage, sample, until)
            except AssertionError as unwanted:
                sample.complaints.append(str(unwanted))
    finally:
        stage.load = os.getloadavg()
        stage.way.end()
    return not any(sample.complaints for sample in stage.everything)

"""The sample jobs: how each is made, what its consumer does, what must come of it.

A sample is made once, judged once. `make` and `judge` get the stage (see run.py): REST, SQL, what arrived, the way back.
"""
import json
import time
from dataclasses import dataclass, field
from typing import Callable, Optional

from .times import LONG_SECONDS, now_ms, to_ms, to_text

OK = {"status": "succeeded"}
THREE_YEARS_MS = 3 * 365 * 86_400_000


@dataclass
class Sample:
    name: str
    asked: str  # in words, for the table
    make: Callable  # (stage, sample) -> None; sets job and asked_ms
    state: str = "succeeded"  # in which it must end
    attempts: int = 1  # that must arrive
    replies: list = field(default_factory=list)  # reports, one an attempt; none left = succeeded
    judge: Optional[Callable] = None  # (stage, sample, job) -> list of complaints beyond state and arrivals
    history: Optional[list] = None  # statuses that /attempts must tell
    topic: Optional[str] = None
    job: Optional[str] = None
    asked_ms: int = 0
    complaints: list = field(default_factory=list)
    late: bool = False  # arrived later than it should; this is no complaint
    warms_up: bool = False  # its lateness is that of a cold system, and not judged

    def take(self, answer):
        """Remembers the job that an answer of the API describes."""
        self.job = answer["id"]
        self.asked_ms = to_ms(answer["run_at"])

    def expect(self, condition, complaint):
        if not condition:
            self.complaints.append(complaint)


def body(stage, sample, **members):
    return {"topic": sample.topic, "payload": {"run": stage.run, "sample": sample.name}, **members}


def post(**members):
    """A single POST."""
    def make(stage, sample):
        sample.take(stage.rest.want(201, "POST", "/v1/jobs", body(stage, sample, **members)))
    return make


def post_at(in_ms, hours_east):
    def make(stage, sample):
        sample.take(stage.rest.want(201, "POST", "/v1/jobs", body(stage, sample, run_at=to_text(now_ms() + in_ms, hours_east))))
    return make


def in_time(stage, sample, delay_ms, change):
    """Returns the answer to change(job): a request (method, path, body) that must arrive before the job is due. If the machine is too
    busy for that, it creates another job with more time. Only the sample's own job is judged."""
    while True:
        made = stage.rest.want(201, "POST", "/v1/jobs", body(stage, sample, delay=delay_ms))
        sample.take(made)
        try:
            return stage.rest.want(200, *change(made))
        except AssertionError:
            if now_ms() < sample.asked_ms or delay_ms > LONG_SECONDS * 1000:
                raise
            delay_ms *= 4


def patched(delay_ms, patch):
    """A POST followed by a PATCH."""
    def make(stage, sample):
        sample.take(in_time(stage, sample, delay_ms, lambda made: ("PATCH", f"/v1/jobs/{made['id']}", patch(stage, sample) if callable(patch) else patch)))
    return make


def new_payload(stage, sample):
    return {"payload": {"run": stage.run, "sample": sample.name, "changed": True}, "delay": "PT2.5S"}


def has_new_payload(stage, sample, _job):
    return [] if all(arrival.value.get("changed") for arrival in stage.arrivals.of(sample.job)) else ["it came with the old payload"]


def far_then_near(stage, sample):
    far = to_text(now_ms() + THREE_YEARS_MS)
    made = stage.rest.want(201, "POST", "/v1/jobs", body(stage, sample, run_at=far))
    sample.take(stage.rest.want(200, "PATCH", f"/v1/jobs/{made['id']}", {"delay": "PT1S"}))


def cancelled(stage, sample):
    answer = in_time(stage, sample, 2000, lambda made: ("POST", f"/v1/jobs/{made['id']}/cancel"))
    sample.expect(answer["state"] == "cancelled", f"cancel answered {answer['state']}")


def cancelled_too_late(stage, sample):
    """The consumer holds its report back until the cancel was answered."""
    sample.take(stage.rest.want(201, "POST", "/v1/jobs", body(stage, sample, delay="PT0.3S")))
    if not stage.arrivals.wait_for(sample.job, 1, LONG_SECONDS):
        sample.complaints.append("it did not arrive")
        return
    status, answer = stage.rest.ask("POST", f"/v1/jobs/{sample.job}/cancel")
    sample.expect(status == 409 and answer.get("attempt") == 1 and answer["type"].endswith("/too-late"),
                  f"cancel answered {status} {json.dumps(answer)[:200]}")
    stage.way.report(sample.job, 1, OK)


def put_twice(stage, sample):
    path = f"/v1/topics/{sample.topic}/jobs/order-{stage.run}"
    request = body(stage, sample, delay="PT1S")
    sample.take(stage.rest.want(201, "PUT", path, request))
    again = stage.rest.want(200, "PUT", path, request)
    sample.expect(again["id"] == sample.job, f"the second PUT made another job: {again['id']}")


def run_now(stage, sample):
    made = stage.rest.want(201, "POST", "/v1/jobs", body(stage, sample, delay="P1D"))
    sample.take(stage.rest.want(200, "POST", f"/v1/jobs/{made['id']}/run-now"))


def by_schedule(stage, sample):
    """A schedule with a single fire; its job is created ahead of time. If the machine is too busy, repeats with more time, like in_time()."""
    for ahead_ms in (2000, 8000, 32000):
        name, at = f"hourly-{stage.run}-{ahead_ms}", now_ms() + ahead_ms
        stage.rest.want(201, "PUT", f"/v1/schedules/{name}", body(stage, sample, every="PT1H", starts_at=to_text(at), ends_at=to_text(at + 1000)))
        if now_ms() < at:
            break
    sample.take(stage.rest.want(200, "GET", f"/v1/topics/{sample.topic}/jobs/{name}@{at}"))


def by_inbox(stage, sample):
    """A row that an application inserts within a transaction of its own; it is a job soon after the COMMIT."""
    key, payload = f"inbox-{stage.run}", json.dumps(body(stage, sample)["payload"])
    stage.sql("START TRANSACTION;"
              f"INSERT INTO job_inbox (topic, job_key, delay_ms, payload) VALUES ('{sample.topic}', '{key}', 3000, '{payload}');"
              "COMMIT")
    path, until = f"/v1/topics/{sample.topic}/jobs/{key}", now_ms() + LONG_SECONDS * 1000
    while (found := stage.rest.ask("GET", path))[0] == 404 and now_ms() < until:
        time.sleep(0.05)
    assert found[0] == 200, f"the row of job_inbox did not become a job within {LONG_SECONDS} s"
    sample.take(found[1])


def by_operation(stage, sample):
    """One change for all jobs that a filter finds: here there is one."""
    key = f"set-{stage.run}"
    sample.take(stage.rest.want(201, "PUT", f"/v1/topics/{sample.topic}/jobs/{key}", body(stage, sample, delay="P1D")))
    status, done = stage.rest.ask("POST", "/v1/jobs:reschedule", {"filter": {"topic": sample.topic, "key_prefix": key}, "delay": "PT2S"})
    sample.expect(status in (200, 202), f"the operation was answered with {status}: {json.dumps(done)[:300]}")
    until = now_ms() + LONG_SECONDS * 1000
    while status == 202 and done["state"] != "done" and now_ms() < until:  # a busy machine takes longer than the answer waits
        time.sleep(0.1)
        done = stage.rest.want(200, "GET", f"/v1/operations/{done['id']}")
    sample.expect((done["state"], done["changed"]) == ("done", 1), f"the operation is {json.dumps(done)[:300]}")
    sample.take(stage.rest.want(200, "GET", f"/v1/jobs/{sample.job}"))


def moved_by_sql(stage, sample):
    """5.5 s ahead: a hand edit takes effect within a reconciler period, which is 5 s."""
    sample.take(stage.rest.want(201, "POST", "/v1/jobs", body(stage, sample, delay="PT1H")))
    rows = stage.sql(f"UPDATE jobs SET next_at = ROUND(UNIX_TIMESTAMP(NOW(3)) * 1000) + 5500 WHERE id = {sample.job};"
                     f"SELECT next_at FROM jobs WHERE id = {sample.job}")
    sample.asked_ms = int(rows[-1][0])


def dead_letter(stage, sample, job):
    return stage.way.judge_dead(stage, f"{sample.job}/{job['attempt']}/dead")


def no_failure_spent(_stage, _sample, job):
    return [] if job.get("failures", 0) == 0 else [f"the snooze counted as a failure: {job['failures']}"]


def bulk(stage, samples):
    """All samples in one NDJSON request."""
    lines = [json.dumps(body(stage, sample, delay=f"PT{1 + 0.1 * n:.1f}S")) for n, sample in enumerate(samples)]
    answers = stage.rest.want(200, "POST", "/v1/jobs:batch", "\n".join(lines).encode() + b"\n", "application/x-ndjson")
    assert len(answers) == len(samples), f"{len(answers)} answers to {len(samples)} lines"
    for sample, answer in zip(samples, answers):
        assert answer["status"] == 201, f"a line was answered with {json.dumps(answer)[:200]}"
        sample.take(stage.rest.want(200, "GET", f"/v1/jobs/{answer['id']}"))


def warm_up():
    return Sample("warm-up", "the first job makes its topic", post(delay=0), warms_up=True)


def all_samples():
    failed = {"status": "failed", "error": {"code": "card_declined", "message": "the bank said no"}}
    return [
        Sample("sql", "in 1 h; UPDATE jobs SET next_at = in 5.5 s", moved_by_sql),
        Sample("ack-timeout", "in 0.5 s; the consumer is silent, ack_timeout 4 s", post(delay="PT0.5S", ack_timeout="PT4S", retry=["PT0.5S"] * 9),
               attempts=2, replies=[None, OK], history=["timed_out", "succeeded"]),
        Sample("retry", "in 0.5 s; fails once, retry after 1 s", post(delay="PT0.5S", retry=["1s", "3m"]), attempts=2,
               replies=[failed, OK], history=["failed", "succeeded"]),
        Sample("snooze", "in 0.5 s; snoozed for 1 s", post(delay="PT0.5S"), attempts=2,
               replies=[{"status": "snoozed", "retry_after": "PT1S"}, OK], judge=no_failure_spent, history=["snoozed", "succeeded"]),
        Sample("dead", "in 0.5 s; fails twice, one retry", post(delay="PT0.5S", retry=["PT0.5S"]), state="dead", attempts=2,
               replies=[failed, failed], judge=dead_letter, history=["failed", "failed"]),
        Sample("gave-up", "in 0.5 s; the consumer gives up", post(delay="PT0.5S"), state="dead", replies=[{**failed, "status": "gave_up"}],
               judge=dead_letter, history=["gave_up"]),
        Sample("single", "POST, in 1 s", post(delay="PT1S")),
        Sample("single-ms", "POST, in 1,250 ms", post(delay=1250)),
        Sample("run-at", "POST, at a time with the offset +02:00", post_at(1500, 2)),
        *[Sample(f"bulk-{n}", f"NDJSON, in {1 + 0.1 * n:.1f} s", bulk) for n in range(8)],
        Sample("later", "in 1 s; PATCH to 2.5 s and a new payload", patched(1000, new_payload), judge=has_new_payload),
        Sample("schedule", "a schedule with one fire, in 2 s", by_schedule),
        Sample("inbox", "INSERT INTO job_inbox in a transaction, 3 s after it", by_inbox),
        Sample("operation", "in 1 day; POST /v1/jobs:reschedule to 2 s", by_operation),
        Sample("earlier", "in 1 h; PATCH to 1 s", patched(3600_000, {"delay": "PT1S"})),
        Sample("far", "in 3 years; PATCH to 1 s", far_then_near),
        Sample("run-now", "in 1 day; run-now", run_now),
        Sample("keyed", "PUT with a key, twice", put_twice),
        Sample("cancelled", "in 2 s; cancelled at once", cancelled, state="cancelled", attempts=0),
        Sample("too-late", "in 0.3 s; cancelled after it arrived", cancelled_too_late, replies=[None]),
    ]

"""Rows of the catalogue about callers and consumers: a storm at the due instant, results that are repeated, late or forged."""
import random

from harness.checker import now_ms
from harness.load import under_load
from harness.rest import Rest
from harness.soak import rfc3339
from harness.storm import Storm

STORM, SPAN = 400, 4000  # jobs, ms


def test_row33_cancels_and_changes_at_the_due_time_report_the_real_outcome(stack, seed):
    with under_load(stack, seed) as run:
        chance = random.Random(f"{seed}/storm")
        start = int(now_ms()) + 3000
        due = sorted(start + chance.randrange(SPAN) for _ in range(STORM))
        made = run.make_bulk([{"topic": run.topics[0], "run_at": rfc3339(ms), "payload": {}} for ms in due])
        for job, ms in zip(made, due):
            run.journal.moved(job, ms)
        before = run.counts.copy()
        jobs = list(zip(made, due))

        def at_the_instant(ask):
            """Returns ask(client, job, due); this returns whether the API answered "too late"."""
            return Storm(jobs, run.urls, lambda url, job, ms: ask(run.client(url), job, ms), chance, 8)
        storms = [at_the_instant(lambda client, job, _: client.cancel(job)), at_the_instant(lambda client, job, ms: client.change(job, ms + 700))]
        for storm in storms:
            storm.end()
        cancelled, late = run.counts["cancelled"] - before["cancelled"], run.counts["too late"] - before["too late"]
        print(f"{STORM} jobs, each cancelled and changed at its due instant: {cancelled} cancelled, {late} answers of too late")
        assert cancelled > STORM // 10 and late > STORM // 10, "the storm missed the instant"
    # The checker compared every answer with what arrived: never both cancelled and sent, never early after a change.


def test_row34_results_that_are_repeated_late_or_forged_change_nothing(stack, seed):
    with under_load(stack, seed) as run:
        rest = Rest(run.urls[0])
        made = run.make_bulk([{"topic": run.silent, "delay": 0, "ack_timeout": "PT1H", "payload": {}} for _ in range(60)])
        for n, job in enumerate(made):
            run.consumer.wait(job)
            report = lambda attempt, status, **more: rest.post(f"/v1/jobs/{job}/results", {"attempt": attempt, "status": status, **more})  # noqa: E731,B023
            assert report(2, "succeeded").json["outcome"] == "stale", "an attempt that never was"
            first = ("succeeded", "gave_up")[n % 2]
            assert report(1, first).json["outcome"] == "applied"
            assert report(1, first).json["outcome"] == "duplicate"
            for late in ("failed", "extended"):
                assert report(1, late).json["outcome"] == "stale"
            answer = report(1, "snoozed", retry_after=1)
            assert answer.json["outcome"] == "stale" and answer.json["state"] == ("succeeded", "dead")[n % 2]
            for status in ("failed", "succeeded", "gave_up", "snoozed"):  # the same over Kafka, and of jobs that never were
                run.consumer.report(job, 1, status, **({"retry_after": 1} if status == "snoozed" else {}))
                run.consumer.report(job, 7, status, **({"retry_after": 1} if status == "snoozed" else {}))
            run.consumer.report(str(int(job) ^ 1 << 45), 1)
            if first == "succeeded":
                run.journal.ended(job, 1)
        assert rest.post(f"/v1/jobs/{int(made[0]) + (1 << 41)}/results", {"attempt": 1, "status": "succeeded"}).status == 404
        run.goes_on()

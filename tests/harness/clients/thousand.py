"""A thousand jobs by the examples of one language, with failures, retries and a kill -9, and the account of them."""
import collections
import signal
from concurrent.futures import ThreadPoolExecutor

from ..checker import connect, rows
from ..stack import until

ATTEMPTS = "SELECT a.job_id, a.attempt, a.status FROM v_attempts a JOIN jobs j ON j.id = a.job_id WHERE j.topic = %s"


def planned(n):
    """(failures before the last attempt, state at the end) of the n-th job that `create` makes."""
    if n % 100 == 9:
        return 0, "dead"
    return (2 if n % 50 == 7 else 1 if n % 10 == 3 else 0), "succeeded"


def thousand(programs, rest, topic, delivery, count=1000):
    """Makes the jobs, kills what does them in the middle of it, starts it anew; when all have ended, everything is accounted for."""
    answer = rest.put(f"/v1/topics/{topic}", {"delivery": delivery})
    assert answer.status in (200, 201), answer
    command = programs.language.consumer if delivery == "kafka" else programs.language.worker
    first = programs.start(command, topic)
    with ThreadPoolExecutor(1) as creating:
        made = creating.submit(programs.create, topic, 0, count)
        until(lambda: len(programs.lines()) > count / 5, lambda: f"{len(programs.lines())} effects\n{programs.said()}", every=0.01)
        first.kill()
        first.wait()
        second = programs.start(command, topic)
        ids = made.result()
    assert len(set(ids)) == count
    assert programs.create(topic, 0, count) == ids, "the keys name the same jobs"
    until(lambda: ended(rest, topic) == count, lambda: f"{ended(rest, topic)} of {count} jobs have ended\n{programs.said()}", every=0.2, seconds=120)
    second.send_signal(signal.SIGTERM)
    assert second.wait(300) == 0, programs.said()
    account(programs, rest, topic, ids)


def ended(rest, topic):
    counts = rest.get(f"/v1/topics/{topic}").json["counts"]
    return sum(counts.get(state, 0) for state in ("succeeded", "dead"))


def account(programs, rest, topic, ids):
    """Every job has ended as planned, no attempt was worked on twice, none after the last, and what the server has been told is what was done."""
    done = collections.defaultdict(dict)
    for job, attempt, status in programs.lines():
        assert attempt not in done[job], f"attempt {attempt} of job {job} was worked on twice"
        done[job][attempt] = status
    assert set(done) == set(ids)
    states = {job["id"]: job["state"] for job in rest.list(topic=topic, limit=1000)}
    attempts = collections.defaultdict(dict)
    for row in rows(connect(programs.stack), ATTEMPTS, topic):
        attempts[str(row["job_id"])][row["attempt"]] = row["status"]
    failed = sum(list(of_job.values()).count("failed") for of_job in done.values())
    assert failed > sum(planned(n)[0] for n in range(len(ids))) / 2  # those of attempts that died with the worker are missing
    for n, job in enumerate(ids):
        failures, state = planned(n)
        assert states[job] == state, (n, job, states[job])
        judge(done[job], attempts[job], failures, state)


def judge(done, attempts, failures, state):
    """Attempts that failed come first, as many as planned, or more where a killed worker had those; one comes last."""
    last = "succeeded" if state == "succeeded" else "gave_up"
    by_status = collections.Counter(done.values())
    assert by_status[last] == 1 and list(done.values())[-1] == last and by_status["failed"] <= failures, (done, attempts)
    assert attempts[max(attempts)] == last, (done, attempts)
    for number, status in attempts.items():
        known = done.get(number, last if max(done) < number else None)
        assert status in (known, "timed_out"), (done, attempts)

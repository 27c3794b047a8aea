"""What must hold of attempts that left by callback or by pop, beside O1 to O7: shares no code with the product."""
FORGIVEN = ("lost", "timed_out", "undeliverable")  # an attempt that ended so need not have arrived anywhere
NOT_SENT = ("http_connect", "http_dns", "http_tls", "http_forbidden", "http_timeout", "http_broken")
FAILURES = ("failed", "timed_out", "gave_up", "undeliverable")


def need_not_arrive(attempt):
    """Of a callback, or a pop: its sender may be gone, its receiver not there, and the answer of a pop may be lost."""
    code = (attempt.get("error_code") or b"").decode()
    return attempt["status"] in FORGIVEN or attempt["status"] == "failed" and attempt.get("http_status") is None and code in NOT_SENT


def attempts_of(row):
    return [*row["past"], {"attempt": row["attempt"], "status": row["attempt_status"], "http_status": row.get("http_status"),
                           "error_code": row.get("error_code"), "dispatched_at": row["dispatched_at"], "finished_at": row["finished_at"]}]


def forgive(table, topics, journal):
    """Marks the attempts of these topics that need not have arrived; of a job that was edited by hand nobody can say."""
    for job, row in table.items():
        if row["topic"].decode() in topics:
            asked = journal.jobs.get(str(job))
            row["undeliverable"].update(attempt["attempt"] for attempt in attempts_of(row) if asked and asked.fuzzy or need_not_arrive(attempt))


def lost_costs_nothing(table, topics, journal):
    """Only callbacks are lost, and a lost attempt is no failure. One that timed out and whose success was reported afterwards was one."""
    problems = []
    for job, row in table.items():
        attempts, asked = attempts_of(row), journal.jobs.get(str(job))
        lost = [attempt["attempt"] for attempt in attempts if attempt["status"] == "lost"]
        if lost and row["topic"].decode() not in topics:
            problems.append(f"O2: {job}/{lost[0]} is lost, and was no callback")
        failed = sum(attempt["status"] in FAILURES for attempt in attempts) + (row["attempt_status"] == "succeeded")
        if lost and not (asked and asked.fuzzy) and row["failures"] > failed:
            problems.append(f"O2: {job} has {row['failures']} failures, and {failed} attempts failed")
    return problems


def nothing_in_hands(hands):
    """hands: the rows of attempts that are in the hands of a process."""
    return [f"O5: {row['job_id']}/{row['attempt']} is in the hands of {row['owner']}" for row in hands]


def nothing_offered(offers):
    """offers: what stands in the queue of pops of jobs that are finished, or gone."""
    return [f"O5: {row['job_id']} is offered to pops, and does not wait" for row in offers]


def never_over_the_limit(topic, samples, limits):
    """samples: [(time, dispatched)] from committed rows. limits: [(asked at, holds from, limit or None)] in order.

    Jobs in flight stay when a limit is lowered. So a count above the limit is wrong only if it has grown, and if the limit held since the
    count before."""
    problems = []
    for (since, before), (at, n) in zip(samples, samples[1:]):
        bounds = [bound_at(since, limits), bound_at(at, limits)]
        if None not in bounds and n > max(before, *bounds):
            bound = max(bounds)
            problems.append(f"O8: {n} attempts of {topic} are in flight, {bound} are allowed, {before} were there just before")
    return problems


def bound_at(at, limits):
    """The largest limit that may be in force; None: none may be."""
    settled = [i for i, (_, holds_from, _) in enumerate(limits) if holds_from <= at]
    if not settled:
        return None
    possible = [limit for asked, _, limit in limits[settled[-1]:] if asked <= at]
    return None if None in possible else max(possible)


def never_over_the_rate(topic, dispatched, rate, window_ms=10000):
    """dispatched: ms, of all attempts while a rate of so many a second was in force."""
    at, first, problems = sorted(dispatched), 0, []
    for last, ms in enumerate(at):
        while at[first] < ms - window_ms:
            first += 1
        if last - first + 1 > rate * window_ms / 1000 + max(rate, 1):
            problems.append(f"O8: {last - first + 1} attempts of {topic} began in {window_ms} ms, at a rate of {rate} a second")
    return problems[:1]

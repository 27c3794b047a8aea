"""Parts are killed, emptied and restarted under load; afterwards an independent checker looks at everything."""
import os
import random
import signal
import threading
import time

import pytest

from harness.checker import Checker, Journal, connect, lateness, now_ms, rows, summary
from harness.rest import Rest
from harness.soak import flush_redis, rfc3339, soak
from harness.stack import until
from harness.storm import Storm
from harness.takeover import leaders as leaders_in_mysql

pytestmark = pytest.mark.in_turns(3)
DISPATCHERS = ["dispatcher1", "dispatcher2", "dispatcher3"]
SEED = int(os.environ.get("DUETIME_TEST_SEED", random.SystemRandom().randrange(1 << 31)))
STORM = int(os.environ.get("DUETIME_TEST_STORM", "3000"))


class Load(threading.Thread):
    """A steady stream of jobs due soon, over one API; what was answered is in the journal."""

    def __init__(self, url, topic, every=0.02):
        super().__init__(daemon=True)
        self.rest, self.topic, self.every = Rest(url), topic, every
        self.journal = Journal()
        self.refused = self.made = 0
        self._end = threading.Event()
        self.start()

    def run(self):
        while not self._end.wait(self.every):
            due = int(now_ms()) + 500
            try:
                answer = self.rest.post("/v1/jobs", {"topic": self.topic, "run_at": rfc3339(due)})
            except OSError:
                self.refused += 1
                continue
            if answer.status == 201:
                self.journal.made(answer.json["id"], due)
                self.made += 1
            else:
                self.refused += 1

    def end(self):
        self._end.set()
        self.join(30)
        return self.journal


def succeed(_arrival):
    return {"status": "succeeded"}


def settle(stack, load, consumer, topic, seconds=60):
    """The load ends; everything that was answered arrives, and the checker finds nothing wrong."""
    journal = load.end()
    until(lambda: {a.job for a in consumer.all()} >= set(journal.jobs),
          lambda: f"{len(set(journal.jobs) - {a.job for a in consumer.all()})} of {len(journal.jobs)} jobs have not arrived", seconds=seconds)
    consumer.flush()
    until(lambda: rows(connect(stack), "SELECT COUNT(*) n FROM jobs WHERE topic = %s AND state <> 'succeeded'", topic)[0]["n"] == 0,
          "every result applied", seconds=seconds)
    Checker(stack).check(journal, [topic], settle_seconds=seconds)
    print(f"{len(journal.jobs)} jobs, {summary(lateness(consumer.all(), journal))}")


@pytest.fixture
def load(stack, topic):
    made = []

    def start(**options):
        made.append(Load(stack["DUETIME_URL_API1"], topic, **options))
        return made[-1]
    yield start
    for one in made:
        one.end()


def more_made(load, count=25, seconds=20):
    """Creates go on."""
    before = load.made
    until(lambda: load.made >= before + count, lambda: f"{count} more creates; {load.made - before} were made, {load.refused} refused", seconds=seconds)


def more_arrive(consumer, seconds=45):
    before = consumer.count
    until(lambda: consumer.count > before + 20, "jobs arrive again", seconds=seconds)


@pytest.mark.parametrize("server", ["redis1", "zookeeper", "kafka"])
def test_creates_go_on_without_a_server_and_all_leads_back_to_normal(stack, topic, consume, load, server):
    consumer = consume(topic, rule=succeed)
    running = load()
    more_arrive(consumer)
    stack.kill(server)
    more_made(running, 50)
    stack.start(server)
    more_arrive(consumer)
    settle(stack, running, consumer, topic)


def dispatched(api, consumer, topic, count):
    """Creates `count` jobs and waits until a consumer that does not report yet has all of them."""
    api.put(f"/v1/topics/{topic}", {"retry": ["1s"], "ack_timeout": "PT1H"})
    answers = api.batch([{"topic": topic, "delay": 0} for _ in range(count)])
    assert all(answer["status"] == 201 for answer in answers), answers[:3]
    until(lambda: consumer.count >= count, lambda: f"{consumer.count} of {count} arrive")


def report_all(consumer):
    for arrival in consumer.all():
        consumer.report(arrival.job, arrival.attempt)
    consumer.flush()


def deadlines_pass(stack, topic):
    """Moves the deadline of the jobs to now, after all reports were sent."""
    ends = int(now_ms()) + 500
    rows(connect(stack), "UPDATE jobs SET next_at = %s WHERE topic = %s AND state = 'dispatched'", ends, topic)
    until(lambda: now_ms() > ends + 1000, "all deadlines have passed")


def all_counted(stack, topic, count):
    """No report was stale, and no attempt timed out."""
    def states():
        return {(row["state"], row["attempt"], row["attempt_status"]): row["n"] for row in
                rows(connect(stack), "SELECT state, attempt, attempt_status, COUNT(*) n FROM jobs WHERE topic = %s GROUP BY 1, 2, 3", topic)}
    until(lambda: not any(state == "dispatched" for state, _, _ in states()), states)
    assert states() == {("succeeded", 1, "succeeded"): count}


def test_reports_count_if_they_arrived_while_all_dispatchers_were_down_at_the_deadline(stack, topic, consume, api):
    consumer = consume(topic)
    dispatched(api, consumer, topic, 3000)
    for part in DISPATCHERS:
        stack.kill(part)
    report_all(consumer)
    deadlines_pass(stack, topic)
    for part in DISPATCHERS:
        stack.start(part, ready=False)
    all_counted(stack, topic, 3000)


def test_reports_that_kafka_stored_count_if_kafka_was_down_at_the_deadline(stack, topic, consume, api):
    consumer = consume(topic)
    dispatched(api, consumer, topic, 1000)
    for part in DISPATCHERS:
        stack.signal(part, signal.SIGSTOP)  # nobody reads them before Kafka goes
    report_all(consumer)
    stack.kill("kafka")
    for part in DISPATCHERS:
        stack.signal(part, signal.SIGCONT)
    deadlines_pass(stack, topic)
    stack.start("kafka")
    all_counted(stack, topic, 1000)


def test_without_mysql_the_api_says_503_and_recovers_by_itself(stack, topic, consume, load, api):
    consumer = consume(topic, rule=succeed)
    running = load()
    more_arrive(consumer)
    stack.kill("mysql")
    answer = until(lambda: (a := api.post("/v1/jobs", {"topic": topic, "delay": 0})).status == 503 and a, "503")
    assert answer.headers["Retry-After"] and answer.headers["Content-Type"].startswith("application/problem+json")
    until(lambda: api.get("/readyz").status == 503, "readiness fails")
    assert api.get("/healthz").status == 200
    stack.start("mysql")
    until(lambda: api.get("/readyz").status == 200, "ready again")
    more_arrive(consumer)
    journal = running.journal
    for row in rows(connect(stack), "SELECT id, next_at, run_at FROM jobs WHERE topic = %s", topic):
        if str(row["id"]) not in journal.jobs:  # answered 503 outcome-unknown, or not at all: it may exist
            journal.made(str(row["id"]), row["run_at"])
    settle(stack, running, consumer, topic)


def test_an_emptied_redis_costs_some_lateness_and_nothing_else(stack, topic, consume, load):
    consumer = consume(topic, rule=succeed)
    running = load(every=0.005)
    more_arrive(consumer)
    for _ in range(3):
        flush_redis(stack)
        more_arrive(consumer)
    settle(stack, running, consumer, topic)


def test_a_killed_dispatcher_loses_and_doubles_nothing(stack):
    soak(stack, jobs=4000, seconds=8, seed=SEED, topic="soak-once", kill_once=True, flush=True, dispatchers=DISPATCHERS)


def test_dispatchers_killed_again_and_again_lose_and_double_nothing(stack):
    print(f"seed {SEED}")
    soak(stack, jobs=8000, seconds=16, seed=SEED, topic="soak-again", kill_every=3, dispatchers=DISPATCHERS)


def leaders(api):
    return {shard["shard"]: shard["leader"] for shard in api.get("/v1/info").json["shards"]}


def shares(api):
    found = leaders(api)
    names = [name for name in found.values() if name]
    return sorted((names.count(name) for name in set(names)), reverse=True) if len(names) == len(found) else []


def settled(api, wanted):
    """The leaders, once they have these shares and kept them for three seconds: on the way to a balance shards pass through the same shares."""
    seen = []  # (leaders, since when)

    def is_settled():
        found = leaders(api)
        if not seen or seen[-1][0] != found:
            seen.append((found, time.monotonic()))
        return shares(api) == wanted and seen[-1][0] == found and time.monotonic() - seen[-1][1] >= 3
    until(is_settled, lambda: f"{wanted}: {leaders(api)}", seconds=30)
    return seen[-1][0]


@pytest.fixture
def long_sessions(stack):
    """Leadership changes only by commands, not because a process got no core for two seconds."""
    for part in DISPATCHERS:
        stack.restart(part, settings={"zookeeper.session_timeout": "PT10S"})
    yield {"zookeeper.session_timeout": "PT10S"}
    for part in DISPATCHERS:
        stack.restart(part)


def test_shares_are_balanced_and_a_leaving_process_hands_over(stack, api, topic, consume, load, long_sessions):
    before = settled(api, [2, 1, 1])
    consumer = consume(topic, rule=succeed)
    running = load(every=0.01)
    more_arrive(consumer)
    leaver = f":{stack['DUETIME_PID_DISPATCHER2']}"
    stack.stop("dispatcher2")
    after = settled(api, [2, 2])
    assert [s for s in before if before[s] != after[s] and not before[s].endswith(leaver)] == []
    stack.start("dispatcher2", settings=long_sessions)
    assert len([s for s, leader in settled(api, [2, 1, 1]).items() if after[s] != leader]) == 1
    settle(stack, running, consumer, topic)


def test_a_stopped_leader_that_wakes_up_later_writes_nothing(stack, topic, consume, load):
    """Paused for longer than its session: others take over; the zombie is fenced."""
    consumer = consume(topic, rule=succeed)
    running = load(every=0.01)
    more_arrive(consumer)
    stack.signal("dispatcher1", signal.SIGSTOP)
    try:
        until(lambda: stack.pid("dispatcher1") not in leaders_in_mysql(stack).values(), "others lead")
        seen = consumer.count
        until(lambda: consumer.count > seen + 200, "others go on")
    finally:
        stack.signal("dispatcher1", signal.SIGCONT)
    more_arrive(consumer)
    settle(stack, running, consumer, topic)


def test_any_order_of_starting_leads_to_a_working_system(stack, topic, consume, api):
    servers = ["mysql", "redis1", "redis2", "zookeeper", "kafka"]
    for part in ["api1", "dispatcher1", "dispatcher2", "dispatcher3", *servers]:
        stack.kill(part)
    starting = threading.Thread(target=stack._run, args=("start", "api1"), kwargs={"check": False})
    starting.start()
    for part in [*DISPATCHERS, "kafka", "zookeeper", "redis2", "redis1", "mysql"]:
        stack.start(part)
    starting.join()
    stack.refresh()
    until(lambda: Rest(stack["DUETIME_URL_API1"]).get("/readyz").status == 200, "ready")
    consumer = consume(topic, rule=succeed)
    rest = Rest(stack["DUETIME_URL_API1"])
    job = until(lambda: (a := rest.post("/v1/jobs", {"topic": topic, "delay": 500})).status == 201 and a.json, "a create")
    consumer.wait(job["id"], seconds=45)


def test_a_storm_of_cancels_at_the_due_instant_is_answered_truly(stack, topic, consume):
    """Each cancel gets one definitive answer, and Kafka agrees with it."""
    consumer = consume(topic)
    journal = Journal()
    chance = random.Random(SEED)
    urls = [stack["DUETIME_URL_API1"], stack["DUETIME_URL_API2"]]
    rest = Rest(urls[0])
    start = int(now_ms()) + 2500
    span = STORM * 4  # ms
    due = sorted(start + chance.randrange(span) for _ in range(STORM))
    lines = [line for first in range(0, STORM, 1000)
             for line in rest.batch([{"topic": topic, "run_at": rfc3339(ms), "ack_timeout": "PT1H"} for ms in due[first:first + 1000]])]
    for ms, line in zip(due, lines):
        journal.made(line["id"], ms)
    answers = {"cancelled": 0, "too_late": 0}
    lock, clients = threading.Lock(), threading.local()

    def cancel(url, job, _due):
        clients.rest = getattr(clients, "rest", None) or Rest(url)
        answer = clients.rest.delete(f"/v1/jobs/{job}")
        assert answer.status in (200, 409), answer
        late = answer.status == 409
        with lock:
            answers["too_late" if late else "cancelled"] += 1
        if late:
            journal.too_late(job, answer.json["attempt"])
        else:
            journal.cancelled(job)
        return late
    Storm([(line["id"], ms) for ms, line in zip(due, lines)], urls, cancel, chance).end()
    print(f"{STORM} cancels at the due instant, seed {SEED}: {answers}")
    assert sum(answers.values()) == STORM and min(answers.values()) > STORM // 50
    consumer.wait_count(answers["too_late"], 60)
    Checker(stack).check(journal, [topic], settle_seconds=60)

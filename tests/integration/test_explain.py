"""Every query that the system issues is explained on tables of a realistic size: none reads a whole table, none sorts more than a batch.

What is issued is caught while everything happens at least once: the load of the fault suites, lists of every kind, topics, a takeover,
an emptied Redis, promotion and purging. What of the store's SQL was not seen then is explained with made-up values, so none is left out.
"""
import os
import re
import signal
from urllib.parse import urlencode

import house
import pymysql
import pytest

from harness import explain
from harness.checker import connect, now_ms, rows
from harness.load import under_load
from harness.rest import Rest
from harness.servers import redis_clients
from harness.soak import rfc3339
from harness.stack import TREE, Stack, until

OPTIONS = ["--apis", "2", "--dispatchers", "2", "--redis", "1", "--shards", "2", "--sanitize", "--mysql", os.environ.get("DUETIME_TEST_MYSQL", "mariadb"),
           "--set", "reconcile.period=PT1S", "--set", "reconcile.walk=PT5S", "--set", "dispatch.rest_after=PT2S"]
DAY_MS = 86400000
FIRST_NO = 5 << 37  # sequence numbers that the product does not give out
ROWS = 1000
DOUBLINGS = 6
pytestmark = pytest.mark.turn(0, 4)


@pytest.fixture(scope="module")
def stack():
    made = Stack("explain", *OPTIONS)
    try:
        fill(connect(made.up()))
        yield made
    finally:
        made.reset()


def fill(connection):
    """64,000 jobs over five years, one in five finished, with keys and archived attempts."""
    today = int(now_ms()) // DAY_MS
    with connection.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO jobs (id, topic, job_key, state, run_at, next_at, near, attempt, retry, ack_timeout_ms, created_at, updated_at, finished_at, purge_at,"
            " maker, digest, payload) VALUES (%s, 'filled', %s, %s, %s, %s, %s, 1, '15s', 300000, 0, 0, 0, %s, 1, 'dddddddddddddddd', %s)",
            [filled(n, today) for n in range(ROWS)])
        for n in range(DOUBLINGS):
            cursor.execute("INSERT INTO jobs (id, topic, job_key, state, run_at, next_at, near, attempt, retry, ack_timeout_ms, created_at, updated_at,"
                           " finished_at, purge_at, maker, digest, payload) SELECT id + %s, topic, CONCAT(job_key, '+', %s), state, run_at + %s, next_at + %s,"
                           " near, attempt, retry, ack_timeout_ms, created_at, updated_at, finished_at, purge_at, maker, digest, payload FROM jobs"
                           " WHERE topic = 'filled'", (ROWS << n, n, n, n))
        cursor.execute("INSERT INTO job_keys (topic, job_key, job_id) SELECT topic, job_key, id FROM jobs WHERE topic = 'filled'")
        cursor.execute("INSERT INTO attempts (job_id, attempt, status) SELECT id, 1, 'failed' FROM jobs WHERE topic = 'filled'")
        kept = "SELECT id + %s, 0, topic, state, run_at, attempt, failures, attempt_status, due_at, dispatched_at, claim_shard, no_retries, retry," \
               " ack_timeout_ms, version, created_at, updated_at, 9223372036854775807, maker, digest, payload_binary, payload FROM jobs WHERE topic = 'filled'"
        cursor.execute("INSERT INTO history (id, part, topic, state, run_at, attempt, failures, attempt_status, due_at, dispatched_at, claim_shard, no_retries,"
                       " retry, ack_timeout_ms, version, created_at, updated_at, purge_at, maker, digest, payload_binary, payload) " + kept, ROWS << DOUBLINGS)
        cursor.execute("INSERT INTO history_attempts (job_id, attempt, part, purge_at, status) SELECT id, 1, part, purge_at, 'failed' FROM history")
        cursor.execute("INSERT INTO history_days (home_day, part) SELECT DISTINCT id DIV 1099511627776, part FROM history")
        cursor.execute("INSERT INTO key_ends (free_at, job_id, topic, job_key) SELECT purge_at, id, topic, id FROM history")
    analyze(connection)


def filled(n, today):
    day, finished = today + 1 + n * 1826 // ROWS, n % 5 == 0
    at = day * DAY_MS + n * 1000
    return ((day - 20089 << 40) + FIRST_NO + n, f"key-{n}", "succeeded" if finished else "scheduled", at, None if finished else at, day <= today + 2,
            at if finished else None, b"x" * 100)


def analyze(connection):
    rows(connection, "ANALYZE TABLE jobs, job_keys, attempts, history, history_attempts, key_ends")


def big_tables(connection):
    """Those that grow with the jobs, by their size here."""
    found = rows(connection, "SELECT table_name AS t FROM information_schema.tables WHERE table_schema = DATABASE() AND table_type = 'BASE TABLE'"
                 " AND table_rows > %s", explain.BATCH)
    return {row["t"] for row in found}


@pytest.fixture(scope="module")
def issued(stack):
    """{shape: statements} of everything that happened."""
    with explain.caught(connect(stack)) as statements:
        with under_load(stack, 7, edits=True) as run:
            ask_for_lists(stack)
            change_topics(stack)
            run.goes_on(300)
            stack.signal("dispatcher1", signal.SIGTERM)
            until(lambda: not stack.running("dispatcher1"), "dispatcher1 ends")
            stack.start("dispatcher1")
            for client in redis_clients(stack):
                client.flushall()
            run.goes_on(300)
        age(stack)
        keep_and_bring_back(stack)
    return statements


def ask_for_lists(stack):
    rest, now = Rest(stack["DUETIME_URL"]), int(now_ms())
    queries = [{}, {"topic": "filled"}, {"state": "dead"}, {"topic": "filled", "key_prefix": "key-1"}, {"run_from": rfc3339(now), "run_to": rfc3339(now + DAY_MS)},
               {"topic": "filled", "key_prefix": "key-1", "include": "payload"}, {"include": "payload", "limit": 500}]
    day = {"from": rfc3339(now), "to": rfc3339(now + DAY_MS)}
    within = lambda what: {f"{what}_{end}": at for end, at in day.items()}  # noqa: E731
    queries += [{"topic": "filled", "key": "key-1"}, {"id": 5}, within("created"), within("failed"), {"error_code": "http_503"},
                {"topic": "filled", "error_text": "no route", **within("failed")}]
    queries += [{**by, **more} for by in (within("due"), {"due_from": day["from"]}, within("finished"), {"finished_from": day["from"], "state": "dead"})
                for more in ({}, {"include": "payload"}, {"topic": "filled", "limit": 7})]
    for query in queries:
        answer = rest.get("/v1/jobs?" + urlencode(query))
        assert answer.status == 200, (query, answer)
        if answer.json["next_cursor"]:
            assert rest.get("/v1/jobs?" + urlencode({**query, "cursor": answer.json["next_cursor"]})).status == 200
    assert rest.get("/v1/topics/filled/jobs/key-1").status == 200


def change_topics(stack):
    rest = Rest(stack["DUETIME_URL"])
    assert rest.put("/v1/topics/explained", {"retention": "PT0S"}).status in (200, 201)
    assert rest.get("/v1/topics").status == 200 and rest.get("/v1/topics/nobody-made-it").status == 404
    assert rest.get("/v1/topics/explained").status == 200
    for verb in ("pause", "resume"):
        assert rest.post(f"/v1/topics/explained/{verb}").status == 200
    job = rest.make(topic="explained", key="k", delay="PT1H")["id"]
    assert rest.delete(f"/v1/jobs/{job}").status == 200
    assert rest.get(f"/v1/jobs/{job}/attempts").status == 200


def age(stack):
    """Some jobs' day comes near, and some finished ones' time is over: the housekeeper promotes and purges."""
    connection = connect(stack)
    rows(connection, "UPDATE jobs SET next_at = %s WHERE topic = 'filled' AND state = 'scheduled' AND near = 0 LIMIT 20", now_ms() + DAY_MS)
    until(lambda: rows(connection, "SELECT COUNT(*) n FROM jobs WHERE topic = 'explained'")[0]["n"] == 0, "the cancelled job is purged", every=0.5)


def keep_and_bring_back(stack):
    """A dead job with a key and an archived attempt goes to history, is asked for there, and is driven again."""
    rest, connection = Rest(stack["DUETIME_URL"]), connect(stack)
    job = rest.make(topic="kept", key="k", delay="PT1H")["id"]
    rows(connection, "INSERT INTO attempts (job_id, attempt, status) VALUES (%s, 1, 'failed')", job)
    rows(connection, "UPDATE jobs SET state = 'dead', next_at = NULL, attempt = 2, attempt_status = 'failed', created_at = created_at - 60000,"
         " purge_at = created_at + 864000000, leave_at = 1 WHERE id = %s", job)
    until(lambda: rows(connection, "SELECT COUNT(*) n FROM history WHERE id = %s", job)[0]["n"] == 1, "the dead job is in history", every=0.5)
    for path in (f"/v1/jobs/{job}", f"/v1/jobs/{job}/attempts", "/v1/topics/kept/jobs/k", "/v1/topics/kept"):
        assert rest.get(path).status == 200, path
    assert rest.put("/v1/topics/kept/jobs/k", {"delay": "PT2H"}).status == rest.delete(f"/v1/jobs/{job}").status == 409
    assert rest.post(f"/v1/jobs/{job}/results", {"attempt": 1, "status": "failed"}).json["outcome"] == "duplicate"
    assert rest.post(f"/v1/jobs/{job}/redrive").status == 200


def test_the_tables_are_of_a_realistic_size(stack):
    assert big_tables(connect(stack)) >= {"jobs", "job_keys", "attempts", "history", "history_attempts", "key_ends"}


def test_a_statement_without_its_index_is_noticed(stack):
    """The judgement itself, tried on the store's own statements with the index taken away."""
    connection, big = connect(stack), big_tables(connect(stack))
    bad = [b"SELECT id FROM jobs IGNORE INDEX (due) WHERE due_band = 0 AND due_key < 5 ORDER BY due_key, id LIMIT 1000",
           b"SELECT k.job_key FROM job_keys k WHERE k.job_id = 5",
           b"UPDATE jobs j SET j.near = 1 WHERE j.run_at < 5",
           b"SELECT a.status FROM attempts a WHERE a.status = 'failed' ORDER BY a.finished_at",
           b"SELECT id FROM jobs WHERE due_band = 0 AND due_key < 5 ORDER BY due_key, id LIMIT 1000",
           b"SELECT COUNT(*) FROM jobs FORCE INDEX (due) WHERE due_band = 0"]
    for sql in bad:
        assert explain.judge(explain.plan(connection, sql), sql.decode(), big), sql
    good = b"SELECT id FROM jobs FORCE INDEX (due) WHERE due_band = 0 AND due_key < 5 ORDER BY due_key, id LIMIT 1000"
    assert explain.judge(explain.plan(connection, good), good.decode(), big) == []


def test_no_query_that_is_issued_scans_a_table_or_sorts_more_than_a_batch(stack, issued):
    connection = connect(stack)
    analyze(connection)
    found, shapes = explain.examine(connection, issued, big_tables(connection))
    assert shapes >= 20, f"only {shapes} statements on big tables were seen"
    assert found == []


def test_an_operation_on_one_topic_reads_no_more_than_the_days_that_have_its_jobs(stack):
    """The table has 64,000 rows, some 35 a day; what one step may look at is a window of ten thousand."""
    connection, rest = connect(stack), Rest(stack["DUETIME_URL"])
    rest.make(topic="few", delay="P1D")
    with explain.caught(connection) as statements:
        answer = rest.post("/v1/jobs:cancel", {"filter": {"topic": "few"}, "dry_run": True})
    assert answer.json["matched"] == 1, answer
    walks = [sql for samples in statements.values() for sql in samples if sql.startswith(b"SELECT j.run_at, j.id, j.topic FROM jobs j FORCE INDEX (PRIMARY)")]
    read = [sum(int(part["rows"]) for part in rows(connection, "EXPLAIN " + sql.decode())) for sql in walks]
    assert read and max(read) < 1000, read


# ---- what was not seen ----

def statements_of(text):
    """(name, text) of each statement of a file of statements, as it is sent: comments left out, lines joined."""
    for block in re.split(r"(?m)^-- name: ", text)[1:]:
        name, lines = block.split("\n", 1)
        yield name, re.sub(r"\s+", " ", re.sub(r"(?m)(^|\s)-- .*$", "", lines)).strip().removesuffix(";").removeprefix("EXPLAIN ")


def fragments(big):
    """(name, text) of each of the store's statements that names a big table; and (file:line, text) of what stands in C."""
    named = re.compile(r"\b(?:FROM|JOIN|UPDATE|INTO)\s+(?:%s)\b" % "|".join(sorted(big)))
    for path in sorted((TREE / "scheduler").rglob("*.sql")):
        for name, text in statements_of(path.read_text()):
            if named.search(text):
                yield f"{path.name}:{name}", text
    for path in sorted((TREE / "scheduler").rglob("*.c")):
        for line, text in house.strings_of(path.read_text()):
            if named.search(text):
                yield f"{path.name}:{line}", re.sub(r"\s+", " ", text.replace("\\n", " ")).strip()


def was_seen(fragment, shape):
    """All of it but its values stands in the statement, in its order."""
    at = 0
    for part in re.split(r"\?,\.\.\.|\?|%\w+|'[^']*'|\b\d+\b|\bNULL\b", fragment):
        at = shape.find(part, at)
        if at < 0:
            return False
        at += len(part)
    return True


def whole(fragment):
    """It is a statement, and not a part of one."""
    return re.match(r"\(?(SELECT|UPDATE|DELETE|INSERT|REPLACE)\b", fragment) and not re.search(r"%|(,|\(|\bAND|\bWHERE|\bSELECT|=)$", fragment)


def completed(fragment):
    """With a list of ids, if it takes one (mysql/id_in.h)."""
    return re.sub(r"(\b(?:WHERE|AND) j\.id)$", r"\1 IN ('1','2')", fragment.replace("(?,...)", "('1','2')"))


def test_every_query_of_the_store_is_explained(stack, issued):
    """A part of a statement must have been seen; a whole one that was not is explained with made-up values."""
    connection, big = connect(stack), big_tables(connect(stack))
    shapes = [shape.decode("utf-8", "replace") for shape in issued]
    left, problems = [], []
    for where, fragment in fragments(big):
        if any(was_seen(fragment, shape) for shape in shapes):
            continue
        if not whole(fragment):
            left.append(f"{where}: {fragment}")
            continue
        try:
            plan = explain.plan(connection, completed(fragment).encode())
            problems += [f"{where}: {problem}: {fragment}" for problem in explain.judge(plan, completed(fragment), big)]
        except pymysql.MySQLError as error:
            left.append(f"{where}: {error}: {fragment}")
    assert problems == [], problems
    assert left == [], "neither seen nor to be explained alone: " + "\n".join(left)

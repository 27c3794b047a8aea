"""Answers are bounded in bytes: pages of large jobs, many of them at once, clients that do not read."""
import concurrent.futures
import contextlib
import itertools
import re
import socket
import time

import pytest

from harness.problems import refused
from harness.rest import Rest
from harness.stack import until

pytestmark = pytest.mark.in_turns(3)

JOBS, PAYLOAD = 120, 860_000  # more than the budget
MIB = 1 << 20
BUDGET = 96 * MIB
PAGE = 4 * MIB
ROW = 70_000  # of other lists than that of jobs: headers, or a filter, of 64 KiB, and what else there is
# Freed memory is given back at once, as it is without sanitizers.
VARIABLES = {"ASAN_OPTIONS": "abort_on_error=1:detect_leaks=1:quarantine_size_mb=1:thread_local_quarantine_size_kb=64"}
SETTINGS = {"limits.memory": BUDGET, "limits.batch_body": 8 * MIB, "http.threads": 1, "http.request_timeout": "PT10M"}


def fill(api, jobs, payload):
    """Jobs of the topic `fat` that are due in years, ids from 1 on; one INSERT each, so that no packet is too large."""
    api.rows("INSERT INTO topics (name, created_at, updated_at) VALUES ('fat', 1, 1)")
    connection = api.connect()
    with connection.cursor() as cursor:
        for number in range(1, jobs + 1):
            cursor.execute("INSERT INTO jobs (id, topic, job_key, state, run_at, next_at, retry, ack_timeout_ms, created_at, updated_at, maker, digest, payload) VALUES "
                           "(%s, 'fat', %s, 'scheduled', 4000000000000, 4000000000000, '', 1000, 1, 1, 0, '', CONCAT('\"', REPEAT('x', %s), '\"'))", (number, f"k{number:05}", payload))
    connection.commit()
    api.rows("INSERT INTO job_keys (topic, job_key, job_id) SELECT topic, job_key, id FROM jobs")
    connection.close()


def resident(api, what="VmRSS"):
    with open(f"/proc/{api.process.pid}/status", encoding="ascii") as status:
        return int(re.search(rf"^{what}:\s+(\d+) kB", status.read(), re.MULTILINE)[1]) * 1024


@contextlib.contextmanager
def bounded(api, most):
    """What the block does raises the resident size by no more than so many bytes, at its worst instant."""
    with open(f"/proc/{api.process.pid}/clear_refs", "w", encoding="ascii") as peaks:
        peaks.write("5")
    before = resident(api)
    yield
    peak = resident(api, "VmHWM") - before
    print(f"resident: {before // MIB} MiB, at worst {peak // MIB} MiB more")
    assert peak <= most, f"{peak // MIB} MiB more than {before // MIB}"


def held(api):
    return api.rest.metric("duetime_api_held_bytes")


def refusals(api):
    return api.rest.metric("duetime_api_memory_refused_total")


def walk(rest, query, pages=None, patience=300):
    """Ids of a list, page by page; a 503 is asked again."""
    ids, cursor, end = [], None, time.monotonic() + patience
    while pages is None or pages > 0:
        answer = rest.get(f"/v1/jobs?{query}" + (f"&cursor={cursor}" if cursor else ""))
        if answer.status == 503:
            assert answer.headers["Retry-After"] and time.monotonic() < end, answer
            time.sleep(0.05)
            continue
        assert answer.status == 200, answer
        page = answer.json
        assert len(answer.body) <= PAGE + 2 * PAYLOAD and page["jobs"]
        ids += [int(job["id"]) for job in page["jobs"]]
        cursor = page["next_cursor"]
        pages = pages and pages - 1
        if cursor is None:
            break
    return ids


@pytest.fixture(scope="module")
def fat(own_apis):
    api = own_apis("fat", SETTINGS, variables=VARIABLES).start()
    fill(api, JOBS, PAYLOAD)
    api.rest.get("/v1/jobs?limit=1&include=payload")
    yield api
    api.rest.close()


@pytest.mark.in_turns(3)
@pytest.mark.parametrize("query", ["topic=fat&include=payload&limit=1000", "topic=fat&key_prefix=k&include=payload&limit=1000", "include=payload"])
def test_pages_of_large_jobs_end_at_a_byte_limit(fat, query):
    with bounded(fat, 64 * MIB):
        assert walk(fat.rest, query) == list(range(1, JOBS + 1))
    until(lambda: held(fat) == 0, lambda: held(fat))


@pytest.fixture(scope="module")
def lean(own_apis):
    api = own_apis("lean", SETTINGS, variables=VARIABLES).start()
    api.rest.get("/v1/jobs?limit=1&include=payload")
    yield api
    api.rest.close()


def test_a_page_of_payloads_with_many_values_needs_at_most_eight_times_its_bytes(lean):
    lean.rows("INSERT INTO jobs (id, topic, state, run_at, next_at, retry, ack_timeout_ms, created_at, updated_at, maker, digest, payload) VALUES "
              "(1, 'lean', 'scheduled', 4000000000000, 4000000000000, '', 1000, 1, 1, 0, '', CONCAT('[', REPEAT('0,', 500000), '0]'))")
    for number in range(2, 5):
        lean.rows("INSERT INTO jobs (id, topic, state, run_at, next_at, retry, ack_timeout_ms, created_at, updated_at, maker, digest, payload)"
                  " SELECT %s, topic, state, run_at, next_at, retry, ack_timeout_ms, created_at, updated_at, maker, digest, payload FROM jobs WHERE id = 1", number)
    with bounded(lean, 8 * PAGE):
        assert walk(lean.rest, "topic=lean&include=payload", pages=1) == [1, 2, 3, 4]


@pytest.mark.parametrize("path", ["/v1/jobs:batch", "/v1/results"])
@pytest.mark.parametrize("element, array", [('{"topic":"a b","key":5,"delay":5,"job_id":5,"attempt":"x","status":"no"}', False), ("{}", True), ("0", True)])
def test_a_body_of_refused_elements_needs_at_most_eight_times_its_bytes(lean, path, element, array):
    n = MIB // (len(element) + 1)
    body = f"[{','.join([element] * n)}]" if array else f"{element}\n" * n
    with bounded(lean, 8 * MIB):
        answer = lean.rest.post(path, body, content_type="application/json" if array else "application/x-ndjson")
        assert answer.status in (200, 413), answer.status


def test_pages_without_payloads_have_as_many_jobs_as_the_limit(fat):
    assert len(fat.rest.get("/v1/jobs?limit=1000").json["jobs"]) == JOBS


def multiply(api, table, n, **renamed):
    """Gives the only row of a table so many copies; renamed: column=what it is in the i-th. Numbers are given by MySQL."""
    columns = [row["name"] for row in api.rows("SELECT column_name name FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = %s"
                                               " AND IFNULL(generation_expression, '') = '' AND extra NOT LIKE '%%auto_increment%%'", table)]
    assert api.rows(f"SELECT COUNT(*) n FROM {table}")[0]["n"] == 1
    api.rows(f"INSERT INTO {table} ({', '.join(columns)}) WITH RECURSIVE numbers(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM numbers WHERE i < {n})"
             f" SELECT {', '.join(renamed.get(column, column) for column in columns)} FROM numbers JOIN {table}")


@pytest.fixture(scope="module")
def wide(own_apis):
    """One row of each list, as large as REST makes it, and so many copies of it that they are more than a page of bytes, and less than one of rows."""
    api = own_apis("wide", {"callbacks.enabled": "true", "http.threads": 1}).start()
    controls = [chr(c) for c in range(1, 32) if chr(c) not in "\b\t\n\f\r"]
    headers = {a + b + c + d: "" for a, b, c, d in itertools.islice(itertools.product(controls, repeat=4), 2040)}
    ids = ",".join('"' + "".join(f"\\u003{digit}" for digit in str(number)) + '"' for number in range(10**8, 10**8 + 1000))
    topic = {"delivery": "http", "retry": ["PT3599.999S"] * 100, "callback_url": "https://there.example/" + "x" * 1900, "callback_headers": {f"x-{n:03}" + "y" * 50: "z" for n in range(100)}}
    assert api.rest.put("/v1/schedules/wide", {"topic": "wide", "cron": "@daily", "paused": True, "headers": headers}).status == 201
    assert api.rest.put("/v1/topics/wide", topic).status == 200
    assert api.rest.post("/v1/jobs:cancel", '{"filter":{"ids":[' + ids + "]}}").json["state"] == "done"
    api.rows("DELETE FROM job_events WHERE action <> 'operation_start'")
    number = "CONCAT(name, LPAD(i, 3, '0'))"
    multiply(api, "topics", 900, name=number)
    multiply(api, "schedules", 150, name=number)
    multiply(api, "schedule_fires", 150, name=number)
    multiply(api, "operations", 150)
    multiply(api, "job_events", 150)
    yield api
    api.rest.close()


@pytest.mark.parametrize("path, shown, kept", [("/v1/topics", "name", "SELECT CONVERT(name USING ascii) v FROM topics ORDER BY name"),
                                               ("/v1/schedules", "name", "SELECT CONVERT(name USING ascii) v FROM schedules ORDER BY name"),
                                               ("/v1/operations", "id", "SELECT CAST(id AS CHAR) v FROM operations ORDER BY id DESC"),
                                               ("/v1/events", "id", "SELECT CAST(id AS CHAR) v FROM job_events ORDER BY id DESC")])
def test_pages_of_other_lists_end_at_a_byte_limit_or_a_row_limit(wide, path, shown, kept):
    found, cursor, pages = [], "", 0
    while cursor is not None:
        answer = wide.rest.get(f"{path}?limit=1000{cursor}")
        assert answer.status == 200, answer
        [rows] = [value for name, value in answer.json.items() if name != "next_cursor"]
        assert len(answer.body) <= PAGE + ROW, f"{len(rows)} rows in {len(answer.body)} bytes"
        found += [row[shown] for row in rows]
        cursor, pages = answer.json["next_cursor"] and f"&cursor={answer.json['next_cursor']}", pages + 1
    assert pages > 1 and found == [row["v"] for row in wide.rows(kept)]
    until(lambda: held(wide) == 0, lambda: held(wide))


@pytest.mark.parametrize("clients", [4, 40])
def test_many_pages_of_large_jobs_at_once_stay_within_the_memory_budget(fat, clients):
    rests = [Rest(fat.url, timeout=120) for _ in range(clients)]
    with bounded(fat, BUDGET + 64 * MIB), concurrent.futures.ThreadPoolExecutor(clients) as pool:
        found = list(pool.map(lambda rest: walk(rest, "topic=fat&include=payload&limit=1000", pages=5), rests))
    assert all(ids == found[0] and ids == list(range(1, len(ids) + 1)) for ids in found)
    for rest in rests:
        rest.close()
    until(lambda: held(fat) == 0, lambda: held(fat))


def test_concurrent_reads_of_large_jobs_stay_within_the_memory_budget(fat):
    def read(number):
        rest = Rest(fat.url, timeout=120)
        try:
            return until(lambda: (answer := rest.get(f"/v1/jobs/{number}")).status != 503 and answer, "an answer").json["id"]
        finally:
            rest.close()
    with bounded(fat, BUDGET + 64 * MIB), concurrent.futures.ThreadPoolExecutor(40) as pool:
        assert list(pool.map(read, range(1, 81))) == [str(number) for number in range(1, 81)]
    until(lambda: held(fat) == 0, lambda: held(fat))


def test_unread_answers_count_towards_the_memory_budget(fat):
    """One client after the other asks for a page and reads nothing: what is made for them ends at the budget, who comes then is told to come again."""
    port = int(fat.url.rsplit(":", 1)[1])
    silent, refusal = [], None
    try:
        with bounded(fat, BUDGET + 64 * MIB):
            while not refusal and len(silent) < 60:
                connection = socket.socket()
                silent.append(connection)
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                connection.connect(("127.0.0.1", port))
                connection.sendall(3 * b"GET /v1/jobs?topic=fat&include=payload HTTP/1.1\r\nHost: localhost\r\n\r\n")  # what one answer's worth the kernel may take
                answer = fat.rest.get("/v1/jobs?topic=fat&include=payload")
                refusal = answer if answer.status == 503 else None
            refused(refusal, 503, "unavailable")
            assert refusal.headers["Retry-After"] and fat.rest.get("/healthz").status == 200 and held(fat) <= BUDGET
            assert fat.rest.get("/v1/jobs/1").status == 200  # pages leave room for it
    finally:
        for connection in silent:
            connection.close()
    until(lambda: held(fat) == 0, lambda: held(fat))
    ids = walk(fat.rest, "topic=fat&include=payload", pages=2)
    assert ids == list(range(1, len(ids) + 1))


def test_empty_batches_whose_answers_are_not_read_use_little_memory(own_apis):
    """200 KB of line feeds are 200,000 lines that cannot be read: what is said of them ends long before that."""
    api = own_apis("feeds", SETTINGS, variables=VARIABLES).start()
    feeds = b"\n" * 200_000
    answer = api.rest.post("/v1/jobs:batch", feeds, content_type="application/x-ndjson")
    assert answer.status == 200 and "many times as long" in answer.lines[-1]["detail"] and len(answer.body) < PAGE
    silent = []
    try:
        with bounded(api, 64 * MIB):
            for _ in range(10):
                connection = socket.socket()
                silent.append(connection)
                connection.settimeout(60)
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                connection.connect(("127.0.0.1", int(api.url.rsplit(":", 1)[1])))
                connection.sendall(b"POST /v1/jobs:batch HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\nContent-Length: 200000\r\n\r\n" + feeds)
            assert all(connection.recv(12, socket.MSG_PEEK) == b"HTTP/1.1 200" for connection in silent)
            assert held(api) <= 10 * PAGE and api.rest.get("/healthz").status == 200
    finally:
        for connection in silent:
            connection.close()
    until(lambda: held(api) == 0, lambda: held(api))


def without_its_end(api, size):
    """A batch of which all but the last byte is sent."""
    connection = socket.create_connection(("127.0.0.1", int(api.url.rsplit(":", 1)[1])), timeout=120)
    connection.sendall(f"POST /v1/jobs:batch HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {size}\r\n\r\n[".encode())
    with contextlib.suppress(OSError):  # refused on the way
        connection.sendall(b" " * (size - 2))
    return connection


def sent_without_its_end(api, size, waiting):
    """Returns whether the API has room for the batch. A refusal is counted at once, but answered only at the end of the body."""
    wanted, before = held(api) + size // 2, refusals(api)
    waiting.append(without_its_end(api, size))
    until(lambda: held(api) >= wanted or refusals(api) > before, "the body is in the budget, or refused")
    return refusals(api) == before


def test_unfinished_batches_leave_memory_for_requests_about_single_jobs(fat):
    """They are sent as long as there is room for them, large ones first: who asks for a job or changes it is answered."""
    waiting = []
    try:
        for size in (8 * MIB, 2 * MIB, MIB // 2, MIB // 4):
            while held(fat) < BUDGET and sent_without_its_end(fat, size, waiting):
                pass
        assert BUDGET * 3 / 4 < held(fat) <= BUDGET * 7 / 8
        assert fat.rest.get("/v1/jobs/2").status == 200
        assert fat.rest.patch("/v1/jobs/2", {"delay": "P30D"}).status == 200
        assert fat.rest.post("/v1/jobs/3/cancel").status == 200
    finally:
        for connection in waiting:
            connection.close()
    until(lambda: held(fat) == 0, lambda: held(fat))


def test_a_job_with_thousands_of_attempts_shows_them_in_pages(fat):
    fat.rows("UPDATE jobs SET attempt = 5000, attempt_status = 'snoozed' WHERE id = 7")
    fat.rows("INSERT INTO attempts (job_id, attempt, status, error_code, error_message) WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 999) "
             "SELECT 7, x.n + 999 * y.n - 999, 'failed', 'e', REPEAT('\\\\', 1000) FROM s x JOIN s y ON y.n <= 6 WHERE x.n + 999 * y.n - 999 < 5000")
    seen, cursor = [], ""
    with bounded(fat, 64 * MIB):
        while True:
            answer = fat.rest.get(f"/v1/jobs/7/attempts?{cursor}")
            assert answer.status == 200 and len(answer.body) <= PAGE + PAYLOAD, answer
            seen += [attempt["attempt"] for attempt in answer.json["attempts"]]
            if "next_cursor" not in answer.json:
                break
            cursor = f"cursor={answer.json['next_cursor']}"
    assert seen == list(range(1, 5001))
    first = fat.rest.get("/v1/jobs/7/attempts").json
    refused(fat.rest.get(f"/v1/jobs/8/attempts?cursor={first['next_cursor']}"), 422, "invalid", "?cursor")

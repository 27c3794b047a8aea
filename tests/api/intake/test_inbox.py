"""job_inbox: what an application inserts in its own transaction is a job, or a change of one, within a second of its commit."""
import json
import re
import subprocess

import pymysql
import pytest

from harness.checker import connect, now_ms
from harness.program import PROGRAM, environment
from harness.stack import until

LAST_ID = 2**63 - 1


@pytest.fixture
def put(db):
    """put(action=…, topic=…, …) -> the id of the row that was inserted."""
    def insert(**columns):
        names = ", ".join(columns)
        db(f"INSERT INTO job_inbox ({names}) VALUES ({', '.join(['%s'] * len(columns))})", *columns.values())
        return db("SELECT LAST_INSERT_ID() AS id")[0]["id"]
    return insert


@pytest.fixture
def gone(db):
    """gone(row) waits until the row was carried out."""
    def wait(*ids):
        until(lambda: not db("SELECT id FROM job_inbox WHERE id IN %s", ids), lambda: db("SELECT id, error FROM job_inbox WHERE id IN %s", ids))
    return wait


@pytest.fixture
def kept(db):
    """kept(row) -> the error that the row is kept with; the row is removed."""
    def wait(row):
        error = until(lambda: db("SELECT error FROM job_inbox WHERE id = %s AND error IS NOT NULL", row), lambda: db("SELECT * FROM job_inbox"))[0]["error"]
        db("DELETE FROM job_inbox WHERE id = %s", row)
        return error
    return wait


def by_key(api, topic, key):
    return api.get(f"/v1/topics/{topic}/jobs/{key}").json


def test_an_inbox_row_creates_the_same_job_as_a_request(api, db, topic, put, gone):
    before = int(now_ms()) - 1
    gone(put(topic=topic, job_key="k", delay_ms=1800000, payload='{"order": 42}',
             options=json.dumps({"retry": ["1m"], "ack_timeout": "PT2M", "headers": {"x": "y"}, "partition_key": "p"})))
    job = by_key(api, topic, "k")
    assert (job["state"], job["retry"], job["ack_timeout"], job["headers"], job["partition_key"]) == ("scheduled", ["1m"], "PT2M", {"x": "y"}, "p"), job
    assert job["payload"] == {"order": 42}
    run_at = db("SELECT run_at FROM jobs WHERE id = %s", job["id"])[0]["run_at"]
    assert before + 1800000 <= run_at <= now_ms() + 1800001
    same = api.put(f"/v1/topics/{topic}/jobs/k", {"delay": "PT30M", "retry": ["60s"], "ack_timeout": "PT2M", "headers": {"x": "y"}, "partition_key": "p",
                                                  "payload": {"order": 42}})
    assert same.status == 200 and same.json["id"] == job["id"], same


def test_a_delay_counts_from_the_insert(db, topic, stack, put, gone):
    other = connect(stack)
    try:
        with other.cursor() as cursor:
            cursor.execute("BEGIN")
            cursor.execute("INSERT INTO job_inbox (topic, job_key, delay_ms) VALUES (%s, 'late', 3600000)", (topic,))
            row = cursor.lastrowid
            cursor.execute("SELECT created_at FROM job_inbox WHERE id = %s", (row,))
            created = cursor.fetchone()["created_at"]
            gone(put(topic=f"{topic}.later", delay_ms=3600000))  # a later row is carried out first
            assert not db("SELECT 1 FROM jobs WHERE topic = %s", topic)
            cursor.execute("COMMIT")
    finally:
        other.close()
    gone(row)
    assert db("SELECT run_at FROM jobs WHERE topic = %s", topic)[0]["run_at"] == created + 3600000


def test_a_job_can_be_cancelled_changed_and_run_at_once(api, topic, put, gone, held):
    gone(put(topic=held, job_key="k", delay_ms=3600000, payload="1"))
    job = by_key(api, held, "k")
    gone(put(action="change", topic=held, job_key="k", payload="[2]", options='{"retry":null,"headers":{"a":"b"}}'))
    changed = by_key(api, held, "k")
    assert (changed["payload"], changed["headers"], changed["run_at"]) == ([2], {"a": "b"}, job["run_at"])
    gone(put(action="run_now", job_id=int(job["id"])))
    assert by_key(api, held, "k")["next_at"] < job["next_at"]
    gone(put(action="cancel", topic=held, job_key="k"), put(action="cancel", topic=held, job_key="k"))
    assert by_key(api, held, "k")["state"] == "cancelled"
    story = api.get(f"/v1/jobs/{job['id']}/events").json["events"]
    assert [(event["actor"], event["action"]) for event in reversed(story)] == [("inbox", "change"), ("inbox", "run_now"), ("inbox", "cancel")]
    assert (story[0]["before"]["state"], story[0]["after"]["state"], story[2]["after"]["payload"]) == ("scheduled", "cancelled", "***")


@pytest.mark.parametrize("columns, error", [
    ({"delay_ms": 1, "topic": "a b"}, "invalid: see errors for each invalid member: /topic "),
    ({"delay_ms": 1, "topic": None}, "invalid: see errors for each invalid member: /topic is required"),
    ({}, "invalid: see errors for each invalid member: /run_at is required"),
    ({"delay_ms": -1}, "invalid: see errors for each invalid member: /delay must not be negative"),
    ({"delay_ms": 1, "payload": "{"}, "malformed: payload: "),
    ({"delay_ms": 1, "payload": '1,"retry":[]'}, "malformed: payload: is more than one JSON value"),
    ({"delay_ms": 1, "options": '{"delay":3}'}, "invalid: see errors for each invalid member: /options/delay is not known"),
    ({"delay_ms": 1, "options": "[]"}, "invalid: see errors for each invalid member: /options must be an object"),
    ({"delay_ms": 1, "options": '{"retry":"x"}'}, "invalid: see errors for each invalid member: /retry must be a list"),
    ({"delay_ms": 1, "job_key": b"\xff"}, "invalid: see errors for each invalid member: /job_key must be UTF-8"),
    ({"delay_ms": 1, "payload": b"x" * 900001}, "too-large: "),
    ({"delay_ms": 4 * 10**15}, "invalid: see errors for each invalid member: /delay "),
    ({"action": "cancel", "job_key": "nobody"}, "not-found: no such job"),
    ({"action": "cancel"}, "invalid: see errors for each invalid member: /job_key is required"),
    ({"action": "cancel", "job_key": "k", "delay_ms": 3}, "invalid: see errors for each invalid member: /delay_ms is not allowed"),
    ({"action": "change", "job_key": "nobody", "options": '{"content_type":"a/b"}', "payload": b"\x00\xff"}, "not-found: no such job"),
])
def test_an_inbox_row_that_fails_is_kept_with_its_error(db, topic, put, kept, columns, error):
    row = put(**{"topic": topic, **columns})
    assert kept(row).startswith(error)
    assert not db("SELECT 1 FROM jobs WHERE topic = %s", topic)


def test_payload_bytes_are_kept_unchanged(db, topic, put, gone):
    gone(put(topic=topic, job_key="k", delay_ms=3600000, payload=b"\x00\xff,", options='{"content_type":"application/octet-stream"}'))
    assert db("SELECT payload, content_type FROM jobs WHERE topic = %s", topic) == [{"payload": b"\x00\xff,", "content_type": b"application/octet-stream"}]


def test_a_failed_inbox_row_is_tried_again_when_its_error_is_set_to_null(api, db, topic, put, gone):
    row = put(action="cancel", topic=topic, job_key="k")
    error = until(lambda: db("SELECT error FROM v_inbox_errors WHERE id = %s", row), lambda: db("SELECT * FROM job_inbox"))[0]["error"]
    assert error == "not-found: no such job"
    gone(put(topic=topic, job_key="k", delay_ms=3600000))
    assert by_key(api, topic, "k")["state"] == "scheduled"
    db("UPDATE job_inbox SET error = NULL WHERE id = %s", row)
    gone(row)
    assert by_key(api, topic, "k")["state"] == "cancelled"


def test_a_cancel_that_is_too_late_names_the_attempt(topic, dispatched, put, kept):
    job = dispatched(topic=topic, key="k")
    assert job["attempt"] == 1
    assert kept(put(action="cancel", topic=topic, job_key="k")) == "too-late: the job is no longer scheduled, attempt 1"


def test_a_replace_changes_the_body_of_the_job_or_creates_a_job(api, db, topic, put, gone, kept):
    gone(put(action="replace", topic=topic, job_key="k", delay_ms=3600000, payload="1", options='{"headers":{"a":"b"}}'))
    made = by_key(api, topic, "k")
    gone(put(action="replace", topic=topic, job_key="k", delay_ms=7200000, payload="2"))
    job = by_key(api, topic, "k")
    assert (job["id"], job["payload"], job.get("headers"), job["run_at"] > made["run_at"]) == (made["id"], 2, None, True), job
    gone(put(action="cancel", topic=topic, job_key="k"), put(action="replace", topic=topic, job_key="k", delay_ms=3600000, payload="3"))
    last = by_key(api, topic, "k")
    assert last["id"] != made["id"] and (last["payload"], last["state"]) == (3, "scheduled")
    assert kept(put(action="replace", topic=topic, delay_ms=1)).endswith("/job_key is required")


def test_the_printed_grant_is_sufficient_for_applications_and_covers_only_their_columns(api, db, topic, stack, gone):
    name = stack["DUETIME_MYSQL_DATABASE"]
    printed = subprocess.run([PROGRAM, "--print-grants"], env={**environment(), "DUETIME_MYSQL_DATABASE": name}, capture_output=True, text=True, check=True)
    [grant] = re.findall(r"GRANT INSERT .*\.job_inbox TO 'duetime_application'@'%'", printed.stdout)
    db("CREATE USER IF NOT EXISTS inbox_shop@localhost IDENTIFIED BY 'shop'")
    db(grant.replace("'duetime_application'@'%'", "inbox_shop@localhost"))
    try:
        shop = pymysql.connect(unix_socket=stack["DUETIME_MYSQL_SOCKET"], user="inbox_shop", password="shop", autocommit=True)
        with shop.cursor() as cursor:
            cursor.execute("SET time_zone = '+09:00'")
            cursor.execute(f"INSERT INTO `{name}`.job_inbox (action, topic, job_key, job_id, run_at, delay_ms, payload, options)"
                           " VALUES ('create', %s, 'k', NULL, NULL, 60000, '1', '{}')", (topic,))
            gone(cursor.lastrowid)
            for column, value in (("id", LAST_ID), ("error", "no"), ("error_at", 1), ("created_at", 1)):
                with pytest.raises(pymysql.MySQLError, match="1143"):
                    cursor.execute(f"INSERT INTO `{name}`.job_inbox (topic, delay_ms, {column}) VALUES (%s, 60000, %s)", (topic, value))
        shop.close()
    finally:
        db("DROP USER inbox_shop@localhost")
    assert abs(db("SELECT run_at - created_at AS ms FROM jobs WHERE topic = %s", topic)[0]["ms"] - 60000) < 60000


@pytest.mark.parametrize("column, value", [("id", LAST_ID), ("id", 2**62), ("id", -1), ("error", "no"), ("error_at", 1), ("created_at", -1), ("created_at", LAST_ID)])
def test_no_insert_can_use_up_the_ids_of_the_inbox(api, db, topic, put, gone, column, value):
    with pytest.raises(pymysql.MySQLError):
        put(topic=topic, job_key="bad", delay_ms=60000, **{column: value})
    gone(put(topic=topic, job_key="k", delay_ms=60000, payload="1"))
    assert by_key(api, topic, "k")["state"] == "scheduled"

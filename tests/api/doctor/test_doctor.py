"""GET /v1/doctor: each finding is there when its fault is planted on the real servers, and gone when its advice was followed."""
import re

import pymysql
import pytest

from doctor_findings import explained_by, findings, found, gone
from harness.problems import refused
from harness.servers import redis_clients
from harness.stack import TREE, until

pytestmark = pytest.mark.in_turns(3)


def follow_in_mysql(db, advice):
    """What the advice says up to its semicolon."""
    db(advice.split(";")[0])


@pytest.mark.parametrize("setting, name, severity", [("innodb_flush_log_at_trx_commit", "mysql-flush", "error"), ("sync_binlog", "mysql-binlog", "warning")])
def test_unsafe_mysql_settings_are_findings(api, db, setting, name, severity):
    gone(api, name)
    db(f"SET GLOBAL {setting} = 0")
    try:
        seen = found(api, name)
        assert seen["severity"] == severity and seen["detail"] == f"{setting} is 0"
        follow_in_mysql(db, seen["do"])
        gone(api, name)
    finally:
        db(f"SET GLOBAL {setting} = 1")


def test_a_small_max_allowed_packet_is_reported(api, db, packet_limit):
    gone(api, "mysql-packet")
    packet_limit(65536)
    seen = found(api, "mysql-packet")
    assert seen["severity"] == "warning" and seen["detail"].startswith("max_allowed_packet is 65536"), seen
    follow_in_mysql(db, seen["do"])
    gone(api, "mysql-packet")


def test_an_inbox_whose_ids_run_out_is_repaired_as_its_page_says(api, db, stack, topic):
    """No INSERT comes so far; here an UPDATE does."""
    look, mend = re.findall(r"```sql\n(.*?)```", (TREE / "deploy/runbook/mysql/mysql-numbers.md").read_text(), re.DOTALL)
    insert = "INSERT INTO job_inbox (topic, job_key, delay_ms, payload) VALUES (%s, %s, 60000, '1')"
    stack.stop("dispatcher1")
    try:
        db(insert, topic, "last")
        db("UPDATE job_inbox SET id = 9223372036854775807 WHERE topic = %s", topic)
        db("ALTER TABLE job_inbox ENGINE = InnoDB")  # counts from the largest id
        seen = found(api, "mysql-numbers", "job_inbox")
        assert seen["severity"] == "error" and seen["runbook"].endswith("mysql/mysql-numbers.md"), seen
        with pytest.raises(pymysql.MySQLError, match="167|1467"):
            db(insert, topic, "k")
        for statement in look.split(";")[:-1] + mend.split(";")[:-1]:
            db(statement.replace("%", "%%"))
        gone(api, "mysql-numbers")
        for key in ("k", "l"):
            db(insert, topic, key)
        assert db("SELECT MAX(id) < 4611686018427387904 AS fine FROM job_inbox")[0]["fine"]
    finally:
        stack.start("dispatcher1")
    until(lambda: [api.get(f"/v1/topics/{topic}/jobs/{key}").status for key in ("last", "k", "l")] == [200] * 3, lambda: db("SELECT * FROM job_inbox"))


def test_a_redis_that_evicts_entries_is_a_finding(api, stack):
    [client, *_] = redis_clients(stack)
    before = client.config_get("maxmemory-policy")["maxmemory-policy"]
    client.config_set("maxmemory-policy", "allkeys-lru")
    try:
        seen = found(api, "redis-policy")
        assert seen["detail"] == "maxmemory-policy is allkeys-lru" and "CONFIG SET maxmemory-policy noeviction" in seen["do"]
        client.config_set("maxmemory-policy", "noeviction")
        gone(api, "redis-policy")
    finally:
        client.config_set("maxmemory-policy", before)


def test_an_incomplete_index_is_reported_until_redis_is_back(api, stack):
    gone(api, "index-incomplete")
    with stack.stopped("redis1"):
        seen = found(api, "index-incomplete")
        assert seen["severity"] == "warning" and seen["do"].startswith("redis-cli ping")
        until(lambda: explained_by(api, "redis-away") >= {"index-incomplete", "shard-waits"}, lambda: findings(api))
        assert not [each for each in findings(api) if each["finding"] in ("index-incomplete", "shard-waits") and not each["cause"]]
    gone(api, "index-incomplete")


def test_without_a_dispatcher_no_shard_has_a_leader_and_jobs_are_late(api, db, stack, topic):
    job = api.make(topic=topic, delay="PT5M")["id"]
    stack.stop("dispatcher1")
    try:
        assert found(api, "no-dispatcher")["severity"] == "error"
        assert findings(api)[0]["finding"] == "no-dispatcher"
        assert found(api, "shard-without-leader", "shard 1")["detail"] == "no running process leads it"
        db("UPDATE jobs SET next_at = next_at - 600000 WHERE id = %s", job)
        late = found(api, "overdue", topic)
        assert late["severity"] == "error" and late["detail"].startswith("jobs due: 1, the oldest for ") and late["cause"] == "no-dispatcher"
        assert late["do"].startswith("start a dispatcher: ") and late["do"].endswith(f"; duetime jobs explain {job}")
        assert explained_by(api, "no-dispatcher") == {"shard-without-leader", "overdue"}
        parts = lambda: {part["part"]: part["state"] for part in api.get("/v1/overview").json["parts"]}  # noqa: E731 (up to a second old)
        until(lambda: parts()["dispatchers"] == "degraded", parts)
        assert parts()["kafka"] == parts()["zookeeper"] == "ok"
        assert api.get("/readyz").json["kafka"] == "ok"
    finally:
        stack.start("dispatcher1")
    for name in ("no-dispatcher", "shard-without-leader"):
        gone(api, name)
    gone(api, "overdue", topic)


def test_a_halted_shard_is_reported_with_its_reason(api, db):
    db("UPDATE shards SET halted = 'the ledger was recreated' WHERE shard = 1")
    seen = found(api, "shard-halted", "shard 1")
    assert seen["detail"] == "the ledger was recreated" and "CALL dt_clear_halt(1, 'resend', NULL)" in seen["do"]
    db("CALL dt_clear_halt(1, 'resend', NULL)")
    gone(api, "shard-halted")
    until(lambda: api.get("/readyz").json["leaders"] == "ok", lambda: api.get("/v1/info").text)


def test_a_pull_topic_without_workers_is_a_finding(api, db, topic):
    api.put(f"/v1/topics/{topic}", {"delivery": "pull"})
    job = api.make(topic=topic, delay=0)["id"]
    until(lambda: api.get(f"/v1/jobs/{job}").json["waiting_for"] == "pop", lambda: api.get(f"/v1/jobs/{job}"))
    assert not any(each["finding"] == "not-popped" and each["subject"] == topic for each in findings(api))
    late = lambda: [each for each in api.get("/v1/doctor?late=PT1S").json["findings"] if each["subject"] == topic]  # noqa: E731
    [seen] = until(late, lambda: api.get("/v1/doctor?late=PT1S"))
    assert seen["finding"] == "not-popped" and seen["severity"] == "error" and seen["cause"] is None and seen["do"].endswith(f"duetime pop {topic}")
    assert api.post(f"/v1/topics/{topic}/pop").json["jobs"]
    until(lambda: not late(), late)


def test_an_invalid_lateness_bound_is_refused(api):
    refused(api.get("/v1/doctor?late=soon"), 422, "invalid", "?late")


def test_failed_inbox_rows_are_a_finding(api, db):
    db("DELETE FROM job_inbox WHERE error IS NOT NULL")
    db("INSERT INTO job_inbox (action, topic, job_key) VALUES ('cancel', 'nobody-made-this', 'k')")
    try:
        seen = found(api, "inbox-errors")
        assert seen["detail"] == "1 rows have an error" and "v_inbox_errors" in seen["do"]
    finally:
        db("DELETE FROM job_inbox WHERE error IS NOT NULL")
    gone(api, "inbox-errors")


def test_processes_of_several_versions_are_a_finding(api, db):
    db("INSERT INTO processes (id, kind, name, version, started_at, seen_at) VALUES (1, 'api', 'old:1', '0.0.1', 1, UNIX_TIMESTAMP() * 1000 + 600000)")
    try:
        assert "0.0.1" in found(api, "process-versions", "old:1")["detail"]
    finally:
        db("DELETE FROM processes WHERE id = 1")
    gone(api, "process-versions")


def test_a_healthy_installation_has_no_findings_of_servers(api):
    until(lambda: not [each for each in findings(api) if each["finding"] not in ("overdue", "not-popped", "paused-and-due")], lambda: findings(api))
    assert api.get("/v1/doctor").json["looked_at"] == ["mysql", "processes", "shards", "jobs", "redis", "kafka", "zookeeper", "certificates"]

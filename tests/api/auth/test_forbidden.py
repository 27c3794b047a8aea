"""What MySQL forbids our own account, or does not have, is 503 and an alarm, whoever asks for what: never the caller's fault."""
import contextlib

import pytest

from harness.checker import connect, rows
from harness.problems import refused
from harness.stack import until

HOUR = "PT1H"
READS = {
    "job": lambda rest, job: rest.get(f"/v1/jobs/{job}"),
    "key": lambda rest, job: rest.get("/v1/topics/forbidden/jobs/k"),
    "attempts": lambda rest, job: rest.get(f"/v1/jobs/{job}/attempts"),
    "list": lambda rest, job: rest.get("/v1/jobs?topic=forbidden"),
    "list by key": lambda rest, job: rest.get("/v1/jobs?topic=forbidden&key_prefix=k"),
}
WRITES = {
    "create": lambda rest, job: rest.post("/v1/jobs", {"topic": "forbidden", "delay": HOUR}),
    "create by key": lambda rest, job: rest.put("/v1/topics/forbidden/jobs/other", {"delay": HOUR}),
    "create in a new topic": lambda rest, job: rest.post("/v1/jobs", {"topic": "forbidden-new", "delay": HOUR}),
    "patch": lambda rest, job: rest.patch(f"/v1/jobs/{job}", {"payload": 2}),
    "cancel": lambda rest, job: rest.delete(f"/v1/jobs/{job}"),
    "run-now": lambda rest, job: rest.post(f"/v1/jobs/{job}/run-now"),
    "redrive": lambda rest, job: rest.post(f"/v1/jobs/{job}/redrive"),
    "result": lambda rest, job: rest.post(f"/v1/jobs/{job}/results", {"attempt": 1, "status": "succeeded"}),
    "topic": lambda rest, job: rest.put("/v1/topics/forbidden", {"retry": ["1s"]}),
    "pause": lambda rest, job: rest.post("/v1/topics/forbidden/pause"),
    "shards": lambda rest, job: rest.post("/v1/admin/shards", {"count": 3}),
}


ALL = "SELECT, INSERT, UPDATE, DELETE, CREATE, DROP, ALTER, INDEX"


@pytest.fixture(scope="module")
def limited_apis(stack, own_apis):
    """limited_apis(name) -> a started API whose account can be forbidden things. (Their database is migrated by another one.)"""
    server = connect(stack)
    rows(server, "DROP USER IF EXISTS 'restrained'@'localhost'")
    rows(server, "CREATE USER 'restrained'@'localhost' IDENTIFIED BY 'restrained'")
    owner = own_apis("restrained")
    tables = [row["TABLE_NAME"] for row in owner.rows("SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'api_restrained'")]
    for table in tables:
        rows(server, f"GRANT {ALL} ON api_restrained.{table} TO 'restrained'@'localhost'")
    rows(server, "GRANT EXECUTE ON PROCEDURE api_restrained.dt_watch_alerts TO 'restrained'@'localhost'")  # an API that may not is alarmed from its start
    made = []

    def make(name):
        api = own_apis(name, {"mysql.user": "restrained", "mysql.password": "restrained", "mysql.database": "api_restrained", "installation.name": "restrained"}, shared=True)
        api.server, api.database, api.tables = server, "api_restrained", tables
        made.append(api)
        return api.start()
    yield make
    for api in made:
        api.end()
    rows(server, "DROP USER 'restrained'@'localhost'")
    server.close()


@pytest.fixture(scope="module")
def limited(limited_apis):
    return limited_apis("limited_user")


@contextlib.contextmanager
def without(api, what, tables=None):
    """The account may not do that to these tables, or to any."""
    tables = tables or api.tables
    for table in tables:
        rows(api.server, f"REVOKE {what} ON api_restrained.{table} FROM 'restrained'@'localhost'")
    try:
        yield
    finally:
        for table in tables:
            rows(api.server, f"GRANT {what} ON api_restrained.{table} TO 'restrained'@'localhost'")


def unavailable(answer, api):
    body = refused(answer, 503, "unavailable")
    assert int(answer.headers["Retry-After"]) >= 1
    assert "restrained" not in answer.body.decode() and "MySQL" not in answer.body.decode(), body


def made(api):
    return api.rest.put("/v1/topics/forbidden/jobs/k", {"delay": HOUR}).json["id"]


def alarms(api):
    return [line for line in api.log().splitlines() if "level=error" in line]


@pytest.mark.parametrize("name", WRITES)
def test_a_write_without_the_right_in_mysql_is_answered_with_503(limited, name):
    job = made(limited)
    if name in ("redrive", "result"):
        limited.rows("UPDATE jobs SET state = %s, attempt = 1, attempt_status = 'dispatched', next_at = %s WHERE id = %s",
                     *(("dead", None) if name == "redrive" else ("dispatched", 9999999999999)), job)
    with without(limited, "INSERT, UPDATE, DELETE"):
        unavailable(WRITES[name](limited.rest, job), limited)
    until(lambda: limited.rest.post("/v1/jobs", {"topic": "forbidden", "delay": HOUR}).status == 201, "the request is allowed again")
    limited.rows("UPDATE jobs SET state = 'scheduled', attempt = 0, attempt_status = 'none', next_at = 9999999999999 WHERE id = %s", job)


@pytest.mark.parametrize("name", READS)
def test_a_read_without_the_right_in_mysql_is_answered_with_503(limited, name):
    job = made(limited)
    with without(limited, "SELECT", ["jobs", "job_keys", "attempts", "history"]):
        unavailable(READS[name](limited.rest, job), limited)
    until(lambda: READS[name](limited.rest, job).status == 200, "the request is allowed again")


@pytest.mark.parametrize("name", [*READS, "create", "cancel"])
def test_requests_that_need_a_missing_table_are_answered_with_503(limited, name):
    job = made(limited)
    limited.rows("RENAME TABLE jobs TO jobs_away")
    try:
        answer = {**READS, **WRITES}[name](limited.rest, job)
        unavailable(answer, limited)
    finally:
        limited.rows("RENAME TABLE jobs_away TO jobs")


def test_writes_to_a_read_only_server_are_answered_with_503(stack, limited):
    job = made(limited)
    rows(limited.server, "SET GLOBAL read_only = ON")
    try:
        for name in ("create", "patch", "topic"):
            unavailable(WRITES[name](limited.rest, job), limited)
    finally:
        rows(limited.server, "SET GLOBAL read_only = OFF")
    until(lambda: limited.rest.post("/v1/jobs", {"topic": "forbidden", "delay": HOUR}).status == 201, "the request is allowed again")


def test_each_line_of_a_batch_that_mysql_refuses_is_answered_with_503(limited):
    made(limited)
    with without(limited, "INSERT, UPDATE, DELETE"):
        lines = limited.rest.batch([{"topic": "forbidden", "delay": HOUR}] * 3)
        assert [(line["status"], line["type"]) for line in lines] == [(503, "/problems/unavailable")] * 3, lines
        answer = limited.rest.post("/v1/jobs:batch", [{"topic": "forbidden", "delay": HOUR}])
        assert answer.json[0]["status"] == 503, answer


@pytest.mark.in_turns(3)
def test_a_missing_right_is_logged_once_and_counted_and_not_reported_as_401(limited_apis):
    """On an API that nobody has alarmed yet: an alarm lasts for fifteen quiet seconds."""
    limited = limited_apis("limited_alarm")
    assert alarms(limited) == []
    with without(limited, "INSERT, UPDATE, DELETE"):
        for _ in range(100):
            unavailable(WRITES["create"](limited.rest, None), limited)
        assert limited.rest.metric("duetime_outage_alarm", of="mysql") == 1.0
        assert len(alarms(limited)) == 1 and "command denied" in alarms(limited)[0], alarms(limited)
    until(lambda: limited.rest.metric("duetime_outage_alarm", of="mysql") == 0.0, limited.log, seconds=20)
    assert "outage ended" in limited.log()
    assert len(alarms(limited)) == 1

"""Both programs do all that they do with the rights that duetime-api --print-grants prints, and with no other."""
import json
import re

import pytest

from harness.checker import rows
from harness.stack import until

pytestmark = pytest.mark.turn(1, 7)

# Not permitted to a table, column or procedure; to a database.
DENIED = re.compile(r"MySQL (1142|1143|1370|1044|1227)\b")


@pytest.fixture
def accounts(world):
    """The four accounts, with the rights that are printed and no other."""
    for name in ("migrate", "api", "dispatcher", "application"):
        world.server.sql(f"CREATE OR REPLACE USER 'duetime_{name}'@'%' IDENTIFIED BY '{world.password}' REQUIRE SSL")
    printed = world.program().command("--print-grants").stdout
    migrate, others = printed.split("-- duetime-api\n")
    world.server.sql("DROP DATABASE secured; CREATE DATABASE secured;" + re.sub("--.*", "", migrate))
    done = world.program(user="duetime_migrate").command("--migrate")
    assert done.returncode == 0, done.stderr
    world.server.sql(re.sub("--.*", "", others))
    tables = {table for (table,) in world.server.sql("SELECT table_name FROM information_schema.tables WHERE table_schema = 'secured' AND table_type = 'BASE TABLE'")}
    assert tables == set(re.findall(r"`secured`\.(\w+) ", others)) - {"dt_renew_member", "dt_wait", "dt_watch_alerts"}, "scheduler/store/store_schema.c has a line for each table"


@pytest.fixture
def programs(world, accounts):
    quick = {"history.after": 0, "history.dead_after": 0, "reconcile.period": "PT0.5S", "reconcile.audit": "PT0.1S", "zookeeper.session_timeout": "PT1S"}
    api = world.program(quick, user="duetime_api")
    dispatcher = world.program(quick, dispatcher=True, user="duetime_dispatcher").launch()
    yield api.start(), dispatcher
    codes = api.end(), dispatcher.end()
    assert codes == (0, 0), (api.log(), dispatcher.log())


def popped(rest, topic):
    return until(lambda: rest.post(f"/v1/topics/{topic}/pop", {"max": 10, "wait": "PT1S"}).json["jobs"], f"a job of {topic}")


def lives(rest):
    """Jobs through each way in, change and end."""
    assert rest.put("/v1/topics/t", {"delivery": "pull", "max_in_flight": 100, "rate_limit": "1000/s"}).status == 201
    kept = rest.make(topic="t", delay=3600, key="k")
    assert rest.put("/v1/topics/t/jobs/k?replace=true", {"delay": 7200}).status == 200
    assert rest.patch(f"/v1/jobs/{kept['id']}", {"delay": 1800}).status == 200
    assert rest.delete(f"/v1/jobs/{kept['id']}").status == 200
    rest.make(topic="t", delay=0, retry=["PT0.1S"])
    first = popped(rest, "t")[0]
    assert rest.post("/v1/results", [{"job_id": first["id"], "attempt": 1, "status": "failed"}]).status == 200
    second = popped(rest, "t")[0]
    assert rest.post(f"/v1/jobs/{second['id']}/results", {"attempt": second["attempt"], "status": "gave_up"}).status == 200
    until(lambda: rest.get(f"/v1/jobs/{second['id']}").json["state"] == "dead", "dead")
    assert rest.post(f"/v1/jobs/{second['id']}/redrive").status in (200, 404, 409)
    lines = "".join(json.dumps({"topic": "t", "delay": 3600, "key": f"b{n}"}) + "\n" for n in range(20))
    assert rest.post("/v1/jobs:batch", lines, content_type="application/x-ndjson").status in (200, 201)
    for command in ({"command": "add", "topic": "c", "id": "c1", "delay": 0, "TTR": 60, "body": "x"}, {"command": "pop", "topic": "c", "wait": 5},
                    {"command": "finish", "id": "c1"}, {"command": "add", "topic": "c", "id": "c2", "delay": 600, "TTR": 60, "body": "x"},
                    {"command": "delete", "id": "c2"}):
        assert rest.post("/v1/commands", command).json["success"] is True, command


def sets(rest):
    """Schedules, operations, topics that go, the number of shards."""
    assert rest.put("/v1/schedules/s", {"topic": "t", "every": "PT1S", "payload": 1}).status == 201
    until(lambda: any(job.get("key", "").startswith("s@") for job in rest.get("/v1/jobs?topic=t&limit=100").json["jobs"]) or popped(rest, "t"), "a fire")
    assert rest.ask("DELETE", "/v1/schedules/s?cancel=true").status in (200, 204)
    begun = rest.post("/v1/jobs:cancel", {"filter": {"topic": "t"}})
    assert begun.status in (200, 202), begun
    until(lambda: rest.get("/v1/operations").json["operations"][0]["state"] in ("done", "finished", "completed"), lambda: rest.get("/v1/operations"))
    assert rest.put("/v1/topics/gone", {"delivery": "pull"}).status == 201
    assert rest.delete("/v1/topics/gone").status in (200, 202, 204)
    assert rest.post("/v1/admin/shards", {"count": 2}).status in (200, 202)
    for path in ("/v1/info", "/v1/topics", "/v1/jobs", "/v1/schedules", "/v1/events", "/v1/forecast", "/v1/forecast/spikes", "/readyz"):
        assert rest.get(path).status == 200, path


def test_the_documented_mysql_rights_are_sufficient(world, programs):
    api, dispatcher = programs
    until(lambda: all(shard["leader"] for shard in api.rest.get("/v1/info").json["shards"]), dispatcher.log)
    lives(api.rest)
    sets(api.rest)
    connection = api.connect()
    rows(connection, "INSERT INTO job_inbox (topic, delay_ms, payload) VALUES ('t', 3600000, '1')")
    until(lambda: rows(connection, "SELECT COUNT(*) n FROM job_inbox")[0]["n"] == 0, dispatcher.log)
    rows(connection, "UPDATE jobs SET created_at = created_at - 3600000")  # young jobs stay
    until(lambda: rows(connection, "SELECT COUNT(*) n FROM history")[0]["n"] > 0, dispatcher.log)
    for program in programs:
        assert not DENIED.search(program.log()), program.log()
    for user in ("api", "dispatcher"):  # no right that is not named
        assert world.server.sql(f"SELECT COUNT(*) FROM mysql.db WHERE user = 'duetime_{user}'") == [["0"]]
        done = world.program(user=f"duetime_{user}").command("--migrate")
        assert done.returncode == 0 or DENIED.search(done.stderr), done.stderr

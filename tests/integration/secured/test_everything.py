"""A stack with TLS and authentication on every connection (`deploy/local up --secured`): a job's life, and that nothing of it goes another way.

`tests/run secured` runs the whole integration suite on such a stack; the slice of .ci/run takes a few files of it, and this one.
"""
import os
import uuid

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError

from harness.checker import connect, rows
from harness.command_line import run
from harness.consumer import TestConsumer
from harness.rest import Rest
from harness.servers import redis_clients
from harness.stack import Stack, until

pytestmark = pytest.mark.secured


@pytest.fixture(scope="module")
def secured(request):
    if os.environ.get("DUETIME_TEST_SECURED"):
        yield request.getfixturevalue("stack")
        return
    made = Stack("secured", "--secured", "--apis", "1", "--dispatchers", "1", "--shards", "2", "--sanitize", "--no-build")
    yield made.up()
    made.reset()


def test_a_job_runs_with_every_connection_secured(secured):
    topic, rest = f"t-{uuid.uuid4().hex[:8]}", Rest(secured["DUETIME_URL"])
    consumer = TestConsumer(secured["DUETIME_KAFKA"], [topic], rule=lambda arrival: {"status": "succeeded"})
    try:
        job = rest.make(topic=topic, delay=0, payload={"n": 1})
        seen = lambda: rest.get(f"/v1/jobs/{job['id']}").json
        until(lambda: seen()["state"] == "succeeded", lambda: f"{seen()}, arrived: {consumer.of(job['id'])}\n{secured.logs()}")
    finally:
        consumer.end()
    pulled = f"{topic}-pulled"
    assert rest.put(f"/v1/topics/{pulled}", {"delivery": "pull"}).status == 201
    rest.make(topic=pulled, delay=0)
    popped = until(lambda: rest.post(f"/v1/topics/{pulled}/pop", {"wait": "PT5S"}).json["jobs"], secured.logs)[0]
    assert rest.post(f"/v1/jobs/{popped['id']}/results", {"attempt": 1, "status": "succeeded"}).status in (200, 202)
    variables = {name: secured[name] for name in ("DUETIME_URL", "DUETIME_CA_FILE", "DUETIME_TOKEN")}
    told = lambda: (lambda done: done.err + done.out)(run("doctor", variables=variables))
    until(lambda: "nothing is wrong" in told(), told)


def test_each_server_is_used_with_its_security_settings(secured):
    assert Rest(secured["DUETIME_URL"].replace("https:", "http:")).get("/healthz").status == 400
    strange = Rest(secured["DUETIME_URL"])
    strange.token = None
    assert strange.get("/v1/info").status == 401
    by_tcp = rows(connect(secured), "SELECT ssl_type FROM mysql.user WHERE user = %s AND host = '127.0.0.1'", secured["DUETIME_MYSQL_USER"])
    assert [row["ssl_type"] for row in by_tcp] == ["ANY"]
    sessions = rows(connect(secured), "SELECT host FROM information_schema.processlist WHERE user = %s", secured["DUETIME_MYSQL_USER"])
    assert len([row for row in sessions if row["host"].startswith("127.0.0.1:")]) > 5, "the programs come by TCP, where TLS is demanded"
    for client in redis_clients(secured):
        users = [entry["user"] for entry in client.client_list() if entry["cmd"] != "client|list"]
        assert users and set(users) == {"duetime"}, users
    zookeeper = KazooClient(secured["DUETIME_ZOOKEEPER"], timeout=5)
    zookeeper.start(10)
    try:
        assert zookeeper.exists("/duetime")
        with pytest.raises(NoAuthError):  # a stranger sees nothing of ours
            zookeeper.get_children("/duetime")
    finally:
        zookeeper.stop()
        zookeeper.close()

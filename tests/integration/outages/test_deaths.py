"""Programs that die at an assertion: what they leave for operators, and what becomes of the shard."""
import time

import pytest

from harness.checker import connect, rows, shard_of
from harness.stack import until

pytestmark = pytest.mark.in_turns(4)

SHARDS = 4
BROKEN = {"DUETIME_FAIL": "lead.broken=force"}  # the leader of shard 0 fails an assertion


@pytest.fixture
def one_dispatcher(stack):
    for part in ("dispatcher2", "dispatcher3"):
        stack.stop(part)
    yield
    rows(connect(stack), "DELETE FROM process_findings WHERE finding = 'assertion'")
    stack.heal()


def test_a_shard_that_killed_three_leaders_is_not_led_for_a_minute_and_others_are(stack, one_dispatcher, api, topic, consume):
    consumer = consume(topic)
    connection = connect(stack)
    stack.stop("dispatcher1")
    for _ in range(3):
        stack.start("dispatcher1", env=BROKEN, ready=False)
        until(lambda: not stack.running("dispatcher1"), lambda: f"it dies\n{stack.log('dispatcher1')[-3000:]}", seconds=60)
    ended = time.time()
    deaths = rows(connection, "SELECT CAST(subject AS CHAR) subject, process FROM process_findings WHERE finding = 'assertion'")
    assert len(deaths) == 3 and all(death["process"] < 0 and death["subject"].startswith("shard 0, shard_takeover.c:") for death in deaths), deaths

    stack.start("dispatcher1")
    jobs = [line["id"] for line in api.batch([{"topic": topic, "delay": 0} for _ in range(60)])]
    of_broken = {job for job in jobs if shard_of(int(job), SHARDS) == 0}
    others = set(jobs) - of_broken
    assert of_broken and others
    arrived = lambda: {arrival.job for arrival in consumer.all()}  # noqa: E731
    until(lambda: others <= arrived(), lambda: f"all other shards are led: {len(others - arrived())} are missing", seconds=40)
    assert not of_broken & arrived()
    assert stack.log("dispatcher1").count('msg="is left alone') == 1
    found = [each for each in api.get("/v1/doctor").json["findings"] if each["finding"] == "assertion"]
    assert len(found) == 1 and found[0]["severity"] == "error" and found[0]["subject"] == deaths[0]["subject"], found

    until(lambda: of_broken <= arrived(), "the shard is led again", seconds=90)
    assert time.time() - ended > 55


def test_an_api_that_dies_at_an_assertion_leaves_a_finding(stack, api):
    connection = connect(stack)
    stack.stop("api2")
    try:
        stack.start("api2", env={"DUETIME_FAIL": "api.broken=force"}, ready=False)
        until(lambda: not stack.running("api2"), lambda: f"it dies\n{stack.log('api2')[-3000:]}", seconds=60)
        found = [each for each in api.get("/v1/doctor").json["findings"] if each["finding"] == "assertion"]
        assert len(found) == 1 and found[0]["subject"].startswith("main.c:") and "!broken" in str(found[0]), found
    finally:
        rows(connection, "DELETE FROM process_findings WHERE finding = 'assertion'")
        stack.heal()

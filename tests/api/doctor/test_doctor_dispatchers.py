"""GET /v1/doctor: what dispatchers see. Each finding is there when its fault is planted on the real servers, and gone when its advice was followed."""
import contextlib
import signal
import subprocess
import time

import pytest

from doctor_findings import findings, found, gone
from harness.kafka_admin import Broker
from harness.stack import PATIENCE, TREE, until

pytestmark = pytest.mark.in_turns(12)


@contextlib.contextmanager
def restarted(stack, **how):
    """dispatcher1 runs so; afterwards as it did before."""
    stack.restart("dispatcher1", **how)
    try:
        yield
    finally:
        stack.restart("dispatcher1")


def test_unsafe_unwritable_and_missing_kafka_topics_are_findings(api, stack):
    broker = Broker(stack)
    broker.set("duetime.dead", unclean_leader_election_enable="true")
    broker.set("duetime.commands.rejected", min_insync_replicas=2)
    try:
        with restarted(stack, settings={"kafka.replication_factor": "2"}):
            assert found(api, "kafka-replication", "duetime.ledger")["detail"].startswith("it has partitions with 1 replicas, and should have 2 (seen by ")
            unclean = found(api, "kafka-unclean-election", "duetime.dead")
            assert unclean["severity"] == "error" and "--add-config unclean.leader.election.enable=false" in unclean["do"]
            assert "2, of 1 replicas: nothing can be written" in found(api, "kafka-min-isr", "duetime.commands.rejected")["detail"]
            broker.set("duetime.dead", unclean_leader_election_enable="false")
            broker.set("duetime.commands.rejected", min_insync_replicas=1)
            gone(api, "kafka-unclean-election")
            gone(api, "kafka-min-isr")
            broker.delete("duetime.alerts")
            assert found(api, "kafka-topic-missing", "duetime.alerts")["do"].startswith("restart a dispatcher")
        gone(api, "kafka-topic-missing")
        gone(api, "kafka-replication")
    finally:
        broker.set("duetime.dead")
        broker.set("duetime.commands.rejected")


def test_a_missing_or_underreplicated_job_topic_is_a_finding(api, stack, topic):
    broker = Broker(stack)
    with restarted(stack, settings={"kafka.replication_factor": "2", "kafka.auto_create_partitions": "0"}):
        found(api, "kafka-replication", "duetime.ledger")  # something to look at again soon
        api.put(f"/v1/topics/{topic}", {"delivery": "kafka"})
        job = api.make(topic=topic, delay=0)
        missing = found(api, "kafka-job-topic-missing", topic)
        assert missing["severity"] == "error" and f"--create --topic {topic}" in missing["do"] and "does not exist" in missing["detail"]
        broker.make(topic)
        gone(api, "kafka-job-topic-missing", topic)
        until(lambda: api.get(f"/v1/jobs/{job['id']}").json["state"] == "dispatched", lambda: api.get(f"/v1/jobs/{job['id']}"))
        assert found(api, "kafka-replication", topic)["detail"].startswith("it has partitions with 1 replicas, and should have 2")
    gone(api, "kafka-replication", topic)


@pytest.mark.parametrize("part, name", [("kafka", "kafka-away"), ("zookeeper", "zookeeper-away")])
def test_a_server_that_does_not_answer_a_dispatcher_is_a_finding(api, stack, part, name):
    with restarted(stack, settings={"kafka.replication_factor": "2"}):  # something to look at again soon
        found(api, "kafka-replication", "duetime.ledger")
        stack.signal(part, signal.SIGSTOP)
        try:
            assert found(api, name)["severity"] == "error"
        finally:
            stack.signal(part, signal.SIGCONT)
        gone(api, name)


def test_explain_doctor_and_overview_name_kafka_while_it_is_down_and_not_afterwards(api, db, stack, topic):
    api.put(f"/v1/topics/{topic}", {"delivery": "kafka"})
    stack.stop("kafka")
    try:
        job = api.make(topic=topic, delay=0)["id"]
        explain = lambda: api.get(f"/v1/jobs/{job}/explain").json  # noqa: E731
        part = lambda: next(each for each in api.get("/v1/overview").json["parts"] if each["part"] == "kafka")  # noqa: E731
        until(lambda: explain()["waiting_for"] == "kafka" and part()["state"] == "degraded" and part()["detail"], lambda: (explain(), part()))
        later = api.make(topic=topic, delay=0)["id"]
        said = until(lambda: (seen := api.get(f"/v1/jobs/{later}/explain").json)["waiting_for"] == "kafka" and seen, lambda: api.get(f"/v1/jobs/{later}/explain"))
        assert "waits for Kafka" in said["reason"] and said["action"] == "duetime doctor", said
        assert "waits for kafka" in str(db("CALL dt_explain(%s)", later)[0]["value"])
        assert db("SELECT waiting_for FROM v_jobs WHERE id = %s", later)[0]["waiting_for"] in ("kafka", b"kafka")
        late = lambda: [each for each in api.get("/v1/doctor?late=PT0.1S").json["findings"] if (each["finding"], each["subject"]) == ("overdue", topic)]  # noqa: E731
        assert until(late, lambda: findings(api))[0]["cause"] in ("shard-waits", "kafka-away"), "before a dispatcher has reported Kafka, too"
        found(api, "kafka-away")
        until(lambda: all(each["cause"] == "kafka-away" for each in findings(api) if each["finding"] == "shard-waits"), lambda: findings(api))
        assert findings(api)[0]["finding"] == "kafka-away"
    finally:
        stack.start("kafka")
    until(lambda: api.get(f"/v1/jobs/{later}").json["state"] == "dispatched", lambda: api.get(f"/v1/jobs/{later}"))
    began = time.monotonic()
    until(lambda: not any(shard["detail"] or shard["waiting_for"] for shard in api.get("/v1/info").json["shards"]), lambda: api.get("/v1/info").text)
    assert time.monotonic() - began < 5 * PATIENCE / 2
    gone(api, "kafka-away")
    until(lambda: part()["state"] == "ok", part)


def test_a_dispatcher_says_that_it_waits_for_kafka_when_it_starts_without_kafka(api, stack):
    stack.stop("kafka")
    stack.stop("dispatcher1")
    try:
        found(api, "no-dispatcher")
        stack.start("dispatcher1", ready=False)
        gone(api, "no-dispatcher")
        until(lambda: api.get("/readyz").json["kafka"] == "degraded", lambda: api.get("/readyz"))
    finally:
        stack.start("kafka")
    gone(api, "kafka-away")
    until(lambda: api.get("/readyz").json["leaders"] == "ok", lambda: api.get("/readyz"))


def certificate(path, days):
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "/dev/null", "-out", path, "-days", str(days), "-subj", "/CN=t"],
                   check=True, capture_output=True)


def test_a_wrong_clock_and_expiring_certificates_are_findings(api, stack, tmp_path, own_apis):
    library, file = tmp_path / "clock_shim.so", tmp_path / "own.pem"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, TREE / "tests/support/clock_shim.c", "-ldl"], check=True)
    certificate(file, 10)
    shim = {"LD_PRELOAD": str(library), "DUETIME_CLOCK_SKEW_MS": "-5000", "ASAN_OPTIONS": "verify_asan_link_order=0"}
    twice = {"DUETIME_KAFKA_CLIENT_SSL_CA_LOCATION": str(file)}  # a file that two settings name is told of once
    with restarted(stack, env={**shim, **twice}, settings={"callbacks.ca_file": str(file)}):
        assert found(api, "dispatcher-clock")["detail"].startswith("the dispatcher's clock is some 5 s behind MySQL's (seen by ")
        assert found(api, "certificate-file-ends", str(file))["detail"].startswith("callbacks.ca_file expires in ")
        certificate(file, 60)
        gone(api, "certificate-file-ends", str(file))
        certificate(file, 10)
        owned = own_apis("doctor_files", settings={"callbacks.ca_file": str(file)})
        owned.start()
        assert [each["detail"] for each in findings(owned.rest) if each["subject"] == str(file)][0].startswith("callbacks.ca_file of the API expires in ")
    gone(api, "dispatcher-clock")

"""Kafka by TLS and SASL, settings of librdkafka under their own names, and the least rights as they are printed."""
import signal

import pytest

from harness.secured.kafka import SecuredKafka
from harness.stack import until

pytestmark = pytest.mark.turn(4, 7)


@pytest.fixture(scope="module")
def kafka(world):
    made = SecuredKafka(world.folder / "kafka", world.good, world.trusted, {"duetime": "sasl-word"})
    yield made.up()
    made.process.stop()


def settings(world, kafka, **client):
    name = world.server.sql("SELECT name FROM secured.installation")[0][0]
    wanted = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.username": "duetime", "sasl.password": "sasl-word",
              "ssl.ca.location": world.trusted.file, **client}
    return {"installation.name": name, "kafka.brokers": kafka.secured, "zookeeper.session_timeout": "PT1S",
            **{f"kafka.client.{key}": value for key, value in wanted.items() if value is not None}}


def errors(program, *words):
    return [line for line in program.log().splitlines() if ("level=error" in line or "level=warn" in line) and any(word in line for word in words)]


@pytest.mark.parametrize("name, value, word", [
    ("enable.idempotence", "false", "sent once"), ("acks", "1", "sent once"), ("transactional.id", "x", "former leaders"), ("delivery.report.only.error", "true", "delivery report"),
    ("isolation.level", "read_uncommitted", "committed"),
    ("bootstrap.servers", "x", "kafka.brokers"), ("no.such.thing", "1", "No such configuration property"), ("ssl.ca.location", "/nowhere", "failed"),
    ("sasl.oauthbearer.jwt", "a.b.c", "sasl.oauthbearer.jwt_file")])
def test_kafka_settings_that_guarantees_depend_on_cannot_be_changed(world, kafka, name, value, word):
    done = world.program(settings(world, kafka, **{name: value}), dispatcher=True).command("--check-config")
    assert done.returncode == 2 and word in done.stderr and name in done.stderr, done.stderr


def test_secrets_are_not_printed(world, kafka, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("sasl-word\n")
    for given in ({}, {"sasl.password": None, "sasl.password_file": secret}):
        done = world.program(settings(world, kafka, **given), dispatcher=True).command("--print-config")
        assert "sasl-word" not in done.stdout and "client.security.protocol = SASL_SSL" in done.stdout, done.stdout


@pytest.mark.parametrize("client, word", [({"sasl.password": "wrong-word"}, "uthentication"), ({"ssl.ca.location": "stranger"}, "certificate")])
def test_a_wrong_setting_is_logged_once(world, kafka, client, word):
    client = {key: world.stranger.file if value == "stranger" else value for key, value in client.items()}
    dispatcher = world.program(settings(world, kafka, **client), dispatcher=True).launch()
    try:
        until(lambda: errors(dispatcher, word), dispatcher.log)
        until(lambda: dispatcher.log().count("outage=kafka") >= 1, dispatcher.log)
        assert len(errors(dispatcher, "outage=kafka")) <= 3 and "wrong-word" not in dispatcher.log(), dispatcher.log()
    finally:
        assert dispatcher.end() == 0, dispatcher.log()


@pytest.mark.parametrize("names, days", [("DNS:elsewhere.example", 30), ("IP:127.0.0.1", -1)], ids=["name", "expired"])
def test_an_invalid_broker_certificate_is_logged_once_until_it_is_valid(world, kafka, names, days):
    kafka.present(world.trusted.issue("bad-broker", names, days))
    dispatcher = world.program(settings(world, kafka), dispatcher=True).launch()
    try:
        until(lambda: errors(dispatcher, "certificate"), dispatcher.log)
        until(lambda: dispatcher.log().count("outage=kafka") >= 1, dispatcher.log)
        assert "authorization" not in dispatcher.log() and len(errors(dispatcher, "outage=kafka")) <= 3, dispatcher.log()
        kafka.present(world.good)
        until(lambda: "authorization failed" in dispatcher.log() or "took over" in dispatcher.log(), dispatcher.log)  # Kafka accepts the dispatcher
    finally:
        kafka.present(world.good)
        assert dispatcher.end() == 0, dispatcher.log()


def test_the_printed_rights_are_sufficient_for_a_dispatcher(world, kafka):
    wanted = settings(world, kafka)
    dispatcher = world.program(wanted, dispatcher=True)
    kafka.run_acls(dispatcher.command("--print-acls").stdout, PRINCIPAL="User:duetime", TOPICS="jobs.")
    api = world.program({"kafka.brokers": kafka.secured}).start(ready=False)
    dispatcher.launch()
    try:
        kafka.carries_a_job(api, wanted["installation.name"], "jobs.a", dispatcher.log)
        assert not errors(dispatcher, "uthoriz"), dispatcher.log()
    finally:
        codes = api.end(), dispatcher.end()
    assert codes == (0, 0), dispatcher.log()


def test_a_corrected_password_file_is_used_after_sighup(world, kafka, tmp_path):
    """By handles that are open, too: the one that looks at topics lives as long as the process."""
    secret = tmp_path / "secret"
    secret.write_text("wrong-word\n")
    wanted = settings(world, kafka, **{"sasl.password": None, "sasl.password_file": secret})
    dispatcher = world.program(wanted, dispatcher=True)
    kafka.run_acls(dispatcher.command("--print-acls").stdout, PRINCIPAL="User:duetime", TOPICS="jobs.")
    dispatcher.launch()
    try:
        until(lambda: errors(dispatcher, "uthentication"), dispatcher.log)
        secret.write_text("sasl-word\n")
        dispatcher.process.send_signal(signal.SIGHUP)
        until(lambda: "took over" in dispatcher.log(), dispatcher.log)
    finally:
        assert dispatcher.end() == 0, dispatcher.log()

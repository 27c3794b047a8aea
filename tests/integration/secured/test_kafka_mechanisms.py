"""Kafka by SCRAM and by tokens (OAUTHBEARER): what lets a dispatcher in, what does not, and what is put right while it runs."""
import re
import shutil
import signal

import pytest

from harness.rest import Rest
from harness.secured.kafka import CHIEF, SCRAMS, SecuredKafka
from harness.secured.tokens import Signer
from harness.stack import until

pytestmark = [pytest.mark.turn(6, 7), pytest.mark.in_turns(5)]

WORD = "chief-word"
DATABASE = "mechanisms"  # an installation of its own, whose ledger is this Kafka's


@pytest.fixture(scope="module")
def signer(world):
    return Signer(world.folder / "signer")


@pytest.fixture(scope="module")
def kafka(world, signer):
    world.server.sql(f"CREATE DATABASE {DATABASE}")
    done = world.program(database=DATABASE).command("--migrate")
    assert done.returncode == 0, done.stderr
    made = SecuredKafka(world.folder / "mechanisms", world.good, world.trusted, {CHIEF: WORD}, (*SCRAMS, "OAUTHBEARER"), signer)
    yield made.up()
    made.process.stop()


class Client:
    """Settings of a dispatcher, and files of its own that they name."""

    def __init__(self, world, kafka, folder):
        self.world, self.kafka = world, kafka
        self.jwt, self.word, self.ca = (folder / name for name in ("jwt", "word", "ca.pem"))
        self.word.write_text(WORD + "\n")
        shutil.copy(world.trusted.file, self.ca)
        self.installation = world.server.sql(f"SELECT name FROM {DATABASE}.installation")[0][0]

    def settings(self, mechanism):
        scram = {"sasl.username": CHIEF, "sasl.password_file": self.word}
        mine = {"unsigned": {"enable.sasl.oauthbearer.unsecure.jwt": "true", "sasl.oauthbearer.config": f"principal={CHIEF}"},
                "signed": {"sasl.oauthbearer.jwt_file": self.jwt}}.get(mechanism, scram)
        name = "OAUTHBEARER" if mechanism in ("signed", "unsigned") else mechanism
        wanted = {"security.protocol": "SASL_SSL", "ssl.ca.location": self.ca, "sasl.mechanism": name, **mine}
        return {"installation.name": self.installation, "kafka.brokers": self.kafka.signed if mechanism == "signed" else self.kafka.secured,
                "zookeeper.session_timeout": "PT1S", "dispatch.metrics_port": 0, **{f"kafka.client.{key}": value for key, value in wanted.items()}}

    def dispatcher(self, mechanism, **changes):
        changes = {f"kafka.client.{key.replace('__', '.')}": value for key, value in changes.items()}
        return self.world.program({**self.settings(mechanism), **changes}, dispatcher=True, database=DATABASE)

    def does_its_work(self, dispatcher, topic):
        """It leads, and a job goes out and its result comes in: by producers, readers and whoever asks about topics."""
        api = self.world.program({"installation.name": self.installation, "kafka.brokers": self.kafka.secured}, database=DATABASE).start(ready=False)
        try:
            until(lambda: "took over" in dispatcher.log(), dispatcher.log)
            self.kafka.carries_a_job(api, self.installation, topic, dispatcher.log)
        finally:
            code = api.end()
        assert code == 0, api.log()


@pytest.fixture
def client(world, kafka, signer, tmp_path):
    made = Client(world, kafka, tmp_path)
    made.jwt.write_text(signer.token(CHIEF) + "\n")
    return made


def told(dispatcher):
    return [line for line in dispatcher.log().splitlines() if "outage=kafka" in line and ("level=error" in line or "level=warn" in line)]


def tries(dispatcher):
    port = re.search(r"msg=started .*\bmetrics_port=(\d+)", dispatcher.log())[1]
    return Rest(f"http://127.0.0.1:{port}").metric("duetime_outage_failures_total", of="kafka")


def is_told_once(dispatcher, word):
    """The reason, and then quiet: three tries later the lines are as few."""
    until(lambda: any(word in line for line in told(dispatcher)), dispatcher.log)
    seen = tries(dispatcher)
    until(lambda: tries(dispatcher) >= seen + 3, dispatcher.log)
    assert len(told(dispatcher)) <= 3, "\n".join(told(dispatcher))


@pytest.mark.parametrize("mechanism", [*SCRAMS, "unsigned", "signed"])
def test_a_dispatcher_works_with_each_sasl_mechanism(client, mechanism):
    dispatcher = client.dispatcher(mechanism).launch()
    try:
        client.does_its_work(dispatcher, f"jobs.{mechanism}")
        assert not told(dispatcher) and WORD not in dispatcher.log(), dispatcher.log()
    finally:
        assert dispatcher.end() == 0, dispatcher.log()


@pytest.mark.parametrize("case, word", [("password", "uthentication"), ("mechanism", "Unsupported SASL mechanism"), ("expired", "expired"), ("stranger", "uthentication"),
                                        ("authority", "certificate")])
def test_a_wrong_setting_is_logged_once_and_the_right_one_is_used(client, signer, world, case, word):
    """By SIGHUP; a token that has expired is looked for without it."""
    mechanism = {"expired": "signed", "stranger": "signed"}.get(case, SCRAMS[0])
    if case == "password":
        client.word.write_text("wrong-word\n")
    elif case == "authority":
        shutil.copy(world.stranger.file, client.ca)
    elif case == "expired":
        client.jwt.write_text(signer.token(CHIEF, -30))
    elif case == "stranger":
        client.jwt.write_text(Signer(client.word.parent, "stranger").token(CHIEF))
    dispatcher = client.dispatcher(mechanism, **({"sasl__mechanism": "PLAIN"} if case == "mechanism" else {})).launch()
    try:
        is_told_once(dispatcher, word)
        client.word.write_text(WORD + "\n")
        client.jwt.write_text(signer.token(CHIEF))
        shutil.copy(world.trusted.file, client.ca)
        dispatcher.config.write_text(dispatcher.config.read_text().replace("client.sasl.mechanism = PLAIN", f"client.sasl.mechanism = {mechanism}"))
        if case != "expired":
            dispatcher.process.send_signal(signal.SIGHUP)
        client.does_its_work(dispatcher, f"jobs.once-{case}")
        assert "wrong-word" not in dispatcher.log() and WORD not in dispatcher.log(), dispatcher.log()
    finally:
        assert dispatcher.end() == 0, dispatcher.log()


@pytest.mark.parametrize("mechanism, changes, words", [
    (SCRAMS[0], {"sasl__mechanism": "CRAM-MD5"}, "CRAM-MD5"), ("unsigned", {"sasl__oauthbearer__config": "scope=x"}, "no principal"),
    ("signed", {"sasl__oauthbearer__config": "principal=x"}, "exclude each other"), ("signed", {"sasl__oauthbearer__jwt_file": "word"}, "no JWT")])
def test_impossible_settings_are_refused_before_the_start(client, mechanism, changes, words):
    changes = {key: client.word if value == "word" else value for key, value in changes.items()}
    done = client.dispatcher(mechanism, **changes).command("--check-config")
    assert done.returncode == 2 and words in done.stderr and WORD not in done.stderr, done.stderr


def test_an_invalid_configuration_does_not_replace_the_running_one(client):
    dispatcher = client.dispatcher(SCRAMS[1]).launch()
    try:
        until(lambda: "took over" in dispatcher.log(), dispatcher.log)
        dispatcher.config.write_text(dispatcher.config.read_text().replace(f"client.sasl.mechanism = {SCRAMS[1]}", "client.acks = 1"))
        dispatcher.process.send_signal(signal.SIGHUP)
        until(lambda: "the settings of Kafka are not changed" in dispatcher.log() and "client.acks cannot be set" in dispatcher.log(), dispatcher.log)
        client.does_its_work(dispatcher, "jobs.stays")
    finally:
        assert dispatcher.end() == 0, dispatcher.log()

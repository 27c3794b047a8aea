"""A private Kafka that serves users of SASL by TLS and grants nobody anything but its chief; whoever comes by its plain listener is its administrator.

Listeners: SASL_SSL for names and passwords (PLAIN, SCRAM) and for tokens that nobody signed, SIGNED for tokens that `tokens.Signer` has signed.
"""
import itertools
import json
import os
import ssl
import subprocess
import sys

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, ConfigResource

from ..stack import TREE, until

sys.path.insert(0, str(TREE / "deploy"))

from stack import ports  # noqa: E402
from stack.servers.kafka import Kafka  # noqa: E402

CHIEF = "chief"  # may do everything
MODULES = "org.apache.kafka.common.security"
SCRAMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")


class SecuredKafka(Kafka):
    """passwords: {user: password} of PLAIN and of SCRAM. signer: who signs tokens; without one there is no listener SIGNED."""

    numbers = itertools.count(1)  # of certificates

    def __init__(self, home, certificate, authority, passwords, mechanisms=("PLAIN",), signer=None):
        home.mkdir(parents=True)
        taken = [ports.choose(set(), home) for _ in range(4)]
        self.secured, self.signed = f"127.0.0.1:{taken[2]}", f"127.0.0.1:{taken[3]}"
        self.passwords, self.mechanisms, self.keystore = passwords, mechanisms, home / "server.pem"
        self._write(certificate)
        told = f"PLAINTEXT://127.0.0.1:{taken[0]},SASL_SSL://{self.secured}" + (f",SIGNED://{self.signed}" if signer else "")
        settings = {
            "listeners": f"{told},CONTROLLER://127.0.0.1:{taken[1]}", "advertised.listeners": told,
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL,SIGNED:SASL_SSL",
            "sasl.enabled.mechanisms": ",".join(mechanisms), **self._logins(),
            "ssl.allow.dn.changes": "true", "ssl.allow.san.changes": "true",  # of a certificate that is presented later
            "ssl.keystore.type": "PEM", "ssl.keystore.location": self.keystore, "ssl.truststore.type": "PEM", "ssl.truststore.location": authority.file,
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer", "super.users": f"User:ANONYMOUS;User:{CHIEF}",
            **(self._of_signed(signer) if signer else {}),
        }
        super().__init__(home, "3", taken[0], taken[1], {}, settings)
        if signer:
            self.machine = [*self.machine, f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={signer.keys.as_uri()}"]

    def _logins(self):
        """What a listener asks a mechanism's module for; users of SCRAM are in the cluster's own data."""
        names = " ".join(f'user_{name}="{password}"' for name, password in self.passwords.items())
        modules = {"PLAIN": f"{MODULES}.plain.PlainLoginModule required {names};", "OAUTHBEARER": f"{MODULES}.oauthbearer.OAuthBearerLoginModule required;",
                   **{scram: f"{MODULES}.scram.ScramLoginModule required;" for scram in SCRAMS}}
        return {f"listener.name.sasl_ssl.{name.lower()}.sasl.jaas.config": modules[name] for name in self.mechanisms}

    @staticmethod
    def _of_signed(signer):
        name = "listener.name.signed"
        return {f"{name}.sasl.enabled.mechanisms": "OAUTHBEARER",
                f"{name}.oauthbearer.sasl.jaas.config": f"{MODULES}.oauthbearer.OAuthBearerLoginModule required;",
                f"{name}.oauthbearer.sasl.server.callback.handler.class": f"{MODULES}.oauthbearer.OAuthBearerValidatorCallbackHandler",
                "sasl.oauthbearer.jwks.endpoint.url": signer.keys.as_uri(), "sasl.oauthbearer.expected.audience": "kafka"}

    def _tool(self, *arguments):
        users = [f"{scram}=[name={name},password={password}]" for scram in SCRAMS if scram in self.mechanisms for name, password in self.passwords.items()]
        return super()._tool(*arguments, *(word for user in users if arguments[0] == "format" for word in ("--add-scram", user)))

    def up(self):
        self.start()
        self.wait_ready()
        return self

    def _write(self, certificate):
        self.keystore.write_text("".join(open(file, encoding="utf-8").read() for file in reversed(certificate)))

    def present(self, certificate):
        """New connections are shown this one: a file of another name, so that the broker reads it."""
        self.keystore = self.home / f"server-{next(self.numbers)}.pem"
        self._write(certificate)
        broker = ConfigResource(ConfigResource.Type.BROKER, "1")
        broker.set_config("listener.name.sasl_ssl.ssl.keystore.location", str(self.keystore))
        admin = AdminClient({"bootstrap.servers": self.address})
        admin.alter_configs([broker])[broker].result(90)
        host, port = self.secured.split(":")
        until(lambda: ssl.get_server_certificate((host, int(port))).strip() in self.keystore.read_text(), "the broker shows the certificate")

    def run_acls(self, commands, **variables):
        """Runs the printed commands of kafka-acls.sh, all at once: each is a JVM of its own."""
        tool = self.home / "kafka-acls.sh"
        words = " ".join(f"'{word}'" for word in self._java("kafka.admin.AclCommand"))
        tool.write_text(f"#!/bin/sh\nexec {words} \"$@\"\n")
        tool.chmod(0o755)
        admin = self.home / "admin.properties"
        admin.write_text("")
        lines = [line for line in commands.splitlines() if line and not line.startswith("#")]
        env = {**os.environ, "PATH": f"{self.home}:{os.environ['PATH']}", "BROKERS": self.address, "ADMIN": str(admin), **variables}
        started = [subprocess.Popen(["sh", "-c", line], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for line in lines]
        for process in started:
            said = process.communicate(timeout=600)[0]
            assert process.returncode == 0, said

    def received(self, topic):
        """The first message there."""
        consumer = Consumer({"bootstrap.servers": self.address, "group.id": "of-the-test", "auto.offset.reset": "earliest", "isolation.level": "read_committed"})
        consumer.subscribe([topic])
        try:
            return until(lambda: (message := consumer.poll(0.5)) and not message.error() and message, f"a message of {topic}")
        finally:
            consumer.close()

    def carries_a_job(self, api, installation, topic, log):
        """A job goes out by a topic of its own, and its result comes in by Kafka."""
        assert api.rest.put(f"/v1/topics/{topic}", {"delivery": "kafka"}).status in (200, 201)
        job = api.rest.make(topic=topic, delay=0, payload={"a": 1})
        assert json.loads(self.received(topic).value()) == {"a": 1}
        producer = Producer({"bootstrap.servers": self.address})
        producer.produce(f"{installation}.results", json.dumps({"job_id": job["id"], "attempt": 1, "status": "succeeded"}))
        producer.flush(90)
        until(lambda: api.rest.get(f"/v1/jobs/{job['id']}").json["state"] == "succeeded", log)

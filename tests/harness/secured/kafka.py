"""A private Kafka that serves users of SASL by TLS and grants nobody anything; whoever comes by its plain listener is its administrator."""
import os
import subprocess
import sys

from ..stack import TREE

sys.path.insert(0, str(TREE / "deploy"))

from stack import ports  # noqa: E402
from stack.servers.kafka import Kafka  # noqa: E402


class SecuredKafka(Kafka):
    def __init__(self, home, certificate, authority, users):
        home.mkdir(parents=True)
        taken = [ports.choose(set(), home) for _ in range(3)]
        pem = home / "server.pem"
        pem.write_text("".join(open(file, encoding="utf-8").read() for file in reversed(certificate)))
        names = " ".join(f'user_{name}="{password}"' for name, password in users.items())
        settings = {
            "listeners": f"PLAINTEXT://127.0.0.1:{taken[0]},SASL_SSL://127.0.0.1:{taken[2]},CONTROLLER://127.0.0.1:{taken[1]}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{taken[0]},SASL_SSL://127.0.0.1:{taken[2]}",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL",
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasl_ssl.plain.sasl.jaas.config": f"org.apache.kafka.common.security.plain.PlainLoginModule required {names};",
            "ssl.keystore.type": "PEM", "ssl.keystore.location": pem, "ssl.truststore.type": "PEM", "ssl.truststore.location": authority.file,
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer", "super.users": "User:ANONYMOUS",
        }
        super().__init__(home, "3", taken[0], taken[1], {}, settings)
        self.secured = f"127.0.0.1:{taken[2]}"

    def up(self):
        self.start()
        self.wait_ready()
        return self

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
            said = process.communicate(timeout=60)[0]
            assert process.returncode == 0, said

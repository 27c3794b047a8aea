"""TLS and authentication for every connection of a stack (`up --secured`): an authority of the stack's own, a certificate for the loopback, and
what servers and programs are told. Whoever works with the stack by hand finds MySQL's socket, and Redis, Kafka and ZooKeeper in the clear, as without it.

Redis speaks TLS where the programs can, that is, where hiredis has it (1.0 or newer).
"""
import subprocess

from . import say

NAMES = "subjectAltName=DNS:localhost,IP:127.0.0.1"
KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "365")
USER = "duetime"


def _openssl(*words):
    done = subprocess.run(["openssl", *map(str, words)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        raise say.StackError(f"openssl failed:\n{done.stdout}")


class Secure:
    def __init__(self, home, password):
        self.folder, self.password = home / "tls", password
        self.ca, self.cert, self.key, self.both = (self.folder / name for name in ("ca.pem", "server.pem", "server.key", "server-both.pem"))
        self.redis_tls = subprocess.run(["pkg-config", "--exists", "hiredis_ssl"], check=False).returncode == 0

    def make(self):
        """The files, once."""
        if self.both.exists():
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        authority, request = self.folder / "ca.key", self.folder / "server.csr"
        extensions = self.folder / "server.ext"
        extensions.write_text(NAMES + "\n")
        _openssl("req", "-x509", *KEY, "-keyout", authority, "-out", self.ca, "-subj", "/CN=local stack")
        _openssl("req", *KEY[:-2], "-keyout", self.key, "-out", request, "-subj", "/CN=localhost")
        _openssl("x509", "-req", "-in", request, "-CA", self.ca, "-CAkey", authority, "-days", 365, "-out", self.cert, "-extfile", extensions)
        self.both.write_text(self.key.read_text() + self.cert.read_text())

    # -- servers

    def mysql_options(self):
        return (f"--ssl-ca={self.ca}", f"--ssl-cert={self.cert}", f"--ssl-key={self.key}")

    def redis_options(self, tls_port):
        user = ["--user", USER, "on", f">{self.password}", "~*", "&*", "+@all"]
        return user if not self.redis_tls else [*user, "--tls-port", tls_port, "--tls-cert-file", self.cert, "--tls-key-file", self.key,
                                                "--tls-ca-cert-file", self.ca, "--tls-auth-clients", "optional"]

    def kafka_settings(self, plain, secured, controller):
        """A listener for the programs; the other one is for people and tests, who are its administrators."""
        listeners = f"PLAINTEXT://127.0.0.1:{plain},SASL_SSL://127.0.0.1:{secured}"
        login = f'org.apache.kafka.common.security.plain.PlainLoginModule required user_{USER}="{self.password}";'
        return {"listeners": f"{listeners},CONTROLLER://127.0.0.1:{controller}", "advertised.listeners": listeners,
                "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL", "sasl.enabled.mechanisms": "PLAIN",
                "listener.name.sasl_ssl.plain.sasl.jaas.config": login, "ssl.keystore.type": "PEM", "ssl.keystore.location": self.both,
                "ssl.truststore.type": "PEM", "ssl.truststore.location": self.ca,
                "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer", "super.users": f"User:ANONYMOUS;User:{USER}"}

    # -- programs

    def settings(self, mysql_port, kafka):
        """{section: {key: value}}: what every program is told."""
        redis = {"user": USER, "password": self.password, **({"tls": "verify", "ca_file": self.ca} if self.redis_tls else {})}
        client = {"security.protocol": "SASL_SSL", "ssl.ca.location": self.ca, "sasl.mechanism": "PLAIN", "sasl.username": USER, "sasl.password": self.password}
        return {"mysql": {"host": "127.0.0.1", "port": mysql_port, "tls": "verify", "ca_file": self.ca}, "redis": redis,
                "kafka": {f"client.{name}": value for name, value in client.items()} if kafka else {},
                "zookeeper": {"auth": f"{USER}:{self.password}"}, "http": {"tls_cert": self.cert, "tls_key": self.key}}

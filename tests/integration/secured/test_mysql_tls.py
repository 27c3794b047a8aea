"""MySQL by TLS, with certificates and passwords that are right, wrong, and changed while the programs run."""
import itertools

import pytest

from harness.program import OwnApi
from harness.secured.certificates import Authority
from harness.secured.mariadb import SecuredMariaDB
from harness.stack import until

PASSWORD = "pa55; word"
DATABASE = "secured"


class World:
    """A server, an authority that clients trust and one that they do not, certificates of the server."""

    def __init__(self, folder):
        self.folder, self.numbers = folder, itertools.count(1)
        self.trusted, self.stranger = Authority(folder / "ca"), Authority(folder / "ca", "stranger")
        self.good = self.trusted.issue("good")
        self.mine = self.trusted.issue("mine")
        self.server = SecuredMariaDB(folder / "db", self.trusted).up(self.good)
        self.server.account("plain", PASSWORD, "REQUIRE NONE")
        self.server.account("secured", PASSWORD)
        self.server.account("certified", PASSWORD, "REQUIRE X509")
        self.server.sql(f"CREATE DATABASE {DATABASE}")
        done = self.api().command("--migrate")
        assert done.returncode == 0, done.stderr

    def api(self, **mysql):
        """An API that is not started yet. All have one database."""
        wanted = {"socket": "", "host": "127.0.0.1", "port": self.server.port, "user": "secured", "password": f'"{PASSWORD}"', "tls": "verify",
                  "ca_file": self.trusted.file, "database": DATABASE, **mysql}
        name = f"secured_{next(self.numbers)}"
        settings = {f"mysql.{key}": value for key, value in wanted.items() if value is not None}
        return OwnApi(self.server.names(), self.folder / name, name, {"kafka.brokers": "", "zookeeper.servers": "", **settings}, shared=True)


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    made = World(tmp_path_factory.mktemp("mysql"))
    yield made
    made.server.process.stop()


def gets_in(api):
    done = api.command("--list-tokens")
    assert PASSWORD not in done.stdout + done.stderr
    return done.returncode == 0, done.stdout + done.stderr


def test_a_certificate_that_is_right_lets_us_in(world):
    assert gets_in(world.api()) == (True, "")


@pytest.mark.parametrize("bad, words", [
    ("another name", "certificate"), ("expired", "certificate"), ("unknown authority", "certificate"), ("no tls", "1045"), ("password", "1045"),
    ("no certificate of ours", "1045")])
def test_what_is_wrong_is_said_and_nobody_gets_in(world, bad, words):
    certificates = {"another name": lambda: world.trusted.issue("elsewhere", "DNS:elsewhere.example"),
                    "expired": lambda: world.trusted.issue("expired", days=-1), "unknown authority": lambda: world.stranger.issue("strange")}
    mysql = {"no tls": {"tls": "off", "ca_file": None}, "password": {"password": "wrong"}, "no certificate of ours": {"user": "certified"}}
    world.server.present(certificates[bad]() if bad in certificates else world.good)
    try:
        done, said = gets_in(world.api(**mysql.get(bad, {})))
        assert not done and words in said.lower(), said
        if bad in certificates:
            assert gets_in(world.api(tls="required", ca_file=None))[0]  # whoever answers
    finally:
        world.server.present(world.good)


def test_a_certificate_of_ours_is_shown(world):
    certificate, key = world.mine
    assert gets_in(world.api(user="certified", cert_file=certificate, key_file=key))[0]


@pytest.mark.parametrize("settings, word", [({"tls": "yes"}, "off, required or verify"), ({"tls": "off"}, "need tls"), ({"cert_file": "/x"}, "go together"),
                                            ({"hosts": "a:b"}, "host:port")])
def test_settings_that_make_no_sense_are_refused(world, settings, word):
    done = world.api(**settings).command("--check-config")
    assert done.returncode == 1 and word in done.stderr, done.stderr


def errors(api):
    return [line for line in api.log().splitlines() if "level=error" in line]


def test_a_stranger_is_told_of_once_and_the_api_comes_by_itself_when_he_is_gone(world):
    api = world.api()
    world.server.present(world.stranger.issue("strange"))
    try:
        api.start(ready=False)
        until(lambda: "certificate" in api.log().lower(), 10, api.log)
        until(lambda: api.rest.post("/v1/jobs", {"topic": "t", "delay": 60}).status == 503, 10, api.log)
        assert len(errors(api)) == 1 and "certificate" in errors(api)[0], api.log()
    finally:
        world.server.present(world.good)
    until(lambda: api.rest.post("/v1/jobs", {"topic": "t", "delay": 60}).status == 201, 20, api.log)
    assert api.end() == 0


def test_a_password_in_a_file_is_changed_without_a_restart(world, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text(PASSWORD + "\n")
    world.server.account("turning", PASSWORD)
    api = world.api(user="turning", password=None, password_file=secret)
    text = api.config.read_text().replace(f"password = {world.server.password}\n", "")
    api.config.write_text(text)
    api.start()
    world.server.sql("ALTER USER 'turning'@'127.0.0.1' IDENTIFIED BY 'another' REQUIRE SSL")
    secret.write_text("another\n")
    for session in world.server.sql("SELECT id FROM information_schema.processlist WHERE user = 'turning'"):
        world.server.sql(f"KILL {session[0]}")
    until(lambda: api.rest.post("/v1/jobs", {"topic": "t", "delay": 60}).status == 201, 20, api.log)
    assert "another" not in api.log() and PASSWORD not in api.log()
    assert api.end() == 0

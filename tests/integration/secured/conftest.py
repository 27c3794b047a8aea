"""A MariaDB that wants TLS, for the whole folder, and programs of a test's own beside it."""
import itertools

import pytest

from harness.program import OwnApi
from harness.secured.certificates import Authority
from harness.secured.mariadb import SecuredMariaDB
from harness.secured.redis import Server
from harness.stack import PRESET, TREE

PASSWORD = "pa55; word"
DATABASE = "secured"
DISPATCHER = TREE / "build" / PRESET / "dispatcher" / "duetime-dispatcher"


class World:
    """A server, an authority that clients trust and one that they do not, certificates of the server."""

    def __init__(self, folder):
        self.folder, self.numbers = folder, itertools.count(1)
        self.password = PASSWORD
        self.trusted, self.stranger = Authority(folder / "ca"), Authority(folder / "ca", "stranger")
        self.good = self.trusted.issue("good")
        self.mine = self.trusted.issue("mine")
        self.server = SecuredMariaDB(folder / "db", self.trusted, "--log-bin=binlog", "--server-id=1").up(self.good)
        self.server.account("plain", PASSWORD, "REQUIRE NONE")
        self.server.account("secured", PASSWORD)
        self.server.account("certified", PASSWORD, "REQUIRE X509")
        self.server.sql(f"CREATE DATABASE {DATABASE}")
        done = self.program().command("--migrate")
        assert done.returncode == 0, done.stderr

    def program(self, settings=None, dispatcher=False, **mysql):
        """An API, or a dispatcher, that is not started yet. All have one database, and no other server."""
        wanted = {"socket": "", "host": "127.0.0.1", "port": self.server.port, "user": "secured", "password": f'"{PASSWORD}"', "tls": "verify",
                  "ca_file": self.trusted.file, "database": DATABASE, **mysql}
        name = f"secured_{next(self.numbers)}"
        values = {"kafka.brokers": "", "zookeeper.servers": "", **{f"mysql.{key}": value for key, value in wanted.items()}, **(settings or {})}
        made = OwnApi(self.server.names(), self.folder / name, name, values, shared=True, **({"program": DISPATCHER} if dispatcher else {}))
        made.database = DATABASE
        return made


@pytest.fixture(scope="session")
def world(tmp_path_factory):
    made = World(tmp_path_factory.mktemp("secured"))
    yield made
    made.server.process.stop()


@pytest.fixture
def start(tmp_path):
    """start(name, …) -> a Redis server that ends with the test."""
    made = []

    def begin(*words, **options):
        made.append(Server(tmp_path, *words, **options))
        return made[-1]
    yield begin
    for server in made:
        server.end()

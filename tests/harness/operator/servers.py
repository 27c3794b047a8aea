"""Servers that are put in the place of those that are lost."""
import contextlib
import os
import subprocess
import sys

from ..stack import TREE, until
from .clients import READER

sys.path.insert(0, str(TREE / "deploy"))

from stack import ports  # noqa: E402
from stack.servers import wire  # noqa: E402
from stack.servers.kafka import Kafka  # noqa: E402
from stack.servers.mariadb import MariaDB  # noqa: E402
from stack.servers.mysql import MySQL  # noqa: E402
from stack.servers.zookeeper import ZooKeeper  # noqa: E402


@contextlib.contextmanager
def empty_redis(folder):
    """The address of a Redis that ends with the block."""
    folder.mkdir()
    port = ports.choose(set(), folder)
    with open(folder / "log", "wb") as log:
        process = subprocess.Popen(["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--dir", folder, "--save", ""], stdout=log, stderr=log)
    try:
        until(lambda: wire.ask(port, b"PING\r\n").startswith(b"+PONG"), "the new Redis answers")
        yield f"127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


SMALL = {"mariadb": "--innodb-log-file-size=64M", "mysql": "--innodb-redo-log-capacity=128M"}


class Replica({"mariadb": MariaDB, "mysql": MySQL}[READER]):
    """A second server, which knows nothing yet; `settings` are lines of its configuration file."""

    def __init__(self, home, password, settings):
        home.mkdir(parents=True)
        super().__init__(home, ports.choose(set(), home), password)
        self.options = ("--server-id=2", SMALL[READER], "--innodb-buffer-pool-size=128M", *(f"--{name}={value}" for name, value in settings))

    def up(self):
        for folder in (self.data, self.log.parent, self.process.file.parent):
            folder.mkdir(parents=True, exist_ok=True)
        self.start()
        until(self.is_ready, self.log_tail)  # creates no account: all accounts arrive by replication
        return self


@contextlib.contextmanager
def empty_zookeeper(folder):
    """The address of a ZooKeeper that ends with the block."""
    folder.mkdir()
    made = ZooKeeper(folder, ports.choose(set(), folder))
    made.start()
    try:
        made.wait_ready()
        yield made.address
    finally:
        made.process.stop()


@contextlib.contextmanager
def empty_kafka(folder):
    """The address of a Kafka that ends with the block."""
    folder.mkdir()
    made = Kafka(folder, os.environ.get("DUETIME_TEST_KAFKA", "3"), ports.choose(set(), folder), ports.choose(set(), folder), {}, {})
    made.start()
    try:
        made.wait_ready()
        yield made.address
    finally:
        made.process.kill()

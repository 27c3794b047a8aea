"""What a peer is to the run, and the servers that peers need: private ones, on free loopback ports, in a folder of the run."""
import contextlib
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
TREE = HERE.parents[2]
CACHE = TREE / ".local" / "cache" / "peers"  # what was downloaded and built; kept between runs
HOME = TREE / ".local" / "tests" / "peers"
sys.path.insert(0, str(TREE / "deploy"))

from stack import ports  # noqa: E402
from stack.servers.mariadb import MariaDB  # noqa: E402

CLIENTS = 64
SECONDS = 150  # what one measurement may take; a peer that takes longer cannot do it
DATABASE = "peer"


@contextlib.contextmanager
def beside(argv, **how):
    """A load that goes on until the block ends; without one, nothing. Its end is awaited, however it ends."""
    process = argv and subprocess.Popen(list(map(str, argv)), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **how)
    try:
        yield
        if process and process.poll() is not None:
            raise Unavailable(f"the intake beside it ended with exit code {process.returncode}")
    finally:
        if process:
            process.kill()
            process.wait()


class Unavailable(Exception):
    """The peer cannot be had on this machine; the text says why."""


class Peer:
    """Up, measured, down. Each measurement gives a dict; jobs that were not executed, or early, are told in it."""
    name = note = ""
    slow = False  # hundreds a second: it gets a smaller burst

    def up(self):
        raise NotImplementedError

    def down(self):
        raise NotImplementedError

    def durable(self):
        """How durable it is, by its server's own word."""
        raise NotImplementedError

    def intake(self, seconds):
        """{"jobs", "rate"} of single durable jobs by 64 clients, due in an hour."""
        raise NotImplementedError

    def lateness(self, rate, seconds, warm, intake=0):
        """{"jobs", "executed", "early", "p50", "p99"}: due time to the start of the execution, in ms, of a steady stream; its first
        `warm` seconds do not count. Meanwhile 64 clients write so many single jobs a second, due in an hour."""
        raise NotImplementedError

    def burst(self, jobs):
        """{"jobs", "executed", "early", "rate"} of so many jobs that are due at one instant, from that on; a fifth as many were due a
        few seconds before, to warm up."""
        raise NotImplementedError

    def size(self):
        """Bytes that what is stored takes now; the run divides the growth by the jobs of the intake."""
        raise NotImplementedError


def fetched(what, argv, folder, env=None):
    """Runs a package client once; its failure means that the peer cannot be had."""
    done = subprocess.run(argv, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, env={**os.environ, **(env or {})})
    if done.returncode:
        raise Unavailable(f"{what}: {done.stdout.strip()[-600:]}")


def wait_port(port, seconds=20):
    end = time.monotonic() + seconds
    while True:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        if time.monotonic() > end:
            raise RuntimeError(f"nothing listens on port {port}")
        time.sleep(0.02)


class Process:
    """A server of a peer in a fresh folder."""

    def __init__(self, name, argv_of):
        self.folder = HOME / name
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        self.port = ports.choose(set(), self.folder)
        with open(self.folder / "log", "wb") as log:
            self._process = subprocess.Popen(list(map(str, argv_of(self.folder, self.port))), cwd=self.folder, stdout=log, stderr=log)
        wait_port(self.port)

    @property
    def pid(self):
        return self._process.pid

    def end(self):
        self._process.terminate()
        self._process.wait(30)
        shutil.rmtree(self.folder, ignore_errors=True)


class Database:
    """The same MariaDB, with the same settings, as the local stack's own."""

    def __init__(self, name):
        self._home = HOME / name
        shutil.rmtree(self._home, ignore_errors=True)
        self.server = MariaDB(self._home, ports.choose(set(), self._home), "peer")
        self.server.start()
        self.server.wait_ready()
        self.server.sql(f"CREATE DATABASE {DATABASE} CHARACTER SET latin1")

    def environment(self):
        return {**os.environ, "PEER_URL": f"jdbc:mariadb://127.0.0.1:{self.server.port}/{DATABASE}?useServerPrepStmts=true",
                "PEER_USER": self.server.user, "PEER_PASSWORD": self.server.password}

    def durable(self):
        row = self.server.sql("SELECT @@innodb_flush_log_at_trx_commit, @@sync_binlog, @@log_bin")[0]
        return f"fsync: flush_log {row[0]}, sync_binlog {row[1]}, log_bin {row[2]}"

    def size(self):
        folder = self._home / "mysql" / "data" / DATABASE
        return sum(path.stat().st_size for path in folder.glob("*.ibd"))

    def end(self):
        self.server.process.stop()
        self.server.discard()
        shutil.rmtree(self._home, ignore_errors=True)


def resident(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    return 0

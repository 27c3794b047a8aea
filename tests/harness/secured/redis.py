"""Private Redis servers with users, with TLS, and Sentinels that watch over them; an API that uses one."""
import contextlib
import os
import signal
import subprocess
import sys

import redis

from ..stack import TREE, until

sys.path.insert(0, str(TREE / "deploy"))

from stack import ports  # noqa: E402


class Server:
    """redis-server, or a Sentinel. `lines` of its configuration; an administrator `root` may do everything."""

    def __init__(self, folder, name, *lines, sentinel=False, tls=None):
        self.folder = folder / name
        self.folder.mkdir(parents=True)
        self.port = ports.choose(set(), self.folder)
        self.address = f"127.0.0.1:{self.port}"
        self.tls = tls
        listen = [f"port {self.port}"] if tls is None else ["port 0", f"tls-port {self.port}", f"tls-cert-file {tls[0]}", f"tls-key-file {tls[1]}",
                                                            f"tls-ca-cert-file {tls[2]}", "tls-auth-clients optional"]
        users = [] if sentinel else ["user root on >root ~* &* +@all", 'save ""']
        self.file = self.folder / "redis.conf"
        self.file.write_text("\n".join(["bind 127.0.0.1", f"dir {self.folder}", *listen, *users, *lines]) + "\n")
        with open(self.folder / "log", "wb") as log:
            self.process = subprocess.Popen(["redis-server", self.file, *(["--sentinel"] if sentinel else [])], stdout=log, stderr=log)
        secure = {} if tls is None else {"ssl": True, "ssl_ca_certs": str(tls[2])}
        self.client = redis.Redis("127.0.0.1", self.port, socket_timeout=60, decode_responses=True, **secure,
                                  **({} if sentinel else {"username": "root", "password": "root"}))
        until(self._answers, lambda: (self.folder / "log").read_text())

    def _answers(self):
        try:
            return self.client.ping()
        except redis.RedisError:
            return False

    def user(self, name, *rules):
        self.client.execute_command("ACL", "SETUSER", name, "reset", "on", *rules)

    def kill_clients(self):
        self.client.execute_command("CLIENT", "KILL", "SKIPME", "yes", "TYPE", "normal")
        self.client.execute_command("CLIENT", "KILL", "SKIPME", "yes", "TYPE", "pubsub")

    def end(self):
        if self.process.poll() is None:
            os.kill(self.process.pid, signal.SIGKILL)
            self.process.wait()


@contextlib.contextmanager
def serving(world, settings):
    api = world.program(settings).start(ready=False)
    try:
        yield api
    finally:
        code = api.end()
    assert code == 0, api.log()


def is_indexed(api, server):
    """Whether a job that was just made is in the index."""
    before = set(server.client.keys("*:due:*"))
    job = api.rest.make(topic="index", delay="PT10M")
    try:
        until(lambda: set(server.client.keys("*:due:*")) - before or server.client.info("commandstats").get("cmdstat_zadd"), api.log)
    except AssertionError:
        return False
    return bool(job["id"])

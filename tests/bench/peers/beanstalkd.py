"""beanstalkd with a binlog that is synced with every write. Its delays are whole seconds."""
import json
import shutil
import subprocess

from common import CACHE, CLIENTS, HERE, SECONDS, Peer, Process, Unavailable, beside, resident

PACKAGE = "beanstalkd"


class Beanstalkd(Peer):
    name = "beanstalkd 1.12"
    note = "-f0; delays in whole seconds, rounded up"

    def __init__(self):
        self._server = None

    def up(self):
        if not shutil.which("beanstalkd"):
            raise Unavailable(f"not installed: apt-get install {PACKAGE}")
        CACHE.mkdir(parents=True, exist_ok=True)
        subprocess.run(["cc", "-O2", "-std=gnu17", "-D_GNU_SOURCE", "-o", CACHE / "beanstalk", HERE / "beanstalk.c"], check=True)
        self._server = Process("beanstalkd", lambda folder, port: ["beanstalkd", "-l", "127.0.0.1", "-p", port, "-b", folder, "-f0"])

    def down(self):
        self._server.end()

    def durable(self):
        return "fsync: binlog, -f0"

    def size(self):
        return resident(self._server.pid)

    def _run(self, *words):
        done = subprocess.run([CACHE / "beanstalk", str(self._server.port), *map(str, words)], capture_output=True, text=True, timeout=SECONDS, check=False)
        if done.returncode:
            raise Unavailable(f"beanstalkd {words[0]}: {done.stderr.strip()}")
        return json.loads(done.stdout)

    def intake(self, seconds):
        return self._run("intake", CLIENTS, seconds)

    def lateness(self, rate, seconds, warm, intake=0):  # it is C and needs no warming
        with beside(intake and [CACHE / "beanstalk", self._server.port, "intake", CLIENTS, SECONDS, intake]):
            return self._run("lateness", rate, seconds)

    def burst(self, jobs):
        return self._run("burst", jobs)

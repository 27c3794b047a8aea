"""BullMQ on a Redis whose append-only file is synced with every write. Node runs on one core a process, so there are two."""
import json
import shutil
import subprocess
import threading
import time

import redis
from common import CACHE, CLIENTS, HERE, SECONDS, Peer, Process, Unavailable, beside, fetched

FOLDER = CACHE / "node"
PROCESSES = 2


def build():
    if not shutil.which("npm"):
        raise Unavailable("not installed: apt-get install nodejs npm")
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in ("package.json", "bullmq.js"):
        shutil.copy(HERE / "node" / name, FOLDER)
    if not (FOLDER / "node_modules" / "bullmq").exists():
        fetched("npm", ["npm", "install", "--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts"], FOLDER)


class Program:
    """bullmq.js in a process of its own. Its lines are read as they come; the last one is kept."""

    def __init__(self, port, *words):
        self.line = {"executed": 0}
        self._process = subprocess.Popen(["node", FOLDER / "bullmq.js", str(port), *map(str, words)], cwd=FOLDER, stdin=subprocess.PIPE,
                                         stdout=subprocess.PIPE, text=True)
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self):
        for line in self._process.stdout:
            self.line = json.loads(line)

    def runs(self):
        return self._process.poll() is None

    def stop(self):
        if self.runs():
            self._process.stdin.write("end\n")
            self._process.stdin.flush()

    def end(self):
        """Its last line."""
        try:
            code = self._process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        self._reader.join()
        if code:
            raise Unavailable(f"bullmq.js: exit code {code}")
        return self.line


def put_together(jobs, since, lines):
    late = sorted(ms for line in lines for ms in line["late"])
    took = (max(line["last"] for line in lines) - since) / 1000
    return {"jobs": jobs, "executed": len(late), "early": sum(line["early"] for line in lines), "p50": late[len(late) // 2] if late else 0,
            "p99": late[len(late) * 99 // 100] if late else 0, "rate": len(late) / max(0.001, took)}


class BullMQ(Peer):
    name = "BullMQ 6.7 on Redis"
    note = "two Node processes, hz 100, concurrency 100"

    def __init__(self):
        self._server = None

    def up(self):
        build()
        self._server = Process("bullmq", lambda folder, port: ["redis-server", "--port", port, "--bind", "127.0.0.1", "--dir", folder, "--save", "",
                                                              "--appendonly", "yes", "--appendfsync", "always", "--hz", "100"])
        self._redis = redis.Redis(port=self._server.port)

    def down(self):
        self._server.end()

    def durable(self):
        told = self._redis.config_get("append*")
        return f"fsync: appendonly {told['appendonly']}, appendfsync {told['appendfsync']}"

    def size(self):
        return int(self._redis.info("memory")["used_memory"])

    def _beside(self, intake):
        return beside(intake and ["node", FOLDER / "bullmq.js", self._server.port, "intake", CLIENTS, SECONDS, intake], cwd=FOLDER)

    def _start(self, *words):
        return Program(self._server.port, *words)

    def intake(self, seconds, clients=CLIENTS):
        return self._start("intake", clients, seconds).end()

    def _run(self, seconds, *words):
        """Written by one process, executed by two."""
        written = self._start(*words).end()
        if not written["in_time"]:
            raise Unavailable("the jobs were not written before they were due")
        jobs, since = written["jobs"], written["since"]
        until = since + seconds * 1000
        workers = [self._start("work", since, until) for _ in range(PROCESSES)]
        while sum(worker.line["executed"] for worker in workers) < jobs and all(worker.runs() for worker in workers):
            time.sleep(0.02)
        for worker in workers:
            worker.stop()
        return put_together(jobs, since, [worker.end() for worker in workers])

    def lateness(self, rate, seconds, warm, intake=0):
        with self._beside(intake):
            return self._run(3 * seconds, "stream", rate, seconds, warm)

    def burst(self, jobs):
        return self._run(60, "burst", jobs)

"""BullMQ on a Redis whose append-only file is synced with every write. Node runs on one core a process, so there are two."""
import json
import shutil
import subprocess
import threading
import time

import redis
from common import CACHE, CLIENTS, HERE, Peer, Process, Unavailable, fetched

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

    def _start(self, *words):
        return subprocess.Popen(["node", FOLDER / "bullmq.js", str(self._server.port), *map(str, words)], cwd=FOLDER, stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE, text=True)

    def intake(self, seconds):
        processes = [self._start("intake", CLIENTS // PROCESSES, seconds) for _ in range(PROCESSES)]
        found = [json.loads(process.communicate()[0].splitlines()[-1]) for process in processes]
        return {"jobs": sum(one["jobs"] for one in found), "rate": sum(one["rate"] for one in found)}

    def _write(self, jobs, from_ms, rate):
        out, _ = self._start("write", jobs, from_ms, rate).communicate()
        if not json.loads(out.splitlines()[-1])["in_time"]:
            raise Unavailable("BullMQ: the jobs were not written in time")

    def _work(self, jobs, from_ms, seconds):
        """Two workers until all is executed; their arrivals put together."""
        workers = [self._start("work", from_ms, seconds) for _ in range(PROCESSES)]
        counts, lines = [0] * PROCESSES, [None] * PROCESSES

        def read(n):
            for line in workers[n].stdout:
                lines[n] = json.loads(line)
                counts[n] = lines[n]["executed"]
        threads = [threading.Thread(target=read, args=(n,)) for n in range(PROCESSES)]
        for thread in threads:
            thread.start()
        end = time.time() + max(0, from_ms / 1000 - time.time()) + seconds
        while sum(counts) < jobs and time.time() < end:
            time.sleep(0.02)
        for worker in workers:
            worker.stdin.write("end\n")
            worker.stdin.close()
        for thread, worker in zip(threads, workers):
            thread.join()
            worker.wait()
        late = sorted(ms for line in lines for ms in line["late"])
        return {"jobs": jobs, "executed": len(late), "early": sum(line["early"] for line in lines), "p50": late[len(late) // 2] if late else 0,
                "p99": late[len(late) * 99 // 100] if late else 0, "rate": len(late) / max(0.001, (max(line["last"] for line in lines) - from_ms) / 1000)}

    def lateness(self, rate, seconds):
        start = int(time.time() * 1000) + 6000 + seconds * 100
        self._write(rate * seconds, start, rate)
        return self._work(rate * seconds, start, 4 * seconds)

    def burst(self, jobs):
        start = int(time.time() * 1000) + 8000 + jobs // 5
        self._write(jobs, start, 0)
        return self._work(jobs, start, 90)

"""db-scheduler and Quartz: Java libraries on MariaDB. The load is in java/; this starts it and reads its line."""
import json
import subprocess

from common import CACHE, CLIENTS, HERE, SECONDS, Database, Peer, Unavailable, beside, fetched

FOLDER = CACHE / "java"


def build():
    CACHE.mkdir(parents=True, exist_ok=True)
    fetched("Maven", ["mvn", "-q", "-B", "-f", HERE / "java" / "pom.xml", f"-Dbuild.folder={FOLDER}", "package", "dependency:copy-dependencies"], CACHE)


def load(*words):
    """The command of a load."""
    return ["java", "-Xms256m", "-Xmx1g", "-XX:+UseSerialGC", "-cp", f"{FOLDER}/classes:{FOLDER}/dependency/*", "bench.Load", *map(str, words)]


class JavaPeer(Peer):
    word = ""

    def __init__(self):
        self._database = None

    def up(self):
        build()
        self._database = Database(self.word)

    def down(self):
        self._database.end()

    def durable(self):
        return self._database.durable()

    def size(self):
        return self._database.size()

    def _load(self, *words):
        return load(self.word, *words)

    def _run(self, *words):
        done = subprocess.run(self._load(*words), env=self._database.environment(), capture_output=True, text=True, timeout=SECONDS, check=False)
        if done.returncode:
            raise Unavailable(f"{self.name} {words[0]}: {done.stderr.strip()[-600:]}")
        return json.loads(done.stdout.splitlines()[-1])

    def intake(self, seconds, clients=CLIENTS):
        return self._run("intake", clients, seconds)

    def lateness(self, rate, seconds, warm, intake=0):
        with beside(intake and self._load("intake", CLIENTS, SECONDS, intake), env=self._database.environment()):
            return self._run("lateness", rate, seconds, warm)

    def burst(self, jobs):
        return self._run("burst", jobs)


class DbScheduler(JavaPeer):
    name, word = "db-scheduler 16.0 on MariaDB", "dbscheduler"
    note = "100 threads, polling every 10 ms, lock and fetch"


class Quartz(JavaPeer):
    name, word = "Quartz 2.5 clustered on MariaDB", "quartz"
    note = "100 threads, batches of 100"
    slow = True

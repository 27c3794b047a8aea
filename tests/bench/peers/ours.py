"""duetime itself, measured as its peers are: jobs come by REST, and count as executed when a consumer of Kafka's topic has them."""
import contextlib
import json
import subprocess
import threading

from common import CLIENTS, SECONDS, Peer, Unavailable

import clients
import lateness
import programs
import surroundings
import table
from account import Account
from harness.checker import connect
from harness.servers import redis_clients
from harness.stack import Stack

BURST_AFTER_MS = 5000


class Duetime(Peer):
    name = "duetime"
    note = "exactly once to Kafka; 1 API, 2 dispatchers, 1 shard; lateness and drain to the consumer's receipt"

    def __init__(self):
        self._stack = Stack("peers-ours", *table.OPTIONS, "--shards", "1")
        self._runs = 0

    def up(self):
        self._stack.up()
        self.account = Account(self._stack)
        clients.make_topic(self._stack, lateness.BESIDE)

    def down(self):
        try:
            self.account.check()
        finally:
            self._stack.reset()

    def durable(self):
        mysql = surroundings.of_mysql(connect(self._stack))
        return (f"fsync: flush_log {mysql['innodb_flush_log_at_trx_commit']}, sync_binlog {mysql['sync_binlog']}, log_bin {mysql['log_bin']}; "
                "Redis holds an index alone")

    def _topic(self):
        self._runs += 1
        clients.make_topic(self._stack, f"peer-{self._runs}")
        return f"peer-{self._runs}"

    def intake(self, seconds):
        topic = self._topic()
        for length in (2, seconds):
            posts = clients.Posts(self._stack, topic, CLIENTS, length)
            self.account.accepted(topic, posts.accepted, posts.unanswered)
        return {"jobs": posts.accepted, "rate": posts.rate}

    def _write(self, topic, dues):
        self.account.accepted(topic, clients.write_due(self._stack, topic, dues))
        if clients.now() > dues[0]:
            raise Unavailable("the jobs were not written before they were due")

    def _consumed(self, topic, jobs, since):
        """What a consumer saw until it had so many; what was due before `since` was to warm up."""
        words = [programs.program("reporter"), self._stack["DUETIME_KAFKA"], topic, jobs, "-", SECONDS, int(since)]
        return json.loads(subprocess.run(list(map(str, words)), stdout=subprocess.PIPE, text=True, check=False).stdout)

    def lateness(self, rate, seconds, warm, intake=0):
        topic, jobs = self._topic(), rate * seconds
        lead_ms = 3000 + (rate * warm + jobs) / 10
        start = clients.now() + lead_ms
        with self._beside(intake, lead_ms / 1000 + warm + seconds):
            found = self._streamed(topic, rate, warm, jobs, start)
        return {"jobs": jobs, "executed": found["messages"] - rate * warm, "early": found["early"], "p50": found["p50"], "p99": found["p99"]}

    def _streamed(self, topic, rate, warm, jobs, start):
        self._write(topic, [start + i * 1000 / rate for i in range(rate * warm + jobs)])
        return self._consumed(topic, rate * warm + jobs, start + warm * 1000)

    @contextlib.contextmanager
    def _beside(self, intake, seconds):
        if not intake:
            yield
            return
        beside, _ = lateness.half_speed(self._stack, self.account, 2 * intake)
        load = threading.Thread(target=beside, args=(int(seconds),))
        load.start()
        yield
        load.join()

    def burst(self, jobs):
        topic, warm = self._topic(), jobs // 5
        start = clients.now() + 3000 + jobs / 10
        since = start + BURST_AFTER_MS
        self._write(topic, [start] * warm + [since] * jobs)
        found = self._consumed(topic, warm + jobs, since)
        executed = found["messages"] - warm
        return {"jobs": jobs, "executed": executed, "early": found["early"], "rate": executed / max(0.001, (found["last_ms"] - since) / 1000)}

    def size(self):
        return table.bytes_on_disk(self._stack) + sum(int(client.info("memory")["used_memory"]) for client in redis_clients(self._stack))

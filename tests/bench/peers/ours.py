"""duetime itself, measured as its peers are: jobs come by REST, and count as executed when a consumer of Kafka's topic has them."""
import json
import subprocess

from common import CLIENTS, Peer

import clients
import programs
import surroundings
import table
from account import Account
from harness.checker import connect
from harness.servers import redis_clients
from harness.stack import Stack


class Duetime(Peer):
    name = "duetime"
    note = "exactly once to Kafka; 1 API, 2 dispatchers; lateness and drain to the consumer's receipt"

    def __init__(self):
        self._stack = Stack("peers-ours", "--apis", "1", "--dispatchers", "2", "--redis", "1", "--release", "--kafka-jit", "full")
        self._runs = 0

    def up(self):
        self._stack.up()
        self.account = Account(self._stack)

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

    def _due(self, dues, warm=20):
        topic = self._topic()
        self.account.accepted(topic, clients.write_due(self._stack, topic, [clients.now()] * warm))
        programs.run("reporter", self._stack["DUETIME_KAFKA"], topic, warm, "-", 30)
        self.account.accepted(topic, clients.write_due(self._stack, topic, dues))
        done = subprocess.run([programs.program("reporter"), self._stack["DUETIME_KAFKA"], topic, str(len(dues) + warm), "-", "150"],
                              stdout=subprocess.PIPE, text=True, check=False)
        return json.loads(done.stdout), warm

    def lateness(self, rate, seconds):
        start = clients.now() + 8000
        found, warm = self._due([start + i * 1000 / rate for i in range(rate * seconds)])
        return {"jobs": rate * seconds, "executed": found["messages"] - warm, "early": found["early"], "p50": found["p50"], "p99": found["p99"]}

    def burst(self, jobs):
        start = clients.now() + 6000 + jobs // 10
        found, warm = self._due([start] * jobs)
        return {"jobs": jobs, "executed": found["messages"] - warm, "early": found["early"], "rate": jobs / max(0.001, (found["last_ms"] - start) / 1000)}

    def size(self):
        return table.bytes_on_disk(self._stack) + sum(int(client.info("memory")["used_memory"]) for client in redis_clients(self._stack))

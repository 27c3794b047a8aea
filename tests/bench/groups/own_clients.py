"""creates by our own clients for Node.js and Java beside those of BullMQ's and db-scheduler's own, in turn (G16)"""
import itertools
import json
import os
import pathlib
import shutil
import subprocess
import sys

import clients

PEERS = pathlib.Path(__file__).resolve().parents[1] / "peers"
sys.path.insert(0, str(PEERS))

import java_peers  # noqa: E402
from bullmq import BullMQ  # noqa: E402
from common import TREE  # noqa: E402

NODE = ["node", PEERS / "node" / "duetime.js", TREE / "deploy" / "clients" / "node" / "src" / "index.js"]
CALLERS = (64, 512)


class Ours:
    """Programs that create jobs by our clients, each in a topic of its own."""

    def __init__(self, stack, account):
        self.stack, self.account = stack, account
        self.topics = (f"creates-{n}" for n in itertools.count())

    def _run(self, argv, topic):
        clients.make_topic(self.stack, topic)
        done = subprocess.run(list(map(str, argv)), env={**os.environ, "DUETIME_URL": self.stack["DUETIME_URL"], "PEER_TOPIC": topic},
                              stdout=subprocess.PIPE, text=True, check=True)
        found = json.loads(done.stdout)
        self.account.accepted(topic, found["all"])
        return found["rate"]

    def node(self, callers, seconds):
        topic = next(self.topics)
        return self._run([*NODE, self.stack["DUETIME_URL"], topic, callers, seconds], topic)

    def java(self, callers, seconds):
        return self._run(java_peers.load("duetime", "intake", callers, seconds), next(self.topics))


def measure(bench):
    if not all(map(shutil.which, ("npm", "javac", "mvn"))):
        bench.say("  Node.js or Java is not installed: deploy/packages console client_java")
        return
    stack = bench.stack()
    ours = Ours(stack, bench.account(stack))
    for goal, create, peer in (("G16 Node.js", ours.node, BullMQ()), ("G16 Java", ours.java, java_peers.DbScheduler())):
        peer.up()
        bench.at_end(peer.down)
        seconds = bench.seconds(10, 4)
        for callers in CALLERS:
            pairs = bench.rounds(lambda: create(callers, seconds), lambda: peer.intake(seconds, callers)["rate"], bench.count(3, 1))  # noqa: B023
            bench.ratio(goal if callers == CALLERS[0] else None, f"creates by {callers} callers of our client for {goal.split()[1]}", pairs, what=peer.name,
                        note=f"load {os.getloadavg()[0]:.0f}")

"""popping and finishing beside beanstalkd with a synced binlog, in turn (G15)"""
import itertools
import pathlib
import shutil
import sys

import clients
from pop_lateness import popper

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "peers"))

from beanstalkd import Beanstalkd  # noqa: E402


def drained(stack, account, topic, count, most):
    """Jobs a second that workers pop and report, of a backlog that is due: until the last report is applied."""
    clients.make_topic(stack, topic, delivery="pull")
    account.accepted(topic, clients.write_due(stack, topic, [clients.now() - 1000] * count))
    began = clients.now()
    found = popper(stack, topic, count, 0, most=most, wait_ms=2000, report=True)()
    account.popped(topic, found["messages"], found["distinct"])
    account.reported(topic, found["applied"])
    return count / (clients.now() - began) * 1000


def measure(bench):
    if not shutil.which("beanstalkd"):
        bench.say("  beanstalkd is not installed: deploy/packages peers")
        return
    stack, peer = bench.stack(), Beanstalkd()
    account = bench.account(stack)
    peer.up()
    bench.at_end(peer.down)
    names, count = (f"drain-{n}" for n in itertools.count()), bench.count(50000, 10000)
    drained(stack, account, next(names), bench.count(10000, 3000), 100)
    for most in (100, 1):
        jobs = count if most > 1 else count // 5
        pairs = bench.rounds(lambda: drained(stack, account, next(names), jobs, most), lambda: peer.burst(jobs)["rate"], bench.count(3, 1))  # noqa: B023
        bench.ratio("G15" if most > 1 else None, f"pop, finish, {most} a pop, by 64 workers", pairs, what="beanstalkd")

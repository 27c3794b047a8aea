"""Real servers for one suite, made with deploy/stack in a folder of the suite's own, and taken down with it."""
import contextlib
import os

from . import tree


@contextlib.contextmanager
def running(suite, **options):
    """The environment with the addresses of fresh servers: MariaDB, two Redis, ZooKeeper, Kafka."""
    home = tree.WORK / suite
    if home.exists():
        tree.Stack(home).reset()
    stack = tree.Stack(home)
    try:
        stack.servers_up({"redis": 2, **options})
        yield {**os.environ, **stack.environment()}
    finally:
        stack.reset()


def remove_left_behind():
    """Takes down stacks that tests could not take down themselves, because they were ended."""
    for state in tree.WORK.glob("**/state.json"):
        tree.Stack(state.parent).reset()

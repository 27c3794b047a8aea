"""Real servers for one suite, made with deploy/stack in a folder of the suite's own, and taken down with it."""
import contextlib
import os

from . import tree


# Everybody may do everything until a test denies something: so a topic that may not be written can be had.
WITH_ACLS = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
             "allow.everyone.if.no.acl.found": "true"}


@contextlib.contextmanager
def running(suite, **options):
    """The environment with the addresses of fresh servers: MariaDB, two Redis, ZooKeeper, Kafka."""
    home = tree.quick_folder(suite)
    if home.exists():
        tree.Stack(home).reset()
    stack = tree.Stack(home)
    try:
        stack.servers_up({"redis": 2, "kafka_settings": WITH_ACLS, **options})
        yield {**os.environ, **stack.environment(), "DUETIME_TEST_LOGS": str(home / "log")}
    finally:
        stack.reset()
        with contextlib.suppress(OSError):  # the last one out
            home.parent.rmdir()


def homes():
    """The stacks in .local/tests and those in memory."""
    return {state.parent for folder in (tree.WORK, tree.QUICK) for state in folder.glob("**/state.json")}


@contextlib.contextmanager
def none_left_behind():
    """Takes down stacks that tests made and could not take down themselves, because they were ended."""
    before = homes()
    try:
        yield
    finally:
        for home in homes() - before:
            tree.Stack(home).reset()

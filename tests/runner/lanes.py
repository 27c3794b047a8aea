"""What the MySQL lane needs: Oracle's MySQL server from Debian unstable, in a folder that is made with debootstrap.

It needs root (debootstrap and chroot do), the network at the first time, and 1 GB below .local/cache.
"""
import contextlib
import os
import shutil

from . import command, tree

SECONDS = 900
STORE_TESTS = ("test_store", "test_db", "test_migrat", "test_sql", "test_reconcile")


def is_store_test(path):
    return path.name.removeprefix("contract_").startswith(STORE_TESTS)


def mysql_unavailable():
    """Why the lane cannot run; None when it can."""
    if os.geteuid() != 0:
        return "it makes a Debian in a folder and needs root"
    if not shutil.which("debootstrap"):
        return "debootstrap is not installed"
    return None


@contextlib.contextmanager
def mysql_running(report):
    raise NotImplementedError
    yield

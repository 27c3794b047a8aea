"""The lanes: the same suites on other servers. They are asked for by name, since they fetch a gigabyte or take minutes."""
from . import tree  # noqa: F401  (puts deploy/ on the path)

from stack.servers import mysql  # noqa: E402

STORE_TESTS = ("test_store", "test_db", "test_migrat", "test_sql", "test_views", "test_reconcile")


def is_store_test(path):
    return path.name.removeprefix("contract_").startswith(STORE_TESTS)


def mysql_unavailable():
    """Why the MySQL lane cannot run; None when it can."""
    reason = mysql.unavailable()
    if reason:
        return reason
    try:
        mysql.fetch()
    except tree.say.StackError as error:
        return f"MySQL 9.7 cannot be fetched: {str(error).splitlines()[-1]}"
    return None

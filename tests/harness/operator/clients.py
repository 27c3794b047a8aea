"""How a person speaks to MySQL: by the programs that belong to the server, and with which options.

Oracle's programs lie in the folder of another Debian (deploy/stack/servers/mysql.py) and see no file outside it: their options stand in a file there.
"""
import getpass
import os
import pathlib
import sys

from ..stack import TREE

sys.path.insert(0, str(TREE / "deploy"))

from stack.servers import mysql  # noqa: E402

READER = os.environ.get("DUETIME_TEST_MYSQL", "mariadb")  # whose commands of a page are followed, and the name of the client
IN_THERE = """#!/bin/sh
exec chroot {folder} /usr/bin/{program} "$@"
"""


def make_programs(folder, path):
    """The PATH on which the programs of the server are found."""
    if READER == "mariadb":
        return path
    folder.mkdir()
    for program in ("mysql", "mysqldump", "mysqlbinlog"):
        (folder / program).write_text(IN_THERE.format(folder=mysql.folder(), program=program))
        (folder / program).chmod(0o755)
    return f"{folder}:{path}"


def _by_file(socket, user, password):
    file = pathlib.Path(socket).with_name(f"{user}.cnf")
    file.write_text(f"[client]\nsocket=/{pathlib.Path(socket).relative_to(mysql.folder())}\nuser={user}\npassword={password}\n")
    return f"--defaults-file=/{file.relative_to(mysql.folder())}"


def options(socket, user, password):
    """The words that the client and the dump program take before all others."""
    if READER == "mariadb":
        return f"--no-defaults --skip-ssl --socket={socket} --user={user} --password={password}"
    return _by_file(socket, user, password)


def admin_options(socket):
    """The options of whoever may do everything on a server of the stack, which is the operating system's user on MariaDB."""
    return options(socket, getpass.getuser() if READER == "mariadb" else "root", "")


def admin(socket):
    return f"{READER} {admin_options(socket)}"


def of_stack(stack):
    """The client with the account of the stack, in the stack's database."""
    words = options(stack["DUETIME_MYSQL_SOCKET"], stack["DUETIME_MYSQL_USER"], stack["DUETIME_MYSQL_PASSWORD"])
    return f"{READER} {words} {stack['DUETIME_MYSQL_DATABASE']}"

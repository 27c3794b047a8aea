"""MariaDB with durable commits: what is answered is on the disk.

The account `duetime` of the local stack may do everything, so that anything can be tried; its random password is
in state.json. The operating system's user who runs the stack is root in MariaDB through the socket.
"""
import getpass
import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from .. import say
from ..part import Part

CONFIG = """\
[mysqld]
datadir={data}/data
socket={socket}
port={port}
bind-address=127.0.0.1
pid-file={data}/mariadbd.pid
tmpdir={data}/tmp
skip-name-resolve
{user}character-set-server=utf8mb4
collation-server=utf8mb4_bin
max_connections=600
innodb_flush_log_at_trx_commit=1
sync_binlog=1
log_bin=binlog
server_id=1
binlog_format=ROW
binlog_cache_size=4M
binlog_expire_logs_seconds=86400
innodb_buffer_pool_size=1G
innodb_log_file_size=512M
"""
SOCKET_PATH_LIMIT = 100


def socket_path(data):
    """In the data folder, or, where that path is too long for a Unix socket, in the temporary folder."""
    path = data / "mysql.sock"
    if len(str(path)) <= SOCKET_PATH_LIMIT:
        return path
    return Path(tempfile.gettempdir()) / f"duetime-{hashlib.sha256(str(path).encode()).hexdigest()[:16]}.sock"


class MariaDB(Part):
    user = "duetime"
    plugin = "IDENTIFIED BY"
    options = ()  # of the server, over those of CONFIG
    demand = ""  # of whoever comes by TCP

    def __init__(self, home, port, password):
        super().__init__(home, "mysql")
        self.port = port
        self.address = f"127.0.0.1:{port}"
        self.password = password
        self.socket = socket_path(self.data)
        self.config = self.data / "my.cnf"
        self.admin = getpass.getuser()

    def prepare(self):
        (self.data / "tmp").mkdir(exist_ok=True)
        user = "user=root\n" if os.geteuid() == 0 else ""
        self.config.write_text(CONFIG.format(data=self.data, socket=self.socket, port=self.port, user=user))
        if not (self.data / "data").exists():
            self._install()

    def _install(self):
        # Into a folder of another name first, so that an interrupted installation is never taken for a whole one. With a folder for
        # temporary tables of its own: a mariadbd that starts removes those that it finds, another installation's in /tmp as well.
        fresh = self.data / "data.new"
        shutil.rmtree(fresh, ignore_errors=True)
        argv = ["mariadb-install-db", "--no-defaults", f"--datadir={fresh}", f"--tmpdir={self.data / 'tmp'}", f"--user={self.admin}",
                "--auth-root-authentication-method=socket", f"--auth-root-socket-user={self.admin}",
                "--skip-test-db", "--skip-name-resolve"]
        done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, text=True)
        if done.returncode != 0:
            raise say.StackError(f"mariadb-install-db failed:\n{done.stdout}")
        fresh.rename(self.data / "data")

    def argv(self):
        return ["/usr/sbin/mariadbd", f"--defaults-file={self.config}", *self.options]

    def sql(self, text, database=None):
        """Runs statements as the administrator; gives the rows as lists of words. Raises when it cannot."""
        argv = ["mariadb", "--no-defaults", f"--socket={self.socket}", f"--user={self.admin}", "--batch", "--skip-column-names"]
        done = subprocess.run(argv + ([database] if database else []), input=text, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, check=False, text=True)
        if done.returncode != 0:
            raise say.StackError(f"SQL failed: {done.stderr.strip()}")
        return [line.split("\t") for line in done.stdout.splitlines()]

    def is_ready(self):
        if not os.path.exists(self.socket):
            return False
        try:
            return self.sql("SELECT 1") == [["1"]]
        except say.StackError:
            return False

    def adjust(self):
        accounts = "".join(
            f"CREATE USER IF NOT EXISTS '{self.user}'@'{host}' {self.plugin} '{self.password}' {self.demand if host == '127.0.0.1' else ''};"
            f"GRANT ALL PRIVILEGES ON *.* TO '{self.user}'@'{host}' WITH GRANT OPTION;"
            for host in ("localhost", "127.0.0.1"))
        self.sql(accounts)

    def client(self, database):
        """The words of a command that opens a prompt as the stack's account."""
        return ["mariadb", "--no-defaults", f"--socket={self.socket}", f"--user={self.user}",
                f"--password={self.password}", database]

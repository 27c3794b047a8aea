"""Oracle's MySQL 9.7. Debian 12 has no package of it, so Debian unstable is put into a folder of the cache with
debootstrap, and mysqld runs in there by chroot: this needs root. Its data lie in that folder too, in srv/.
"""
import hashlib
import os
import re
import shutil
import subprocess
import zlib
from pathlib import Path

from .. import locks, paths, say
from .mariadb import MariaDB

SOURCES = Path("/etc/apt/sources.list.d/debian.sources")
PACKAGES = "mysql-server-core,mysql-client"
OPTIONS = ("--no-defaults", "--user=root")
SERVER_OPTIONS = ("--bind-address=127.0.0.1", "--mysqlx=OFF", "--secure-file-priv=NULL", "--skip-name-resolve",
                  "--character-set-server=utf8mb4", "--collation-server=utf8mb4_bin", "--max-connections=600",
                  "--innodb-flush-log-at-trx-commit=1", "--sync-binlog=1", "--log-bin=binlog", "--server-id=1",
                  "--binlog-expire-logs-seconds=86400", "--innodb-buffer-pool-size=1G", "--innodb-redo-log-capacity=1G",
                  "--log-bin-trust-function-creators=1", "--gtid-mode=ON", "--enforce-gtid-consistency=ON",
                  "--plugin-load-add=semisync_source.so")


def unavailable():
    """Why MySQL cannot be had on this machine; None when it can."""
    if os.geteuid() != 0:
        return "MySQL 9.7 runs in a Debian made with debootstrap, which needs root"
    if folder().exists():
        return None
    if not shutil.which("debootstrap"):
        return "debootstrap is not installed"
    return None


def folder():
    return paths.CACHE / "mysql-sid"


def _mirror():
    try:
        found = re.search(r"^URIs:\s*(\S+)", SOURCES.read_text(), re.MULTILINE)
    except OSError:
        found = None
    if not found:
        raise say.StackError(f"{SOURCES} names no mirror to fetch MySQL from")
    return found[1]


def fetch():
    """The folder with MySQL in it; made when it is not there yet."""
    with locks.held(paths.CACHE / "mysql.lock"):
        if folder().exists():
            return folder()
        say.step("fetching MySQL 9.7 from Debian unstable (about a minute, 650 MB)")
        fresh = folder().with_name("mysql-sid.new")
        shutil.rmtree(fresh, ignore_errors=True)
        done = subprocess.run(["debootstrap", "--variant=minbase", f"--include={PACKAGES}", "sid", fresh, _mirror()],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, text=True)
        if done.returncode != 0:
            raise say.StackError(f"debootstrap failed:\n{done.stdout[-3000:]}")
        fresh.rename(folder())
    return folder()


class MySQL(MariaDB):
    plugin = "IDENTIFIED WITH caching_sha2_password BY"

    def __init__(self, home, port, password):
        super().__init__(home, port, password)
        self.admin = "root"
        self.inside = Path("/srv") / f"{zlib.crc32(str(home).encode()):08x}"  # as the server sees it
        self.outside = folder() / str(self.inside)[1:]
        self.socket = self.outside / "mysql.sock"

    def _chroot(self, *arguments):
        return ["chroot", folder(), "/usr/sbin/mysqld", *OPTIONS, f"--datadir={self.inside}/data", *arguments]

    def prepare(self):
        fetch()
        self.outside.mkdir(parents=True, exist_ok=True)
        # Left by a server that was killed; a stranger may have its pid by now, and MySQL would refuse to start.
        (self.outside / "mysql.sock.lock").unlink(missing_ok=True)
        mark = self.outside / "made-for"
        if mark.exists() and mark.read_text() == self._stamp():
            return
        shutil.rmtree(self.outside / "data", ignore_errors=True)
        done = subprocess.run([str(word) for word in self._chroot("--initialize-insecure")], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, check=False, text=True)
        if done.returncode != 0:
            raise say.StackError(f"mysqld --initialize-insecure failed:\n{done.stdout}")
        mark.write_text(self._stamp())

    def _stamp(self):
        """Tells this stack's data from those of an earlier stack in the same folder, removed without `reset`."""
        return hashlib.sha256(self.password.encode()).hexdigest()

    def argv(self):
        return self._chroot(f"--socket={self.inside}/mysql.sock", f"--port={self.port}",
                            f"--pid-file={self.inside}/mysqld.pid", *SERVER_OPTIONS, *self.options)

    def discard(self):
        shutil.rmtree(self.outside, ignore_errors=True)

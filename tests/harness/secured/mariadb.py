"""A small MariaDB that speaks TLS, whose certificate can be changed while it runs."""
import shutil
import sys

from ..stack import TREE

sys.path.insert(0, str(TREE / "deploy"))

from stack import ports  # noqa: E402
from stack.servers.mariadb import MariaDB  # noqa: E402

SMALL = ("--innodb-buffer-pool-size=64M", "--innodb-log-file-size=16M", "--innodb-flush-log-at-trx-commit=0", "--sync-binlog=0")


class SecuredMariaDB(MariaDB):
    def __init__(self, home, authority, *options):
        home.mkdir(parents=True, exist_ok=True)
        super().__init__(home, ports.choose(set(), home), "of-the-administrator")
        self.files = [self.data / name for name in ("server.pem", "server.key")]
        self.authority = authority
        self.options = (*SMALL, f"--ssl-ca={authority.file}", f"--ssl-cert={self.files[0]}", f"--ssl-key={self.files[1]}", *options)

    def up(self, certificate):
        self.data.mkdir(parents=True, exist_ok=True)
        self._put(certificate)
        self.start()
        self.wait_ready()
        return self

    def _put(self, certificate):
        for source, target in zip(certificate, self.files):
            shutil.copy(source, target)

    def present(self, certificate):
        """From now on new connections are shown this certificate."""
        self._put(certificate)
        self.sql("FLUSH SSL")

    def account(self, name, password, demand="REQUIRE SSL"):
        self.sql(f"CREATE OR REPLACE USER '{name}'@'127.0.0.1' IDENTIFIED BY '{password}' {demand};"
                 f"GRANT ALL PRIVILEGES ON *.* TO '{name}'@'127.0.0.1'")

    def names(self):
        """What OwnApi wants to know of a stack."""
        return {"DUETIME_MYSQL_SOCKET": str(self.socket), "DUETIME_MYSQL_USER": self.user, "DUETIME_MYSQL_PASSWORD": self.password,
                "DUETIME_MYSQL_DATABASE": "information_schema", "DUETIME_REDIS": ""}

"""A duetime-api of the test's own: the stack's servers, a database and settings of its own."""
import os
import pathlib
import re
import signal
import subprocess

from .checker import connect, rows
from .rest import Rest
from .stack import PRESET, TREE, until

PROGRAM = TREE / "build" / PRESET / "api" / "duetime-api"
PATIENT = {"api.database_timeout": "PT1M", "mysql.io_timeout": "PT1M", "redis.timeout": "PT1M"}  # no request fails if the machine stalls for seconds
LISTENING = re.compile(r"msg=listening .*\bport=(\d+)")


def environment():
    kept = {name: value for name, value in os.environ.items() if not name.startswith("DUETIME_")}
    kept.setdefault("ASAN_OPTIONS", "abort_on_error=1:detect_leaks=1")
    kept.setdefault("UBSAN_OPTIONS", "print_stacktrace=1")
    return kept


class OwnApi:
    """settings: {"section.key": value}. The database is made anew, unless `shared` says that it is another's, and migrated."""

    def __init__(self, stack, folder, name, settings=None, shared=False, migrate=True, program=PROGRAM, variables=None):
        folder.mkdir(exist_ok=True)
        self.stack, self.name = stack, name
        self.program, self.variables = program, variables or {}
        self.database = (settings or {}).get("mysql.database", f"api_{name}")
        self.config = folder / "duetime.ini"
        self.log_file = folder / "api.log"
        self.process = self.rest = self.url = None
        self._write(settings or {})
        if not shared:
            self.recreate()
        if migrate and not shared:
            done = self.command("--migrate")
            assert done.returncode == 0, done.stderr

    def _write(self, settings):
        values = {"mysql.socket": self.stack["DUETIME_MYSQL_SOCKET"], "mysql.user": self.stack["DUETIME_MYSQL_USER"],
                  "mysql.password": self.stack["DUETIME_MYSQL_PASSWORD"], "mysql.database": self.database,
                  "redis.endpoints": self.stack["DUETIME_REDIS"], "installation.name": self.name.replace("_", "-"), "http.port": 0, **settings}
        values = {option: value for option, value in values.items() if value is not None}
        sections = {}
        for option, value in values.items():
            section, key = option.split(".", 1)
            sections.setdefault(section, []).append(f"{key} = {value}")
        self.config.write_text("".join(f"[{section}]\n" + "\n".join(lines) + "\n\n" for section, lines in sections.items()))

    def command(self, *arguments):
        """A one-off command, run to its end."""
        return self.run_as(self.config, *arguments)

    def run_as(self, config, *arguments):
        """The same with another configuration."""
        return subprocess.run([self.program, "--config", config, *arguments], env={**environment(), **self.variables}, capture_output=True, text=True, timeout=300, check=False)

    def launch(self):
        with open(self.log_file, "wb") as log:
            self.process = subprocess.Popen([self.program, "--config", self.config], env={**environment(), **self.variables},
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        return self

    def start(self, ready=True):
        self.launch()
        self.url = f"http://127.0.0.1:{until(self._port, self.log)}"
        self.rest = Rest(self.url)
        if ready:
            until(lambda: self.rest.get("/readyz").status == 200, self.log)
        return self

    def _port(self):
        assert self.process.poll() is None, self.log()
        found = LISTENING.search(self.log())
        return found and found[1]

    def resident(self, what="VmRSS"):
        """KiB of memory."""
        return int(re.search(rf"{what}:\s+(\d+)", pathlib.Path(f"/proc/{self.process.pid}/status").read_text())[1])

    def listener(self, kind):
        """The port of the first listener of this kind: plain or tls."""
        return int(re.search(rf"msg=listening .*\bas={kind} .*\bport=(\d+)", self.log())[1])

    def log(self):
        return self.log_file.read_text(errors="replace")

    def rows(self, sql, *values):
        connection = self.connect()
        try:
            return rows(connection, sql, *values)
        finally:
            connection.close()

    def recreate(self):
        """An empty database in place of the old one."""
        server = connect(self.stack)
        rows(server, f"DROP DATABASE IF EXISTS {self.database}")
        rows(server, f"CREATE DATABASE {self.database}")
        server.close()

    def connect(self):
        connection = connect(self.stack)
        connection.select_db(self.database)
        return connection

    def jobs(self):
        return self.rows("SELECT COUNT(*) n FROM jobs")[0]["n"]

    def end(self):
        """SIGTERM; the exit code, which sanitizers make other than 0."""
        if self.process is None or self.process.poll() is not None:
            return self.process and self.process.returncode
        if self.rest:
            self.rest.close()
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(300)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise AssertionError(f"{self.name} did not end within 300 s of SIGTERM\n{self.log()[-3000:]}") from None

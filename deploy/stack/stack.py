"""The whole stack: which parts there are, in which order they come and go, and what the outside is told of them."""
import os
import shlex
import shutil
import subprocess
import threading
import time

from . import build, paths, say
from .part import GivenUp, Part
from .programs import DATABASE, Api, Dispatcher, Program
from .secure import Secure
from .servers import grafana
from .servers.kafka import Kafka, jars
from .servers.mariadb import MariaDB
from .servers.mysql import MySQL
from .servers.prometheus import Prometheus
from .servers.redis import Redis
from .servers.zookeeper import ZooKeeper
from .state import DEFAULTS, State

TO_SPARE = ["kafka", "redis", "zookeeper"]  # servers that an installation need not have
SMALL = {"small": True, "without": TO_SPARE, "apis": 1, "dispatchers": 1}


def in_parallel(parts, action):
    """Runs action(part) for all at once; raises the first error after all have ended."""
    errors = []

    def run(part):
        try:
            action(part)
        except say.StackError as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(part,)) for part in parts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


class Stack:
    def __init__(self, home):
        self.home = home
        self.home.mkdir(parents=True, exist_ok=True)
        self.state = State(home)
        self._make_parts()

    def _make_parts(self):
        options, port = self.state.options, self.state.port
        self.secure = Secure(self.home, self.state.password) if options["secured"] else None
        database = MySQL if options["mysql"] == "mysql" else MariaDB
        self.mysql = database(self.home, port("mysql"), self.state.password)
        redis = 0 if self._without("redis") else options["redis"]
        self.redis = [Redis(self.home, f"redis{n}", port(f"redis{n}"), self._redis_options(n)) for n in range(1, redis + 1)]
        self.zookeeper = ZooKeeper(self.home, port("zookeeper"))
        self.kafka = Kafka(self.home, options["kafka"], port("kafka"), port("kafka_controller"), self._kafka_detours(),
                           options["kafka_settings"], options["kafka_jvm"])
        self.apis = [self._program(Api, f"api{n}") for n in range(1, options["apis"] + 1)]
        self.dispatchers = [self._program(Dispatcher, f"dispatcher{n}") for n in range(1, options["dispatchers"] + 1)]
        self.monitoring = self._monitoring() if options["monitoring"] else []
        if self.secure:
            self._secure_servers()

    def _secure_servers(self):
        self.mysql.options, self.mysql.demand = (*self.mysql.options, *self.secure.mysql_options()), "REQUIRE SSL"
        self.kafka.settings = {**self.secure.kafka_settings(self.kafka.port, self.state.port("kafka_secured"), self.kafka.controller_port), **self.kafka.settings}
        for api in self.apis:
            api.secured(self.secure.ca, self.state.token)

    def _redis_options(self, number):
        if not self.secure:
            return ()
        return self.secure.redis_options(self.state.port(f"redis{number}_secured") if self.secure.redis_tls else None)

    def _redis_of_programs(self, via):
        """Endpoints, those with a detour by it. Shards find their server by its address: with several, a detour is the same for all programs."""
        tls = self.secure and self.secure.redis_tls
        own = {redis.name: self.state.port(f"{redis.name}_secured") if tls else redis.port for redis in self.redis}
        return ",".join(f"127.0.0.1:{via.get(name, port)}" for name, port in own.items())

    def _kafka_of_programs(self):
        if self._without("kafka"):
            return ""
        return f"127.0.0.1:{self.state.port('kafka_secured')}" if self.secure else self.kafka.address

    def _secure_settings(self, settings):
        for section, keys in self.secure.settings(self.mysql.port, not self._without("kafka")).items():
            settings.setdefault(section, {}).update(keys)
        del settings["mysql"]["socket"]

    def _program(self, kind, name):
        return kind(self.home, name, self.state.port(name), self.state.options["preset"], self._settings(name))

    def _monitoring(self):
        jobs = {"duetime-api": [part.address for part in self.apis], "duetime-dispatcher": [part.address for part in self.dispatchers]}
        prometheus = Prometheus(self.home, self.state.port("prometheus"), jobs)
        return [prometheus, *([grafana.Grafana(self.home, self.state.port("grafana"), prometheus.address)] if grafana.program() else [])]

    def _kafka_detours(self):
        """{name: (port of a listener, port that it tells its clients)}: a client that came by a detour must be sent back to it."""
        return {name.upper(): (self.state.port(f"kafka_{name}"), servers["kafka"])
                for name, servers in self.state.options["via"].items() if "kafka" in servers}

    def _settings(self, program):
        """What a program is told."""
        settings = {
            "mysql": {"socket": self.mysql.socket, "user": self.mysql.user, "password": self.mysql.password, "database": DATABASE},
            "redis": {"endpoints": self._redis_of_programs(self.state.options["via"].get(program, {}))},
            "kafka": {"brokers": self._kafka_of_programs()},
            "zookeeper": self._election(),
            "shards": {"count": self.state.options["shards"]},
            "callbacks": {"enabled": "true", "allow_networks": "127.0.0.0/8"},
        }
        if self.secure:
            self._secure_settings(settings)
        for name, value in self.state.options["settings"].items():
            section, key = name.split(".", 1)
            settings.setdefault(section, {})[key] = value
        self._detour(settings, self.state.options["via"].get(program, {}))
        return settings

    def _election(self):
        """Leaves the session timeout at its default: on a busy laptop sessions with a shorter one would expire again and again. A test
        that needs a short timeout uses --set."""
        return {"servers": "" if self._without("zookeeper") else self.zookeeper.address}

    def _detour(self, settings, via):
        """Addresses that lead through somebody's port in place of the server's own."""
        if "mysql" in via:
            settings["mysql"].pop("socket", None)
            settings["mysql"].update(host="127.0.0.1", port=via["mysql"])
        if "zookeeper" in via:
            settings["zookeeper"]["servers"] = f"127.0.0.1:{via['zookeeper']}"
        if "kafka" in via:
            settings["kafka"]["brokers"] = f"127.0.0.1:{via['kafka']}"

    @property
    def servers(self):
        return [self.mysql, *self.redis, *(part for part in (self.zookeeper, self.kafka) if not self._without(part.name))]

    def _without(self, server):
        return server in self.state.options["without"]

    @property
    def programs(self):
        return [*self.apis, *self.dispatchers]

    @property
    def parts(self):
        return self.servers + self.programs + self.monitoring

    def part(self, name):
        """By name; `api`, `dispatcher` and `redis` mean the first of their kind."""
        for part in self.parts:
            if name.lower() in (part.name, part.name.removesuffix("1")):
                return part
        raise say.StackError(f"there is no part {name}; there are: {' '.join(part.name for part in self.parts)}")

    def running(self):
        return [part for part in self.parts if part.process.pid() is not None]

    # -- coming up

    def size(self, small):
        """The options of a small stack; or of one that was small, and is to have every server."""
        if small:
            return SMALL
        return {name: DEFAULTS[name] for name in SMALL} if self.state.options["small"] else {}

    def configure(self, wanted):
        """Takes over the options that were given on the command line. Refuses what the data cannot follow."""
        options = self.state.options
        for name in ("mysql", "kafka"):
            if self.state.exists and wanted.get(name, options[name]) != options[name]:
                raise say.StackError(f"the data in {self.home} were made with --{name} {options[name]}; "
                                     f"`deploy/local reset` removes them")
        self._stop_superfluous({**options, **wanted})
        shards = options["shards"]
        options.update(wanted)
        if self.state.exists:
            options["shards"] = shards  # MySQL has the number; check_shards() compares
        self._make_parts()
        self.state.save()

    def _stop_superfluous(self, options):
        redis = 0 if "redis" in options["without"] else options["redis"]
        keep = {f"{kind}{n}" for kind, count in (("api", options["apis"]), ("dispatcher", options["dispatchers"]), ("redis", redis))
                for n in range(1, count + 1)} | ({"mysql", "zookeeper", "kafka"} - set(options["without"]))
        keep |= {"prometheus", "grafana"} if options["monitoring"] else set()
        for part in self.parts:
            if part.name not in keep:
                part.process.stop()

    def check_shards(self, wanted):
        """Refuses a number of shards other than that of the installation in MySQL."""
        tables = self.mysql.sql("SELECT COUNT(*) FROM information_schema.tables "
                                f"WHERE table_schema = '{DATABASE}' AND table_name = 'installation'")
        rows = self.mysql.sql("SELECT shards FROM installation", DATABASE) if tables == [["1"]] else []
        if not rows:
            self.state.options["shards"] = wanted or self.state.options["shards"]
            self._make_parts()
        elif wanted and int(rows[0][0]) != wanted:
            raise say.StackError(f"the data in {self.home} have {rows[0][0]} shards, not {wanted}: leave out --shards, "
                                 "or start anew after `deploy/local reset`")
        else:
            self.state.options["shards"] = int(rows[0][0])
        self.state.save()

    def up(self, wanted, must_build=True):
        """Brings everything up; returns the parts that it started."""
        self.configure(wanted)
        started = []
        try:
            if must_build:
                build.build(self.state.options["preset"])
            self._fetch()
            if self.secure:
                self.secure.make()
            say.step(f"starting the servers: {', '.join(part.name for part in self.servers)}")
            self._start(self.servers, started)
            self.check_shards(wanted.get("shards"))
            self.migrate()
            self._make_token()
            say.step(f"starting duetime: {', '.join(part.name for part in self.programs)}")
            self._start_anew(self.programs, started)
            self._start_monitoring(started)
            self._wait_leaders()
        except BaseException:
            if started:
                say.note("stopping what was started")
                self.stop(started)
            raise
        return started

    def servers_up(self, wanted):
        """The servers alone, without duetime: for tests that bring their own programs."""
        self.configure(wanted)
        self._fetch()
        started = []
        try:
            self._start(self.servers, started)
        except BaseException:
            self.stop(started)
            raise

    def _fetch(self):
        """What the servers are made of, as far as it is missing."""
        sets = [name for name in TO_SPARE if not self._without(name)] + (["monitoring"] if self.state.options["monitoring"] else [])
        if sets and subprocess.run([paths.TREE / "deploy/packages", *sets], check=False).returncode:
            raise say.StackError(f"packages are missing for {', '.join(sets)}")
        if not self._without("kafka"):
            jars(self.state.options["kafka"])

    def _start(self, parts, started):
        """Starts all parts at once and waits until each is ready. If one fails, or at Ctrl-C, stops the others without waiting for them."""
        given_up, errors = threading.Event(), []

        def one(part):
            try:
                if part.start(given_up):
                    started.append(part)
                part.wait_ready(given_up)
            except GivenUp:
                pass
            except BaseException as error:
                errors.append(error)
                given_up.set()

        threads = [threading.Thread(target=one, args=(part,)) for part in parts]
        for thread in threads:
            thread.start()
        try:
            while any(thread.is_alive() for thread in threads) and not given_up.wait(0.02):
                pass
            if errors:
                raise errors[0]
        except BaseException:
            given_up.set()
            self.stop(list(started))  # ends requests that threads have in progress
            for thread in threads:
                thread.join()
            raise

    def _start_anew(self, parts, started):
        for part in parts:
            if part.process.outdated(part.made_of()):
                say.note(f"{part.name} runs an earlier build or with other settings: starting it anew")
                part.process.stop()
        self._start(parts, started)

    def _start_monitoring(self, started):
        if not self.monitoring:
            return
        say.step(f"starting {', '.join(f'{part.name} at {part.address}' for part in self.monitoring)}")
        self._start_anew(self.monitoring, started)
        if not grafana.program():
            say.note("Debian has no package of Grafana: import deploy/monitoring/dashboard.json into one, with this Prometheus as its source")

    def migrate(self):
        """Makes the database and brings its schema up to date with the program's own command."""
        self.mysql.sql(f"CREATE DATABASE IF NOT EXISTS {DATABASE}")
        api = self.apis[0]
        api.data.mkdir(parents=True, exist_ok=True)
        api.prepare()
        with say.waiting("duetime-api --migrate"):
            done = subprocess.run([*api.argv(), "--migrate"], env=api.environment(), stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, text=True)
        if done.returncode != 0:
            raise say.StackError(f"duetime-api --migrate failed:\n{done.stdout[-4000:]}")

    def _make_token(self):
        """Of a secured stack: made once, when there is a schema."""
        if not self.secure or self.state.token:
            return
        words = [*self.apis[0].argv(), "--new-token", "stack", "--scopes", "write,report,read,admin"]
        done = subprocess.run(words, env=self.apis[0].environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False, text=True)
        if done.returncode != 0:
            raise say.StackError(f"duetime-api --new-token failed:\n{done.stderr[-4000:]}")
        self.state.token = done.stdout.strip()
        self.state.save()
        self._make_parts()

    def _wait_leaders(self):
        """Waits while every part that leaders need is alive."""
        if not self.dispatchers:
            return
        with say.waiting("a leader of each shard", lambda: self.dispatchers[0].log_tail(1)):
            while self.apis[0].leaderless() != []:
                for part in self.servers + self.programs:
                    part.check_alive("before every shard had a leader")
                time.sleep(0.05)

    # -- going down

    def stop(self, parts):
        """Programs first, then the servers that they use."""
        for group in (Program, Part):
            in_parallel([part for part in parts if isinstance(part, group)], lambda part: part.process.stop())

    def reset(self):
        self.stop(self.running())
        for part in self.parts:
            part.discard()
        shutil.rmtree(self.home, ignore_errors=True)

    # -- what the outside is told

    def environment(self):
        values = {
            "DUETIME_URL": self.apis[0].address,
            "DUETIME_KAFKA": "" if self._without("kafka") else self.kafka.address,
            "DUETIME_REDIS": ",".join(redis.address for redis in self.redis),
            "DUETIME_ZOOKEEPER": "" if self._without("zookeeper") else self.zookeeper.address,
            "DUETIME_MYSQL_SOCKET": str(self.mysql.socket),
            "DUETIME_MYSQL_PORT": str(self.mysql.port),
            "DUETIME_MYSQL_USER": self.mysql.user,
            "DUETIME_MYSQL_PASSWORD": self.mysql.password,
            "DUETIME_MYSQL_DATABASE": DATABASE,
        }
        if self.secure:
            values.update({"DUETIME_CA_FILE": str(self.secure.ca), "DUETIME_TOKEN": self.state.token or ""})
        values.update({f"DUETIME_URL_{api.name.upper()}": api.address for api in self.apis})
        values.update({f"DUETIME_METRICS_{part.name.upper()}": f"{part.address}/metrics" for part in self.dispatchers})
        values.update({f"DUETIME_{part.name.upper()}": part.address for part in self.monitoring})
        for part in self.parts:
            pid = part.process.pid()
            if pid is not None:
                values[f"DUETIME_PID_{part.name.upper()}"] = str(pid)
        if "DUETIME_PID_REDIS1" in values:
            values["DUETIME_PID_REDIS"] = values["DUETIME_PID_REDIS1"]
        return values

    def assignments(self):
        """For a shell, in which `duetime` is found, too."""
        return "".join(f"{name}={shlex.quote(value)}\n" for name, value in {**self.environment(), "PATH": self._path()}.items())

    def _path(self):
        folder, present = str(build.program(self.apis[0].preset, "duetime").parent), os.environ.get("PATH", "/usr/bin:/bin")
        return present if folder in present.split(":") else f"{folder}:{present}"


def exists(home):
    return os.path.exists(home / "state.json")

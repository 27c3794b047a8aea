"""The clients of deploy/clients, as their users have them: each language's linters, its own tests, and its two examples, which do a thousand jobs.

Every language has the same three programs: `create TOPIC FIRST COUNT` prints an id a line, `consumer TOPIC` reads Kafka, `worker TOPIC` pops; the last
two append "JOB ATTEMPT STATUS" to DUETIME_EFFECTS for each attempt that they work on. `create` makes jobs of which some fail once or twice, and
some are impossible; thousand.py knows which.
"""
import os
import pathlib
import shutil
import subprocess
from dataclasses import dataclass, field

from ..stack import TREE

CLIENTS = TREE / "deploy" / "clients"
COPIES = TREE / ".local" / "cache" / "clients"
PYTHON = "/usr/bin/python3"
GO_BUILT = TREE / ".local" / "clients" / "go"


@dataclass(frozen=True)
class Language:
    """Commands of one language, run in its folder; in a copy of it where installing leaves something there (`leaves`), which is kept."""
    packages: str
    create: list
    consumer: list
    worker: list
    rows: list  # its program for the table of rows.py
    tests: list
    linters: list
    prepare: list = field(default_factory=list)
    env: dict = field(default_factory=dict)
    leaves: tuple = ()
    unix: bool = True  # whether it can ask by a Unix socket


# Installs the packages of the lock, unless these very ones are there.
NPM_CI = "cmp -s package-lock.json node_modules/installed || { npm ci --ignore-scripts && cp package-lock.json node_modules/installed; }"
# Maven asks for new versions of nothing where these goals were reached with this pom before, and its repository is still there.
MVN = ["sh", "-c", 'done="target/reached-$1"; cmp -s pom.xml "$done" && [ -d "$HOME/.m2/repository/org/junit" ] && offline=-o; '
                   'mvn -q -B ${offline-} "$@" && cp pom.xml "$done"', "mvn"]
JAVA = ["java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", "target/test-classes:target/classes:target/dependency/*"]

LANGUAGES = {
    "go": Language(
        packages="client_go",
        prepare=[["sh", "-c", f"cd examples && go build -o '{GO_BUILT}/' ./..."]],
        create=[GO_BUILT / "create"], consumer=[GO_BUILT / "consumer"], worker=[GO_BUILT / "worker"], rows=[GO_BUILT / "rows"],
        tests=["go", "test", "-race", "-count=1", "./..."],
        linters=[["sh", "-c", "! gofmt -l . | grep ."], ["go", "vet", "./..."], ["sh", "-c", "cd examples && go vet ./..."]]),
    "java": Language(
        packages="client_java",
        prepare=[[*MVN, "test-compile", "dependency:copy-dependencies"]],  # with every lint of javac as an error
        create=[*JAVA, "duetime.examples.Create"], consumer=[*JAVA, "duetime.examples.Consumer"], worker=[*JAVA, "duetime.examples.Worker"],
        rows=[*JAVA, "duetime.client.Rows"],
        tests=[*MVN, "surefire:test"], linters=[], leaves=("target",), unix=False),
    "node": Language(
        packages="console",
        create=["node", "examples/create.js"], consumer=["node", "examples/consumer.js"], worker=["node", "examples/worker.js"],
        rows=["node", "test/rows.js"],
        tests=["npm", "test"], linters=[["npm", "run", "lint"]], prepare=[["sh", "-c", NPM_CI]], leaves=("node_modules",)),
    "php": Language(
        packages="client_php",
        create=["php", "examples/create.php"], consumer=["php", "-d", "auto_prepend_file=tests/RdKafka.php", "examples/consumer.php"],
        worker=["php", "examples/worker.php"], rows=["php", "tests/rows.php"],
        tests=["phpunit", "--do-not-cache-result", "tests"],
        linters=[["sh", "-c", "find . -name '*.php' | xargs -n 1 php -l"], ["phpcs"]]),
    "python": Language(
        packages="client_python",
        create=[PYTHON, "examples/create.py"], consumer=[PYTHON, "examples/consumer.py"], worker=[PYTHON, "examples/worker.py"],
        rows=[PYTHON, "-W", "error", "tests/rows.py"],
        tests=[PYTHON, "-W", "error", "-m", "unittest", "discover", "-s", "tests"],
        linters=[["mypy", "--cache-dir=/dev/null"], ["pyflakes3", "."]],
        env={"PYTHONPATH": str(CLIENTS / "python"), "PYTHONDONTWRITEBYTECODE": "1"}),
}


class Programs:
    """One language's programs against one stack; `end` ends those that still run."""

    def __init__(self, stack, name, effects):
        self.stack, self.name, self.language, self.effects = stack, name, LANGUAGES[name], pathlib.Path(effects)
        self.sources = CLIENTS / name
        self.folder = COPIES / name if self.language.leaves else self.sources
        addresses = {key: stack[key] for key in ("DUETIME_URL", "DUETIME_KAFKA", "DUETIME_TOKEN", "DUETIME_CA_FILE") if key in stack.env}
        self.env = {**os.environ, **self.language.env, **addresses, "DUETIME_EFFECTS": str(effects)}
        self.running = []

    def prepare(self):
        subprocess.run([TREE / "deploy" / "packages", self.language.packages], check=True, timeout=1800)
        if self.folder != self.sources:
            self.copy()
        for command in self.language.prepare:
            self.run(command, 1800)
        return self

    def copy(self):
        self.folder.mkdir(parents=True, exist_ok=True)
        for path in self.folder.iterdir():
            if path.name not in self.language.leaves:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        shutil.copytree(self.sources, self.folder, ignore=shutil.ignore_patterns(*self.language.leaves), dirs_exist_ok=True)

    def run(self, command, seconds=900):
        """Its output; the command must succeed."""
        done = subprocess.run(command, cwd=self.folder, env=self.env, timeout=seconds, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, check=False)
        assert done.returncode == 0, f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stdout[-4000:]}"
        return done.stdout

    def create(self, topic, first, count, **variables):
        done = subprocess.run([*self.language.create, topic, str(first), str(count)], cwd=self.folder, env={**self.env, **variables}, timeout=900,
                              stdout=subprocess.PIPE, text=True, check=True)
        return done.stdout.split()

    def start(self, command, *words, **variables):
        """Runs on; what it says goes to a file beside the effects."""
        with open(self.effects.with_suffix(".out"), "ab") as out:
            self.running.append(subprocess.Popen([*command, *words], cwd=self.folder, env={**self.env, **variables}, stdout=out, stderr=out))
        return self.running[-1]

    def lines(self):
        """[(job, attempt, status)] of the effects so far; a last line that is not whole is left out."""
        text = self.effects.read_text() if self.effects.exists() else ""
        return [(job, int(attempt), status) for job, attempt, status in map(str.split, text[:text.rfind("\n") + 1].splitlines())]

    def said(self):
        path = self.effects.with_suffix(".out")
        return path.read_text(errors="replace")[-3000:] if path.exists() else ""

    def end(self):
        for process in self.running:
            if process.poll() is None:
                process.kill()
            process.wait()

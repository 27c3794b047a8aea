"""Checks that need no server: format, house rules, scripts, the description of the API. One test each."""
import os
import subprocess
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from . import command, tree

SECONDS = 1200
CODE = ("scheduler", "dispatcher", "api", "tests")


def _files(*patterns):
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "--", *patterns], cwd=tree.TREE,
                            stdout=subprocess.PIPE, text=True, check=False)
    return [tree.TREE / name for name in listed.stdout.splitlines() if (tree.TREE / name).is_file()]


def _sources():
    listed = _files("*.c", "*.h")
    if listed:
        return listed
    return [path for top in CODE for path in sorted((tree.TREE / top).rglob("*.[ch]"))]  # a copy without git


def formatted():
    code, output = command.run(["clang-format", "--dry-run", "-Werror", *_sources()], SECONDS, cwd=tree.TREE)
    places = Counter(line.split(":", 1)[0] for line in output.splitlines() if "error:" in line)
    return code == 0, "\n".join(f"{name}: {count} places" for name, count in places.items())


def scripts():
    """Shell scripts parse; Python files compile."""
    told = []
    for path in [tree.TREE / name for name in ("deploy/local", "deploy/packages", "deploy/quickstart", "tests/run", "tests/coverage", "tests/mutants", "deploy/compose/rootfs", "deploy/debian/postinst", "deploy/debian/prerm", "deploy/debian/postrm", "deploy/debian/pack", "deploy/debian/reproduce", ".ci/run")]:
        code, output = command.run(["bash", "-n", path], SECONDS)
        told += [output] if code else []
    for path in _files("*.py"):
        try:
            compile(path.read_text(encoding="utf-8"), str(path), "exec")
        except SyntaxError as error:
            told.append(f"{path}: {error}")
    return not told, "\n".join(told)


def _script(name, *arguments):
    code, output = command.run(["/usr/bin/python3", tree.TREE / "tests" / name, *arguments], SECONDS, cwd=tree.TREE)
    return code == 0, output


def house():
    return _script("house.py")


def metrics():
    """deploy/metrics.md has every metric that the sources make."""
    return _script("metrics.py", "--check")


def mutants():
    """tests/mutants plants what it says, and says what comes of it."""
    return _script("mutation/selftest.py")


def examples():
    """The receiver of deploy/examples trusts what is signed, and nothing else."""
    return _script("examples.py")


def monitoring():
    """Rules, dashboard and runbook fit what the programs count and tell."""
    return _script("monitoring/check.py")


def openapi():
    return _script("openapi.py", tree.BUILD / "api" / "duetime-api")


def configuration():
    """deploy/configuration.md is what the table of options says."""
    code, output = command.run([tree.BUILD / "dispatcher" / "duetime-dispatcher", "--config-reference"], SECONDS)
    page = tree.TREE / "deploy" / "configuration.md"
    same = code == 0 and page.exists() and page.read_text() == output
    return same, "deploy/configuration.md is stale: write it anew with duetime-dispatcher --config-reference"


def command_line():
    """deploy/command-line.md is what the table of commands says."""
    code, output = command.run([tree.BUILD / "api" / "cli" / "duetime", "--reference"], SECONDS)
    page = tree.TREE / "deploy" / "command-line.md"
    same = code == 0 and page.exists() and page.read_text() == output
    return same, "deploy/command-line.md is stale: write it anew with duetime --reference"


def containers():
    """deploy/compose and deploy/kubernetes name settings, secrets, ports, paths and a version that the programs have."""
    return _script("containers.py", tree.BUILD)


def capacity():
    """deploy/capacity.md has the costs that tests/bench/measured.json has."""
    code, output = command.run([tree.TREE / "tests" / "bench" / "plan", "--tables"], SECONDS)
    page = (tree.TREE / "deploy" / "capacity.md").read_text()
    return code == 0 and all(table in page for table in output.split("\n\n")), f"deploy/capacity.md has other tables than tests/bench/plan --tables:\n{output}"


def cron():
    """Fires are those that an enumeration of days and times finds, also where clocks change."""
    return _script("cron/compare.py", "--triples", "1000", "--program", tree.BUILD / "tests" / "cron_next")


def feature():
    """The recipe "A feature" of CONTRIBUTING removes alerts: the product builds without them, and with them again."""
    return _script("feature.py")


def tidy():
    """clang-tidy with the checks of .clang-tidy, over the product's sources."""
    names = [path for path in _sources() if path.suffix == ".c" and path.relative_to(tree.TREE).parts[0] in ("scheduler", "dispatcher", "api")]
    parts = [names[i::8] for i in range(8)]
    with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
        done = list(pool.map(lambda part: command.run(["clang-tidy", "-p", tree.BUILD, "--quiet", *part], SECONDS, cwd=tree.TREE), parts))
    told = [line for _, output in done for line in output.splitlines() if ": error: " in line or ": warning: " in line]
    return all(code == 0 for code, _ in done), "\n".join(told) or "\n".join(output[-500:] for code, output in done if code != 0)


PROGRAMS = ("api/duetime-api", "dispatcher/duetime-dispatcher")


def _fail_points(program):
    """Names of the program's fail points; empty when it has none."""
    code, output = command.run([tree.BUILD / program, "--fail-points"], SECONDS)
    return [line.split()[0] for line in output.splitlines() if "." in line] if code == 0 else []


def no_fail_points():
    """Neither a name, nor a symbol, nor the variable of the fail points is in a release; in test builds all are."""
    told = []
    for program in PROGRAMS:
        names = [f"\0{name}\0".encode() for name in _fail_points(program)]
        wanted = [*names, b"DUETIME_FAIL", b"dt_fail_point", b"fail-points"]
        tested, released = ((folder / program).read_bytes() for folder in (tree.BUILD, tree.RELEASE))
        told += [f"{program}: fewer than five fail points are listed"] if len(names) < 5 else []
        told += [f"{program}: the test build lacks {word}" for word in wanted if word not in tested]
        told += [f"{program}: the release has {word}" for word in wanted if word in released]
    return not told, "\n".join(told)


def packages():
    """The Debian packages hold what deploy/debian says, and its units what systemd and the table of options want."""
    return _script("debian/contents.py", tree.RELEASE / "packages", tree.RELEASE)


def run(report, named, chosen=None):
    """Each check is a test: `named` is {name: check}; as many at one time as there are processors."""
    named = {name: check for name, check in named.items() if chosen is None or chosen in name}
    with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
        for name, (good, output) in zip(named, pool.map(lambda check: check(), named.values())):
            if good:
                report.ok()
            else:
                report.fail(name, output, f"sources -k '{name}'")


OF_SOURCES = {"clang-format": formatted, "house rules": house, "metrics.md is what the programs count": metrics, "capacity.md has the costs that were measured": capacity, "scripts parse": scripts, "examples do what they say": examples, "rules, dashboard and runbook fit the programs": monitoring, "tests/mutants tells faults apart": mutants}
OF_PROGRAMS = {"clang-tidy": tidy, "openapi.yaml is what the server does": openapi, "configuration.md is what the programs read": configuration, "command-line.md is what duetime does": command_line, "cron agrees with an enumeration": cron, "containers say what the programs do": containers}
OF_COMPILERS = {"a feature can be removed": feature}
OF_RELEASE = {"a release has no fail points": no_fail_points, "packages have what they should": packages}

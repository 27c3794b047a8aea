"""The builds: gcc with sanitizers (or DUETIME_TEST_PRESET), which is tested; clang with libFuzzer, of which all else must only compile; a release, in
which one looks for what must not be there.

A build that fails counts as a failed test; what could be built is tested nevertheless.
"""
import functools
import re
import shutil

from . import command, tree

SECONDS = 900


def _configure(report, folder, preset, options):
    if (folder / "build.ninja").exists():
        return True
    launcher = ["-DCMAKE_C_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []
    code, output = command.run(["cmake", "--preset", preset, "-B", folder, *launcher, *options], SECONDS, cwd=tree.TREE)
    if code != 0:
        report.fail(f"configure {folder.name}", output)
    return code == 0


def _build(report, folder, *targets):
    code, output = command.run(["cmake", "--build", folder, "--", "-k", "0", *targets], SECONDS, cwd=tree.TREE)
    (folder / "build.log").write_text(output)
    if code != 0:
        report.fail(f"build {folder.name}", "\n".join(line for line in output.splitlines() if "] Building" not in line and "] Linking" not in line))
    return code == 0


@functools.lru_cache(maxsize=None)
def sanitize(report):
    """Once a run, whatever the suites; True when everything was built."""
    report.say(f"building with gcc, preset {tree.PRESET}")
    return _configure(report, tree.BUILD, tree.PRESET, ["-DCMAKE_C_COMPILER=gcc", "-DDT_CONSOLE=ON"]) and _build(report, tree.BUILD)


def _objects(folder):
    """All that is compiled; what is linked of it is left out."""
    _, output = command.run(["ninja", "-C", folder, "-t", "targets", "all"], SECONDS)
    return [line.split(":", 1)[0] for line in output.splitlines() if re.search(r"\.o: C_COMPILER", line)]


@functools.lru_cache(maxsize=None)
def clang(report):
    """Once a run, one test: everything compiles with clang, without a warning, and without fail points, as in a release. The folder of the fuzz
    targets, which are linked as well; None when something was not built."""
    report.say("compiling everything with clang, and building the fuzz targets")
    folder = tree.BUILD.with_name("fuzz")
    built = _configure(report, folder, "fuzz", []) and _build(report, folder, "fuzz", *_objects(folder))
    report.ok(1 if built else 0)
    return folder / "tests" / "fuzz" if built else None


def release(report):
    """The programs and packages as users get them; True when they were built."""
    report.say("building a release")
    folder = tree.RELEASE
    return _configure(report, folder, "release", []) and _build(report, folder, "debian")

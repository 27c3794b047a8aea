"""The builds: gcc with sanitizers (or DUETIME_TEST_PRESET), which is tested; clang with libFuzzer; clang without, of which
tests must only compile; a release, in which one looks for what must not be there.

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


def _objects_of_tests(folder):
    """What tests are compiled to, none of it linked."""
    _, output = command.run(["ninja", "-C", folder, "-t", "targets", "all"], SECONDS)
    return [line.split(":", 1)[0] for line in output.splitlines() if re.match(r"tests/.*\.o: C_COMPILER", line)]


@functools.lru_cache(maxsize=None)
def fuzz(report):
    """Once a run: the folder of the fuzz targets (clang, libFuzzer); None when they were not built."""
    report.say("building the fuzz targets")
    folder = tree.BUILD.with_name("fuzz")
    built = _configure(report, folder, "fuzz", []) and _build(report, folder, "fuzz")
    return folder / "tests" / "fuzz" if built else None


def clang(report):
    """One test: everything compiles with clang, without a warning, and without fail points, as in a release: the product for the fuzz targets,
    and the tests."""
    product = fuzz(report)
    report.say("compiling the tests with clang")
    folder = tree.BUILD.with_name("clang")
    options = ["-DCMAKE_C_COMPILER=clang", "-DCMAKE_C_FLAGS_DEBUG=-O0", "-DDT_CONSOLE=OFF"]
    if _configure(report, folder, "debug", options) and _build(report, folder, *_objects_of_tests(folder)) and product:
        report.ok()


def release(report):
    """The programs and packages as users get them; True when they were built."""
    report.say("building a release")
    folder = tree.RELEASE
    return _configure(report, folder, "release", []) and _build(report, folder, "debian")

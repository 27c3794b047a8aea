"""The helpers written in C, so that the load costs little: compiled once a run, with the flags of the system's libraries."""
import functools
import pathlib
import subprocess
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
TOOLS = HERE / "tools"
LIBRARIES = {"loader": ["mysqlclient"], "updater": ["mysqlclient"], "filler": ["mysqlclient"], "reporter": ["rdkafka"], "stalls": [], "answerer": [], "popper": [], "caller": ["libcurl"],
             "slices": ["hiredis", "mysqlclient", "yajl", "inih", "libxxhash", "zlib"]}
RELEASE = HERE.parents[1] / "build" / "release" / "scheduler"
PRODUCT = {"slices": [f"-I{HERE.parents[1] / 'scheduler'}", RELEASE / "libscheduler.a"]}  # the product's own library, as built for the stack


@functools.cache
def _folder():
    return tempfile.TemporaryDirectory(prefix="duetime-bench-")


@functools.cache
def program(name):
    out = pathlib.Path(_folder().name) / name
    libraries = LIBRARIES[name]
    flags = libraries and subprocess.run(["pkg-config", "--cflags", "--libs", *libraries], check=True, capture_output=True, text=True).stdout.split()
    subprocess.run(["cc", "-O2", "-std=gnu17", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-o", out, TOOLS / f"{name}.c",
                    *PRODUCT.get(name, []), *flags, "-lpthread", "-lm"], check=True)
    return out


def scratch(name):
    """A file of the run that goes away with it."""
    return pathlib.Path(_folder().name) / name


def run(name, *words, seconds=600):
    """What the helper printed; a helper that fails ends the run with what it said."""
    done = subprocess.run([program(name), *map(str, words)], capture_output=True, text=True, timeout=seconds, check=False)
    if done.returncode:
        raise RuntimeError(f"{name}: exit code {done.returncode}: {done.stderr.strip()} {done.stdout.strip()}")
    return done.stdout

"""Fuzz targets: each runs its seeds from tests/fuzz/corpus, then some seconds of its own inputs. One test a target.

What it finds stays in .local/tests/fuzz: the input that fails, and a corpus that grows from run to run.
DUETIME_FUZZ_SECONDS is the time for each target.
"""
import os
from concurrent.futures import ThreadPoolExecutor

from . import command, tree

FOLDER = tree.TREE / "tests" / "fuzz"
HOME = tree.WORK / "fuzz"
SECONDS = 3
MOST = 4096  # bytes of an input


def targets(folder, chosen):
    found = sorted(path for path in folder.glob("fuzz_*") if os.access(path, os.X_OK) and path.is_file())
    return [path for path in found if chosen is None or chosen in path.name]


def _run_one(report, target):
    seconds = int(os.environ.get("DUETIME_FUZZ_SECONDS") or SECONDS)
    name = target.name
    corpus, artifacts = HOME / name, HOME / "found"
    corpus.mkdir(parents=True, exist_ok=True)
    artifacts.mkdir(parents=True, exist_ok=True)
    seeds = FOLDER / "corpus" / name
    words = FOLDER / f"{'config' if 'config' in name else 'json'}.dict"
    argv = [target, f"-seed={os.environ['DUETIME_TEST_SEED']}", f"-max_total_time={seconds}", f"-max_len={MOST}", "-timeout=10", "-rss_limit_mb=2048", "-verbosity=0",
            f"-dict={words}", f"-artifact_prefix={artifacts}/{name}-", corpus, seeds]
    code, output = command.run(argv, seconds + 120, {**os.environ, "UBSAN_OPTIONS": "print_stacktrace=1"})
    if code == 0 and seeds.is_dir():
        report.ok()
    else:
        report.fail(f"fuzz: {name}", f"{output[-5000:]}\nexit code {code}; inputs that fail are kept in {artifacts}")


def run(report, folder, chosen):
    with ThreadPoolExecutor(max_workers=min(2, os.cpu_count() or 1)) as pool:
        for done in [pool.submit(_run_one, report, target) for target in targets(folder, chosen)]:
            done.result()


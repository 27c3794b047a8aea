"""The model of the dispatch: its bounded set, one test a run."""
from . import command, tree

SECONDS = 3600


def run(report):
    code, output = command.run(["/usr/bin/python3", tree.TREE / "tests" / "model" / "check"], SECONDS, cwd=tree.TREE)
    lines = [line for line in output.splitlines() if line.startswith(("ok ", "FAILED "))]
    for line in lines:
        if line.startswith("ok "):
            report.ok()
        else:
            report.fail(f"model: {line.split()[1]}", line)
    if not lines or (code != 0 and all(line.startswith("ok ") for line in lines)):
        report.fail("model", f"{output[-3000:]}\nexit code {code}")

"""--check-config and --print-config of all programs; variables that nothing reads."""
import re
import subprocess

import pytest

from harness.command_line import PROGRAM, run
from harness.program import environment
from harness.stack import PRESET, TREE

PROGRAMS = {name: TREE / "build" / PRESET / name / f"duetime-{name}" for name in ("api", "dispatcher")} | {"duetime": PROGRAM}


def ask(program, *words, **variables):
    return subprocess.run([PROGRAMS[program], *words], env={**environment(), "HOME": "/nonexistent", **variables}, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("program", PROGRAMS)
def test_every_program_checks_and_prints_its_settings(program, tmp_path):
    path = tmp_path / "config"
    path.write_text("[default]\nurl = http://127.0.0.1:9\ntoken = abcdefgh\n" if program == "duetime" else "[mysql]\nhost = there\npassword = abcdefgh\n")
    checked = ask(program, "--check-config", "--config", path)
    assert checked.returncode == 0 and "configuration is fine" in checked.stdout + checked.stderr, checked
    printed = ask(program, "--print-config", "--config", path)
    assert printed.returncode == 0 and "abcdefgh" not in printed.stdout and "= ***" in printed.stdout, printed
    path.write_text(printed.stdout)
    assert ask(program, "--print-config", "--config", path).stdout.splitlines()[1:2] == printed.stdout.splitlines()[1:2], "it can be read back"
    path.write_text("[nonsense\n")
    assert ask(program, "--check-config", "--config", path, *(["--context", "x"] if program == "duetime" else [])).returncode != 0


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_variable_that_nothing_reads_is_refused(program):
    for name, hint in (("DUETIME_MYSQL_HOTS", "[mysql] hots: unknown key"), ("DUETIME_TOKN", "no setting has this name")):
        told = ask(program, "--check-config", **{name: "x"})
        assert told.returncode != 0 and f"{name}: " in told.stderr and hint in told.stderr, told
    assert ask(program, "--check-config", DUETIME_API_SERVICE_HOST="10.0.0.1", DUETIME_API_PORT="tcp://10.0.0.1:8080").returncode == 0


def test_every_variable_that_this_tree_names_is_known():
    wrong = ("scheduler/base/config.c", "tests/unit/base/test_config.c", "tests/api/cli/test_cli_settings.py")
    text = subprocess.run(["git", "grep", "-hIE", "DUETIME_", "--", ".", *(f":!{path}" for path in wrong)], cwd=TREE, capture_output=True, text=True, check=True).stdout
    names = set(re.findall(r"\bDUETIME_[A-Z0-9_]*[A-Z0-9]\b", text)) - {"DUETIME_VERSION"}  # the version is a macro of C
    assert len(names) > 60
    told = run("--check-config", variables=dict.fromkeys(names, ""))
    assert told.code == 0, told

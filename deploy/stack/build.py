"""Builds the programs with a preset of CMakePresets.json into build/<preset>."""
import os
import pathlib
import re
import shutil
import subprocess

from . import locks, paths, say


def _run(argv, what, log):
    with open(log, "ab") as out, say.progress(what) as tell, \
            subprocess.Popen(argv, cwd=paths.TREE, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as running:
        for line in running.stdout:
            out.write(line)
            step = re.match(rb"\[(\d+/\d+)\]", line)  # Ninja's
            if step:
                tell(f"[{step[1].decode()}]")
    if running.returncode != 0:
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-40:])
        raise say.StackError(f"{what} failed; the end of {log}:\n{tail}")


def configure(preset, log):
    folder = paths.build_folder(preset)
    argv = ["cmake", "--preset", preset]
    if preset == "release":
        argv.append("-DDT_WERROR=OFF")  # a newer compiler may warn of more; tests/run is where warnings are errors
    if shutil.which("ccache"):
        argv.append("-DCMAKE_C_COMPILER_LAUNCHER=ccache")
    if not (folder / "build.ninja").exists():
        say.step(f"configuring build/{preset}")
        _run(argv, "cmake", log)


def build(preset, targets=("duetime-api", "duetime-dispatcher", "duetime")):
    """Brings the targets up to date. A tree that was built before costs a fraction of a second."""
    folder = paths.build_folder(preset)
    folder.mkdir(parents=True, exist_ok=True)
    with locks.held(folder.with_name(f"{preset}.lock")):
        log = folder / "build.log"
        log.write_bytes(b"")
        configure(preset, log)
        say.step(f"building {', '.join(targets)} ({preset})")
        _run(["cmake", "--build", folder, "--target", *targets], "the build", log)
    return folder


def program(preset, name):
    """Of the preset's folder; DUETIME_LOCAL_BUILD names another one, of another version say."""
    folder = pathlib.Path(os.environ.get("DUETIME_LOCAL_BUILD") or paths.build_folder(preset))
    where = {"duetime-api": folder / "api", "duetime-dispatcher": folder / "dispatcher", "duetime": folder / "api" / "cli"}[name]
    return where / name

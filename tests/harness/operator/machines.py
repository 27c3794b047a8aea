"""The stack's programs as machines that a person reaches by name: each a folder with a configuration file, and how to start and stop.

  $ON api1 "sed -i s/this/that/ $CONFIG && $RESTART"
"""
import shlex
import shutil

from ..stack import LOCAL
from . import clients

ON = """#!/bin/sh
# on MACHINE COMMAND: runs it there
cd {folder}/"$1" || exit 255
shift
exec sh -euc "$*"
"""
STOP = "{local} stop {part} >/dev/null"
KILL = "{local} kill {part} >/dev/null"
START = "{local} start {part} --config duetime.ini >/dev/null"


def executable(path, text):
    path.write_text(text)
    path.chmod(0o755)


def make_machine(stack, folder, part):
    """Its file is what its program has been started with so far."""
    folder.mkdir(parents=True)
    shutil.copy(stack.home / part / "duetime.ini", folder / "duetime.ini")
    for name, lines in (("stop", [STOP]), ("kill", [KILL]), ("start", [START]), ("restart", [STOP, START])):
        verbs = "\n".join(lines).format(local=LOCAL, part=part)
        executable(folder / name, f"#!/bin/sh -eu\nexport DUETIME_LOCAL_DIR={shlex.quote(str(stack.home))}\n{verbs}\n")


def make_machines(stack, folder):
    """The variables that deploy/disaster/README.md has a person set."""
    parts = [part for part in stack.parts() if part.startswith(("api", "dispatcher"))]
    for part in parts:
        make_machine(stack, folder / "machines" / part, part)
    executable(folder / "on", ON.format(folder=folder / "machines"))
    path = clients.make_programs(folder / "programs", stack["PATH"])
    return {"PATH": path, "DUETIME_URL": stack["DUETIME_URL"], "INSTALLATION": "duetime", "MYSQL": clients.of_stack(stack), "ON": folder / "on",
            "APIS": " ".join(part for part in parts if part.startswith("api")),
            "DISPATCHERS": " ".join(part for part in parts if part.startswith("dispatcher")),
            "CONFIG": "duetime.ini", "STOP": "./stop", "KILL": "./kill", "START": "./start", "RESTART": "./restart"}

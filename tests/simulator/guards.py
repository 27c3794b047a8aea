#!/usr/bin/python3
"""Takes the guards of the protocol out, one at a time, and lists what caught each.

A guard is marked in the sources by DT_GUARD, DT_GUARD_SQL or DT_UNGUARDED (scheduler/base/guard.h), and in a statement by
`-- guard: NAME` behind the line that it takes out (scheduler/**/*.sql). For each name the files that have it are compiled
once more with -DDT_WITHOUT_<NAME>=1 and linked with the other objects of the ordinary
simulator, which then runs seeds until an oracle objects. A guard that nothing misses is a failure, except those of
NOT_NEEDED, which say why.
"""
import argparse
import json
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

TREE = Path(__file__).resolve().parents[2]
BUILD = TREE / "build" / "release"
STATEMENTS = BUILD / "scheduler" / "statements.c"
MARK_SQL = re.compile(r"-- guard: ([A-Z_, ]*[A-Z_])")
MARK = re.compile(r"\bDT_(?:GUARD|GUARD_SQL|UNGUARDED)\(\s*(\w+)\b")

# What is still guarded once this one is out.
NOT_NEEDED = {
    "FILLED_FOR": "the shards that slots have left hand their entries on when they are due, and the reconciler fills in the rest; kept "
                  "because it does not depend on them",
    "EPOCH": "a leadership's token is never another's, so token and version say all that the epoch says; kept for people",
    "CALL_DOUBT_FIRST": "whoever was in doubt takes its shard over anew, which takes longer than finding out what became of the claim; kept because "
                        "it does not depend on that",
    "POP_STATE": "an offer's time is the one of a scheduled job: the deadline of a dispatched one is another, and a finished one has none, so "
                 "POP_DUE says all that the state says; kept because it is what is meant",
    "MAP_WAKE": "the reconciler's next round and every job that is handed on wake the leaders as well; kept because it is sooner",
}


def guards():
    """{name: [sources]}"""
    found = {}
    for folder in ("scheduler", "dispatcher", "tests/simulator"):
        for path in sorted((TREE / folder).rglob("*.[ch]")):
            if path.name == "guard.h":
                continue
            for name in MARK.findall(path.read_text(encoding="utf-8")):
                found.setdefault(name, set()).add(path)
    for path in sorted((TREE / "scheduler").rglob("*.sql")):
        for names in MARK_SQL.findall(path.read_text(encoding="utf-8")):
            for name in re.split(r",\s*", names):
                found.setdefault(name, set()).add(STATEMENTS)
    return {name: sorted(paths) for name, paths in sorted(found.items())}


def compile_commands():
    """{source: its compile command} of the ordinary simulator."""
    listed = json.loads((BUILD / "compile_commands.json").read_text(encoding="utf-8"))
    return {Path(entry["file"]): entry["command"] for entry in listed if "simulated.dir" in entry["command"]}


def link_command(target):
    listed = subprocess.run(["ninja", "-C", BUILD, "-t", "commands", target], capture_output=True, text=True, check=True)
    return listed.stdout.splitlines()[-1]


def build(name, sources, compiles, target="simulator"):
    """The simulator, or a suite on its servers, without this guard."""
    link = link_command(target)
    folder = BUILD / "guards" / name
    folder.mkdir(parents=True, exist_ok=True)
    for source in sources:
        if source not in compiles:
            continue
        words = shlex.split(compiles[source])
        was = words[words.index("-o") + 1]
        mine = folder / (source.stem + ".o")
        words[words.index("-o") + 1] = str(mine)
        done = subprocess.run([*words, f"-DDT_WITHOUT_{name}=1", "-Wno-error"], cwd=BUILD, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"{name}: {source.name} does not compile:\n{done.stderr}")
        link = link.replace(was, str(mine))
    program = folder / target
    link = re.sub(r"-o \S+", f"-o {program}", link, count=1)
    subprocess.run(link, shell=True, cwd=BUILD, check=True)
    return program


def attack(program, seeds, seconds, kinds):
    """(what caught it or None, seeds that ran)."""
    ran = 0
    for kind in kinds:
        which = [word for one in kind for word in ("--kind", str(one))]
        done = subprocess.run([program, "--seeds", str(seeds), "--seconds", str(seconds), "--first", *which],
                              capture_output=True, text=True, check=False)
        caught = re.search(r"^seed (\d+) FAILED: (.*)$", done.stdout, re.M)
        if caught:
            return f"{caught[2]} (seed {caught[1]} {' '.join(which)})".replace(" )", ")"), ran
        if done.returncode:
            return f"it ended with {done.returncode}: {done.stderr.strip()[-120:]}", ran
        counted = re.search(r"^(\d+) seeds, ", done.stdout, re.M)
        ran += int(counted[1]) if counted else 0
    return None, ran


def failures(program):
    done = subprocess.run([program], capture_output=True, text=True, check=False)
    return re.findall(r"^\[  FAILED  \] (\w+)$", done.stdout + done.stderr, re.M)


def failed_by(suite, program):
    """The test of the suite that fails with the guard taken out, and only then; None."""
    before = failures(BUILD / "tests" / "simulated" / suite)
    return next((f"{suite}: {test}" for test in failures(program) if test not in before), None)


# Where to look first: the kinds of faults that a guard is against, one set after the other; all kinds come last.
KINDS = {
    "CALL_ALREADY": [[19, 46]], "CALL_CONFIRMED": [[44, 3], [44, 25]], "CALL_DOUBT_FIRST": [[3, 24]], "CALL_DOUBT_HAS_ENDED": [[3], [44, 3], [3, 25], [44, 25]], "CALL_IN_HANDS": [[46], [46, 48]],
    "CALL_LEASE": [[45], [45, 24]], "CALL_NEVER_AGAIN": [[45], [45, 24]], "CALL_ORPHANS": [[44, 3], [44, 25]], "CALL_OUTCOME": [[45, 44]],
    "CALL_RENEWALS": [[19, 46]], "CALL_OWNER_GONE": [[46], [46, 44]], "CANCEL_IN_HANDS": [[46, 33], [44, 33]],
    "POP_DUE": [[47, 33], [48, 33]], "POP_IN_HANDS": [[48, 46], [48, 46, 34]], "POP_IN_TIME": [[47]], "POP_LOCK": [[47, 33]], "POP_STATE": [[47, 33], [48, 33]],
    "LIMIT_GATE": [[49], [49, 47]], "LIMIT_COUNT_AFTER_GATE": [[49], [49, 47]], "LIMIT_LEADER": [[49]], "LIMIT_LOWERED": [[49]], "LIMIT_POP": [[49, 47]], "LIMIT_PUT_LOCKS_GATE": [[49]],
    "INBOX_LOCK": [[54, 3], [54, 25], [54]], "INBOX_ORDER": [[54, 26], [54]], "COMMAND_PLACE": [[57], [57, 36]], "COMMAND_ORDER": [[57, 26]],
    "OPERATION_LOCK": [[55]], "OPERATION_CURSOR": [[55]], "OPERATION_STATE": [[55]],
    "BARRIER": [[9]], "BARRIER_TOKEN": [[19]], "CANCEL": [[33]], "CLAIM": [[33]], "DEADLINE": [[34, 35]],
    "DEADLINE_GREATEST": [[35]], "ENDTXN_COUNT": [[14]], "EPOCH": [[19, 12], [10, 12]], "REFUSAL": [[18, 12]], "LIST_ELSEWHERE": [[39, 5], [39, 34]], "LIST_FROZEN": [[48, 17], [48, 16]], "HAND_ON": [[39]], "LED_UNTIL_EMPTY": [[39, 8], [39, 6]], "MAP_WAKE": [[39]], "ORPHANS": [[39, 36]],
    "REFUSAL_LAST": [[18, 12, 8]], "LEDGER_END": [[43, 8], [19]], "LEDGER_ANCHOR": [[19, 8]], "LEDGER_LIST": [[19]], "LEDGER_ONE": [[19]],
    "LEDGER_RANGE": [[19]], "REST": [[18]], "RESULT": [[34, 33]], "RESULT_ATTEMPT": [[34]], "STRANGERS": [[41]], "TOKEN": [[19]], "UNREAD": [[42], [42, 36]], "TRIM_YOUNG": [[43, 8], [43, 13]], "VERSION": [[19]],
}


# What every world shields by another guard, a suite on the simulator's servers shows.
SUITES = {
    "POP_IN_HANDS": "simulated_test_store_pop",  # a report, a change of the delivery and a pop while a callback is under way
    "LIST_FROZEN": "simulated_test_store_dispatch",  # timeouts and claims of jobs whose attempts Kafka may not have yet
    "DEADLINE": "simulated_test_store_dispatch",  # UNREAD has read up to an instant of the past, where results come by Kafka
}


# No world shows these; a test on real servers does, which fails with the rule taken out (its file, its name).
ON_REAL_SERVERS = {
    "COMMAND_NEXT": ("tests/integration/intake/test_commands.py", "test_a_cancel_read_twice_does_not_cancel_a_newer_job_with_the_key"),
    "OPERATION_IN_FLIGHT": ("tests/contract/features/test_store_operations.c", "jobs_that_changed_after_they_were_found_are_refused"),
}


def on_real_servers(name):
    """The test that shows it, which is there; None."""
    path, test = ON_REAL_SERVERS.get(name, (None, None))
    return f"no world: {path} {test}" if path and test in (TREE / path).read_text(encoding="utf-8") else None


def catch(name, sources, compiles, options):
    """(what caught it or None, seeds that ran)."""
    suite, elsewhere = SUITES.get(name), on_real_servers(name)
    if elsewhere:
        return elsewhere, 0
    caught = suite and failed_by(suite, build(name, sources, compiles, suite))
    return (caught, 0) if caught else attack(build(name, sources, compiles), options.seeds, options.seconds, [*KINDS.get(name, []), []])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--guards", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--seeds", type=int, default=100000, help="of each kind of faults that is tried")
    parser.add_argument("--seconds", type=int, default=60, help="likewise")
    parser.add_argument("names", nargs="*", metavar="GUARD", help="only these")
    options = parser.parse_args()
    if not (BUILD / "build.ninja").exists():
        subprocess.run(["cmake", "--preset", "release"], cwd=TREE, check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", BUILD, "--target", "simulator", *SUITES.values()], check=True, stdout=subprocess.DEVNULL)
    unguarded, _ = attack(BUILD / "tests" / "simulator" / "simulator", 200, 30, [[]])
    if unguarded:
        sys.exit(f"with all guards in place: {unguarded}")
    compiles = compile_commands()
    missed = 0
    for name, sources in guards().items():
        if options.names and name not in options.names:
            continue
        start = time.monotonic()
        caught, ran = catch(name, sources, compiles, options)
        good = caught is not None or name in NOT_NEEDED
        missed += not good
        told = caught or f"nothing in {ran} seeds; {NOT_NEEDED.get(name, 'NOT CAUGHT')}"
        print(f"{'ok  ' if good else 'FAIL'} {name:20} {told}  [{time.monotonic() - start:.0f} s]", flush=True)
    print(f"{missed} guards can be taken out and nobody notices" if missed else "every guard that was taken out was caught, or is not needed for the reason given")
    return missed != 0


if __name__ == "__main__":
    sys.exit(main())

"""The command line of tests/mutants."""
import argparse
import contextlib
import os
import signal
import sys
import time

from runner import cli, tree

from . import campaign, concerns, faults, workshop
from .account import Account, Times
from .trial import Trials

AREAS = ("scheduler", "dispatcher", "api")


def parser():
    top = argparse.ArgumentParser(prog="tests/mutants", description="Plants small faults, one at a time, and tells which of them no suite notices.")
    top.add_argument("where", nargs="*", default=list(AREAS), help="C files, lines of them (FILE:LINE), or folders; without any: scheduler dispatcher api")
    top.add_argument("--count", type=int, default=20, help="so many faults (20)")
    top.add_argument("--seed", default="1", help="what is drawn, in which order (1)")
    top.add_argument("--minutes", type=float, default=60, help="no fault is begun later (60)")
    top.add_argument("--seconds", type=float, help="the same in seconds")
    top.add_argument("--kind", choices=faults.KINDS, action="append", help="only faults of this kind")
    top.add_argument("--only", metavar="NAME", action="append", help="only the faults of these names")
    top.add_argument("--with", dest="more", metavar="SUITE", action="append", default=[], help="a suite more for every fault, such as api/test_batch")
    top.add_argument("--suites", metavar="KIND", choices=concerns.ORDER, action="append", help="only suites of this kind (what passes them is open, and a later campaign goes on with the others): " + ", ".join(concerns.ORDER))
    top.add_argument("--without-servers", action="store_true", help="runs no suite that needs servers")
    top.add_argument("--again", action="store_true", help="tries survivors of earlier campaigns again")
    top.add_argument("--list", action="store_true", help="prints what would be drawn, and plants nothing")
    top.add_argument("--tell", action="store_true", help="prints what is known of what would be drawn, and plants nothing")
    top.add_argument("--judge", nargs=2, metavar=("NAME", "WHY"), help="notes that a survivor makes no difference, and why")
    return top


def sources(where):
    """{name of a C file, from the top of the tree: the lines that are asked for; none: all of them}"""
    found = {}
    for name in where:
        name, _, line = name.partition(":")
        path = tree.TREE / name
        if path.suffix == ".c" and path.is_file():
            paths = [path]
        elif path.is_dir() and not line:
            paths = sorted(path.rglob("*.c"))
        else:
            raise SystemExit(f"tests/mutants: {name} is neither a C file nor a folder")
        for path in paths:
            lines = found.setdefault(str(path.relative_to(tree.TREE)), set())
            lines |= {int(line)} if line else set()
    return found


def drawn(arguments, wanted, texts):
    all_faults = [fault for path, text in texts.items() for fault in faults.faults_of(path, text) if not wanted[path] or fault.line in wanted[path]]
    if arguments.only:
        return [fault for fault in all_faults if fault.name in arguments.only]
    chosen = [fault for fault in all_faults if not arguments.kind or fault.kind in arguments.kind]
    return faults.drawn(chosen, arguments.seed)


def judge(account, name, why):
    if name not in account.lines:
        raise SystemExit(f"tests/mutants: no fault {name} was tried")
    account.add({**account.lines[name], "outcome": "judged", "why": why})


def known(account, order, texts, count):
    entries = []
    for fault in order:
        entry = account.known(fault, texts[fault.path])
        if entry and entry["outcome"] != "does not compile" and len(entries) < count:
            entries.append(entry)
    return entries


def say(text):
    print(f"[{time.strftime('%H:%M:%S')}] {text}", flush=True)


def work(arguments, account, order, texts):
    until = time.monotonic() + (arguments.seconds or arguments.minutes * 60)
    shop = workshop.Workshop(say)
    say("building the copy")
    shop.refresh()
    targets = shop.targets()

    def suites_of(path):
        found = [*concerns.suites_of(path, targets), *arguments.more]
        return sorted(dict.fromkeys(found), key=lambda suite: concerns.ORDER.index(suite.split("/")[0]))

    def runs(suite):
        kind = suite.split("/")[0]
        return (not arguments.suites or kind in arguments.suites) and not (arguments.without_servers and concerns.needs_servers(suite))

    again = campaign.PASSED if arguments.again or arguments.only else ()
    with contextlib.ExitStack() as stack:
        long = os.environ.get("DUETIME_TEST_LONG")  # with all tests that take turns a suite takes another time
        times = Times(workshop.HOME / ("suites-long.json" if long else "suites.json"), shop.tree)
        made = campaign.Campaign(shop, Trials(stack), account, suites_of, say, runs, times)
        return made.run(order, texts, len(order) if arguments.only else arguments.count, until, again)


def main():
    for number in (signal.SIGINT, signal.SIGTERM):  # so that servers are taken down on both
        signal.signal(number, cli.interrupt)
    arguments = parser().parse_args()
    os.environ.setdefault("DUETIME_TEST_SEED", "1")
    account = Account(workshop.HOME / "account.jsonl")
    if arguments.judge:
        return judge(account, *arguments.judge)
    wanted = sources(arguments.where)
    texts = {path: (tree.TREE / path).read_text(encoding="utf-8") for path in wanted}
    order = drawn(arguments, wanted, texts)
    if arguments.list:
        for fault in order[:arguments.count]:
            print(f"{fault.name} {fault.path}:{fault.line} {fault.kind}\n{campaign.difference(fault, texts[fault.path])}\n")
        return 0
    entries = []
    try:
        entries = known(account, order, texts, arguments.count) if arguments.tell else work(arguments, account, order, texts)
    except KeyboardInterrupt:
        print("tests/mutants: interrupted; the same command goes on from here", file=sys.stderr)
        return 130
    except workshop.CannotBuild as error:
        print(f"tests/mutants: the tree does not build without any fault\n{error}", file=sys.stderr)
        return 2
    campaign.tell(entries)
    return 0


if __name__ == "__main__":
    sys.exit(main())

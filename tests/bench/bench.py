"""What every group of figures is given: stacks that end with it, interleaved rounds, and a place for its figures."""
import contextlib
import statistics
import traceback

from harness.stack import Stack

import account
import surroundings
import table
from report import Figure

QUIET_PERCENT = 0.5  # of the machine's time that its host takes: beyond that a latency is the host's
QUIET_TRIES = 4      # rounds are taken at most so many times as are wanted


class Bench:
    def __init__(self, options, say):
        self.options, self.say = options, say
        self.quick = options.quick
        self.figures, self.problems = [], []
        self.servers = {}
        self._group = contextlib.ExitStack()
        self._accounts = []

    # ---- what a group asks for ----

    def stack(self, *options, name="bench"):
        """A fresh stack with the release build; taken down at the group's end. By default 1 API, 2 dispatchers, 1 Redis, 2 shards."""
        stack = Stack(name, *table.OPTIONS, *options)
        self._group.callback(stack.reset)
        try:
            stack.up()
        except BaseException:
            self.say(stack.logs())
            raise
        self.servers = surroundings.of_servers(stack)
        return stack

    def at_end(self, action):
        """Done when the group ends, whatever happens."""
        self._group.callback(action)

    def account(self, stack):
        """Closed with the group: jobs that are missing then fail the run."""
        self._accounts.append(account.Account(stack))
        return self._accounts[-1]

    def seconds(self, long, short):
        return short if self.quick else long

    def count(self, many, few):
        return few if self.quick else many

    def rounds(self, ours, bare, times):
        """bare, ours, bare, ours, … bare: [(ours, mean of the two bare neighbours)]."""
        found, before = [], bare()
        for _ in range(times):
            measured, after = ours(), bare()
            found.append((measured, (before + after) / 2))
            before = after
        return found

    def quiet_rounds(self, measure, times):
        """(what `measure` gave in so many rounds, a note on them): those in which the host took least from the machine. One in which it took
        more than a quiet machine loses is told, and taken again, a bounded number of times."""
        found = []
        while sum(stolen <= QUIET_PERCENT for stolen, _, _ in found) < times and len(found) < QUIET_TRIES * times:
            before = surroundings.cpu_ticks()
            measured = measure()
            found.append((surroundings.stolen_percent(before), len(found), measured))
            if found[-1][0] > QUIET_PERCENT:
                self.say(f"  the host took {found[-1][0]} % of the machine in a round, which gave {measured}")
        kept = sorted(found)[:times]
        note = f"the host took {kept[-1][0]} % at most" + (f", and more in {len(found) - times} rounds set aside" if len(found) > times else "")
        return [measured for _, _, measured in sorted(kept, key=lambda one: one[1])], note

    def figure(self, goal, name, values, unit=None, note=""):
        """`values`: one a round. `goal`: of goals.py, or None for what has none."""
        figure = Figure(goal, name, values if isinstance(values, (list, tuple)) else [values], unit, note)
        self.figures.append(figure)
        self.say("  " + "  ".join(cell for cell in figure.cells() if cell))

    def ratio(self, goal, name, pairs, what="the loader", note=""):
        """A figure of pairs from rounds()."""
        self.figure(goal, name, [ours / bare for ours, bare in pairs],
                    note=f"{statistics.median(ours for ours, _ in pairs):,.0f}/s of {what}'s "
                         f"{statistics.median(bare for _, bare in pairs):,.0f}/s" + (f"; {note}" if note else ""))

    # ---- how a group is run ----

    def run(self, name, module):
        self.say(f"{name}: {module.__doc__.splitlines()[0]}")
        self._accounts = []
        with self._group:
            try:
                module.measure(self)
                for entry in self._accounts:
                    self.say(f"  account: {entry.check()}")
            except account.Missing as missing:
                self.problems.append(f"{name}: {missing}")
                self.say(f"  MISSING: {missing}")
            except Exception as failure:  # the other groups are measured all the same
                self.problems.append(f"{name} failed: {failure}")
                self.say(traceback.format_exc())

"""A campaign: faults are drawn, planted one at a time, and tried against the suites that concern their file until one fails.

   drawn ─▶ does not compile ─▶ drawn again
         ─▶ the same object code ─▶ equivalent
         ─▶ a suite fails or hangs ─▶ caught
         ─▶ all pass ─▶ survived
         ─▶ some pass, the others were not to be run ─▶ open: a later campaign goes on with the others

Before its first fault a suite is run without any: one that fails then decides nothing, and its time gives the deadline for the faults. What
fails on real servers, or in a suite that takes seconds, or on a machine that is told to be busy, must fail twice, so that others' work catches
nothing; a suite that hangs has noticed.
"""
import difflib
import time

from .account import digest
from .concerns import needs_servers
from .trial import busy

PASSED = ("open", "survived")
LONG = 2  # seconds: what waits for something may fail for want of time


def difference(fault, text):
    lines = difflib.unified_diff(text.splitlines(), fault.planted(text).splitlines(), fault.path, fault.path, lineterm="", n=2)
    return "\n".join(lines)


class Campaign:
    def __init__(self, shop, trials, account, suites_of, say, runs=lambda _: True, times=None):
        self.shop, self.trials, self.account, self.suites_of, self.say = shop, trials, account, suites_of, say
        self.runs = runs  # whether a suite is to be run now
        self.seconds = {} if times is None else times  # suite -> its time without a fault; None when it fails then

    def usable(self, suite, fault):
        """Whether the suite passes without any fault: it was run so once, or twice."""
        if suite not in self.seconds:
            self.shop.restore(fault.path)
            good, what, seconds = False, "it does not build", 0
            if self.shop.build(self.trials.target(suite)):
                good, what, seconds = self.trials.run(suite)
                if not good:
                    good, what, seconds = self.trials.run(suite)
            self.seconds[suite] = seconds if good else None
            self.say(f"{suite} without a fault: {seconds:.1f} s" if good else f"{suite} fails without any fault ({what}): left out")
        return self.seconds[suite] is not None

    def caught_by(self, suite):
        """What of the suite failed; None when all passed."""
        deadline = 20 + 4 * self.seconds[suite]
        good, what, _ = self.trials.run(suite, deadline)
        waits = busy() or needs_servers(suite) or self.seconds[suite] > LONG
        if not good and what != "no end" and waits and suite != "sim":
            single = what if what.startswith("test_") and "[" not in what else None
            good, what, _ = self.trials.run(suite, deadline, single)
        return None if good else what

    def judge(self, fault, text, passed):
        """(outcome, suite, what failed, suites that were run); `passed`: suites that the fault has passed before"""
        planted = fault.planted(text)
        verdict = None if passed else self.shop.verdict(fault.path, planted)
        if verdict is not None:
            return verdict, None, None, []
        run, open_ones = list(passed), False
        for suite in self.suites_of(fault.path):
            if suite in passed:
                continue
            if not self.runs(suite):
                open_ones = True
                continue
            if not self.usable(suite, fault):
                continue
            self.shop.write(fault.path, planted)
            if not self.shop.build(self.trials.target(suite)):
                return "does not compile", None, None, []
            run.append(suite)
            what = self.caught_by(suite)
            if what is not None:
                return "caught", suite, what, run
        return "open" if open_ones else "survived", None, None, run

    def one(self, fault, text, passed=()):
        begun = time.monotonic()
        try:
            outcome, suite, what, run = self.judge(fault, text, passed)
        finally:
            self.shop.restore(fault.path)
        entry = {"name": fault.name, "path": fault.path, "line": fault.line, "kind": fault.kind, "outcome": outcome, "by": suite, "what": what,
                 "suites": run, "seconds": round(time.monotonic() - begun, 1), "file": digest(text), "diff": difference(fault, text)}
        self.account.add(entry)
        return entry

    def settled(self, entry, again):
        """Whether what is known of a fault will do; what survived some suites has not survived others."""
        if entry is None or entry["outcome"] in again:
            return False
        wanted = {suite for suite in self.suites_of(entry["path"]) if self.runs(suite)}
        return entry["outcome"] not in PASSED or wanted <= {*entry["suites"], *self.left_out()}

    def left_out(self):
        return {suite for suite, seconds in self.seconds.items() if seconds is None}

    def tried(self, fault, text, again):
        """The entry of the fault, which is tried if need be; None while another campaign is at it."""
        with self.account.claimed(fault.name) as ours:
            entry = self.account.known(fault, text)
            if not ours or self.settled(entry, again):
                return entry if ours else None
            passed = entry["suites"] if entry and entry["outcome"] in PASSED and entry["outcome"] not in again else ()
            entry = self.one(fault, text, passed)
        by = f" by {entry['by']}: {entry['what']}" if entry["by"] else ""
        self.say(f"{entry['outcome']}{by}  {fault.name} {fault.path}:{fault.line} {fault.kind}  [{entry['seconds']:.0f} s]")
        return entry

    def run(self, faults, texts, count, until, again=()):
        """Tries faults in their order until `count` have an outcome; gives their entries. `again`: outcomes that are tried again."""
        entries, elsewhere = [], 0
        for fault in faults:
            if len(entries) + elsewhere == count:
                break
            entry = self.account.known(fault, texts[fault.path])
            if not self.settled(entry, again):
                if time.monotonic() > until:
                    self.say("the time is over; the same command goes on from here")
                    break
                entry = self.tried(fault, texts[fault.path], again)
            if entry is None:
                elsewhere += 1
            elif entry["outcome"] != "does not compile":
                entries.append(entry)
        if self.left_out():
            self.say(f"decided nothing, for they fail without any fault: {' '.join(sorted(self.left_out()))}")
        return entries


def tell(entries, out=print):
    """Survivors with their diffs and the suites that they passed, then the sum by area, then the sum."""
    for entry in entries:
        if entry["outcome"] == "survived":
            out(f"\nsurvived {entry['name']} {entry['path']}:{entry['line']} ({entry['kind']}); passed {' '.join(entry['suites']) or 'nothing: no suite concerns it'}")
            out(entry["diff"])
        elif entry["outcome"] == "judged":
            out(f"\njudged to be equivalent {entry['name']} {entry['path']}:{entry['line']}: {entry['why']}")
    areas = sorted({entry["path"].rsplit("/", 1)[0] for entry in entries})
    out("")
    for area in areas:
        out(f"{area:24} {sum_of([entry for entry in entries if entry['path'].rsplit('/', 1)[0] == area])}")
    for kind in sorted({entry["by"].split("/")[0] for entry in entries if entry.get("by")}):
        out(f"caught by {kind:14} {sum((entry['by'] or '').split('/')[0] == kind for entry in entries)}")
    out(f"{'all':24} {sum_of(entries)}")


def sum_of(entries):
    number = {outcome: sum(entry["outcome"] == outcome for entry in entries) for outcome in ("caught", "survived", "open", "equivalent", "judged")}
    counted = number["caught"] + number["survived"]
    rate = f", {100 * number['caught'] / counted:.0f} % of those that make a difference" if counted else ""
    waiting = f", {number['open']} open: not all suites have seen them" if number["open"] else ""
    return f"{number['caught']} caught, {number['survived']} survived, {number['equivalent'] + number['judged']} equivalent{rate}{waiting}"

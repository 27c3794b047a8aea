#!/usr/bin/python3
"""tests/mutants on a tree of one small file: what it plants, what it draws, and what it says of each fault. A second's work."""
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from mutation import campaign, concerns, faults, trial  # noqa: E402
from mutation.account import Account  # noqa: E402

TEXT = r'''/* a < b in a comment, "a && b" as well */
#include <stdbool.h>
#define MOST 1000
typedef int dt_status;
enum { DT_OK, DT_FULL };
struct queue { int n, bytes; bool closed; };
static dt_status check(int n) { return n > MOST ? DT_FULL : DT_OK; }

dt_status put(struct queue *queue, int bytes)
{
    dt_status status = check(queue->n + 1);
    if (status != DT_OK || queue->closed)
        return status;
    queue->n++;
    queue->bytes += bytes;
    return DT_OK;
}

int room(int have, int want)
{
    unsigned none = 0;
    while (have < want)
        have++;
    if (none < 0 && !want)
        return 0;
    return have - want;
}

dt_status first(struct queue *a, struct queue *b)
{
    log_debug("a && b", 7);
    for (int i = 0; i < 9; i++) {
        if (DT_GUARD(EPOCH, a->n == b->n))
            break;
    }
    return put(a, 5);
}
'''
TEST = r'''
#define DT_GUARD(name, condition) (condition)
#define log_debug(...) (void)0
#include "small.c"
int main(void)
{
    struct queue queue = {0, 0, false};
    return put(&queue, 3) != DT_OK || queue.n != 1 || room(2, 5) != 0;
}
'''

# The line, the kind, what stands there and what is planted: of each kind what a reader expects.
PLANTED = [
    (12, "comparison", "!=", "=="), (12, "and-or", "||", "&&"), (12, "condition", "queue->closed", "false"), (12, "condition", "status != DT_OK", "false"),
    (12, "condition", "status != DT_OK || queue->closed", "((void)(status != DT_OK || queue->closed), false)"),
    (11, "lost-status", "check(queue->n + 1)", "((void)(check(queue->n + 1) == DT_OK), DT_OK)"), (11, "term", "+ 1", ""), (11, "constant", "1", "0"),
    (14, "forgotten", "queue->n++;", "{}"), (15, "forgotten", "queue->bytes += bytes;", "{}"), (22, "comparison", "<", "<="), (24, "negation", "!", ""),
    (26, "swapped", None, None), (32, "swapped", None, None), (34, "jump", "break;", "{}"), (36, "swapped", "a, 5", "5, a"), (3, "size", "1000", "100000"),
]
ABSENT = {26, 32}  # nothing is swapped in what is no call, nor in what logs


def expect(good, what):
    if not good:
        raise SystemExit(f"selftest of tests/mutants: {what}")


def what_is_planted():
    found = faults.faults_of("small.c", TEXT)
    told = {(fault.line, fault.kind, fault.old, fault.new) for fault in found}
    for line, kind, old, new in PLANTED:
        if line in ABSENT:
            expect(not any(fault[:2] == (line, kind) for fault in told), f"line {line} has {kind}")
        else:
            expect((line, kind, old, new) in told, f"no {kind} at line {line}: {old} -> {new}")
    expect({fault.kind for fault in found} >= set(faults.KINDS) - {"sql"}, "a kind is never planted")
    expect(not any(fault.line == 1 for fault in found), "a comment is changed")
    expect(not any("EPOCH" in fault.old or fault.old == "a->n == b->n" for fault in found), "a guard of the protocol is taken out")
    expect(all(fault.planted(TEXT).count("\n") == TEXT.count("\n") for fault in found), "lines move")
    sql = faults.faults_of("s.c", 'void f(void)\n{\n    ask("UPDATE jobs SET n = n + 1 WHERE n <= ? AND state = 2 AND m = ?");\n}\n')
    expect({fault.old for fault in sql if fault.kind == "sql"} == {" + 1", "<=", " AND state = 2"}, "SQL is not changed as it should be")


def what_is_drawn():
    one, two = (faults.drawn(faults.faults_of("small.c", TEXT), seed) for seed in ("1", "2"))
    expect(one == faults.drawn(faults.faults_of("small.c", TEXT), "1"), "the same seed draws something else")
    expect([fault.name for fault in one] != [fault.name for fault in two], "every seed draws the same")
    moved = TEXT.replace("int room", "/* two\n * lines */\nint other(int n)\n{\n    return n * 3;\n}\n\nint room")
    names = [fault.name for fault in faults.drawn(faults.faults_of("small.c", moved), "1")]
    kept = [fault.name for fault in one]
    expect([name for name in names if name in kept] == kept, "what somebody adds elsewhere changes what is drawn")


class Shop:
    """A workshop of one file."""

    def __init__(self, folder):
        self.folder = folder
        (folder / "test.c").write_text(TEST)
        self.restore("small.c")

    def write(self, path, text):
        (self.folder / path).write_text(text)

    def restore(self, path):
        self.write(path, TEXT)

    def _gcc(self, *words):
        return subprocess.run(["gcc", "-Werror=int-conversion", *words], cwd=self.folder, capture_output=True, check=False).returncode == 0

    def build(self, _targets):
        return self._gcc("-o", "test", "test.c")

    def verdict(self, path, text):
        objects = []
        for each in (TEXT, text):
            self.write(path, each)
            objects.append(self._gcc("-O2", "-c", "-o", "test.o", "test.c") and (self.folder / "test.o").read_bytes())
        return "does not compile" if not objects[1] else "equivalent" if objects[0] == objects[1] else None


class Trials:
    def __init__(self, folder):
        self.folder, self.runs = folder, []

    @staticmethod
    def target(suite):
        return [suite]

    def run(self, suite, seconds=None, _only=None):
        self.runs.append(suite)
        if suite == "unit/test_broken":
            return False, "it_never_passes", 0
        if suite == "contract/test_flaky":
            good = self.runs.count(suite) % 2 == 0  # fails every other time, as on a busy machine
            return good, "sometimes", 0
        try:
            code = subprocess.run([self.folder / "test"], timeout=1, check=False).returncode
        except subprocess.TimeoutExpired:
            return False, "no end", 1
        return code == 0, f"exit code {code}", 0


WANTED = {("forgotten", "queue->n++;"): "caught", ("forgotten", "queue->bytes += bytes;"): "survived", ("forgotten", "have++;"): "caught",
          ("condition", "!want"): "equivalent", ("swapped", "a, 5"): "does not compile"}


def wanted():
    found = faults.faults_of("small.c", TEXT)
    for (kind, old), outcome in WANTED.items():
        yield next(fault for fault in found if fault.kind == kind and fault.old == old), outcome


def what_is_said(folder):
    shop, trials, account = Shop(folder), Trials(folder), Account(folder / "account.jsonl")
    made = campaign.Campaign(shop, trials, account, lambda _: ["unit/test_broken", "unit/test_small", "contract/test_flaky"], lambda _: None)
    chosen = dict(wanted())
    texts, until = {"small.c": TEXT}, time.monotonic() + 100
    entries = made.run(list(chosen), texts, len(chosen), until)
    for fault, outcome in chosen.items():
        expect(account.lines[fault.name]["outcome"] == outcome, f"{fault.old} is {account.lines[fault.name]}, not {outcome}")
    expect(len(entries) == len(chosen) - 1, "what does not compile counts")
    survivor = next(entry for entry in entries if entry["outcome"] == "survived")
    expect(survivor["suites"] == ["unit/test_small", "contract/test_flaky"], "a suite that fails without a fault decides, or a flaky one does")
    expect("-    queue->bytes += bytes;\n" in survivor["diff"], "the diff does not show it")
    expect((folder / "small.c").read_text() == TEXT, "a fault stays in the copy")
    before = len(trials.runs)
    fewer = campaign.Campaign(shop, trials, Account(folder / "account.jsonl"), lambda _: ["unit/test_small"], made.say)
    again = fewer.run(list(chosen), texts, len(chosen), 0)
    expect(again == entries and len(trials.runs) == before, "a second campaign does not go on where the first one ended")
    more = campaign.Campaign(shop, trials, Account(folder / "account.jsonl"), lambda _: ["unit/test_small", "unit/test_more"], made.say)
    more.run(list(chosen), texts, len(chosen), until)
    expect(trials.runs[before:].count("unit/test_more") == 2, "what survived other suites is not tried again")
    what_waits_for_servers(shop, trials, Account(folder / "open.jsonl"), next(fault for fault in chosen if fault.name == survivor["name"]))
    lines = []
    campaign.tell(entries, lines.append)
    expect(lines[-1].endswith("2 caught, 1 survived, 1 equivalent, 67 % of those that make a difference"), f"the sum is {lines[-1]}")


def what_waits_for_servers(shop, trials, account, fault):
    """Without servers the fault stays open; a later campaign goes on with the suites that need them."""
    def run(servers):
        made = campaign.Campaign(shop, trials, account, lambda _: ["unit/test_small", "contract/test_more"], lambda _: None, lambda suite: servers or not concerns.needs_servers(suite))
        begun = len(trials.runs)
        entry, = made.run([fault], {"small.c": TEXT}, 1, time.monotonic() + 100)
        return entry["outcome"], entry["suites"], trials.runs[begun:]
    outcome, suites, ran = run(False)
    expect((outcome, suites, set(ran)) == ("open", ["unit/test_small"], {"unit/test_small"}), f"without servers it is {outcome} after {ran}")
    expect(run(False) == ("open", ["unit/test_small"], []), "what is open is tried again without servers")
    outcome, suites, ran = run(True)
    expect((outcome, suites, set(ran)) == ("survived", ["unit/test_small", "contract/test_more"], {"contract/test_more"}), f"with servers it is {outcome} after {ran}")


def what_concerns_a_file():
    targets = {"unit_test_inflight": None, "simulated_test_store_dispatch": None, "simulator": None, "contract_test_store_dispatch": None}
    expect(concerns.suites_of("scheduler/job/inflight.c", targets) == ["unit/test_inflight", "simulated/test_store_dispatch", "sim", "contract/test_store_dispatch", "api/test_create", "api/test_changes", "api/test_failing_statements"],
           f"claims.c concerns {concerns.suites_of('scheduler/job/inflight.c', targets)}")


def what_runs_again_alone():
    """A test that failed in its turn is run again alone, though it takes turns; that no test is run decides nothing then."""
    asked = []

    def run(_argv, _seconds, environment, **_more):
        asked.append(environment.get("DUETIME_TEST_LONG"))
        return 5, ""
    real, trial.command.run = trial.command.run, run
    copy, trial.COPY = trial.COPY, Path(__file__).resolve().parents[2]
    try:
        trials = trial.Trials(None)
        trials.kept = True
        whole, alone = trials.run("api/test_batch")[0], trials.run("api/test_batch", 1, "test_it")[0]
    finally:
        trial.command.run, trial.COPY = real, copy
    expect((whole, alone, asked[-1]) == (True, False, "1"), f"a suite without tests is {whole}, a test that is not run {alone}, asked with {asked}")
    expect("duetime" in trials.target("api/test_cli"), "the command line stays as it was")
    for suite, wanted in (("api/test_limits", True), ("api/test_failing_statements", True), ("api/test_batch", False), ("integration/test_life", False)):
        expect(("nth_api" in trials.target(suite)) == wanted, f"{suite}: programs whose calls fail are {'not ' if wanted else ''}built")


def whether_all_suites_are_there():
    expect(not concerns.misnamed(), f"no such suites: {concerns.misnamed()}")


def main():
    whether_all_suites_are_there()
    what_is_planted()
    what_is_drawn()
    what_concerns_a_file()
    what_runs_again_alone()
    with tempfile.TemporaryDirectory() as folder:
        what_is_said(Path(folder))


if __name__ == "__main__":
    main()

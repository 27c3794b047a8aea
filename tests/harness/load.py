"""A seeded load of every kind of request over both APIs, its journal, and the account afterwards.

  with under_load(stack, seed) as run:
      stack.signal("dispatcher1", signal.SIGSTOP)     # the fault
      ...
      stack.signal("dispatcher1", signal.SIGCONT)     # healing
      run.goes_on()                                   # O7; leaving the block ends the load, waits for quiet, checks O1-O6

Singles with and without keys, puts by key, bulk; changes and cancels around the due instant; results of every kind: success,
failure, snooze, extension, giving up, silence, repeats, stale and forged ones, over Kafka and over REST; with `edits`, changes
by SQL as well. Whoever gets no answer to a create with a key asks again with the same key until there is one.

With `kinds` jobs leave by callback and by pop, too (deliveries/ways.py).

The seed decides what is asked for and with which intent; which moment the parts are in when it arrives, nobody can repeat.
"""
import contextlib
import heapq
import http.client
import itertools
import json
import os
import pathlib
import random
import shutil
import threading
import time
import traceback
import uuid
import zlib
from collections import Counter

from .checker import Checker, connect, lateness, now_ms, rows, summary
from .consumer import NoConsumer, TestConsumer
from .deliveries.ways import Ways
from .journal import Journal
from .rest import Rest
from .retries import ACK_SECONDS, LAST_WORD, RETRY
from .soak import rfc3339
from .stack import PATIENCE, TREE, until

FAR = 50 * 60 * 1000     # some jobs are due so late that they stay, within the horizon of the index
ARTEFACTS = pathlib.Path(os.environ.get("DUETIME_TEST_ARTEFACTS", TREE / ".local" / "artefacts"))


class Later(threading.Thread):
    """Calls things at their times, in order; what is left when it is ended is called at once or dropped."""

    def __init__(self):
        super().__init__(daemon=True)
        self._heap, self._count = [], itertools.count()
        self._changed = threading.Condition()
        self._open = True
        self.failure = None
        self.start()

    def at(self, ms, call, *arguments):
        with self._changed:
            heapq.heappush(self._heap, (ms, next(self._count), call, arguments))
            self._changed.notify()

    def run(self):
        try:
            while True:
                with self._changed:
                    while self._open and (not self._heap or self._heap[0][0] > now_ms()):
                        self._changed.wait(max(0.0005, (self._heap[0][0] - now_ms()) / 1000) if self._heap else None)
                    if not self._open:
                        return
                    _, _, call, arguments = heapq.heappop(self._heap)
                call(*arguments)
        except Exception as failure:
            self.failure = failure
            raise

    def empty(self):
        with self._changed:
            return not self._heap

    def end(self, drop=False):
        if not drop:
            until(lambda: self.empty() or self.failure, "all postponed actions done")
        with self._changed:
            self._open = False
            self._changed.notify()
        self.join(30)


class Client:
    """Asks an API and writes down what the answer means. One thread each (connections are per thread)."""

    def __init__(self, url, journal, counts):
        self.rest, self.journal, self.counts = Rest(url, timeout=30), journal, counts

    def ask(self, method, path, body=None, **options):
        """The answer, or None when there was none: then the request may or may not have been carried out. A connection
        that was refused asked for nothing: False."""
        try:
            return self.rest.ask(method, path, body, **options)
        except ConnectionRefusedError:
            time.sleep(0.05)  # nobody listens: no need to spin
            return False
        except (OSError, ValueError, http.client.HTTPException):
            return None


    def create(self, job, serial, due_ms, put=False):
        """The id; None when it is not known to exist."""
        self.journal.asked(serial, due_ms)
        if put:
            answer = self.ask("PUT", f"/v1/topics/{job['topic']}/jobs/{job['key']}", job)
        else:
            answer = self.ask("POST", "/v1/jobs", job)
        self.counts["creates"] += 1
        return self.told(answer, answer.status if answer else 0, answer.json if answer and answer.body else {}, serial, due_ms, "key" in job)

    def told(self, answer, status, document, serial, due_ms, again):
        if status in (200, 201):
            self.journal.made(document["id"], due_ms, serial)
            return document["id"]
        self.counts["creates without a 2xx"] += 1
        if again:
            return None  # may still be made by asking again
        if answer is False or (status and status != 500 and not document.get("type", "").endswith("outcome-unknown")):
            self.journal.nothing_made(serial)
        return None

    def change(self, job, due_ms):
        """Returns whether it was too late, like all requests about the due instant."""
        self.counts["changes"] += 1
        before = self.journal.jobs[job].due_ms
        self.journal.moving(job, due_ms)
        answer = self.ask("PATCH", f"/v1/jobs/{job}", {"run_at": rfc3339(due_ms)})
        if answer and answer.status == 200:
            self.journal.moved(job, due_ms, answer.json["attempt"] + 1)
            return False
        if answer and answer.status == 409:
            self._too_late(job, answer.json)
        if answer is False or (answer and answer.status == 409):
            self.journal.moved(job, before, self.journal.jobs[job].due_attempt)
        return answer.status == 409 if answer else None

    def cancel(self, job):
        self.counts["cancels"] += 1
        answer = self.ask("DELETE", f"/v1/jobs/{job}")
        if answer and answer.status == 200:
            self.counts["cancelled"] += 1
            self.journal.cancelled(job, answer.json["attempt"])
        elif answer and answer.status == 409:
            self._too_late(job, answer.json)
        return answer.status == 409 if answer else None

    def _too_late(self, job, problem):
        self.counts["too late"] += 1
        if problem.get("attempt"):
            self.journal.too_late(job, problem["attempt"])

    def report(self, job, attempt, status, **more):
        self.counts["results by REST"] += 1
        answer = self.ask("POST", f"/v1/jobs/{job}/results", {"attempt": attempt, "status": status, **more})
        if answer and answer.status == 200 and status == "succeeded" and answer.json["outcome"] == "applied":
            self.journal.ended(job, attempt)
        return bool(answer) and answer.status == 200

    def redrive(self, job):
        self.counts["redrives"] += 1
        self.ask("POST", f"/v1/jobs/{job}/redrive")


class Run:
    """One load on one stack, from its first request to the account. The making of `under_load`."""

    def __init__(self, stack, seed, name="", singles=50, bulk=160, edits=False, checker=None, say=print, urls=None, extra=(), skip=(),
                 kinds=("kafka",)):
        """`extra`: topics that are read and checked like the load's own, for jobs of the test; `skip`: oracles that cannot hold;
        `kinds`: the deliveries of the load's topics; one that is named twice gets twice as many jobs."""
        self.stack, self.seed, self.name, self.say = stack, seed, name, say
        self.journal = Journal()
        self.counts = Counter()
        mark = uuid.uuid4().hex[:8]
        self._by_kafka = [f"load-{mark}", f"load.{mark}.b", f"silent-{mark}", *extra] if "kafka" in kinds else []
        self.silent = f"silent-{mark}"  # nothing is reported unasked
        self._skip = tuple(skip)
        self.urls = urls or [stack[name] for name in sorted(stack.env) if name.startswith("DUETIME_URL_API")]
        self.checker = checker
        self.faults = Counter()
        self._singles, self._bulk, self._edits = singles, bulk, edits
        self._end = threading.Event()
        self._threads = []
        self._failures = []
        self._again = []     # creates with a key whose answer is missing: (job, serial, due)
        self._again_lock = threading.Lock()
        self._recent = []    # a bounded sample of jobs for edits by hand
        self._hunt = [Later(), Later()]
        self._late_results = Later()
        self._clients = threading.local()
        self.consumer = None
        self.ways = Ways(self, kinds, mark)
        self.topics = self._by_kafka + self.ways.topics
        self._own_topics = self._by_kafka[:2] + [self.ways.of[kind] for kind in kinds if kind in self.ways.of]
        self.began = now_ms()

    # ---- the parties ----

    def begin(self):
        for topic in self._by_kafka:
            answer = Rest(self.urls[0]).put(f"/v1/topics/{topic}", {"retry": RETRY, "ack_timeout": f"PT{ACK_SECONDS}S"})
            assert answer.status == 201, answer
        self.ways.begin()
        self.consumer = TestConsumer(self.stack["DUETIME_KAFKA"], self.topics, rule=self._result, keep=False) if self._by_kafka else NoConsumer()
        for n, url in enumerate(self.urls):
            self._party(self._make_singles, url, f"singles{n}")
        self._party(self._make_bulk, None, "bulk")
        self._party(self._ask_again, None, "again")
        if self._edits:
            self._party(self._edit, None, "edits")
        self.goes_on(150, 60)
        return self

    def _party(self, work, url, name):
        def run():
            try:
                work(random.Random(f"{self.seed}/{name}"), url)
            except Exception as failure:
                self._failures.append(failure)
                raise
        self._threads.append(threading.Thread(target=run, name=name, daemon=True))
        self._threads[-1].start()

    def client(self, url=None, chance=random):
        url = url or chance.choice(self.urls)
        clients = self._clients.__dict__
        if url not in clients:
            clients[url] = Client(url, self.journal, self.counts)
        return clients[url]

    def _job(self, chance):
        """(job, serial, the earliest time that it may arrive, whether it is to be hunted)."""
        serial = self.journal.serial()
        job = {"topic": chance.choice(self._own_topics), "payload": {"serial": serial, "pad": "x" * chance.choice((0, 10, 300))}}
        now, kind = int(now_ms()), chance.random()
        if kind < 0.2:
            delay = chance.randrange(1500)
            job["delay"] = delay
            due = now + delay
        else:
            due = now + (FAR + chance.randrange(60000) if kind < 0.21 else chance.randrange(600, 1600) if kind < 0.3
                         else -1000 if kind < 0.33 else chance.randrange(1500))
            job["run_at"] = rfc3339(due)
        if chance.random() < 0.6:
            job["key"] = f"k{serial:09d}"
        return job, serial, due, 0.21 <= kind < 0.3

    def _make_singles(self, chance, url):
        client = self.client(url)
        while not self._end.wait(1 / self._singles):
            job, serial, due, hunted = self._job(chance)
            made = client.create(job, serial, due, put="key" in job and chance.random() < 0.4)
            if made:
                self._made(chance, made, due, hunted)
            elif "key" in job:
                self._owe(job, serial, due)

    def _made(self, chance, job, due, hunted):
        if len(self._recent) < 300:
            self._recent.append(job)
        else:
            self._recent[chance.randrange(300)] = job
        if hunted:
            at = due + chance.uniform(-15, 25)
            action = self._chase_cancel if chance.random() < 0.6 else self._chase_change
            chance.choice(self._hunt).at(at, action, job, int(due + chance.randrange(200, 900)), chance.choice(self.urls))

    def _chase_cancel(self, job, _due, url):
        self.client(url).cancel(job)

    def _chase_change(self, job, due, url):
        self.client(url).change(job, due)

    def _make_bulk(self, chance, _url):
        while not self._end.wait(0.25):
            work = [self._job(chance) for _ in range(max(1, self._bulk // 4))]
            for _, serial, due, _ in work:
                self.journal.asked(serial, due)
            self.counts["bulk requests"] += 1
            self.counts["creates"] += len(work)
            made = self._bulk_of(self.client(chance=chance), [one[:3] for one in work])
            for (_, _, due, hunted), job in zip(work, made):
                if job:
                    self._made(chance, job, due, hunted)

    def _bulk_of(self, client, work):
        """work: [(job, serial, due)]; the ids, None for those that are not known to exist: with a key they are asked for again."""
        answer = client.ask("POST", "/v1/jobs:batch", "".join(json.dumps(job) + "\n" for job, *_ in work), content_type="application/x-ndjson")
        lines = answer.lines if answer and answer.status == 200 else [answer.json if answer and answer.body else {}] * len(work)
        lines += [{}] * (len(work) - len(lines))  # an answer that was cut off
        made = []
        for (job, serial, due), line in zip(work, lines):
            made.append(client.told(answer, line.get("status", 0), line, serial, due, "key" in job))
            if made[-1] is None and "key" in job:
                assert line.get("status", 0) in (0, 500, 503), f"a create with a key: {line}"
                self._owe(job, serial, due)
        return made

    def _owe(self, job, serial, due):
        with self._again_lock:
            self._again.append((job, serial, due))

    def _ask_again(self, _chance, _url):
        """The same requests with the same keys, until they are answered; a delay counts from the first commit."""
        while not (self._end.is_set() and not self._again):
            with self._again_lock:
                owed, self._again = self._again[:50], self._again[50:]
            if not owed:
                self._end.wait(0.05)
                continue
            self.counts["asked again"] += len(owed)
            if not any(self._bulk_of(self.client(), owed)):
                time.sleep(0.1)

    # ---- results ----

    def _result(self, arrival):
        """What the consumer reports for an arrival: by seed, job and attempt."""
        self.counts["arrivals"] += 1
        if arrival.headers["ce_type"] == self.silent:
            return None
        kind = zlib.crc32(f"{self.seed}/{arrival.job}/{arrival.attempt}".encode()) % 100
        if arrival.attempt >= LAST_WORD:
            return {"status": "succeeded"}
        late = lambda ms, call, *args: self.later(ms, call, arrival, *args)  # noqa: E731
        if kind < 60:
            return {"status": "succeeded"}
        if kind < 68:
            return {"status": "failed", "error": {"code": "E1", "message": "as planned"}}
        if kind < 72:
            return {"status": "failed", "retry_after": 100}
        if kind < 76:
            return {"status": "snoozed", "retry_after": 150}
        if kind < 78:
            late(600, self._redrive)                                 # by then it is dead
            return {"status": "gave_up"}
        if kind < 82:
            return [{"status": "succeeded"}] * 2                     # a duplicate
        if kind < 85:                                                # stale and forged ones
            self.consumer.report(arrival.job, arrival.attempt + 1)
            self.consumer.report(arrival.job, arrival.attempt - 1 or 77, "failed")
            self.consumer.report(str(int(arrival.job) + (1 << 41)), 1)
            return {"status": "succeeded"}
        if kind < 88:
            late(400, self._succeed)
            return {"status": "extended", "retry_after": "PT3S"}
        if kind < 90:
            return None if arrival.attempt == 1 else {"status": "succeeded"}  # silence: the acknowledgement times out
        if kind < 98:
            late(chance_ms(kind), self.report, "succeeded" if kind < 96 else "failed")
            return None
        self.consumer.raw(b"{junk", arrival.job, wait=False)
        return {"status": "succeeded"}

    def _succeed(self, arrival):
        self.consumer.report(arrival.job, arrival.attempt)

    def _redrive(self, arrival):
        self.client().redrive(arrival.job)

    def report(self, seen, status):
        self.client().report(seen.job, seen.attempt, status)

    def later(self, ms, call, *arguments):
        self._late_results.at(now_ms() + ms, call, *arguments)

    # ---- edits by SQL ----

    def _edit(self, chance, _url):
        connection = None
        while not self._end.wait(0.15):
            try:
                connection = connection or connect(self.stack)
                self._edit_one(connection, chance)
            except Exception as failure:  # MySQL may be down: what was begun may have happened
                self.counts["edits without an answer"] += 1
                if "MySQL" not in type(failure).__module__ + str(failure) and "pymysql" not in type(failure).__module__:
                    raise
                connection = None

    def _edit_one(self, connection, chance):
        if not self._recent:
            return
        job, kind = chance.choice(self._recent), chance.random()
        now = int(now_ms())
        self.counts["edits"] += 1
        if kind < 0.5:
            due = now + chance.randrange(-500, 1500)
            self.journal.edited(job, due)
            rows(connection, "UPDATE jobs SET next_at = %s WHERE id = %s AND state = 'scheduled'", due, job)
        elif kind < 0.7:
            self.journal.edited(job)
            with connection.cursor() as cursor:
                if cursor.execute("UPDATE jobs SET state = 'cancelled', next_at = NULL WHERE id = %s AND state = 'scheduled' AND attempt = 0", (job,)):
                    self.journal.cancelled(job)
        elif kind < 0.85:
            self.journal.edited(job)
            rows(connection, "UPDATE jobs SET state = 'scheduled', next_at = %s WHERE id = %s AND state IN ('dead', 'dispatched')", now + 300, job)
        else:
            self.journal.edited(job)
            rows(connection, "UPDATE jobs SET state = 'succeeded', next_at = NULL WHERE id = %s AND state = 'dispatched'", job)

    # ---- the course of it ----

    def goes_on(self, arrivals=100, seconds=30, by=None):
        """O7: so many jobs that are made from now on arrive, by themselves (`by`: by that way); gives the seconds that it took."""
        began, known = time.monotonic(), set(self.journal.jobs)

        def fresh():
            self._raise()
            with self.journal.lock:
                made = set(self.journal.jobs) - known
            return len(self._which(made, by)) >= arrivals
        until(fresh, lambda: f"O7: {arrivals} jobs made from now on arrive{f' by {by}' if by else ''}; {self.arrivals()} arrivals in all, "
              f"{dict(self.counts)}", every=0.1, seconds=seconds)
        return time.monotonic() - began

    def _which(self, jobs, by):
        return self.ways.which(jobs, by) | set(self.consumer.which(jobs) if by in (None, "kafka") else ())

    def arrivals(self):
        return self.consumer.count + self.counts["callbacks"] + self.counts["jobs popped"]

    def wait(self, seconds):
        """The load runs on for so long (a fault that lasts)."""
        end = time.monotonic() + seconds
        until(lambda: self._raise() or time.monotonic() > end, "time passes", seconds=seconds + 10)

    def failed(self):
        failures = self._failures + self.ways.failures() + [later.failure for later in [*self._hunt, self._late_results] if later.failure]
        if self.consumer and self.consumer.failure:
            failures.append(self.consumer.failure)
        return failures

    def _raise(self):
        failures = self.failed()
        if failures:
            raise failures[0]

    def make_bulk(self, jobs):
        """The test's own jobs, in one request that must be answered well; their ids."""
        now = now_ms()
        jobs = [{**job, "payload": {**job["payload"], "serial": self.journal.serial()}} for job in jobs]
        made = [line["id"] for line in Rest(self.urls[0]).batch(jobs)]
        for job, one in zip(jobs, made):
            self.journal.made(one, now, job["payload"]["serial"])
        return made

    def shut_down(self):
        """No more requests, and no looking at anything: for tests after which nothing holds."""
        self._end.set()
        with self._again_lock:
            self._again.clear()
        for thread in self._threads:
            thread.join(20)
        for later in [*self._hunt, self._late_results]:
            later.end(drop=True)

    def finish(self, seconds=45):
        """The load ends; all becomes quiet; the checker looks at everything; the account is told."""
        self._stop(seconds)
        until(self._quiet, lambda: f"quiet: {self._unquiet()}", every=0.3, seconds=seconds)
        self.consumer.flush()
        checker = self.checker or Checker(self.stack)
        arrivals = checker.check(self.journal, self.topics, seconds, live=self.consumer.all, skip=self._skip, ways=self.ways)
        self._raise()
        self._tell(arrivals)
        self._clear_far()
        return arrivals

    def _stop(self, seconds):
        self._end.set()
        for thread in self._threads:
            thread.join(seconds * PATIENCE)
            if thread.is_alive():
                raise AssertionError(f"{thread.name} has no end: {len(self._again)} creates without an answer")
        for later in self._hunt:
            later.end()
        self._raise()

    def _live(self):
        return rows(connect(self.stack), "SELECT id, state, attempt, next_at FROM jobs WHERE due_band < 2 AND topic IN %s AND"
                    " (state = 'dispatched' OR (state = 'scheduled' AND next_at < %s)) LIMIT 10", tuple(self.topics), now_ms() + FAR // 2)

    def _quiet(self):
        self._raise()
        return self._late_results.empty() and not self._live()

    def _unquiet(self):
        return f"still alive: {self._live()}, in flight: {rows(connect(self.stack), 'SELECT shard, owner, epoch, halted, LEFT(inflight, 80) list FROM shards')}"

    def _clear_far(self):
        """What is due much later goes away: others use the stack, too."""
        client = self.client()
        for row in rows(connect(self.stack), "SELECT id FROM jobs WHERE topic IN %s AND state = 'scheduled'", tuple(self.topics)):
            answer = client.ask("DELETE", f"/v1/jobs/{row['id']}")
            assert answer and answer.status == 200, f"cancelling {row['id']}, due in an hour: {answer}"

    def _tell(self, arrivals):
        told = {"name": self.name, "seed": self.seed, "jobs": len(self.journal.jobs), "attempts": self.arrivals(),
                "unanswered": len(self.journal.unknown), "refused": len(self.journal.refused), "faults": dict(self.faults),
                "seconds": round((now_ms() - self.began) / 1000, 1), **{name.replace(" ", "_"): n for name, n in sorted(self.counts.items())}}
        self.say(f"{self.name}: {told['jobs']} jobs, {told['attempts']} attempts, {told['unanswered']} creates without an answer, "
                 f"{told['refused']} refused, {self.counts['cancelled']} cancelled and {self.counts['too late']} too late at the due instant; "
                 f"nothing lost, nothing twice, nothing early; {summary(lateness(self.consumer.all(), self.journal))}; seed {self.seed}")
        ARTEFACTS.mkdir(parents=True, exist_ok=True)
        with open(ARTEFACTS / "account.jsonl", "a", encoding="utf-8") as out:
            out.write(json.dumps(told) + "\n")

    def keep(self, why=""):
        """Journal, logs, seed and message of a run that failed; where they are."""
        folder = ARTEFACTS / f"{self.name or 'run'}-{self.seed}"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        self.journal.dump(folder / "journal.jsonl")
        (folder / "failure.txt").write_text(f"{why}\n")
        (folder / "counts.json").write_text(json.dumps({"seed": self.seed, "topics": self.topics, **self.counts}, indent=2))
        with open(folder / "arrivals.jsonl", "w", encoding="utf-8") as out:
            for seen in (self.consumer.all() if self.consumer else []) + self.ways.seen():
                out.write(json.dumps(seen) + "\n")
        if (self.stack.home / "log").exists():
            shutil.copytree(self.stack.home / "log", folder / "log")
        return folder

    def end(self):
        self.shut_down()
        if self.consumer:
            self.consumer.end()
        self.ways.end()


def chance_ms(kind):
    return 20 + 40 * (kind % 7)


@contextlib.contextmanager
def under_load(stack, seed, name="", finish_seconds=45, **options):
    """See the top of this file. `name` stands in the account and in the folder that a failure leaves."""
    run = Run(stack, seed, name or os.environ.get("PYTEST_CURRENT_TEST", "run").split("::")[-1].split(" ")[0], **options)
    try:
        run.begin()
        yield run
        run.finish(finish_seconds)
    except BaseException as failure:
        run.end()
        why = "".join(traceback.format_exception(failure))
        told = f"{failure}\n(DUETIME_TEST_SEED={seed}; journal, arrivals and logs are in {run.keep(why)})"
        failure.args = (told,) if failure.args else ()
        raise
    finally:
        run.end()

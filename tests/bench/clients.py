"""The load: wrk for single POSTs, NDJSON by two threads, a stream of due jobs, a consumer in C, and the bare loaders beside them."""
import http.client
import json
import re
import socket
import subprocess
import threading
import time
import urllib.request

from harness.checker import now_ms
from harness.rest import Rest
from harness.soak import rfc3339
from harness.stack import until

import programs
from account import Missing

TEXT = "x" * 187  # with its JSON around it a payload of 200 bytes
ANSWER_SECONDS = 70  # longer than any single POST takes; wrk has no percentiles beyond it
BATCH_SECONDS = 600  # for the answer to a batch: its duration is measured, so slowness is no error
SILENCE_SECONDS = 180  # the wait ends if no message, callback or job arrives for so long


def loader(stack, seconds):
    """Rows a second of the bare bulk loader: two connections, array-bound, 1,000 rows a commit, into the same table."""
    return float(programs.run("loader", *account_of(stack), 2, seconds).split()[0])


def account_of(stack):
    return [stack["DUETIME_MYSQL_SOCKET"], stack["DUETIME_MYSQL_USER"], stack["DUETIME_MYSQL_PASSWORD"], stack["DUETIME_MYSQL_DATABASE"]]


def updater(stack, rows):
    """Rows a second of the bare UPDATE … IN (500) on rows that the bare loader made: two connections."""
    return float(programs.run("updater", *account_of(stack), 2, rows).split()[0])


class Posts:
    """One run of wrk. It has batch priority, so that it does not preempt the server at each answer, like a client on another machine. A
    job may exist without a success answer: for requests in progress at the end or when a connection breaks, and for refused ones
    (503 outcome-unknown)."""

    def __init__(self, stack, topic, connections, seconds, delay="PT50M", pause_ms=0):
        done = subprocess.run(["chrt", "--batch", "0", "wrk", "-t2", f"-c{connections}", f"-d{seconds}s", f"--timeout={ANSWER_SECONDS}s", "-s", programs.TOOLS / "post.lua", stack["DUETIME_URL"], "--",
                               topic, delay, str(pause_ms)], check=True, capture_output=True, text=True)
        found = re.search(r"RESULT (\S+) (\S+) (\S+) (\S+) (\S+) (\S+)", done.stdout)
        if not found:
            raise RuntimeError(f"wrk: {done.stdout} {done.stderr}")
        self.rate, self.p50_ms, self.p99_ms = float(found[1]), float(found[5]), float(found[6])
        self.accepted, self.refused = int(found[2]), int(found[3])
        self.unanswered = connections + int(found[4]) + self.refused


BULK_CLIENTS = 4  # one that reads its answers and begins anew leaves nobody idle


class Ndjson:
    """The same job over and over, in bodies of so many lines, by two clients at once or more."""

    def __init__(self, stack, topic, lines, delay="PT50M"):
        self._url = stack["DUETIME_URL"].removeprefix("http://")
        self._lines = lines
        self._body = ((json.dumps({"topic": topic, "delay": delay, "payload": {"text": TEXT}}) + "\n") * lines).encode()
        self.accepted = 0
        self._lock = threading.Lock()

    def _post(self):
        host, port = self._url.split(":")
        connection = http.client.HTTPConnection(host, int(port), timeout=BATCH_SECONDS)
        connection.request("POST", "/v1/jobs:batch", self._body, {"Content-Type": "application/x-ndjson"})
        answer = connection.getresponse().read()
        accepted = answer.count(b'"status":201')
        with self._lock:  # the sum is read before what is added to it is counted, and others add meanwhile
            self.accepted += accepted

    def post(self, times, clients=2):
        """Each client posts the body so many times; jobs accepted a second."""
        def client():
            for _ in range(times):
                self._post()
        before, start = self.accepted, time.monotonic()
        threads = [threading.Thread(target=client) for _ in range(clients)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self.accepted - before != clients * times * self._lines:
            raise RuntimeError(f"{self.accepted - before} of {clients * times * self._lines} lines were accepted")
        return (self.accepted - before) / (time.monotonic() - start)


def free_port():
    """For a server that is started at once."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def make_topic(stack, topic, **settings):
    """Whose attempts are not repeated while a group runs, though nothing is reported."""
    rest = Rest(stack["DUETIME_URL"])
    until(lambda: rest.put(f"/v1/topics/{topic}", {"ack_timeout": "P1D", **settings}).status in (200, 201), f"the topic {topic}")


def write_due(stack, topic, dues):
    """Jobs of 200 bytes of payload that are due at these times (ms); all must be accepted. The text is put together here, which takes
    microseconds a job: a burst is written before it is due."""
    rest = Rest(stack["DUETIME_URL"], timeout=BATCH_SECONDS)
    head, tail = f'{{"topic":{json.dumps(topic)},"run_at":"', f'","payload":{json.dumps({"text": TEXT}, separators=(",", ":"))}}}\n'
    for first in range(0, len(dues), 10000):
        part = dues[first:first + 10000]
        answer = rest.post("/v1/jobs:batch", "".join(f"{head}{rfc3339(int(ms))}{tail}" for ms in part), content_type="application/x-ndjson")
        assert answer.body.count(b'"status":201') == len(part), answer
    return len(dues)


class Reporter:
    """The consumer in C, in the background: reads `count` messages and, if told to, reports each as succeeded. With `since` its
    percentiles are those of what was due from then on."""

    def __init__(self, stack, topic, count, results="-", gather=False, since=None):
        self._topic, self._count = topic, count
        words = [stack["DUETIME_KAFKA"], topic, count, results, SILENCE_SECONDS] + (["gather"] if gather else []) + ([int(since)] if since else [])
        self._process = subprocess.Popen([programs.program("reporter"), *map(str, words)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def go(self):
        """A reporter that gathers has read everything, and now reports: call when `gathered` came back."""
        self._process.stdin.write("go\n")
        self._process.stdin.flush()

    def gathered(self):
        return self._whole(self._process.stdout.readline())

    def end(self):
        out, _ = self._process.communicate()
        return self._whole(out.splitlines()[-1] if out else '{"messages":0}')

    def _whole(self, line):
        found = json.loads(line)
        if found["messages"] != self._count:
            raise Missing(f"{self._topic}: {found['messages']} of {self._count} messages arrived")
        return found


def metrics(url):
    with urllib.request.urlopen(url) as answer:
        return answer.read().decode()


def of_dispatchers(stack, pattern):
    """Every match of the pattern in the metrics of all dispatchers."""
    urls = [stack[name] for name in sorted(stack.env) if name.startswith("DUETIME_METRICS_DISPATCHER")]
    return [match for url in urls for match in re.findall(pattern, metrics(url))]


def results_applied(stack):
    """Results that the dispatchers applied so far; cheaper than asking MySQL, which is what is measured."""
    return sum(int(float(n)) for n in of_dispatchers(stack, r'duetime_results_total{[^}]*outcome="applied"[^}]*} (\S+)'))


def await_applied(stack, count):
    """Until the dispatchers have applied so many results since they started."""
    until(lambda: results_applied(stack) >= count, lambda: f"{results_applied(stack)} of {count} results applied", seconds=120)


def lateness_buckets(stack):
    """{upper bound in s: attempts committed that late or less}, over all dispatchers."""
    counts = {}
    for bound, n in of_dispatchers(stack, r'dispatch_lateness_seconds_bucket{[^}]*le="([^"]+)"} (\d+)'):
        counts[float(bound)] = counts.get(float(bound), 0) + int(n)
    return counts


def percentile_ms(before, after, share):
    """By a histogram's rise between two looks, evenly spread within its bucket."""
    bounds = sorted(after)
    rises = [after[bound] - before.get(bound, 0) for bound in bounds]
    want, low, below = share * rises[-1], 0.0, 0
    for bound, rise in zip(bounds, rises):
        if rise >= want:
            return 1000 * (low if bound == float("inf") else low + (bound - low) * (want - below) / max(1, rise - below))
        low, below = bound, rise
    return 1000 * low


def now():
    return now_ms()

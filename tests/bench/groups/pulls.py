"""pull: lives by NDJSON, pops of 100 and results by NDJSON beside the bare loader"""
import http.client
import re
import threading
import time

import clients
from account import Missing

POPPERS = 4
JOB = re.compile(rb'\{"id":"(\d+)","topic":.*?"attempt":(\d+)')
IDLE_S = 0.002  # nothing is ready: another look after so long


class Popper(threading.Thread):
    """Pops a hundred at a time and reports them as succeeded, on one connection, until all are reported."""

    def __init__(self, stack, topic, shared):
        super().__init__(daemon=True)
        host, port = stack["DUETIME_URL"].removeprefix("http://").split(":")
        self._connection = http.client.HTTPConnection(host, int(port), timeout=clients.BATCH_SECONDS)
        self._topic, self._shared, self.failure = topic, shared, None

    def _post(self, path, body, media="application/json"):
        self._connection.request("POST", path, body, {"Content-Type": media})
        answer = self._connection.getresponse()
        text = answer.read()
        if answer.status != 200:
            raise RuntimeError(f"{path}: {answer.status} {text[:300]!r}")
        return text

    def _work(self):
        while self._shared.left():
            attempts = JOB.findall(self._post(f"/v1/topics/{self._topic}/pop", b'{"max":100}'))
            if not attempts:
                time.sleep(IDLE_S)
            else:
                lines = b"".join(b'{"job_id":"%b","attempt":%b,"status":"succeeded"}\n' % attempt for attempt in attempts)
                self._shared.reported(attempts, self._post("/v1/results", lines, "application/x-ndjson").count(b'"applied"'))

    def run(self):
        try:
            self._work()
        except Exception as failure:
            self.failure = failure


class Shared:
    """What all poppers together have got and reported."""

    def __init__(self, count):
        self._lock = threading.Lock()
        self._count, self._end = count, time.monotonic() + clients.SILENCE_SECONDS
        self.popped, self.distinct, self.applied = 0, set(), 0

    def left(self):
        return self.applied < self._count and time.monotonic() < self._end

    def reported(self, attempts, applied):
        with self._lock:
            self.popped += len(attempts)
            self.distinct.update(attempts)
            self.applied += applied
            self._end = time.monotonic() + clients.SILENCE_SECONDS


def live(stack, account, topic, count):
    """So many jobs from the first POST to the last applied result; lives a second."""
    clients.make_topic(stack, topic, delivery="pull")
    load, shared = clients.Ndjson(stack, topic, count // 2, delay="PT0S"), Shared(count)
    poppers = [Popper(stack, topic, shared) for _ in range(POPPERS)]
    start = time.monotonic()
    for popper in poppers:
        popper.start()
    load.post(1)
    account.accepted(topic, load.accepted)
    for popper in poppers:
        popper.join()
    rate = count / (time.monotonic() - start)
    for popper in poppers:
        if popper.failure:
            raise popper.failure
    if shared.applied != count:
        raise Missing(f"{topic}: {shared.applied} of {count} results were applied")
    account.popped(topic, shared.popped, len(shared.distinct))
    account.reported(topic, shared.applied)
    return rate


def measure(bench):
    stack = bench.stack()
    account = bench.account(stack)
    count, topics = bench.count(100000, 20000), iter(range(100))
    live(stack, account, "pulls-warm", bench.count(20000, 5000))
    pairs = bench.rounds(lambda: live(stack, account, f"pulls-{next(topics)}", count),
                         lambda: clients.loader(stack, bench.seconds(3, 2)), bench.count(3, 1))
    bench.ratio("G11", "lives by pop", pairs)

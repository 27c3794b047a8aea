"""A consumer that reads committed messages from the beginning, keeps each with its receive time, and may report results."""
import json
import threading
import time
import uuid
from dataclasses import dataclass
from typing import NamedTuple

from confluent_kafka import Consumer, Producer

from .stack import changed


@dataclass
class Arrival:
    job: str
    attempt: int
    received_ms: float
    scheduled: str
    headers: dict
    key: bytes
    value: bytes
    partition: int
    offset: int


class Seen(NamedTuple):
    """One message, as far as the oracles care."""
    job: str
    attempt: int
    received_ms: float


def arrival_of(message, received_ms):
    headers = {name: value.decode() for name, value in message.headers() or []}
    return Arrival(headers.get("ce_jobid", ""), int(headers.get("ce_attempt", 0)), received_ms, headers.get("ce_scheduledtime", ""),
                   headers, message.key(), message.value(), message.partition(), message.offset())


def base_config(brokers):
    return {"bootstrap.servers": brokers, "group.id": f"test-{uuid.uuid4()}", "isolation.level": "read_committed",
            "auto.offset.reset": "earliest", "enable.auto.commit": False, "topic.metadata.refresh.interval.ms": 200,
            "fetch.wait.max.ms": 10, "allow.auto.create.topics": False}


class TestConsumer(threading.Thread):
    """`rule(arrival)` gives the results to report for it: a dict, a list of dicts, or None for silence. `keep`: whole arrivals,
    or only what the oracles need (long runs)."""

    __test__ = False

    def __init__(self, brokers, topics, installation="duetime", rule=None, keep=True):
        super().__init__(daemon=True)
        self.results_topic = f"{installation}.results"
        self._topics = topics
        self._rule = rule
        self._keep = keep
        self._consumer = Consumer(base_config(brokers))
        self._producer = Producer({"bootstrap.servers": brokers, "linger.ms": 1, "queue.buffering.max.messages": 1000000})
        self._changed = threading.Condition()
        self._by_job = {}
        self._next = {}
        self.count = 0
        self._end = threading.Event()
        self.failure = None
        self.start()

    def run(self):
        try:
            self._consumer.subscribe(self._topics)
            while not self._end.is_set():
                messages = self._consumer.consume(500, 0.05)
                received = time.time() * 1000
                for message in messages:
                    if message.error() is None and self._is_new(message):
                        self._take(arrival_of(message, received))
                self._producer.poll(0)
            self._consumer.close()
        except Exception as failure:  # shown by whoever waits
            self.failure = failure
            raise

    def _is_new(self, message):
        """A group without commits reads from the beginning again when partitions are shared out anew; that doubles nothing."""
        where = (message.topic(), message.partition())
        if message.offset() < self._next.get(where, 0):
            return False
        self._next[where] = message.offset() + 1
        return True

    def _take(self, arrival):
        with self._changed:
            kept = arrival if self._keep else Seen(arrival.job, arrival.attempt, arrival.received_ms)
            self._by_job.setdefault(arrival.job, []).append(kept)
            self.count += 1
            self._changed.notify_all()
        replies = self._rule(arrival) if self._rule else None
        for reply in replies if isinstance(replies, list) else [replies] if replies else []:
            self.report(arrival.job, arrival.attempt, **reply)

    def report(self, job, attempt, status="succeeded", **more):
        body = json.dumps({"job_id": job, "attempt": attempt, "status": status, **more})
        while True:
            try:
                self._producer.produce(self.results_topic, key=job, value=body)
                return
            except BufferError:
                self._producer.poll(0.1)

    def raw(self, value, key=None, wait=True):
        self._producer.produce(self.results_topic, key=key, value=value)
        if wait:
            self._producer.flush(10)

    def of(self, job):
        with self._changed:
            return list(self._by_job.get(job, []))

    def which(self, jobs):
        """Those of the jobs that arrived."""
        with self._changed:
            return [job for job in jobs if job in self._by_job]

    def all(self):
        with self._changed:
            return [arrival for arrivals in self._by_job.values() for arrival in arrivals]

    def wait(self, job, attempt=1, seconds=15):
        """The arrival of (job, attempt)."""
        def there():
            assert not self.failure, self.failure
            return next((arrival for arrival in self._by_job.get(job, []) if arrival.attempt == attempt), None)
        with self._changed:
            return changed(self._changed, there, f"attempt {attempt} of job {job} arrives", seconds)

    def wait_count(self, count, seconds):
        def there():
            assert not self.failure, self.failure
            return self.count >= count
        with self._changed:
            changed(self._changed, there, lambda: f"{self.count} of {count} messages arrive", seconds)

    def flush(self):
        self._producer.flush(10)

    def end(self):
        self._end.set()
        self.join(20)
        self._producer.flush(5)


class NoConsumer:
    """Of a load without Kafka."""
    count, failure = 0, None

    def which(self, _jobs):
        return []

    def all(self):
        return []

    def flush(self):
        pass

    def end(self):
        pass

"""A consumer as a user would write one: reads a topic with isolation.level=read_committed, does what the sample says,
reports on the results topic.
"""
import json
import queue
import threading
import uuid

from confluent_kafka import Consumer, Producer

from .arrivals import Arrival
from .times import now_ms, to_ms


def _headers(message):
    return {name: value.decode() for name, value in message.headers() or []}


class Reader(threading.Thread):
    """Reads one topic from its beginning in a thread of its own and hands each message to `take(headers, message, ms)`."""

    def __init__(self, brokers, topic, take):
        super().__init__(daemon=True)
        self._take = take
        self._topic = topic
        self._stop_asked = threading.Event()
        self._consumer = Consumer({
            "bootstrap.servers": brokers, "group.id": f"quickstart-{uuid.uuid4()}", "isolation.level": "read_committed",
            "auto.offset.reset": "earliest", "enable.auto.commit": False,
            "log_level": 0,
            "topic.metadata.refresh.interval.ms": 200,  # the topic may not be there yet: the first job makes it
        })

    def run(self):
        self._consumer.subscribe([self._topic])
        while not self._stop_asked.is_set():
            message = self._consumer.poll(0.1)
            received = now_ms()
            if message is not None and message.error() is None:
                self._take(_headers(message), message, received)
        self._consumer.close()

    def end(self):
        self._stop_asked.set()
        self.join()


class Reporter(threading.Thread):
    """Writes reports to the results topic, keyed by the job's id. In a thread of its own, since each is flushed: without
    that, librdkafka 2.0 was seen to leave a lone message lying for seconds."""

    def __init__(self, brokers, topic):
        super().__init__(daemon=True)
        self._topic = topic
        self._producer = Producer({"bootstrap.servers": brokers, "linger.ms": 0, "log_level": 0})
        self._waiting = queue.SimpleQueue()

    def report(self, job, attempt, report):
        self._waiting.put((job, {"job_id": job, "attempt": attempt, **report}))

    def run(self):
        while (item := self._waiting.get()) is not None:
            self._producer.produce(self._topic, key=item[0], value=json.dumps(item[1]))
            self._producer.flush(5)

    def end(self):
        self._waiting.put(None)
        self.join()


class DemoConsumer:
    """Reads the topic of the samples, and dead letters."""

    def __init__(self, brokers, installation, topic, arrivals):
        self._arrivals = arrivals
        self._reporter = Reporter(brokers, f"{installation}.results")
        self._changed = threading.Condition()
        self._dead = []
        self._readers = [Reader(brokers, topic, self._job), Reader(brokers, f"{installation}.dead", self._dead_letter)]

    def start(self):
        for thread in [self._reporter, *self._readers]:
            thread.start()

    def end(self):
        for thread in [*self._readers, self._reporter]:
            thread.end()

    def _job(self, headers, message, received_ms):
        value = json.loads(message.value())
        if not self._arrivals.is_ours(value):
            return
        arrival = Arrival(headers["ce_jobid"], int(headers["ce_attempt"]), received_ms, to_ms(headers["ce_scheduledtime"]), value)
        report = self._arrivals.took(arrival)
        if report is not None:
            self.report(arrival.job, arrival.attempt, report)

    def _dead_letter(self, headers, _message, _received_ms):
        with self._changed:
            self._dead.append(headers["ce_id"])
            self._changed.notify_all()

    def report(self, job, attempt, report):
        self._reporter.report(job, attempt, report)

    def wait_dead(self, event_id, seconds):
        """True once the dead letter with this ce_id has arrived."""
        with self._changed:
            return self._changed.wait_for(lambda: event_id in self._dead, seconds)

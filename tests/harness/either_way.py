"""A steady load on one topic whose jobs may leave by pop or by Kafka, while parts of the installation come and go.

  with EitherWay(stack, "grow") as load:
      stack.restart("api1", settings={"kafka.brokers": ""})
      load.goes_on()
  load.account()          # every job succeeded, no (job, attempt) came twice, none early

Whoever gets no answer asks the other API, a create again under the same key.
"""
import http.client
import itertools
import json
import threading
import time
import uuid
from collections import Counter

from confluent_kafka import Consumer

from .checker import connect, now_ms, rows
from .rest import Rest
from .stack import until

EVERY = 0.02   # seconds between two creates
ACK = "PT3S"   # an attempt whose pop was answered to nobody comes again after this


class EitherWay:
    def __init__(self, stack, topic):
        self.stack, self.topic = stack, topic
        self.urls = [stack["DUETIME_URL_API1"], stack["DUETIME_URL_API2"]]
        self.due, self.arrivals = {}, []  # job -> ms; (job, attempt, way, ms)
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._faults = []
        self._threads = [threading.Thread(target=self._guarded, args=(work,), daemon=True)
                         for work in (self._create, self._pop, self._pop, self._consume)]

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_error):
        self._stop.set()
        for thread in self._threads:
            thread.join(300)

    # -- the threads

    def _guarded(self, work):
        try:
            work([Rest(url, timeout=30) for url in self.urls])
        except Exception as fault:  # noqa: BLE001 - told by whoever looks
            self._faults.append(fault)
            raise

    def _ask(self, apis, method, path, body):
        """Returns the first answer of any API; asks them in turn until one answers, or until a hundred seconds after the end of the load."""
        end = None
        for api in itertools.cycle(apis):
            if self._stop.is_set():
                end = end or time.monotonic() + 100
                assert time.monotonic() < end, f"nobody answers {method} {path}"
            try:
                answer = api.ask(method, path, body)
            except (OSError, ValueError, http.client.HTTPException):
                time.sleep(0.02)
                continue
            if answer.status < 500:
                return answer
            time.sleep(0.02)

    def _create(self, apis):
        for number in itertools.count():
            if self._stop.is_set():
                return
            delay = number % 7 * 60
            asked_ms = now_ms()
            answer = self._ask(apis, "PUT", f"/v1/topics/{self.topic}/jobs/{uuid.uuid4().hex}",
                               {"delay": delay, "payload": number, "ack_timeout": ACK, "retry": [100] * 9})
            assert answer.status in (200, 201), answer
            with self._lock:
                self.due[answer.json["id"]] = asked_ms + delay
            time.sleep(EVERY)

    def _took(self, apis, job, attempt, way):
        with self._lock:
            self.arrivals.append((job, attempt, way, now_ms()))
        answer = self._ask(apis, "POST", "/v1/results", [{"job_id": job, "attempt": attempt, "status": "succeeded"}])
        assert answer.status == 200, answer

    def _pop(self, apis):
        while not self._ended():
            answer = self._ask(apis, "POST", f"/v1/topics/{self.topic}/pop", {"max": 10})
            if answer.status == 409 or answer.status == 404:  # it is Kafka's just now, or there was no job yet
                time.sleep(0.05)
                continue
            assert answer.status == 200, answer
            if not answer.json["jobs"]:
                time.sleep(0.02)
            for job in answer.json["jobs"]:
                self._took(apis, job["id"], job["attempt"], "pop")

    def _consume(self, apis):
        while not self.stack["DUETIME_KAFKA"]:
            time.sleep(0.1)
        consumer = Consumer({"bootstrap.servers": self.stack["DUETIME_KAFKA"], "group.id": uuid.uuid4().hex, "isolation.level": "read_committed",
                             "auto.offset.reset": "earliest", "enable.auto.commit": False, "log_level": 0, "topic.metadata.refresh.interval.ms": 200})
        consumer.subscribe([self.topic])
        while not self._ended():
            message = consumer.poll(0.1)
            if message is not None and not message.error():
                headers = {name: value.decode() for name, value in message.headers()}
                self._took(apis, headers["ce_jobid"], int(headers["ce_attempt"]), "kafka")
        consumer.close()

    def _ended(self):
        """Nothing is made any more, and all that was has succeeded."""
        return self._stop.is_set() and (self._faults or not self.open())

    # -- what is known

    def open(self):
        """How many jobs have not succeeded, by MySQL."""
        with connect(self.stack) as connection:
            return rows(connection, "SELECT COUNT(*) n FROM jobs WHERE topic = %s AND state <> 'succeeded'", self.topic)[0]["n"]

    def goes_on(self, way=None, seconds=30):
        """Jobs that are made from now on arrive, by this way if one is named."""
        with self._lock:
            seen, since = len(self.arrivals), now_ms()

        def some():
            assert not self._faults, self._faults
            with self._lock:
                return sum(self.due.get(job, 0) >= since and way in (None, by) for job, _, by, _ in self.arrivals[seen:]) >= 20
        until(some, lambda: f"jobs arrive by {way or 'any way'}\n{self.stack.logs()}", seconds=seconds)

    def account(self):
        assert not self._faults, self._faults
        assert self.open() == 0
        twice = {key: n for key, n in Counter((job, attempt) for job, attempt, *_ in self.arrivals).items() if n > 1}
        assert not twice, twice
        early = [(job, attempt, self.due[job] - ms) for job, attempt, _, ms in self.arrivals if attempt == 1 and ms < self.due.get(job, 0) - 1]
        assert not early, early[:10]
        missing = set(self.due) - {job for job, *_ in self.arrivals}
        assert not missing, list(missing)[:10]
        return json.dumps({"jobs": len(self.due), **Counter(way for _, _, way, _ in self.arrivals),
                           "again": sum(attempt > 1 for _, attempt, *_ in self.arrivals)})

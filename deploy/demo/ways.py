"""How the sample jobs leave duetime and come back: through Kafka, or, in a small installation, by pops and callbacks.

A way has the topics of the samples with a word for each, starts and ends whoever receives, reports, and says what is wrong with the end of a dead job.
"""
from stack.say import StackError

from .callback import CallbackReceiver
from .times import LONG_SECONDS
from .worker import Worker

TOPIC = "quickstart"
POPS, CALLS = f"{TOPIC}.pops", f"{TOPIC}.calls"


class ByKafka:
    told = "a Kafka consumer"
    topics = {TOPIC: "kafka"}

    def __init__(self, environment, arrivals, installation):
        from .consumer import DemoConsumer  # the client library is not there where there is no Kafka
        self._consumer = DemoConsumer(environment["DUETIME_KAFKA"], installation, TOPIC, arrivals)
        self.start, self.end, self.report = self._consumer.start, self._consumer.end, self._consumer.report

    def judge_dead(self, _stage, event):
        return [] if self._consumer.wait_dead(event, LONG_SECONDS) else [f"no dead letter {event}"]


class ByPopsAndCallbacks:
    told = "a worker that pops and a receiver of callbacks that checks signatures"
    topics = {POPS: "pop", CALLS: "callback"}

    def __init__(self, environment, arrivals, rest):
        self._rest = rest
        self._worker = Worker(environment["DUETIME_URL"], POPS, arrivals)
        self._receiver = CallbackReceiver(arrivals)
        self.report = self._worker.report

    def start(self):
        self._put(POPS, {"delivery": "pull"})
        self._put(CALLS, {"delivery": "http", "callback_url": self._receiver.url, "callback_secret": self._receiver.secret,
                          "callback_timeout": "PT1M"})
        self._worker.start()
        self._receiver.start()

    def _put(self, topic, settings):
        status, answer = self._rest.ask("PUT", f"/v1/topics/{topic}", settings)
        if status not in (200, 201):
            raise StackError(f"PUT of the topic {topic} was answered with {status}: {answer}")

    def end(self):
        self._worker.end()
        self._receiver.end()

    def judge_dead(self, stage, _event):
        """Without a Kafka there is no dead letter, and none waits for one."""
        waiting = int(stage.sql("SELECT COUNT(*) FROM messages")[-1][0])
        return [f"{waiting} dead letters wait for a Kafka"] if waiting else []

"""How the sample jobs leave duetime and come back: through Kafka, or, in a small installation, by pops.

A way has the topics of the samples, starts and ends whoever receives, reports, and says what is wrong with the end of a dead job.
"""
from .worker import Worker

TOPIC = "quickstart"
POPS = f"{TOPIC}.pops"


class ByKafka:
    told = "a Kafka consumer"
    topics = [TOPIC]

    def __init__(self, environment, arrivals, installation):
        from .consumer import DemoConsumer  # the client library is not there where there is no Kafka
        self._consumer = DemoConsumer(environment["DUETIME_KAFKA"], installation, TOPIC, arrivals)
        self.start, self.end, self.report = self._consumer.start, self._consumer.end, self._consumer.report

    def judge_dead(self, _stage, event):
        return [] if self._consumer.wait_dead(event, 10) else [f"no dead letter {event}"]


class ByPops:
    told = "a worker that pops them and reports"
    topics = [POPS]

    def __init__(self, environment, arrivals, rest):
        self._rest = rest
        self._worker = Worker(environment["DUETIME_URL"], POPS, arrivals)
        self.end, self.report = self._worker.end, self._worker.report

    def start(self):
        status, answer = self._rest.ask("PUT", f"/v1/topics/{POPS}", {"delivery": "pull"})
        assert status in (200, 201), f"PUT of the topic {POPS}: {status} {answer}"
        self._worker.start()

    def judge_dead(self, stage, _event):
        """Without a Kafka there is no dead letter, and none waits for one."""
        waiting = int(stage.sql("SELECT COUNT(*) FROM outbox")[-1][0])
        return [f"{waiting} dead letters wait for a Kafka"] if waiting else []

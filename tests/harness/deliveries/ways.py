"""The ways of a load's jobs beside Kafka: topics of other deliveries, with a receiver and poppers at their ends.

  with under_load(stack, seed, kinds=("kafka", "http", "pull")) as run:
      run.ways.receiver.mode = "silent"
      run.goes_on(by="pull")

`kinds` may have "turning" as well: a topic whose delivery a test changes (run.ways.turn("http")).
"""
from ..retries import ACK_SECONDS, RETRY
from ..rest import Rest
from .account import forgive, lost_costs_nothing
from .poppers import Poppers
from .receiver import PlannedReceiver


class Ways:
    def __init__(self, run, kinds, mark):
        self._run = run
        self.topics = [f"{kind}-{mark}" for kind in ("http", "pull", "turning") if kind in kinds]
        self.of = {topic.split("-")[0]: topic for topic in self.topics}
        self.receiver = PlannedReceiver(run.seed, run.later, run.report, run.counts) if {"http", "turning"} & set(kinds) else None
        self.poppers = Poppers(run.seed, run.urls, run.client, run.later, run.counts) if {"pull", "turning"} & set(kinds) else None
        self._parties = {"http": self.receiver, "pull": self.poppers}

    def settings(self, kind):
        if kind == "kafka":
            return {"delivery": "kafka", "retry": RETRY, "ack_timeout": f"PT{ACK_SECONDS}S"}
        return self._parties["pull" if kind == "turning" else kind].settings()

    def put(self, topic, kind, **more):
        """Makes or changes a topic; the answer's status."""
        return Rest(self._run.urls[0], timeout=120).put(f"/v1/topics/{topic}", {**self.settings(kind), **more}).status

    def post(self, path):
        assert Rest(self._run.urls[0], timeout=120).post(path).status == 200, path

    def begin(self):
        for kind, topic in self.of.items():
            assert self.put(topic, kind) == 201, topic
        if self.poppers:
            self.poppers.begin([topic for kind, topic in self.of.items() if kind != "http"])

    def turn(self, kind):
        """The topic `turning` gets another delivery."""
        assert self.put(self.of["turning"], kind) == 200

    def which(self, jobs, by=None):
        return {job for name, party in self._parties.items() if party and by in (None, name) for job in party.which(jobs)}

    def seen(self):
        return [seen for party in self._parties.values() if party for seen in party.seen()]

    def failures(self):
        return [self.poppers.failure] if self.poppers and self.poppers.failure else []

    def forgive(self, table, journal):
        forgive(table, self.topics, journal)

    def problems(self, table, journal):
        unsigned = self.receiver.unsigned if self.receiver else []
        callbacks = [topic for kind, topic in self.of.items() if kind != "pull"]
        return unsigned + lost_costs_nothing(table, callbacks, journal)

    def end(self):
        for party in self._parties.values():
            if party:
                party.end()

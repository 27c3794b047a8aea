"""Sends commands by message, and reads what comes of them: answers, and commands that were refused."""
import json
import re
import uuid

from confluent_kafka import Consumer, Producer, TopicPartition

from .stack import until


def readers_settled(stack):
    """Whether each partition of the commands topic has one reader: dispatchers that were just started have been heard of by the others."""
    taken = [re.findall(r"topic=duetime\.commands partitions=(\d+) of=(\d+)", stack.log(part))
             for part in stack.parts() if part.startswith("dispatcher") and stack.running(part)]
    return all(taken) and sum(int(last[-1][0]) for last in taken) == int(taken[0][-1][1])


class Commander:
    def __init__(self, brokers, installation="duetime"):
        self.brokers = brokers
        self.topic = f"{installation}.commands"
        self.rejected_topic = f"{self.topic}.rejected"
        self._producer = Producer({"bootstrap.servers": brokers, "linger.ms": 2, "queue.buffering.max.messages": 1000000})
        self.unsent = 0

    def send(self, command, key=None, headers=None, timestamp=None, partition=None):
        """One message; a dict is written as JSON, bytes and None are sent as they are."""
        value = json.dumps(command).encode() if isinstance(command, dict) else command
        more = {name: what for name, what in (("timestamp", timestamp), ("partition", partition)) if what is not None}
        while True:
            try:
                self._producer.produce(self.topic, value=value, key=key, headers=headers or [], on_delivery=self._count, **more)
                break
            except BufferError:
                self._producer.poll(0.1)

    def _count(self, error, message):
        self.unsent += error is not None

    def flush(self):
        left = self._producer.flush(60)
        assert left == 0 and self.unsent == 0, f"{left + self.unsent} commands did not reach Kafka"

    def say(self, *commands):
        for command in commands:
            self.send(command, key=str(command.get("key", command.get("topic"))))
        self.flush()


class Messages:
    """Everything in a topic that came since this was made (or from the beginning)."""

    def __init__(self, brokers, topic, beginning=False):
        self._consumer = Consumer({"bootstrap.servers": brokers, "group.id": f"test-{uuid.uuid4()}", "enable.auto.commit": False,
                                   "isolation.level": "read_committed", "allow.auto.create.topics": False, "fetch.wait.max.ms": 20})
        self.seen = []
        # a broker may answer the one that made the topic before it lists the topic
        partitions = until(lambda: self._consumer.list_topics(topic, 90).topics[topic].partitions, f"the broker lists {topic}")
        starts = []
        for number in partitions:
            low, high = self._consumer.get_watermark_offsets(TopicPartition(topic, number), 90)
            starts.append(TopicPartition(topic, number, low if beginning else high))
        self._consumer.assign(starts)

    def more(self, seconds=0.05):
        for message in self._consumer.consume(1000, seconds):
            if message.error() is None:
                self.seen.append(message)
        return self.seen

    def wait(self, n, seconds=60):
        until(lambda: len(self.more(0.2)) >= n, lambda: f"{len(self.seen)} of {n} messages arrive", every=0, seconds=seconds)
        return self.seen

    def close(self):
        self._consumer.close()


def header(message, name):
    values = [value for key, value in message.headers() or [] if key == name]
    return values[-1].decode() if values else None


def problem(message):
    return json.loads(header(message, "problem"))

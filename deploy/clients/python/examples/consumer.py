#!/usr/bin/env python3
"""A consumer of Kafka: python3 consumer.py TOPIC. It reads committed messages, works, reports, and only then commits its offsets: whatever dies
in between comes again, and is known by its attempt (orders.py). Needs confluent-kafka (Debian: python3-confluent-kafka)."""
import json
import os
import signal
import sys

from confluent_kafka import Consumer, Producer
from orders import Effects, attend

KAFKA = {"bootstrap.servers": os.environ["DUETIME_KAFKA"]}
READER = {
    "isolation.level": "read_committed",
    "enable.auto.commit": False,
    "auto.offset.reset": "earliest",
    "session.timeout.ms": 6000,  # so long after a kill -9 its partitions wait for the next consumer
    "heartbeat.interval.ms": 1000,
    "topic.metadata.refresh.interval.ms": 1000,  # the topic is made when its first job is due
}
BATCH = 100


def report_on(message, effects):
    headers = dict(message.headers())
    return attend(effects, headers["ce_jobid"].decode(), int(headers["ce_attempt"]), json.loads(message.value()))


def attend_batch(messages, effects, producer):
    for report in filter(None, (report_on(message, effects) for message in messages)):
        producer.produce("duetime.results", key=report["job_id"], value=json.dumps(report))
    if producer.flush(60):
        raise RuntimeError("reports did not reach Kafka; what was not committed comes again")


def main(topic):
    consumer, producer = Consumer({**KAFKA, **READER, "group.id": f"orders-{topic}"}), Producer(KAFKA)
    effects, ending = Effects(), []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ending.append(True))
    consumer.subscribe([topic])
    while not ending:
        messages = [message for message in consumer.consume(BATCH, 0.1) if message.error() is None]
        if messages:
            attend_batch(messages, effects, producer)
            consumer.commit(asynchronous=False)
    consumer.close()


if __name__ == "__main__":
    main(sys.argv[1])

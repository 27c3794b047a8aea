"""Warms up a broker: transactions of several producers, each over many topics.

A Java virtual machine interprets what it does for the first times and then compiles it, for minutes: when 300 topics had jobs at one instant its
compiler took 0.7 of two cores, and a transaction over a dozen topics 80 ms, and 30 ms once it was through. A user's broker has run for weeks.
"""
import random
import threading
import time

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

TOPICS, PRODUCERS, TOGETHER = 300, 4, 16


def warm(bootstrap, seconds):
    """The number of transactions that were committed."""
    names = [f"warm.{n}" for n in range(TOPICS)]
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for made in admin.create_topics([NewTopic(name, 1, 1) for name in names]).values():
        made.result(60)
    end, done = time.monotonic() + seconds, [0] * PRODUCERS
    threads = [threading.Thread(target=_send, args=(bootstrap, names[n::PRODUCERS], n, end, done)) for n in range(PRODUCERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(done)


def _send(bootstrap, names, number, end, done):
    """A first transaction over all its topics, which takes a while, then small ones."""
    chance, chosen = random.Random(number), names
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"warm-{number}", "linger.ms": 0})
    producer.init_transactions(30)
    while time.monotonic() < end:
        producer.begin_transaction()
        for name in chosen:
            producer.produce(name, b"warm")
        producer.commit_transaction(30)
        done[number] += 1
        chosen = chance.sample(names, TOGETHER)

"""The inbox on the whole stack: commits that overlap. Dispatchers that die while they move rows: row 54 of tests/faults."""
import random
import threading
import time

import pytest

from harness.checker import connect, rows
from harness.stack import until

pytestmark = pytest.mark.in_turns(2)

DAY_MS = 86400000


def insert(connection, topic, keys, pause=0.0):
    """One transaction; what stands in its rows is seen only when it ends."""
    with connection.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.executemany("INSERT INTO job_inbox (topic, job_key, delay_ms, payload) VALUES (%s, %s, %s, '1')", [(topic, key, DAY_MS) for key in keys])
        time.sleep(pause)
        cursor.execute("COMMIT")


def left(connection, topic):
    return rows(connection, "SELECT id, error FROM job_inbox WHERE topic = %s LIMIT 5", topic)


def made(connection, topic):
    return rows(connection, "SELECT COUNT(*) n, COUNT(DISTINCT job_key) k FROM jobs WHERE topic = %s", topic)[0]


def test_inbox_rows_of_overlapping_commits_are_found(stack, topic):
    chance = random.Random(topic)
    plans = [[([f"{writer}-{i}-{row}" for row in range(chance.randrange(1, 6))], chance.random() * 0.2) for i in range(25)] for writer in range(20)]

    def write(plan):
        connection = connect(stack)
        for keys, pause in plan:
            insert(connection, topic, keys, pause)
        connection.close()
    threads = [threading.Thread(target=write, args=(plan,)) for plan in plans]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    connection = connect(stack)
    until(lambda: not left(connection, topic), lambda: left(connection, topic))
    n = sum(len(keys) for plan in plans for keys, _ in plan)
    assert made(connection, topic) == {"n": n, "k": n}

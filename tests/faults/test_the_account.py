"""The account itself can fail on real servers: what a stranger does behind the product's back is found by the checker."""
import pytest
from confluent_kafka import Producer

from harness.checker import Tape, connect, rows
from harness.load import under_load
from harness import index
from harness.servers import redis_clients
from harness.soak import flush_redis

LATE = 4000000000000  # a time where no leader and no reconciler comes by


def finished(stack, run):
    return rows(connect(stack), "SELECT id FROM jobs WHERE topic = %s AND state = 'succeeded' LIMIT 1", run.topics[0])[0]["id"]


def a_message_again(stack, run):
    message = next(Tape(stack["DUETIME_KAFKA"], run.topics[0]).read())
    producer = Producer({"bootstrap.servers": stack["DUETIME_KAFKA"]})
    producer.produce(run.topics[0], key=message.key(), value=message.value(), headers=message.headers())
    assert producer.flush(10) == 0


def a_job_gone(stack, run):
    rows(connect(stack), "DELETE FROM jobs WHERE id = %s", finished(stack, run))


def a_finished_job_in_redis(stack, run):
    job = finished(stack, run)
    for client in redis_clients(stack):
        for name in client.scan_iter("duetime:*:due"):
            index.add(client, name.decode(), job, LATE)


@pytest.mark.in_turns(3)
@pytest.mark.parametrize("harm, found", [(a_message_again, "O2: "), (a_job_gone, "O1: "), (a_finished_job_in_redis, "O5: ")])
def test_the_account_finds_jobs_changed_from_outside(stack, seed, harm, found):
    try:
        with pytest.raises(AssertionError, match=found):
            with under_load(stack, seed, finish_seconds=20 if found == "O5: " else 45) as run:
                harm(stack, run)
                run.goes_on()
    finally:
        flush_redis(stack)  # the next test gets a sound stack

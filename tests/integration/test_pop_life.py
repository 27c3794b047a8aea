"""A topic whose delivery changes while jobs wait. Pops under faults: rows 47, 48 and 50 of tests/faults."""

from harness.checker import connect, rows
from harness.stack import until


def live(stack, topics):
    return rows(connect(stack), "SELECT COUNT(*) n FROM jobs WHERE topic IN %s AND state IN ('scheduled', 'dispatched')", topics)[0]["n"]


def test_a_topic_changes_from_pull_to_kafka_and_back_with_jobs_waiting(stack, api, topic, consume):
    assert api.put(f"/v1/topics/{topic}", {"delivery": "pull", "ack_timeout": "PT30S"}).status == 201
    consumer = consume(topic, rule=lambda arrival: {"status": "succeeded"})
    first = {api.make(topic=topic, delay=0)["id"] for _ in range(20)}
    connection = connect(stack)
    until(lambda: rows(connection, "SELECT COUNT(*) n FROM pop_queue WHERE topic = %s", topic)[0]["n"] == 20, stack.logs)
    popped = {job["id"] for job in api.post(f"/v1/topics/{topic}/pop", {"max": 5}).json["jobs"]}
    assert api.put(f"/v1/topics/{topic}", {"delivery": "kafka", "ack_timeout": "PT30S"}).status == 200
    for job in first - popped:
        consumer.wait(job)
    until(lambda: live(stack, [topic]) == 5, lambda: f"{live(stack, [topic])}\n{stack.logs()}")
    assert api.put(f"/v1/topics/{topic}", {"delivery": "pull", "ack_timeout": "PT30S"}).status == 200
    second = {api.make(topic=topic, delay=0)["id"] for _ in range(10)}
    got = []
    until(lambda: got.extend(api.post(f"/v1/topics/{topic}/pop", {"max": 100, "wait": 500}).json["jobs"]) or len(got) == 10, lambda: f"{got}\n{stack.logs()}")
    assert {(job["id"], job["attempt"]) for job in got} == {(job, 1) for job in second}
    assert {arrival.job for arrival in consumer.all()} == first - popped

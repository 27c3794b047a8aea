"""Shards with nothing to do close their producers, and are on time all the same when something turns up."""
from harness.checker import connect, now_ms, rows
from harness.soak import rfc3339
from harness.stack import until


def epochs(stack):
    return [row["epoch"] for row in rows(connect(stack), "SELECT epoch FROM shards ORDER BY shard")]


def test_after_a_rest_jobs_arrive_on_time_and_at_once(stack, api, topic, consume):
    consumer = consume(topic)
    consumer.wait(api.make(topic=topic, delay=0)["id"])
    before = epochs(stack)
    due = int(now_ms()) + 9000
    lines = api.batch([{"topic": topic, "run_at": rfc3339(due)} for _ in range(40)])
    until(lambda: all(now > then for now, then in zip(epochs(stack), before)), 20, "every shard was taken over again")
    late = [consumer.wait(line["id"]).received_ms - due for line in lines]
    print(f"late by {min(late):.0f} to {max(late):.0f} ms after a rest")
    assert min(late) >= -1
    sudden = api.make(topic=topic, delay=0)
    consumer.wait(sudden["id"], seconds=5)

"""Idle shards close their producers, and still dispatch when a job is due."""
import time

from harness.checker import connect, now_ms, rows
from harness.soak import rfc3339
from harness.stack import until


def epochs(stack):
    return [row["epoch"] for row in rows(connect(stack), "SELECT epoch FROM shards ORDER BY shard")]


def late_after_a_rest(api, consumer, topic):
    """Returns the lateness of each of forty jobs that are due in six seconds, while most shards rest."""
    due = int(now_ms()) + 6000
    lines = api.batch([{"topic": topic, "run_at": rfc3339(due)} for _ in range(40)])
    return [consumer.wait(line["id"]).received_ms - due for line in lines]


def test_after_an_idle_time_jobs_arrive_promptly_and_never_early(stack, api, topic, consume):
    """If a job of an earlier test is retried meanwhile, its shard does not rest. So the test repeats its rounds until all shards rested."""
    consumer = consume(topic)
    consumer.wait(api.make(topic=topic, delay=0)["id"])
    before = epochs(stack)

    def rested():
        late = late_after_a_rest(api, consumer, topic)
        print(f"late by {min(late):.0f} to {max(late):.0f} ms after a rest")
        assert min(late) >= -1
        return all(now > then for now, then in zip(epochs(stack), before))
    until(rested, "every shard was taken over again")
    sudden = api.make(topic=topic, delay=0)
    consumer.wait(sudden["id"])


def test_a_shard_at_rest_does_not_say_that_it_waits_for_redis_when_redis_is_back(stack, api):
    """No job comes meanwhile, so the shards go on resting."""
    waiting = lambda: [shard["waiting_for"] for shard in api.get("/v1/info").json["shards"]]  # noqa: E731
    time.sleep(5)  # they close their producers after dispatch.rest_after, 2 s here
    with stack.killed("redis1"), stack.killed("redis2"):
        until(lambda: set(waiting()) == {"redis"}, waiting)
    until(lambda: set(waiting()) == {None}, waiting)

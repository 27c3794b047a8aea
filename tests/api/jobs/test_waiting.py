"""waiting_for: why a job has not gone on, in one word."""
from harness.checker import shard_of
from harness.stack import until

SHARDS = 2


def waiting(api, job, word, seconds=20):
    path = f"/v1/jobs/{job['id']}"
    return until(lambda: (now := api.get(path).json)["waiting_for"] == word and now, lambda: f"{word}: {api.get(path)}", seconds=seconds)


def sent(api, job):
    return until(lambda: (now := api.get(f"/v1/jobs/{job['id']}").json)["state"] == "dispatched" and now, lambda: api.get(f"/v1/jobs/{job['id']}"))


def test_waiting_for_is_time_then_ack_then_null(api, topic):
    job = api.make(topic=topic, delay="PT1H")
    assert api.get(f"/v1/jobs/{job['id']}").json["waiting_for"] == job["waiting_for"] == "time"
    assert api.post(f"/v1/jobs/{job['id']}/run-now").status == 200
    waiting(api, sent(api, job), "ack")
    done = api.post(f"/v1/jobs/{job['id']}/results", {"attempt": 1, "status": "succeeded"}).json
    assert done["waiting_for"] is None


def test_every_answer_says_that_the_topic_is_paused(api, held):
    job = api.make(topic=held, delay=0)
    assert job["waiting_for"] in ("paused", "time")  # its time may lie the clock's error ahead
    assert waiting(api, job, "paused")["state"] == "scheduled"
    assert [seen["waiting_for"] for seen in api.list(topic=held)] == ["paused"]
    assert api.make(topic=held, delay="PT1H")["waiting_for"] == "time"
    api.post(f"/v1/topics/{held}/resume")
    sent(api, job)


def test_a_due_job_waits_for_leader_if_its_shard_has_none(stack, api, topic):
    stack.stop("dispatcher1")
    try:
        job = api.make(topic=topic, delay=0)
        waiting(api, job, "leader")
        until(lambda: [shard["leader"] for shard in api.get("/v1/info").json["shards"]] == [None, None], lambda: api.get("/v1/info"))
    finally:
        stack.start("dispatcher1")
    waiting(api, sent(api, job), "ack")


def test_a_claimed_job_waits_for_kafka_while_kafka_hangs(stack, api, topic):
    """Both shards send a job of the topic before Kafka hangs, so both know that it can be written."""
    shards = set()
    while len(shards) < SHARDS:
        shards.add(shard_of(int(sent(api, api.make(topic=topic, delay=0))["id"]), SHARDS))
    with stack.stopped("kafka"):
        job = api.make(topic=topic, delay=0)
        waiting(api, job, "kafka")
    assert sent(api, job)["attempt"] == 1
    waiting(api, job, "ack", 60)

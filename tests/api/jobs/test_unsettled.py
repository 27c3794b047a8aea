"""A job that waits for its retry is cancelled or changed like any other, also while its last attempt's batch is not settled."""
import concurrent.futures
import contextlib
import random
import signal
import time
import uuid

import pytest

from harness.consumer import TestConsumer
from harness.kafka_admin import Broker
from harness.problems import refused
from harness.rest import Rest
from harness.stack import until


def url(job):
    return f"/v1/jobs/{job['id']}"


CHANGES = {
    "delete": (lambda api, job: api.delete(url(job)), "cancelled"),
    "cancel": (lambda api, job: api.post(f"{url(job)}/cancel"), "cancelled"),
    "cancel of retries": (lambda api, job: api.post(f"{url(job)}/cancel?retries=true"), "cancelled"),
    "payload": (lambda api, job: api.patch(url(job), {"payload": 2}), "scheduled"),
    "headers": (lambda api, job: api.patch(url(job), {"headers": {"a": "b"}}), "scheduled"),
    "time": (lambda api, job: api.patch(url(job), {"delay": "PT2H"}), "scheduled"),
    "run-now": (lambda api, job: api.post(f"{url(job)}/run-now"), "scheduled"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_job_that_waits_for_its_retry_is_changed_at_once(api, topic, dispatched, name):
    change, state = CHANGES[name]
    for _ in range(10):
        job = dispatched(topic=topic, retry=["1h"])
        assert api.post(f"{url(job)}/results", {"attempt": 1, "status": "failed"}).json["state"] == "scheduled"
        answer = change(api, job)
        assert answer.status == 200 and answer.json["state"] == state, answer


# ---- with the leader stopped, and what its rows say written by hand ----

@pytest.fixture
def unsettled(stack, api, db):
    """unsettled(topic, n) -> jobs that wait for a retry, whose first attempt is in a list that nobody settles; and a settle()."""
    stopped = []

    def make(topic, n=1):
        jobs = [api.make(topic=topic, delay="PT1H", payload=1) for _ in range(n)]
        assert until(lambda: db("SELECT COUNT(*) n FROM shards WHERE inflight <> '[]'")[0]["n"] == 0, "rest")
        stack.signal("dispatcher1", signal.SIGSTOP)
        stopped.append(True)
        for job in jobs:
            db("UPDATE jobs SET attempt = 1, failures = 1, attempt_status = 'failed', claim_shard = 0 WHERE id = %s", job["id"])
        db("UPDATE shards SET inflight = %s WHERE shard = 0", "[" + ",".join(f"[{job['id']},1,5]" for job in jobs) + "]")
        return jobs if n > 1 else jobs[0]

    def settle():
        db("UPDATE shards SET inflight = '[]' WHERE shard = 0")
    make.settle = settle
    yield make
    if stopped:
        settle()
        stack.signal("dispatcher1", signal.SIGCONT)


def test_the_body_of_an_unsettled_attempt_is_replaced_when_it_is_settled(stack, api, db, topic, unsettled):
    job = unsettled(topic)
    db("UPDATE jobs SET job_key = 'k' WHERE id = %s", job["id"])
    db("INSERT INTO job_keys VALUES (%s, 'k', %s)", topic, job["id"])
    replace = f"/v1/topics/{topic}/jobs/k?replace=true"
    assert refused(api.put(replace, {"delay": "PT1H", "payload": 2}), 409, "too-late")["state"] == "scheduled"
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        asked = pool.submit(Rest(stack["DUETIME_URL_API1"]).put, replace, {"delay": "PT1H", "payload": 2})
        time.sleep(0.05)
        unsettled.settle()
        answer = asked.result()
    assert answer.status == 200 and (answer.json["id"], answer.json["payload"], "failures" in answer.json) == (job["id"], 2, False), answer


def timed(change, api, job):
    begin = time.monotonic()
    return change(api, job), time.monotonic() - begin


@pytest.mark.parametrize("name", ["delete", "cancel", "payload", "headers"])
def test_after_200_ms_an_unsettled_attempt_is_too_late(api, topic, unsettled, name):
    job = unsettled(topic)
    answer, seconds = timed(CHANGES[name][0], api, job)
    body = refused(answer, 409, "too-late")
    assert (body["state"], body["attempt"]) == ("scheduled", 1) and seconds >= 0.19, (body, seconds)


@pytest.mark.parametrize("name", ["cancel of retries", "time", "run-now"])
def test_what_does_not_touch_the_attempt_does_not_wait_for_it(api, topic, unsettled, name):
    change, state = CHANGES[name]
    job = unsettled(topic)
    answer, seconds = timed(change, api, job)
    assert answer.status == 200 and answer.json["state"] == state and answer.json["attempt"] == 1 and seconds < 0.19, (answer, seconds)


def test_a_change_goes_on_when_the_batch_is_settled(stack, db, topic, unsettled):
    job = unsettled(topic)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        asked = pool.submit(timed, CHANGES["delete"][0], Rest(stack["DUETIME_URL_API1"]), job)
        time.sleep(0.05)
        unsettled.settle()
        answer, seconds = asked.result()
    assert answer.status == 200 and answer.json["state"] == "cancelled" and seconds >= 0.05, (answer, seconds)


def test_who_waits_for_a_batch_takes_no_worker_and_no_lock(stack, api, db, topic, unsettled):
    """Eight workers; eighty that wait 200 ms each would keep them for 2 s, and whoever changes such a row waits for nobody."""
    jobs = unsettled(topic, 80)
    ends = []

    def cancel(job):
        rest = Rest(stack["DUETIME_URL_API1"])
        answer = rest.delete(url(job))
        ends.append(time.monotonic())
        rest.close()
        return answer
    begin = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(80) as pool:
        asked = [pool.submit(cancel, job) for job in jobs]
        seen = api.get(url(jobs[0]))
        db("UPDATE jobs SET updated_at = updated_at WHERE topic = %s", topic)
        looked = time.monotonic()
        answers = [each.result() for each in asked]
    assert seen.status == 200 and looked < max(ends), (looked - begin, max(ends) - begin)
    assert [answer.status for answer in answers] == [409] * 80
    assert max(ends) - begin < 1.2, max(ends) - begin


def test_a_shutdown_answers_those_that_wait_for_a_batch(stack, own_apis, topic, unsettled):
    job = unsettled(topic)
    other = own_apis("unsettled", {"mysql.database": stack["DUETIME_MYSQL_DATABASE"], "installation.name": "duetime"}, shared=True)
    other.start()
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        asked = pool.submit(other.rest.delete, url(job))
        time.sleep(0.05)
        other.end()
        answer = asked.result()
    assert answer.status in (409, 503), answer


# ---- thousands, at the instant of their retry ----

@pytest.mark.in_turns(3)
def test_what_is_cancelled_right_after_a_failure_never_comes_again(stack, topic):
    """Cancels and changes race with results, the settling of batches and retries of 1 to 20 ms. `cancelled` after n attempts:
    no further one; too late with n: n was sent. Who is too late because of the batch of its own last attempt has waited for that, and hardly
    anybody is: Kafka or MySQL must have stood still for so long."""
    chance = random.Random(topic)
    Broker(stack).make(topic)  # its making is not what this is about
    consumer = TestConsumer(stack["DUETIME_KAFKA"], [topic])

    def life(_):
        api, told = Rest(stack["DUETIME_URL_API1"]), []
        with contextlib.closing(api):
            for _ in range(125):
                job = api.make(topic=topic, delay=0, retry=[chance.choice((1, 5, 20, 3600000)), 1], key=uuid.uuid4().hex)
                consumer.wait(job["id"], 1, 30)
                api.post(f"{url(job)}/results", {"attempt": 1, "status": "failed"})
                if chance.random() < 0.5:
                    time.sleep(chance.random() * 0.03)
                change = chance.choice(("delete", "delete", "cancel of retries", "payload"))
                told.append((job["id"], change, *timed(CHANGES[change][0], api, job)))
        return told
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        told = [each for many in pool.map(life, range(16)) for each in many]
    assert len(told) == 2000 and {answer.status for _, _, answer, _ in told} <= {200, 409}
    cancelled = [(id, change, answer.json["attempt"]) for id, change, answer, _ in told if answer.status == 200 and answer.json["state"] == "cancelled"]
    late = [(id, answer.json["state"], answer.json["attempt"], seconds) for id, _, answer, seconds in told if answer.status == 409]
    time.sleep(1)  # what should not come would have come by now
    for id, _, attempt in cancelled:
        assert max(arrival.attempt for arrival in consumer.of(id)) <= attempt, (id, attempt)
    for id, _, attempt, _ in late:
        consumer.wait(id, attempt)
    unsettled = [each for each in late if each[1] == "scheduled"]
    assert len(cancelled) > 200 and len(unsettled) <= len(told) // 100 and all(seconds >= 0.19 for *_, seconds in unsettled), (len(cancelled), unsettled)
    consumer.end()

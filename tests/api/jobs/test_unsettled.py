"""A job that waits for its retry is cancelled or changed like any other, also while its last attempt's batch is not settled."""
import concurrent.futures
import contextlib
import random
import select
import time
import uuid

import pymysql
import pytest

from harness.consumer import TestConsumer
from harness.kafka_admin import Broker
from harness.problems import refused
from harness.raw import Raw
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
    """If the leader takes more than 200 ms to settle the attempt, the answer is `too-late`; then the test tries again."""
    change, state = CHANGES[name]

    def changed():
        job = dispatched(topic=topic, retry=["1h"])
        assert api.post(f"{url(job)}/results", {"attempt": 1, "status": "failed"}).json["state"] == "scheduled"
        answer = change(api, job)
        assert answer.status == 200 and answer.json["state"] == state or refused(answer, 409, "too-late")["state"] == "scheduled", answer
        return answer.status == 200
    for _ in range(10):
        until(changed, "it is changed")


# ---- with the leader stopped, and what its rows say written by hand ----

@pytest.fixture
def unsettled(stack, api, db):
    """unsettled(topic, n) -> jobs that wait for a retry; the list of their first attempts stays unsettled until settle()."""
    with contextlib.ExitStack() as ends:
        def make(topic, n=1, **job):
            jobs = [api.make(topic=topic, delay="PT1H", payload=1, **job) for _ in range(n)]
            if not make.stopped:
                until(lambda: db("SELECT COUNT(*) n FROM shards WHERE inflight <> '[]'")[0]["n"] == 0, "rest")
                ends.enter_context(stack.stopped("dispatcher1"))
                ends.callback(make.settle)
                make.stopped = True
            for job in jobs:
                db("UPDATE jobs SET attempt = 1, failures = 1, attempt_status = 'failed', claim_shard = 0 WHERE id = %s", job["id"])
            db("UPDATE shards SET inflight = %s WHERE shard = 0", "[" + ",".join(f"[{job['id']},1,5]" for job in jobs) + "]")
            return jobs

        make.stopped = False
        make.settle = lambda: db("UPDATE shards SET inflight = '[]' WHERE shard = 0")
        yield make


def timed(change, api, job):
    begin = time.monotonic()
    return change(api, job), time.monotonic() - begin


def when_settled(unsettled, api, topic, change):
    """Returns the answer to a change of a new job whose batch is settled meanwhile. The API waits 200 ms; if it was too late, tries another job."""
    def tried():
        [job] = unsettled(topic, key=uuid.uuid4().hex)
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            asked = pool.submit(timed, change, Rest(api.url), job)
            time.sleep(0.05)  # so that the request waits
            unsettled.settle()
            answer, seconds = asked.result()
        if answer.status == 409:
            refused(answer, 409, "too-late")
        return answer.status == 200 and seconds >= 0.05 and (job, answer)
    return until(tried, "it goes on when the batch is settled")


def test_the_body_of_an_unsettled_attempt_is_replaced_when_it_is_settled(api, topic, unsettled):
    def replace(rest, job):
        return rest.put(f"/v1/topics/{topic}/jobs/{job['key']}?replace=true", {"delay": "PT1H", "payload": 2})
    assert refused(replace(api, unsettled(topic, key="k")[0]), 409, "too-late")["state"] == "scheduled"
    job, answer = when_settled(unsettled, api, topic, replace)
    assert (answer.json["id"], answer.json["payload"], "failures" in answer.json) == (job["id"], 2, False), answer


@pytest.mark.parametrize("name", ["delete", "cancel", "payload", "headers"])
def test_after_200_ms_an_unsettled_attempt_is_too_late(api, topic, unsettled, name):
    [job] = unsettled(topic)
    answer, seconds = timed(CHANGES[name][0], api, job)
    body = refused(answer, 409, "too-late")
    assert (body["state"], body["attempt"]) == ("scheduled", 1) and seconds >= 0.19, (body, seconds)


@pytest.mark.parametrize("name", ["cancel of retries", "time", "run-now"])
def test_a_change_that_does_not_touch_the_attempt_does_not_wait_for_it(api, topic, unsettled, name):
    change, state = CHANGES[name]
    answers = [timed(change, api, job) for job in unsettled(topic, 10)]
    assert all(answer.status == 200 and answer.json["state"] == state and answer.json["attempt"] == 1 for answer, _ in answers), answers
    assert min(seconds for _, seconds in answers) < 0.19, answers


def test_a_change_continues_when_the_batch_is_settled(api, topic, unsettled):
    _, answer = when_settled(unsettled, api, topic, CHANGES["delete"][0])
    assert answer.json["state"] == "cancelled", answer


@pytest.fixture
def single(stack, own_apis):
    """A third API of the stack, with one worker and little memory. Other tests expect only two in the overview, so it stops again."""
    api = own_apis.running("single", {"mysql.database": stack["DUETIME_MYSQL_DATABASE"], "installation.name": "duetime", "http.workers": 1,
                                     "limits.memory": 64 << 20, "limits.batch_body": 8 << 20}, shared=True)
    yield api
    api.end()


def test_a_change_that_waits_for_a_batch_holds_no_worker_and_no_lock(single, db, topic, unsettled):
    """There is one worker, and 120 requests wait 200 ms each: one after another they would take 24 s. Meanwhile a job is read, no row stays locked,
    and no request holds the memory that reading a job may take."""
    jobs = unsettled(topic, 120)

    def free_meanwhile():
        with contextlib.ExitStack() as ends:
            wires = [ends.enter_context(Raw(single.url)) for _ in jobs]
            begun, free = time.monotonic(), 0
            for wire, job in zip(wires, jobs):
                wire.request(f"DELETE {url(job)}")
            assert single.rest.get(url(jobs[0])).status == 200
            while not select.select([wire.socket for wire in wires], [], [], 0)[0]:
                with contextlib.suppress(pymysql.OperationalError):
                    db("SELECT id FROM jobs WHERE topic = %s FOR UPDATE NOWAIT", topic)
                    free += not select.select([wire.socket for wire in wires], [], [], 0)[0]
            answers = [wire.answer() for wire in wires]
            assert {answer[0] for answer in answers} == {409}, [answer for answer in answers if answer[0] != 409]
            return free and time.monotonic() - begun < 15
    until(free_meanwhile, "no row is locked while all wait")


def test_a_shutdown_answers_requests_that_wait_for_a_batch(single, topic, unsettled):
    [job] = unsettled(topic)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        asked = pool.submit(single.rest.delete, url(job))
        time.sleep(0.05)  # so that the request waits
        single.end()
        answer = asked.result()
    assert answer.status in (409, 503), answer


# ---- thousands, at the instant of their retry ----

@pytest.mark.in_turns(3)
def test_a_job_cancelled_right_after_a_failure_is_never_sent_again(stack, topic):
    """Cancels and changes race with results, the settling of batches and retries of 1 to 20 ms. `cancelled` after n attempts:
    no further one; too late with n: n was sent. If a request is too late because of the batch of its job's last attempt, it
    has waited for that batch. This is rare: Kafka or MySQL must have stalled."""
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
    time.sleep(1)  # a wrong message would have arrived by now; no other event can be waited for
    for id, _, attempt in cancelled:
        assert max(arrival.attempt for arrival in consumer.of(id)) <= attempt, (id, attempt)
    for id, _, attempt, _ in late:
        consumer.wait(id, attempt)
    unsettled = [each for each in late if each[1] == "scheduled"]
    assert len(cancelled) > 200 and len(unsettled) <= len(told) // 4 and all(seconds >= 0.19 for *_, seconds in unsettled), (len(cancelled), unsettled)
    consumer.end()

"""Pull: topics whose jobs are popped."""
import concurrent.futures
import contextlib
import datetime

import pytest

from harness.problems import refused
from harness.stack import until


def at(text):
    return datetime.datetime.fromisoformat(text)


@pytest.fixture
def pulled(api, topic):
    """A topic of the test's own, whose jobs are popped."""
    made = api.put(f"/v1/topics/{topic}", {"delivery": "pull"})
    assert made.status == 201 and made.json["delivery"] == "pull", made
    return topic


@pytest.fixture
def offered(api, pulled, db):
    """offered(n, …) -> n due jobs that can be popped."""
    def make(n=1, topic=pulled, **job):
        made = [api.make(topic=topic, delay=0, **job) for _ in range(n)]
        can_be_popped(db, topic, n)
        return made
    return make


def can_be_popped(db, topic, n):
    """Waits until n jobs are offered and not locked: MySQL shows what was committed a moment before it releases the locks, and a pop skips locked rows."""
    free = "SELECT q.job_id FROM pop_queue q JOIN jobs j ON j.id = q.job_id WHERE q.topic = %s FOR UPDATE SKIP LOCKED"
    until(lambda: len(db(free, topic)) >= n, f"{n} jobs are offered and not locked")


def pop(rest, topic, **body):
    answer = rest.post(f"/v1/topics/{topic}/pop", body)
    assert answer.status == 200, answer
    return answer.json["jobs"]


def report(api, job, status, **more):
    answer = api.post(f"/v1/jobs/{job['id']}/results", {"attempt": job["attempt"], "status": status, **more})
    assert answer.status == 200, answer
    return answer.json


def test_a_due_job_is_popped_once_reported_and_succeeds(api, pulled, offered):
    [made] = offered(payload={"a": 1}, key="k", headers={"h": "1"})
    path = f"/v1/jobs/{made['id']}"
    waiting = until(lambda: (seen := api.get(path).json)["waiting_for"] == "pop" and seen, lambda: api.get(path))
    assert waiting["state"] == "scheduled"
    [job] = pop(api, pulled)
    assert (job["id"], job["attempt"], job["state"], job["payload"], job["key"], job["waiting_for"]) == (made["id"], 1, "dispatched", {"a": 1}, "k", "ack")
    assert job["headers"] == {"h": "1"} and job["deadline"] == job["next_at"]
    assert at(job["deadline"]) - at(job["updated_at"]) == datetime.timedelta(minutes=5)
    assert pop(api, pulled, max=10) == []
    done = report(api, job, "succeeded")
    assert (done["state"], done["outcome"]) == ("succeeded", "applied")
    assert report(api, job, "succeeded")["outcome"] == "duplicate"


def test_jobs_whose_counters_are_at_their_maximum_are_popped(api, pulled, offered, db):
    jobs = offered(3)
    db("UPDATE jobs SET attempt = 1999999999, version = 1999999999 WHERE id = %s", jobs[1]["id"])
    assert {job["id"]: job["attempt"] for job in pop(api, pulled, max=10)} == {jobs[0]["id"]: 1, jobs[1]["id"]: 1999999999, jobs[2]["id"]: 1}


def test_a_job_created_due_can_be_popped_without_a_dispatcher(stack, api, pulled):
    with contextlib.ExitStack() as stopped:
        for part in (part for part in stack.parts() if part.startswith("dispatcher")):
            stopped.enter_context(stack.stopped(part))
        made = [api.make(topic=pulled, delay=0, payload=n) for n in range(3)]
        made += api.batch([{"topic": pulled, "delay": 0}, {"topic": pulled, "delay": 60}])[:1]
        got = []
        until(lambda: got.extend(job["id"] for job in pop(api, pulled, max=10)) or len(got) >= len(made), lambda: (got, made))
        assert sorted(got) == sorted(job["id"] for job in made)


def test_an_empty_pop_body_means_an_empty_object(api, pulled, offered):
    offered(2)
    for body in (None, b"", "{}"):
        answer = api.ask("POST", f"/v1/topics/{pulled}/pop", body)
        assert answer.status == 200, answer
    assert pop(api, pulled) == []


def test_jobs_are_popped_in_order_of_next_at_and_never_early(api, pulled, offered):
    later = api.make(topic=pulled, delay="PT1H")
    made = offered(12)
    jobs = pop(api, pulled, max=100)
    assert {job["id"] for job in jobs} == {job["id"] for job in made}
    assert [at(job["run_at"]) for job in jobs] == sorted(at(job["run_at"]) for job in jobs)
    assert api.get(f"/v1/jobs/{later['id']}").json["attempt"] == 0


def test_concurrent_pops_get_different_jobs(api, api2, pulled, offered):
    made = offered(60)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda i: [job["id"] for _ in range(12) for job in pop((api, api2)[i % 2], pulled, max=1 + i % 3)], range(8)))
    got = [job for answer in answers for job in answer]
    assert len(got) == len(set(got))
    assert set(got) <= {job["id"] for job in made}
    got += [job["id"] for job in pop(api, pulled, max=1000)]
    assert sorted(got) == sorted(job["id"] for job in made)


def test_ttr_is_the_time_to_report_and_an_extension_restarts_it(api, pulled, offered):
    offered()
    [job] = pop(api, pulled, ttr="PT9S")
    assert at(job["deadline"]) - at(job["updated_at"]) == datetime.timedelta(seconds=9)
    extended = report(api, job, "extended")
    assert at(extended["next_at"]) - at(extended["updated_at"]) == datetime.timedelta(seconds=9)
    assert extended["ack_timeout"] == "PT5M"


def test_a_lost_pop_answer_costs_one_attempt(api, pulled, offered):
    [made] = offered(retry=[1] * 9)
    [job] = until(lambda: pop(api, pulled, ttr=500), "nothing is offered")
    [again] = until(lambda: pop(api, pulled), "nothing is offered")
    assert (job["id"], again["id"], again["attempt"]) == (made["id"], made["id"], job["attempt"] + 1)
    attempts = api.get(f"/v1/jobs/{made['id']}/attempts").json["attempts"]
    assert [attempt["status"] for attempt in attempts] == ["timed_out"] * job["attempt"] + ["dispatched"]


def test_a_failed_job_is_popped_again_after_its_delay_and_a_snoozed_one_without_a_failure(api, pulled, offered):
    offered(retry=[1])
    [first] = pop(api, pulled)
    assert report(api, first, "snoozed", retry_after=0)["state"] == "scheduled"
    [second] = until(lambda: pop(api, pulled), "nothing is offered")
    assert report(api, second, "failed", error={"code": "E"})["failures"] == 1
    [third] = until(lambda: pop(api, pulled), "nothing is offered")
    assert third["attempt"] == 3 and report(api, third, "failed")["state"] == "dead"


def test_no_job_of_a_paused_topic_is_popped(api, pulled, offered):
    [made] = offered()
    assert api.post(f"/v1/topics/{pulled}/pause").status == 200
    assert pop(api, pulled) == []
    assert api.get(f"/v1/jobs/{made['id']}").json["waiting_for"] == "paused"
    assert api.post(f"/v1/topics/{pulled}/resume").status == 200
    assert [job["id"] for job in pop(api, pulled)] == [made["id"]]


def test_a_cancelled_job_is_not_popped_and_blocks_no_other(api, pulled, offered):
    first, second = offered(2)
    assert api.delete(f"/v1/jobs/{first['id']}").json["state"] == "cancelled"
    assert [job["id"] for job in pop(api, pulled, max=1)] == [second["id"]]


def test_a_change_of_an_offered_job_takes_effect(api, pulled, offered):
    [made] = offered()
    moved = api.ask("PATCH", f"/v1/jobs/{made['id']}", {"delay": "PT1H"})
    assert moved.status == 200
    assert pop(api, pulled) == []
    assert api.post(f"/v1/jobs/{made['id']}/run-now").status == 200
    assert [job["id"] for job in until(lambda: pop(api, pulled), "nothing is offered")] == [made["id"]]


def test_a_pop_of_several_topics_takes_from_each_in_turn(api, offered, topic):
    others = [f"{topic}.{i}" for i in range(3)]
    for other in others:
        assert api.put(f"/v1/topics/{other}", {"delivery": "pull"}).status == 201
        offered(4, topic=other)
    answer = api.post("/v1/pop", {"topics": others, "max": 6})
    assert answer.status == 200, answer
    assert sorted(job["topic"] for job in answer.json["jobs"]) == sorted(others * 2)
    offered(1, topic=others[0])
    rest = api.post("/v1/pop", {"topics": others, "max": 100}).json["jobs"]
    assert len(rest) == 7
    assert api.post("/v1/pop", {"topics": others}).json == {"jobs": []}


def test_a_pop_of_an_unknown_topic_or_another_delivery_is_refused(api, topic, pulled):
    api.put(f"/v1/topics/{topic}.k", {})
    refused(api.post(f"/v1/topics/{topic}.k/pop", {}), 409, "not-pull")
    refused(api.post(f"/v1/topics/{topic}.nobody/pop", {}), 404, "not-found")
    refused(api.post("/v1/pop", {"topics": [pulled, f"{topic}.k"]}), 409, "not-pull")
    refused(api.post("/v1/pop", {"topics": [pulled, f"{topic}.nobody"]}), 404, "not-found")


@pytest.mark.parametrize("body, pointer", [
    ({"max": 0}, "/max"), ({"max": 1001}, "/max"), ({"max": "1"}, "/max"), ({"wait": "PT61S"}, "/wait"), ({"wait": -1}, "/wait"),
    ({"ttr": 0}, "/ttr"), ({"ttr": True}, "/ttr"), ({"topics": ["a"]}, "/topics"), ({"what": 1}, "/what"), ([], "")])
def test_an_invalid_pop_body_is_refused_with_the_fault(api, pulled, body, pointer):
    problem = refused(api.post(f"/v1/topics/{pulled}/pop", body), 422, "invalid")
    assert [fault["pointer"] for fault in problem["errors"]] == [pointer]


@pytest.mark.parametrize("body, pointer", [
    ({}, "/topics"), ({"topics": []}, "/topics"), ({"topics": "a"}, "/topics"), ({"topics": ["a", 1]}, "/topics/1"), ({"topics": ["a", "a"]}, "/topics/1"),
    ({"topics": [f"t{i}" for i in range(101)]}, "/topics")])
def test_an_invalid_list_of_topics_is_refused_with_the_fault(api, body, pointer):
    problem = refused(api.post("/v1/pop", body), 422, "invalid")
    assert [fault["pointer"] for fault in problem["errors"]] == [pointer]


def test_a_body_that_is_not_json_is_refused(api, pulled):
    refused(api.post(f"/v1/topics/{pulled}/pop", b"{"), 400, "malformed")


def test_a_pop_answer_is_bounded_in_bytes_and_other_jobs_stay_offered(api, pulled, offered, db):
    made = offered(12, payload="x" * 890_000)
    first = pop(api, pulled, max=100)
    assert len(first) == 9
    can_be_popped(db, pulled, len(made) - 9)  # the first pop had locked them, too
    assert len(pop(api, pulled, max=100)) == len(made) - 9


def test_after_a_change_of_delivery_jobs_are_delivered_the_new_way(api, pulled, offered, db):
    [made] = offered()
    assert api.put(f"/v1/topics/{pulled}", {"delivery": "kafka"}).status == 200
    sent = until(lambda: (seen := api.get(f"/v1/jobs/{made['id']}").json)["state"] == "dispatched" and seen, lambda: api.get(f"/v1/jobs/{made['id']}"))
    assert sent["attempt"] == 1
    until(lambda: not db("SELECT 1 FROM pop_queue WHERE topic = %s", pulled), "nothing is offered")
    refused(api.post(f"/v1/topics/{pulled}/pop", {}), 409, "not-pull")
    assert api.put(f"/v1/topics/{pulled}", {"delivery": "pull"}).status == 200
    [second] = offered()
    assert [job["id"] for job in until(lambda: pop(api, pulled, max=9), "nothing is offered")] == [second["id"]]


def test_offers_deleted_by_hand_are_made_again(api, pulled, offered, db):
    made = offered(3)
    db("DELETE FROM pop_queue WHERE topic = %s", pulled)
    got = []
    until(lambda: got.extend(pop(api, pulled, max=9)) or len(got) == 3, "nothing is offered")
    assert {job["id"] for job in got} == {job["id"] for job in made}

"""Topics that are deleted with their jobs while others make some, others are due, and programs die: all jobs end, and the topic goes."""
import http.client
import threading

import pytest

from harness.checker import connect, rows
from harness.rest import Rest
from harness.stack import until

pytestmark = pytest.mark.in_turns(2)


def make_until_refused(url, topic, made):
    """Keeps the ids of what was accepted; an API that dies is somebody else's."""
    rest = Rest(url)
    try:
        while (answer := rest.post("/v1/jobs", {"topic": topic, "delay": "PT1H"})).status == 201:
            made.append(int(answer.json["id"]))
        assert answer.status in (409, 503), answer
    except (OSError, http.client.HTTPException):
        pass
    rest.close()


def delete(url, topic, answers):
    rest = Rest(url)
    try:
        answers.append(rest.delete(f"/v1/topics/{topic}?cancel=true&wait=PT20S"))
    except (OSError, http.client.HTTPException):
        pass


@pytest.mark.parametrize("delivery", ["kafka", "pull"])
def test_a_topic_is_deleted_with_its_jobs_whichever_process_dies(stack, api, topic, consume, delivery):
    connection = connect(stack)
    apis = [stack["DUETIME_URL_API1"], stack["DUETIME_URL_API2"]]
    api.put(f"/v1/topics/{topic}", {"delivery": delivery, "ack_timeout": "PT3S", "retry": ["1s"] * 90})
    due = [{"topic": topic, "delay": f"PT{i * 5 / 1000}S", "payload": i} for i in range(600)]  # for three seconds
    assert {line["status"] for line in api.batch(due + [{"topic": topic, "delay": "PT1H"}] * 1500)} == {201}
    consumer = consume(topic) if delivery == "kafka" else None
    out = "SELECT COUNT(*) n FROM jobs WHERE topic = %s AND state = 'dispatched'"

    def some_are_dispatched():
        if delivery == "pull":
            api.post(f"/v1/topics/{topic}/pop", {"max": 20})
        return rows(connection, out, topic)[0]["n"] > 10
    until(some_are_dispatched, "some are dispatched")
    made, answers = [], []
    threads = [threading.Thread(target=make_until_refused, args=(url, topic, made)) for url in apis]
    threads.append(threading.Thread(target=delete, args=(apis[1], topic, answers)))
    for thread in threads:
        thread.start()
    until(lambda: rows(connection, "SELECT 1 FROM topics WHERE name = %s AND deletion IS NOT NULL", topic), "it began")
    stack.kill("api2")
    stack.kill("dispatcher1")
    for thread in threads:
        thread.join()
    until(lambda: api.get(f"/v1/topics/{topic}").status == 404, lambda: rows(connection, "SELECT * FROM operations ORDER BY id DESC LIMIT 1"))
    stack.heal()
    left = rows(connection, "SELECT id, state, attempt FROM jobs WHERE topic = %s", topic)
    assert {row["state"] for row in left} == {"cancelled"} and not set(made) - {row["id"] for row in left}
    if consumer:
        sent = sum(row["attempt"] for row in left)
        until(lambda: consumer.count >= sent, lambda: (consumer.count, sent))
        assert consumer.count == sent

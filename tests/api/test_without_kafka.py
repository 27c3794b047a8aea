"""What an API says and takes where kafka.brokers is empty: topics are made for pops, and nobody is told that Kafka works."""
import pytest

from harness.problems import refused


@pytest.fixture(scope="module")
def lone(own_apis):
    """An API without Kafka, with a database of its own; no dispatcher works on that."""
    made = own_apis.running("no_kafka", {"kafka.brokers": ""})
    return made


def delivery(api, topic):
    return api.get(f"/v1/topics/{topic}").json["delivery"]


def test_without_kafka_every_new_topic_is_pull(lone):
    lone.rest.make(topic="by-job", delay="PT1H")
    assert lone.rest.put("/v1/topics/by-put", {"retention": "P1D"}).status == 201
    assert [delivery(lone.rest, topic) for topic in ("by-job", "by-put")] == ["pull", "pull"]
    shown = lone.rest.get("/v1/topics/by-job").json
    assert shown["effective"]["kafka_topic"] is None


def test_without_kafka_delivery_kafka_is_refused_with_the_reason(lone):
    answer = lone.rest.put("/v1/topics/wants-kafka", {"delivery": "kafka"})
    refused(answer, 422, "invalid", "/delivery")
    assert "no Kafka" in answer.json["errors"][0]["reason"], answer.body
    assert lone.rest.get("/v1/topics/wants-kafka").status == 404


def test_without_kafka_the_setting_kafka_topic_is_stored_for_later(lone):
    """The settings of a topic may be the same in a large installation and in a small one."""
    assert lone.rest.put("/v1/topics/of-both", {"kafka_topic": "shared.of-both"}).status == 201
    shown = lone.rest.get("/v1/topics/of-both").json
    assert (shown["delivery"], shown["kafka_topic"], shown["effective"]["kafka_topic"]) == ("pull", "shared.of-both", None)


def test_an_older_topic_keeps_delivery_kafka_until_it_is_changed(lone):
    lone.rest.make(topic="from-before", delay="PT1H")
    lone.rows("UPDATE topics SET delivery = 'kafka' WHERE name = 'from-before'")
    lone.rows("UPDATE installation SET topics_version = topics_version + 1")
    assert lone.rest.put("/v1/topics/from-before", {"retention": "P2D"}).status == 200
    assert delivery(lone.rest, "from-before") == "kafka"


def test_an_installation_without_kafka_reports_no_outage(lone):
    assert lone.rest.get("/readyz").json["kafka"] == "none"
    assert lone.rest.get("/v1/info").json["configured"]["kafka"] is False

"""The Kafka cluster is lost under load, and an empty one takes its place."""
import pytest

from harness.load import under_load
from harness.operator.clusters import Both, ClustersChecker
from harness.operator.servers import empty_kafka
from harness.stack import until

pytestmark = pytest.mark.turn(9, 15)


@pytest.fixture
def brokers(tmp_path):
    with empty_kafka(tmp_path / "kafka") as address:
        yield address


def test_after_a_change_to_an_empty_kafka_every_attempt_arrives_once_or_is_known_lost(stack, seed, person, brokers):
    operator = person(BROKERS=brokers)
    checker = ClustersChecker(stack)
    with under_load(stack, seed, checker=checker, finish_seconds=60) as run:
        stack.kill("kafka")
        run.wait(1)
        run.consumer = Both(run.consumer, brokers, run.topics, run._result)
        operator.follow("kafka-replaced")
        run.goes_on(150, seconds=60)
        until(lambda: len(run.consumer.of_second()) > 200, "consumers of the new cluster are served")
    print(f"{checker.lost} attempts were lost with the cluster, and followed by others")

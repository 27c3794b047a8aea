"""Commands by message on the whole stack: each has one effect, in its order, whoever dies and whatever comes again."""
import pytest

from harness.checker import connect, rows
from harness.commands import Commander, Messages, header, problem
from harness.stack import until


@pytest.fixture
def commander(stack):
    return Commander(stack["DUETIME_KAFKA"])


@pytest.fixture
def messages(stack):
    """messages(topic) -> what comes into it from now on."""
    made = []

    def start(topic, **options):
        made.append(Messages(stack["DUETIME_KAFKA"], topic, **options))
        return made[-1]
    yield start
    for one in made:
        one.close()


def jobs(connection, topic):
    return rows(connection, "SELECT job_key, state, payload FROM jobs WHERE topic = %s ORDER BY job_key", topic)


def test_a_message_becomes_a_job(stack, topic, commander):
    connection = connect(stack)
    commander.say({"action": "create", "topic": topic, "key": "k", "delay": "PT1H", "payload": {"a": 1}})
    until(lambda: jobs(connection, topic), 60, "a job")
    assert [(j["job_key"], j["state"], bytes(j["payload"])) for j in jobs(connection, topic)] == [(b"k", "scheduled", b'{"a": 1}')]

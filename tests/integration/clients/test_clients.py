"""Each client in deploy/clients: clean, right by its own tests, and its examples account for a thousand jobs through failures, retries and a kill -9.
A run takes half of one language."""
import pytest

from harness.clients.languages import LANGUAGES, Programs
from harness.clients.thousand import thousand


def half(number):
    """A test of each language, in turn."""
    return pytest.mark.parametrize("language", [pytest.param(name, marks=pytest.mark.turn(2 * k + number, 2 * len(LANGUAGES)))
                                                for k, name in enumerate(sorted(LANGUAGES))])


@pytest.fixture
def programs(stack, language, tmp_path):
    made = Programs(stack, language, tmp_path / "effects.log")
    yield made.prepare()
    made.end()


@half(0)
def test_its_linters_find_nothing_and_a_consumer_that_is_killed_accounts_for_a_thousand_jobs(programs, api, topic):
    for command in programs.language.linters:
        programs.run(command)
    thousand(programs, api, topic, "kafka")


@half(1)
def test_its_own_tests_pass_and_a_worker_that_is_killed_accounts_for_a_thousand_jobs(programs, api, topic):
    programs.run(programs.language.tests)
    thousand(programs, api, topic, "pull")

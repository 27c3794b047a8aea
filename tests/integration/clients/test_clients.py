"""Each client in deploy/clients: clean, right by its own tests, and its examples account for a thousand jobs through failures, retries and a kill -9.
A run takes one language."""
import pytest

from harness.clients.languages import LANGUAGES, Programs
from harness.clients.thousand import thousand

each_language = pytest.mark.parametrize("language", [
    pytest.param(name, marks=pytest.mark.turn(k, len(LANGUAGES))) for k, name in enumerate(sorted(LANGUAGES))])


@pytest.fixture
def programs(stack, language, tmp_path):
    made = Programs(stack, language, tmp_path / "effects.log").prepare()
    yield made
    made.end()


@each_language
def test_the_linters_of_its_language_find_nothing(programs):
    for command in programs.language.linters:
        programs.run(command)


@each_language
def test_its_own_tests_pass(programs):
    programs.run(programs.language.tests)


@each_language
def test_a_consumer_that_is_killed_accounts_for_a_thousand_jobs(programs, api, topic):
    thousand(programs, api, topic, "kafka")


@each_language
def test_a_worker_that_is_killed_accounts_for_a_thousand_jobs(programs, api, topic):
    thousand(programs, api, topic, "pull")

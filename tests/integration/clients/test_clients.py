"""Each client in deploy/clients: clean, right by its own tests, its examples account for a thousand jobs through failures, retries and a kill -9, and it
asks by https with an authority of its own, and by a Unix socket. A run takes half of one language."""
import re

import pytest

from harness.clients.languages import LANGUAGES, Programs
from harness.clients.thousand import thousand
from harness.program import OwnApi
from harness.secured.certificates import Authority
from harness.stack import until


def half(number):
    """A test of each language, in turn."""
    return pytest.mark.parametrize("language", [pytest.param(name, marks=pytest.mark.turn(2 * k + number, 2 * len(LANGUAGES)))
                                                for k, name in enumerate(sorted(LANGUAGES))])


@pytest.fixture
def programs(stack, language, tmp_path):
    made = Programs(stack, language, tmp_path / "effects.log")
    yield made.prepare()
    made.end()


@pytest.fixture
def listening(stack, tmp_path):
    """One more API of the stack, by TLS and by a Unix socket; .authority has signed its certificate."""
    authority, socket = Authority(tmp_path / "ca"), tmp_path / "api.sock"
    certificate, key = authority.issue("server")
    made = OwnApi(stack, tmp_path / "api", "listening", {"installation.name": "duetime", "http.listen": f"plain:127.0.0.1, tls:127.0.0.1, unix:{socket}",
                                                         "http.tls_cert": certificate, "http.tls_key": key}, shared=True)
    made.database = stack["DUETIME_MYSQL_DATABASE"]
    made.config.write_text(re.sub("^database = .*", f"database = {made.database}", made.config.read_text(), flags=re.M))
    made.start(ready=False)
    made.rest.token = stack.env.get("DUETIME_TOKEN")
    made.authority, made.secured, made.local = authority, f"https://127.0.0.1:{made.listener('tls')}", f"unix:{socket}"
    yield made
    assert made.end() == 0, made.log()


def refused_handshakes(api):
    return sum(api.rest.metric("duetime_tls_handshakes_total", outcome=outcome) for outcome in ("failed", "left"))


@half(0)
def test_each_clients_linters_pass_and_a_killed_consumer_accounts_for_a_thousand_jobs(programs, api, topic):
    for command in programs.language.linters:
        programs.run(command)
    thousand(programs, api, topic, "kafka")


@half(1)
def test_each_clients_own_tests_pass_and_a_killed_worker_accounts_for_a_thousand_jobs(programs, api, topic):
    if "DUETIME_CA_FILE" not in programs.env:  # they read what goes between client and API
        programs.run(programs.language.tests)
    thousand(programs, api, topic, "pull")


@half(0)
def test_clients_use_https_with_their_own_authority_and_unix_sockets(programs, listening, tmp_path, topic):
    made = programs.create(topic, 0, 20, DUETIME_URL=listening.secured, DUETIME_CA_FILE=str(listening.authority.file))
    assert len(set(made)) == 20
    if programs.language.unix:
        assert programs.create(topic, 0, 20, DUETIME_URL=listening.local) == made, "the keys name the same jobs"
    stranger = Authority(tmp_path / "ca", "stranger").file
    refusing = programs.start(programs.language.create, topic, "20", "1", DUETIME_URL=listening.secured, DUETIME_CA_FILE=str(stranger))
    until(lambda: refused_handshakes(listening) > 0, lambda: f"{listening.log()}\n{programs.said()}")
    refusing.kill()
    assert not [job for job in listening.rest.list(topic=topic, limit=100) if job["key"] == "order-20"]

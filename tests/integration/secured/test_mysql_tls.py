"""MySQL by TLS, with certificates and passwords that are right, wrong, and changed while the programs run."""
import shutil

import pytest

from harness.stack import until

pytestmark = pytest.mark.turn(0, 7)


def gets_in(api):
    done = api.command("--list-tokens")
    assert "pa55" not in done.stdout + done.stderr
    return done.returncode == 0, done.stdout + done.stderr


def test_a_valid_certificate_is_accepted(world):
    assert gets_in(world.program()) == (True, "")


@pytest.mark.parametrize("bad, words", [
    ("another name", "certificate"), ("expired", "certificate"), ("unknown authority", "certificate"), ("no tls", "1045"), ("password", "1045"),
    ("no certificate of ours", "1045")])
def test_a_wrong_certificate_is_named_and_no_connection_is_made(world, bad, words):
    certificates = {"another name": lambda: world.trusted.issue("elsewhere", "DNS:elsewhere.example"),
                    "expired": lambda: world.trusted.issue("expired", days=-1), "unknown authority": lambda: world.stranger.issue("strange")}
    mysql = {"no tls": {"tls": "off", "ca_file": None}, "password": {"password": "wrong"}, "no certificate of ours": {"user": "certified"}}
    world.server.present(certificates[bad]() if bad in certificates else world.good)
    try:
        done, said = gets_in(world.program(**mysql.get(bad, {})))
        assert not done and words in said.lower(), said
        if bad in certificates:
            assert gets_in(world.program(tls="required", ca_file=None))[0]  # whoever answers
    finally:
        world.server.present(world.good)


def test_a_client_certificate_is_presented(world):
    certificate, key = world.mine
    assert gets_in(world.program(user="certified", cert_file=certificate, key_file=key))[0]


@pytest.mark.parametrize("settings, word", [({"tls": "yes"}, "off, required or verify"), ({"tls": "off"}, "need tls"), ({"cert_file": "/x"}, "go together"),
                                            ({"hosts": "a:b"}, "host:port")])
def test_contradictory_tls_settings_are_refused(world, settings, word):
    done = world.program(**settings).command("--check-config")
    assert done.returncode == 1 and word in done.stderr, done.stderr


def errors(api):
    return [line for line in api.log().splitlines() if "level=error" in line]


def test_an_impostor_server_is_logged_once_and_the_api_recovers_by_itself(world):
    api = world.program()
    world.server.present(world.stranger.issue("strange"))
    try:
        api.start(ready=False)
        until(lambda: "certificate" in api.log().lower(), api.log)
        until(lambda: api.rest.post("/v1/jobs", {"topic": "t", "delay": 60}).status == 503, api.log)
        assert len(errors(api)) == 1 and "certificate" in errors(api)[0], api.log()
    finally:
        world.server.present(world.good)
    until(lambda: api.rest.post("/v1/jobs", {"topic": "t", "delay": 60}).status == 201, api.log)
    assert api.end() == 0


def told(api):
    return [line for line in api.log().splitlines() if "begins=" in line and "outage=mysql" in line]


def takes_jobs(api):
    return api.rest.post("/v1/jobs", {"topic": "t", "delay": 60}).status == 201


def test_an_authority_and_a_certificate_in_files_are_changed_without_a_restart(world, tmp_path):
    """Each is wrong at first, and put right while the API runs."""
    files = [tmp_path / name for name in ("ca.pem", "cert.pem", "key.pem")]
    strange, trusted = [(made.file, *made.issue(f"api-by-{made.name}")) for made in (world.stranger, world.trusted)]
    for source, target in zip((trusted[0], *strange[1:]), files):
        shutil.copy(source, target)
    api = world.program(user="certified", ca_file=files[0], cert_file=files[1], key_file=files[2]).start(ready=False)
    try:
        until(lambda: told(api), api.log)  # the server closes the connection without an answer
        assert not takes_jobs(api)
        for source, target in zip(trusted[1:], files[1:]):
            shutil.copy(source, target)
        until(lambda: takes_jobs(api), api.log)
        world.server.present(world.stranger.issue("strange"))
        for session in world.server.sql("SELECT id FROM information_schema.processlist WHERE user = 'certified'"):
            world.server.sql(f"KILL {session[0]}")
        until(lambda: not takes_jobs(api), api.log)
        shutil.copy(strange[0], files[0])
        until(lambda: takes_jobs(api), api.log)
        assert len(told(api)) <= 4, api.log()
    finally:
        world.server.present(world.good)
        code = api.end()
    assert code == 0, api.log()


def test_a_password_in_a_file_is_changed_without_a_restart(world, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text(world.password + "\n")
    world.server.account("turning", world.password)
    api = world.program(user="turning", password=None, password_file=secret)
    api.start()
    world.server.sql("ALTER USER 'turning'@'127.0.0.1' IDENTIFIED BY 'another' REQUIRE SSL")
    secret.write_text("another\n")
    for session in world.server.sql("SELECT id FROM information_schema.processlist WHERE user = 'turning'"):
        world.server.sql(f"KILL {session[0]}")
    until(lambda: api.rest.post("/v1/jobs", {"topic": "t", "delay": 60}).status == 201, api.log)
    assert "another" not in api.log() and "pa55" not in api.log()
    assert api.end() == 0

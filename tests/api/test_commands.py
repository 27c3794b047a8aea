"""The command line of duetime-api: help, configuration, migration."""
import concurrent.futures
import subprocess

import pytest

from harness.program import PROGRAM, OwnApi, environment
from harness.rest import Rest
from harness.stack import until


def run(*arguments, **variables):
    return subprocess.run([PROGRAM, *arguments], env={**environment(), **variables}, capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture
def config(tmp_path):
    """config(text) -> the path of a configuration file that holds it."""
    def write(text):
        path = tmp_path / "duetime.ini"
        path.write_text(text)
        return path
    return write


def test_help_and_version_go_to_standard_output():
    for option in ("--help", "--version"):
        done = run(option)
        assert done.returncode == 0 and done.stdout and not done.stderr, done
    for option in ("--config", "--check-config", "--print-config", "--migrate", "--new-token", "--list-tokens", "--revoke-token", "--waive-tokens"):
        assert option in run("--help").stdout


@pytest.mark.parametrize("arguments", [["--nonsense"], ["--config"], ["surplus"], ["--new-token"]])
def test_an_invalid_command_line_is_refused(arguments):
    done = run(*arguments)
    assert done.returncode != 0 and done.stderr and not done.stdout


def test_a_valid_configuration_passes_the_check(config):
    done = run("--config", config("[http]\nport = 8123\n[mysql]\nio_timeout = PT2S\n"), "--check-config")
    assert done.returncode == 0, done


@pytest.mark.parametrize("text, line, words", [
    ("[http]\nport = 70000\n", 2, ["port", "65535"]), ("[http]\nport = many\n", 2, ["port"]), ("[http]\n\nprot = 1\n", 3, ["prot"]), ("[htp]\nport = 1\n", 2, ["htp"]),
    ("[limits]\nmax_delay = P1Y\n", 2, ["max_delay"]), ("[topics]\nauto_create = maybe\n", 2, ["auto_create"]), ("[mysql]\nport = 0\n", 2, ["port", "1"]),
    ("[http]\nport = 1\nport = 2\n", 3, ["port"]), ("port = 1\n", 1, ["port"]), ("[limits]\nheaders = 10001\n", 2, ["headers", "10001", "10000"])])
def test_an_invalid_configuration_is_reported_by_file_line_and_key(config, text, line, words):
    path = config(text)
    for command in (["--check-config"], ["--print-config"], []):
        done = run("--config", path, *command)
        assert done.returncode != 0, done
        assert str(path) in done.stderr and str(line) in done.stderr.replace(str(path), "") and all(word in done.stderr for word in words), done.stderr


def test_a_missing_file_is_reported():
    done = run("--config", "/nonexistent/duetime.ini", "--check-config")
    assert done.returncode != 0 and "/nonexistent/duetime.ini" in done.stderr


def test_the_environment_overrides_the_file_and_secrets_are_hidden(config):
    path = config("[http]\nport = 8123\n[mysql]\npassword = hush-hush\nhost = one\n")
    done = run("--config", path, "--print-config", DUETIME_MYSQL_HOST="two", DUETIME_REDIS_PASSWORD="also-secret")
    assert done.returncode == 0, done
    lines = [line.strip() for line in done.stdout.splitlines()]
    assert "port = 8123" in lines and "host = two" in lines and "host = one" not in lines
    assert "hush" not in done.stdout and "also-secret" not in done.stdout


def test_a_printed_configuration_can_be_read_again(config, tmp_path):
    printed = run("--config", config("[http]\nport = 8123\n[limits]\nmax_delay = P30D\n"), "--print-config").stdout
    again = run("--config", config(printed), "--print-config")
    assert again.returncode == 0 and again.stdout == printed


@pytest.mark.parametrize("name, value", [("DUETIME_HTTP_PORT", "70000"), ("DUETIME_LIMITS_PAYLOAD", "x"), ("DUETIME_TOPICS_AUTO_CREATE", "")])
def test_an_invalid_environment_variable_is_reported_by_name(config, name, value):
    done = run("--config", config(""), "--check-config", **{name: value})
    assert done.returncode != 0 and name in done.stderr, done


def test_a_secret_may_be_in_a_file(stack, own_apis, tmp_path):
    secret = tmp_path / "password"
    secret.write_text(stack["DUETIME_MYSQL_PASSWORD"] + "\n")
    api = own_apis("filed")
    text = api.config.read_text()
    line = f"password = {stack['DUETIME_MYSQL_PASSWORD']}"
    assert line in text
    api.config.write_text(text.replace(line, f"password_file = {secret}"))
    assert api.command("--list-tokens").returncode == 0
    secret.write_text("wrong")
    assert api.command("--list-tokens").returncode != 0


def test_migrating_twice_at_once_is_safe(stack, tmp_path):
    apis = [OwnApi(stack, folder, "migrated", shared=n > 0, migrate=False) for n, folder in enumerate([tmp_path / "a", tmp_path / "b", tmp_path / "c"])]
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        results = list(pool.map(lambda api: api.command("--migrate"), apis))
    assert [done.returncode for done in results] == [0, 0, 0], results
    assert apis[0].command("--migrate").returncode == 0
    applied = apis[0].rows("SELECT COUNT(*) n, COUNT(DISTINCT name) names FROM schema_migrations")[0]
    assert applied["n"] == applied["names"] > 0 and apis[0].rows("SELECT COUNT(*) n FROM installation")[0]["n"] == 1


def test_a_database_that_was_not_migrated_is_not_ready_until_it_is(stack, tmp_path):
    api = OwnApi(stack, tmp_path, "bare", migrate=False)
    try:
        api.start(ready=False)
        rest = Rest(api.url)
        assert rest.get("/healthz").status == 200
        assert rest.get("/readyz").status == 503 and rest.post("/v1/jobs", {"topic": "t", "delay": 0}).status == 503
        assert api.command("--migrate").returncode == 0
        until(lambda: rest.get("/readyz").status == 200, lambda: rest.get("/readyz"))
        assert rest.post("/v1/jobs", {"topic": "t", "delay": "PT1H"}).status == 201
        rest.close()
    finally:
        assert api.end() == 0, api.log()[-2000:]


def test_an_option_makes_the_api_migrate_the_database_at_its_start(stack, tmp_path):
    api = OwnApi(stack, tmp_path, "selfmade", {"api.migrate": "true"}, migrate=False)
    try:
        api.start()
        assert api.rest.post("/v1/jobs", {"topic": "t", "delay": "PT1H"}).status == 201
    finally:
        assert api.end() == 0, api.log()[-2000:]

"""The command line: jobs and topics from the terminal, exit codes, settings, what is said of refusals."""
import json
import re
import subprocess

import pytest

from harness.command_line import PROGRAM, run
from harness.stack import until


# ---- jobs ----

def test_a_job_is_made_shown_changed_and_cancelled(duetime, topic):
    made = duetime("jobs", "create", "--topic", topic, "--key", "a b/c", "--delay", "PT1H", "--payload", '{"n": 1}', "--retry", "1s, 2m", "--ack-timeout", "30s",
                   "--headers", '{"h":"v"}', "--json")
    assert made.code == 0 and not made.err, made
    job = made.json
    assert (job["topic"], job["key"], job["payload"], job["retry"], job["ack_timeout"], job["headers"]) == (topic, "a b/c", {"n": 1}, ["1s", "2m"], "PT30S", {"h": "v"})
    assert duetime("jobs", "get", job["id"], "--json").json == job
    assert duetime("job", "get", topic, "a b/c", "--json").json == job
    changed = duetime("jobs", "change", topic, "a b/c", "--run-at=2036-01-01T00:00:00+01:00", "--ack-timeout", "null", "--json").json
    assert (changed["run_at"], changed["ack_timeout"], changed["retry"]) == ("2035-12-31T23:00:00.000Z", "PT5M", ["1s", "2m"])
    assert duetime("jobs", "cancel", topic, "a b/c", "--json").json["state"] == "cancelled"
    assert duetime("jobs", "cancel", job["id"]).code == 0


def test_a_job_is_shown_as_a_table_of_its_members(duetime, topic):
    shown = duetime("jobs", "create", "--topic", topic, "--delay", "1h", "--payload", '{"a":\n [1]}')
    assert ["topic", topic] in shown.rows and ["payload", '{"a":[1]}'] in shown.rows and ["waiting_for", "time"] in shown.rows, shown


def test_json_output_keeps_payloads_except_line_breaks(duetime, topic):
    made = duetime("jobs", "create", "--topic", topic, "--delay", "1h", "--payload", '{"a":  1,\r\n"b":"\\n x"}', "--json")
    assert made.out.count("\n") == 1 and '{"a":  1,  "b":"\\n x"}' in made.out


def test_a_payload_is_read_from_a_file_and_from_standard_input(duetime, topic, tmp_path):
    path = tmp_path / "payload.json"
    path.write_text(' {"big": [1, 2]}\n')
    assert duetime("jobs", "create", "--topic", topic, "--delay", "1h", "--payload", f"@{path}", "--json").json["payload"] == {"big": [1, 2]}
    assert duetime("jobs", "create", "--topic", topic, "--delay", "1h", "--payload", "@-", "--json", stdin='"standard"').json["payload"] == "standard"
    gone = duetime("jobs", "create", "--topic", topic, "--delay", "1h", "--payload", "@/nonexistent/x")
    assert gone.code == 2 and "/nonexistent/x" in gone.err
    bad = duetime("jobs", "create", "--topic", topic, "--delay", "1h", "--payload", "{nonsense")
    assert bad.code == 2 and "--payload" in bad.err and "JSON" in bad.err


def test_a_dead_job_is_redriven_and_a_scheduled_job_is_run_now(duetime, api, held):
    job = api.make(topic=held, key="k", delay="PT1H")
    assert duetime("jobs", "run-now", held, "k").code == 0
    assert api.get(f"/v1/jobs/{job['id']}").json["run_at"] < job["run_at"]
    refused = duetime("jobs", "redrive", job["id"])
    assert refused.code == 1 and "dead" in refused.err, refused


def test_an_attempt_is_popped_reported_and_listed(duetime, api, topic):
    api.put(f"/v1/topics/{topic}", {"delivery": "pull"})
    made = api.make(topic=topic, key="k", delay=0)
    popped = duetime("pop", topic, "--max", "5", "--wait", "20s", "--json", "--timeout", "5s")
    assert [job["id"] for job in popped.lines] == [made["id"]], popped
    told = duetime("results", "report", topic, "k", "--attempt", "1", "--status", "failed", "--error", '{"code":"E1","message":"no"}', "--retry-after", "1h", "--json")
    assert told.json["outcome"] == "applied"
    listed = duetime("jobs", "attempts", topic, "k")
    assert listed.rows[0][:2] == ["ATTEMPT", "STATUS"] and listed.rows[1][:2] == ["1", "failed"] and "E1" in listed.rows[1], listed
    assert duetime("pop", topic, "--json").out == ""


# ---- exit codes and refusals ----

def test_a_late_change_exits_with_5_and_shows_the_state_of_the_job(duetime, dispatched, topic):
    job = dispatched(topic=topic)
    told = duetime("jobs", "cancel", job["id"])
    assert told.code == 5 and "dispatched" in told.err and "attempt 1" in told.err and not told.out, told
    assert duetime("jobs", "cancel", job["id"], "--retries").code == 0


def test_a_missing_job_exits_with_3(duetime, topic):
    for words in (["jobs", "get", "1"], ["jobs", "get", topic, "k"], ["jobs", "cancel", topic, "k"], ["topics", "get", topic], ["schedules", "get", topic]):
        told = duetime(*words)
        assert told.code == 3 and "no such" in told.err and not told.out, told


def test_a_refusal_names_the_option_that_is_wrong(duetime, topic):
    told = duetime("jobs", "create", "--topic", topic, "--run-at", "someday", "--retry", "1s,never")
    assert told.code == 1 and "--run-at: " in told.err and "--retry/1: " in told.err and "request " in told.err, told
    as_json = duetime("jobs", "create", "--topic", topic, "--run-at", "someday", "--json")
    problem = json.loads(as_json.err)
    assert as_json.code == 1 and problem["status"] == 422 and problem["errors"][0]["pointer"] == "/run_at"


def test_an_unreachable_api_exits_with_4():
    told = run("topics", "list", variables={"DUETIME_URL": "http://127.0.0.1:9"})
    assert told.code == 4 and "127.0.0.1:9" in told.err and not told.out, told


@pytest.mark.parametrize("words, hint", [
    ([], "command"), (["jbos", "list"], "did you mean jobs"), (["jobs", "crate"], "did you mean create"), (["jobs"], "jobs"),
    (["jobs", "create", "--tpic", "x"], "did you mean --topic"), (["jobs", "list", "--stat=dead"], "did you mean --state"), (["jobs", "get"], "ID | TOPIC KEY"),
    (["jobs", "get", "1", "2", "3"], '"3"'), (["jobs", "list", "surplus"], "no arguments"), (["jobs", "list", "--json", "--json"], "twice"),
    (["jobs", "list", "--json=yes"], "no value"), (["jobs", "list", "--topic"], "takes a value"), (["jobs", "list", "--output", "xml"], "not table, wide, name or json"),
    (["jobs", "list", "--limit", "0"], "--limit"), (["topics", "set", "x", "--max-in-flight", "many"], "--max-in-flight"), (["jobs", "list", "--xyzzy"], "--xyzzy"),
    (["topics", "list", "--url", "ftp://x"], "http://"), (["topics", "list", "--timeout", "soon"], "--timeout"), (["shards", "list", "--output", "wide", "--json"], "contradict")])
def test_a_wrong_command_line_exits_with_2_and_says_why(duetime, words, hint):
    told = duetime(*words)
    assert told.code == 2 and hint in told.err and not told.out, told


@pytest.mark.in_turns(3)
def test_help_lists_every_command_and_each_has_an_example():
    told = run("help")
    assert told.code == 0 and not told.err
    commands = re.findall(r"^  (\w+(?: [a-z-]+)?)  +\S", told.out, re.M)
    assert len(commands) >= 25 and "jobs create" in commands and "shards list" in commands, commands
    for command in commands:
        words = command.split()
        one = run(*words, "--help")
        assert one.code == 0 and one.out.startswith(f"Usage: duetime {command}") and "For example:" in one.out and one.out == run("help", *words).out, one
    assert run("jobs", "--help").out == run("help", "jobs").out
    assert run("--help").out == told.out
    assert run("version").out == run("--version").out != ""


# ---- lists and tables ----

def test_lists_read_all_pages_up_to_the_limit(duetime, api, topic, swept):
    api.batch({"topic": topic, "key": f"k{n:04}", "delay": "P9D"} for n in range(1203))
    listed = duetime("jobs", "list", "--topic", topic, "--key-prefix", "k", "--json")
    assert [job["key"] for job in listed.lines] == [f"k{n:04}" for n in range(1203)]
    assert len(duetime("jobs", "list", "--topic", topic, "--limit", "601").rows) == 602
    table = duetime("jobs", "list", "--topic", topic, "--limit", "2", "--output", "wide")
    assert table.rows[0][:3] == ["ID", "TOPIC", "KEY"] and table.rows[1][1] == topic, table
    assert duetime("jobs", "list", "--topic", f"{topic}-none").out == ""


def test_only_late_jobs_are_listed_as_late(duetime, api, topic):
    api.put(f"/v1/topics/{topic}", {"delivery": "pull"})
    retried = api.make(topic=topic, delay=0)  # its run_at is over, and its retry ahead
    assert api.post(f"/v1/topics/{topic}/pop", {"wait": "PT1M"}).json["jobs"]
    api.post(f"/v1/jobs/{retried['id']}/results", {"attempt": 1, "status": "failed", "retry_after": "PT1H"})
    until(lambda: api.get(f"/v1/jobs/{retried['id']}").json["state"] == "scheduled", "its retry waits")
    api.make(topic=topic, delay="PT1H")
    late = api.make(topic=topic, delay=0)
    assert [job["id"] for job in until(lambda: duetime("jobs", "list", "--topic", topic, "--overdue", "--json").lines, "a late job")] == [late["id"]]


def test_a_closed_pipe_is_not_an_error(duetime, api, stack, topic, swept):
    api.batch({"topic": topic, "delay": "P9D"} for _ in range(1000))
    with subprocess.Popen([PROGRAM, "jobs", "list", "--topic", topic, "--output", "wide", "--url", stack["DUETIME_URL_API1"]], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE) as listing:
        listing.stdout.readline()
        listing.stdout.close()
        assert listing.stderr.read() == b""


# ---- topics, schedules, shards ----

def test_setting_one_option_of_a_topic_does_not_change_the_others(duetime, api, topic):
    made = duetime("topics", "set", topic, "--retry", "1s,2s", "--ack-timeout", "30s", "--json")
    assert made.code == 0 and made.json["retry"] == ["1s", "2s"], made
    changed = duetime("topics", "set", topic, "--max-in-flight", "7", "--ack-timeout", "null", "--json").json
    assert (changed["retry"], changed["max_in_flight"], changed["ack_timeout"]) == (["1s", "2s"], 7, None)
    assert duetime("topics", "set", topic, "--retry", "", "--json").json["retry"] == []
    assert duetime("topics", "pause", topic, "--json").json["paused"] is True
    assert duetime("topics", "set", topic, "--rate-limit", "5/s", "--json").json["paused"] is True
    assert duetime("topics", "resume", topic, "--json").json["paused"] is False
    assert topic in [row[0] for row in duetime("topics", "list").rows]


def test_a_schedule_is_set_changed_shown_and_removed(duetime, topic):
    made = duetime("schedules", "set", topic, "--topic", topic, "--cron", "0 3 * * *", "--payload", '{"a":1}', "--json")
    assert made.code == 0 and made.json["cron"] == "0 3 * * *", made
    times = duetime("schedules", "next", topic, "--count", "3", "--from", "2030-01-01T00:00:00Z")
    assert times.rows == [["NEXT"], ["2030-01-01T03:00:00.000Z"], ["2030-01-02T03:00:00.000Z"], ["2030-01-03T03:00:00.000Z"]]
    changed = duetime("schedules", "set", topic, "--every", "P1D", "--json")
    assert changed.code == 0 and changed.json["every"] == "P1D" and "cron" not in changed.json and changed.json["payload"] == {"a": 1}, changed
    assert duetime("schedules", "pause", topic, "--json").json["paused"] is True
    assert duetime("schedules", "run-now", topic, "--json").json["topic"] == topic
    assert duetime("schedules", "delete", topic, "--cancel").code == 0
    assert duetime("schedules", "get", topic).code == 3


def test_shards_are_listed_with_their_leaders(duetime):
    listed = until(lambda: (told := duetime("shards", "list", "--json")).lines and all(shard["leader"] for shard in told.lines) and told, "leaders")
    assert [shard["shard"] for shard in listed.lines] == [0, 1]
    assert duetime("shards", "list").rows[0][:2] == ["SHARD", "LEADER"]


def test_the_overview_is_one_screen_and_the_option_watch_redraws_it(duetime, stack, api, topic):
    api.make(topic=topic, delay="PT1H")
    told = duetime("overview")
    assert told.code == 0 and ["TOPIC", "PAUSED"] in [row[:2] for row in told.rows], told
    assert told.rows[0][0] in ("ready", "degraded") and ["SHARD", "LEADER"] in [row[:2] for row in told.rows], told
    assert [row for row in told.rows if row[:2] == ["a", "second"] and row[2] == "created"], told
    whole = duetime("overview", "--json").json
    assert whole["ready"]["mysql"] == "ok" and len(whole["overview"]["shards"]) == 2 and whole["overview"]["topics"]
    with subprocess.Popen([PROGRAM, "overview", "--watch", "--json", "--interval", "10", "--url", stack["DUETIME_URL_API1"]], stdout=subprocess.PIPE) as watching:
        assert all(json.loads(watching.stdout.readline())["ready"] for _ in range(3))
        watching.terminate()


# ---- settings ----

def test_options_override_the_environment_which_overrides_the_file(stack, tmp_path):
    url, nowhere = stack["DUETIME_URL_API1"], "http://127.0.0.1:9"
    path = tmp_path / ".config" / "duetime" / "config"
    path.parent.mkdir(parents=True)
    path.write_text(f"context = here\n[here]\nurl = {url}/\n[away]\nurl = {nowhere}\ntimeout = 5s\n")
    assert run("topics", "list", home=tmp_path).code == 0
    assert run("topics", "list", "--context", "away", home=tmp_path).code == 4
    assert run("topics", "list", home=tmp_path, variables={"DUETIME_CONTEXT": "away"}).code == 4
    assert run("topics", "list", home=tmp_path, variables={"DUETIME_URL": nowhere}).code == 4
    assert run("topics", "list", "--url", url, home=tmp_path, variables={"DUETIME_URL": nowhere}).code == 0
    assert run("topics", "list", "--config", path, variables={}).code == 0


@pytest.mark.parametrize("text, hint", [("[a]\nurl = http://x\n", "[b]"), ("[b]\nurk = x\n", "urk"), ("nonsense\n", "line 1"), ("[b]\ntoken = a b\n", "token"),
                                        ("[b]\ntoken_file = /nonexistent/t\n", "/nonexistent/t"), ("url = http://x\n", "context")])
def test_an_invalid_configuration_file_is_reported(tmp_path, text, hint):
    path = tmp_path / "config"
    path.write_text(text)
    told = run("topics", "list", "--config", path, "--context", "b")
    assert told.code == 2 and hint in told.err, told


def test_tokens_are_read_from_files_and_sent_to_their_own_url_alone(own_apis, tmp_path):
    owned = own_apis("cli_tokens")
    token = owned.command("--new-token", "cli", "--scopes", "admin").stdout.strip()
    owned.start()
    (tmp_path / "token").write_text(f"{token}\n")
    config = tmp_path / "config"
    config.write_text(f"context = here\n[here]\nurl = {owned.url}\ntoken_file = {tmp_path}/token\n[away]\nurl = http://127.0.0.1:9\ntoken_file = {tmp_path}/token\n")
    until(lambda: run("topics", "list", "--url", owned.url).code == 1, "the API asks for a token")
    refused = run("topics", "list", "--url", owned.url)
    assert refused.code == 1 and "token" in refused.err, refused
    assert run("topics", "list", "--config", config).code == 0
    assert run("topics", "list", variables={"DUETIME_URL": owned.url, "DUETIME_TOKEN": token}).code == 0
    assert run("topics", "list", "--url", owned.url, "--token-file", tmp_path / "token").code == 0
    assert run("topics", "list", "--config", config, "--context", "away", "--url", owned.url).code == 1
    assert run("topics", "list", "--token", token).code == 2


def test_the_forecast_is_a_bar_chart_or_one_json_line_per_step(duetime, api, topic):
    for delay in ("PT5M", "PT5M", "PT20M"):
        api.make(topic=topic, delay=delay)
    told = duetime("forecast", "--topic", topic, "--step", "10m")
    lines = told.out.splitlines()
    assert told.code == 0 and len(lines) == 6 and max(lines, key=len).endswith(topic), told
    assert sum(int(line.split()[1]) for line in lines) == 3 and sum("█" in line for line in lines) == 2
    steps = [json.loads(line) for line in duetime("forecast", "--topic", topic, "--json").out.splitlines()]
    assert len(steps) == 60 and sum(step["due"] for step in steps) == 3
    assert duetime("forecast", "--step", "soon").code == 1

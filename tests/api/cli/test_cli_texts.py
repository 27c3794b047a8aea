"""What is made from the table: completions, the man page; and what the table says is what the API takes."""
import re
import shutil
import subprocess

import pytest
import openapi

from harness.command_line import PROGRAM, run
from harness.stack import until
from stand_in import answering


def commands():
    """{command: its options}, from help."""
    found = {}
    for command in re.findall(r"^  (\w+(?: [a-z-]+)?)  +\S", run("help").out, re.M):
        text = run("help", *command.split()).out
        own = text.split("Options of every command:")[0]
        found[command] = re.findall(r"^  --([a-z0-9-]+)", own, re.M)
    return found


# ---- completion ----

def complete(*words):
    """What bash offers at the end of the words."""
    script = f"""{run("completion", "bash").out}
COMP_WORDS=({" ".join(f"'{word}'" for word in ("duetime", *words))}); COMP_CWORD={len(words)}
compopt() {{ COMPREPLY=(files); }}
_duetime; printf '%s\\n' "${{COMPREPLY[@]}}\""""
    return subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True).stdout.split()


def test_bash_completes_nouns_verbs_options_and_values():
    assert {"jobs", "topics", "schedules", "pop"} <= set(complete(""))
    assert complete("to") == ["topics", "tokens"]
    assert {"create", "get", "list"} <= set(complete("jobs", "")) and complete("jobs", "can") == ["cancel"]
    assert {"--topic", "--delay", "--url"} <= set(complete("jobs", "create", "--"))
    assert complete("jobs", "create", "--run") == ["--run-at"]
    assert complete("jobs", "list", "--state", "d") == ["dispatched", "dead"]
    assert complete("jobs", "list", "--output", "j") == ["json"]
    assert complete("topics", "set", "x", "--delivery", "") == ["kafka", "http", "pull"]
    assert complete("pop", "x", "--w") == ["--wait"]
    assert complete("jobs", "list", "--token-file", "") == ["files"]


def test_bash_completes_names_from_the_api(stack, api, topic, monkeypatch):
    monkeypatch.setenv("DUETIME_URL", stack["DUETIME_URL_API1"])
    monkeypatch.setenv("PATH", f"{PROGRAM.parent}:/usr/bin:/bin")
    api.put(f"/v1/topics/{topic}", {"delivery": "pull"})
    api.put(f"/v1/schedules/{topic}-s", {"topic": topic, "cron": "0 3 * * *"})
    operation = api.post("/v1/jobs:cancel", {"filter": {"topic": topic}, "wait": "PT1M"}).json["id"]
    assert complete("topics", "get", topic[:-1]) == [topic] and complete("jobs", "list", "--topic", topic) == [topic]
    assert complete("pop", topic) == [topic] and complete("jobs", "cancel", topic) == [topic]
    assert complete("schedules", "pause", topic) == [f"{topic}-s"] and operation in complete("operations", "watch", "")
    assert complete("topics", "get", topic, "--o") == ["--output"], "options follow the name"
    monkeypatch.setenv("DUETIME_URL", "http://127.0.0.1:9")
    assert complete("topics", "get", "") == [], "without an API there are no names, and no message"


def test_a_hostile_name_is_completed_as_text(monkeypatch, tmp_path):
    with answering(lambda *_: {"topics": [{"name": f"$(touch {tmp_path}/x)"}, {"name": f"`touch {tmp_path}/x`"}], "next_cursor": None}) as url:
        monkeypatch.setenv("DUETIME_URL", url)
        monkeypatch.setenv("PATH", f"{PROGRAM.parent}:/usr/bin:/bin")
        assert "$(touch" in complete("topics", "get", "") and not (tmp_path / "x").exists()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_is_offered_every_command_and_option(shell):
    script = run("completion", shell).out
    for command, options in commands().items():
        for word in (*command.split(), *options):
            assert re.search(rf"(?<![\w-])(--)?{word}(?![\w-])", script), (shell, command, word)
    if shutil.which(shell):
        subprocess.run([shell, "-n", "/dev/stdin"], input=script, text=True, check=True)
    assert run("completion", "tcsh").code == 2


# ---- man page ----

def test_the_man_page_has_every_command_option_and_exit_code():
    page = (PROGRAM.parent / "duetime.1").read_text()
    assert page == run("--man").out
    plain = page.replace("\\-", "-").replace("\\e", "\\")
    for command, options in commands().items():
        section = re.search(rf"^\.SS duetime {command}(?: [^\n]*)?\n(.*?)(?=^\.S[SH] )", plain, re.M | re.S)
        assert section and all(f"--{option}" in section[1] for option in options), command
    for code in range(6):
        assert f".TP\n\\fB{code}\\fR\n" in page
    if shutil.which("man"):
        done = subprocess.run(["man", "--warnings", "-l", PROGRAM.parent / "duetime.1"], capture_output=True, text=True, check=True, env={"LC_ALL": "C.UTF-8", "PATH": "/usr/bin:/bin"})
        assert not done.stderr and "EXIT STATUS" in done.stdout, done.stderr


# ---- the table and the API ----

def resolve(document, node):
    """A schema with its references and parts put in."""
    while isinstance(node, dict) and "$ref" in node:
        target = document
        for part in node["$ref"].removeprefix("#/").split("/"):
            target = target[part]
        node = target
    return node


def members(document, node):
    node = resolve(document, node)
    found = set(node.get("properties", {}))
    for part in node.get("allOf", []):
        found |= members(document, part)
    return found


def test_every_option_is_a_member_or_parameter_that_the_api_knows(stack, api):
    document = openapi.load()
    lines = run("--requests").out.splitlines()
    assert len(lines) > 40
    for line in lines:
        method, path, place, name = line.split()
        item = document["paths"][path]
        operation = item[method.lower()]
        if place == "query":
            parameters = [resolve(document, one) for one in item.get("parameters", []) + operation.get("parameters", [])]
            assert name in {one["name"] for one in parameters if one["in"] == "query"}, line
        else:
            schema = resolve(document, operation["requestBody"])["content"]["application/json"]["schema"]
            schema = resolve(document, schema)["properties"]["filter"] if place == "filter" else schema
            assert name in members(document, schema), line


# ---- examples ----

def examples():
    """(command, example) of all commands."""
    return [(command, line) for command in commands() for line in re.findall(r"^  (duetime .*)$", run("help", *command.split()).out.split("For example:")[1], re.M)]


def prepare(api, command, topic):
    """What an example needs: a job of that topic, as far as the command wants it."""
    if command == "topics delete":
        api.put(f"/v1/topics/{topic}", {})
    if command in ("jobs create", "topics delete") or command.split()[0] not in ("jobs", "results", "topics", "pop", "operations"):
        return
    ended = {"jobs redrive": "gave_up", "jobs watch": "succeeded"}.get(command)
    popped = ended or command in ("results report", "jobs attempts")
    api.put(f"/v1/topics/{topic}", {"delivery": "pull"})
    job = api.make(topic=topic, key=f"{topic}-key", delay=0 if popped else "PT1H")
    if popped:
        assert api.post(f"/v1/topics/{topic}/pop", {"wait": "PT1M"}).json["jobs"]
    if ended:
        assert api.post(f"/v1/jobs/{job['id']}/results", {"attempt": 1, "status": ended}).json["outcome"] == "applied"


def standing_alert(api, topic):
    """The id of an alert of the topic."""
    api.put(f"/v1/topics/{topic}", {"delivery": "pull", "alerts": {"backlog": 1}})
    api.make(topic=topic, delay=0)
    return until(lambda: [alert["id"] for alert in api.get("/v1/alerts?limit=1000").json["alerts"] if alert["topic"] == topic], "the alert is raised")[0]


@pytest.mark.in_turns(3)
def test_every_example_of_the_help_works(stack, api, topic, tmp_path):
    (tmp_path / "topics.json").write_text(f'{{"name":"{topic}-a"}}')
    (tmp_path / "jobs.ndjson").write_text(f'{{"topic":"{topic}-i","key":"k","delay":"PT1H"}}\n')
    env = {"DUETIME_URL": stack["DUETIME_URL_API1"], "PATH": f"{PROGRAM.parent}:/usr/bin:/bin", "HOME": str(tmp_path)}
    found = examples()
    assert len(found) >= 35
    for number, (command, line) in enumerate(found):
        if command in ("tokens new", "tokens set", "tokens revoke"):
            continue  # the stack would ask everybody for a token from then on: test_cli_tokens.py
        if command.startswith("clock "):
            continue  # of an installation for tests: test_clock.py
        own = f"{topic}-{number}"
        prepare(api, command, own)
        if command.startswith("schedules") and command not in ("schedules set", "schedules list"):
            assert api.put(f"/v1/schedules/{own}", {"topic": own, "cron": "0 3 * * *"}).status == 201
        if command.startswith("operations") and command != "operations list":
            line = line.replace(" 1", " " + api.post("/v1/jobs:cancel", {"filter": {"topic": own}, "wait": "PT1M"}).json["id"])
        if command == "alerts silence":
            line = line.replace(" 1 ", f" {standing_alert(api, own)} ")
        typed = re.sub(r"\b(orders\.close|mails\.send|nightly|reports)\b", own, line).replace("order-42", f"{own}-key")
        done = subprocess.run(["bash", "-c", typed], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60, check=False,
                              input=f"topic,key,delay\n{own},k,PT1H\n")
        assert done.returncode in ((0, 1) if command == "doctor" else (0,)), (typed, done)
        api.delete(f"/v1/schedules/{own}?cancel=true")

"""What the README tells a newcomer to type does what it says, word for word."""
import os
import re
import socket
import subprocess

from harness.command_line import PROGRAM
from harness.stack import TREE, until

BLOCK = re.compile(r"```(\w+)\n(.*?)```", re.S)


def blocks(language):
    return [text for word, text in BLOCK.findall((TREE / "README.md").read_text(encoding="utf-8")) if word == language]


def typed(stack, *argv, out=subprocess.PIPE):
    """A command that runs in a shell such as the README prepares; the caller ends it with `with` and kill."""
    env = {**os.environ, "DUETIME_URL": stack["DUETIME_URL_API1"], "DUETIME_KAFKA": stack["DUETIME_KAFKA"], "PATH": f"{PROGRAM.parent}:{os.environ['PATH']}"}
    return subprocess.Popen(argv, cwd=TREE, env=env, stdout=out, stderr=subprocess.STDOUT, text=True, start_new_session=True)


def ends(api, topic, key, told):
    until(lambda: api.get(f"/v1/topics/{topic}/jobs/{key}").json.get("state") == "succeeded", lambda: f"{key} succeeds; told: {told.read_text()}", seconds=60)


def test_a_job_is_consumed_called_back_and_popped_as_the_readme_says(stack, api, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as free:
        create, callback, pop, _ = [text.replace("9000", str(free.getsockname()[1])) for text in blocks("sh")]
    told, script, [consumer] = tmp_path / "told", tmp_path / "consumer.py", blocks("python")
    script.write_text(consumer, encoding="utf-8")
    for argv, topic, key in ((("bash", "-c", f"{create}\n/usr/bin/python3 {script}"), "orders.close", "order-42"),
                             (("bash", "-c", f"{callback}\nwait"), "hooks", "hook-1"), (("bash", "-c", pop), "mails", "mail-1")):
        with told.open("a") as out, typed(stack, *argv, out=out) as running:
            try:
                ends(api, topic, key, told)
            finally:
                os.killpg(running.pid, 9)
    assert "closing {'order': 42} attempt 1" in told.read_text()


def test_a_created_job_is_changed_cancelled_and_read_as_the_readme_says(stack, api):
    made = api.make(topic="orders.close", delay="PT1H")
    change, cancel, ask = [line.split("#")[0].replace("ID", made["id"]) for line in blocks("sh")[1].strip().splitlines()]
    env = {**os.environ, "DUETIME_URL": stack["DUETIME_URL_API1"]}

    def typed(line):
        return json.loads(subprocess.run(["bash", "-c", line], env=env, stdout=subprocess.PIPE, check=True, timeout=120).stdout)
    assert typed(change)["state"] == "scheduled"
    assert typed(ask)["waiting_for"] == "time"
    assert typed(cancel)["state"] == "cancelled"
    assert typed(ask)["state"] == "cancelled"

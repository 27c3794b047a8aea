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


def test_the_three_deliveries_of_the_readme_work(stack, api, tmp_path):
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


def test_a_job_is_explained_changed_and_cancelled_by_its_key_as_the_readme_says(stack, api):
    with typed(stack, "bash", "-c", blocks("sh")[3].replace("\n", "\necho =\n")) as running:
        made, explained, changed, cancelled, asked, looked, _ = running.communicate(timeout=120)[0].split("=\n")
    assert "scheduled" in made and "due" in explained and "scheduled" in changed and "cancelled" in cancelled, (made, explained, changed, cancelled)
    assert '"state":"cancelled"' in asked.replace(" ", "") and looked, (asked, looked)

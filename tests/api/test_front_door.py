"""What the README tells a newcomer to type does what it says, word for word."""
import json
import os
import re
import subprocess

from harness.stack import TREE, until

BLOCK = re.compile(r"```(\w+)\n(.*?)```", re.S)


def blocks(language):
    return [text for word, text in BLOCK.findall((TREE / "README.md").read_text(encoding="utf-8")) if word == language]


def test_a_job_is_created_consumed_and_reported_as_the_readme_says(stack, api, tmp_path):
    env = {**os.environ, "DUETIME_URL": stack["DUETIME_URL_API1"], "DUETIME_KAFKA": stack["DUETIME_KAFKA"]}
    create, [consumer] = blocks("sh")[0], blocks("python")
    script = tmp_path / "consumer.py"
    script.write_text(consumer, encoding="utf-8")
    told = tmp_path / "told"
    with told.open("w") as out, subprocess.Popen(["/usr/bin/python3", script], env=env, stdout=out, stderr=subprocess.STDOUT) as running:
        try:
            made = json.loads(subprocess.run(["bash", "-c", create], env=env, stdout=subprocess.PIPE, check=True, timeout=120).stdout)
            until(lambda: api.get(f"/v1/jobs/{made['id']}").json["state"] == "succeeded", lambda: f"it succeeds; told: {told.read_text()}")
        finally:
            running.kill()
    assert "closing {'order': 42} attempt 1" in told.read_text()


def test_what_was_created_is_changed_cancelled_and_asked_for_as_the_readme_says(stack, api):
    made = api.make(topic="orders.close", delay="PT1H")
    change, cancel, ask = [line.split("#")[0].replace("ID", made["id"]) for line in blocks("sh")[1].strip().splitlines()]
    env = {**os.environ, "DUETIME_URL": stack["DUETIME_URL_API1"]}

    def typed(line):
        return json.loads(subprocess.run(["bash", "-c", line], env=env, stdout=subprocess.PIPE, check=True, timeout=120).stdout)
    assert typed(change)["state"] == "scheduled"
    assert typed(ask)["waiting_for"] == "time"
    assert typed(cancel)["state"] == "cancelled"
    assert typed(ask)["state"] == "cancelled"

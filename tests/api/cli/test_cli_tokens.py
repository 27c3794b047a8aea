"""Tokens by the command line and by REST, on an installation of their own: made once shown once, listed without secrets, revoked for good."""
import json

import pytest

from harness.command_line import at_a_terminal, run
from harness.problems import refused
from harness.rest import Rest
from harness.stack import until


@pytest.mark.in_turns(3)
def test_tokens_are_made_listed_and_revoked_and_required_from_the_first_on(own_apis, tmp_path):
    own = own_apis("token_cli").start()

    def cli(*words):
        done = run(*words, "--url", own.url, "--token-file", str(tmp_path / "boss"))
        return done
    (tmp_path / "boss").write_text("")
    assert own.rest.get("/v1/tokens").json == {"tokens": []}
    for topics in ([], [""], "", ["*"], ["a,b"], ["no topic"], 1):
        refused(own.rest.post("/v1/tokens", {"name": "x", "scopes": ["read"], "topics": topics}), 422, "invalid", "/topics")
    for body, pointer in (({"scopes": ["read"]}, "/name"), ({"name": "a b", "scopes": ["read"]}, "/name"), ({"name": "x"}, "/scopes"),
                          ({"name": "x", "scopes": []}, "/scopes"), ({"name": "x", "scopes": ["all"]}, "/scopes"), ({"name": "x", "scopes": ["read"], "more": 1}, "/more")):
        refused(own.rest.post("/v1/tokens", body), 422, "invalid", pointer)
    assert own.rest.get("/v1/tokens").json == {"tokens": []}, "what was refused left nothing"
    asked = at_a_terminal(own.url, "tokens", "new", "--name", "x", "--scopes", "admin", typed="\n", code=1)
    assert "this is the first token: from now on every request needs one" in asked and "create it? [y/N]" in asked
    assert own.rest.get("/v1/tokens").json == {"tokens": []}, "the user did not want it"
    boss = own.rest.post("/v1/tokens", {"name": "boss", "scopes": ["admin", "read"], "topics": None})
    assert boss.status == 201 and boss.json["scopes"] == ["admin"] and boss.json["topics"] is None and boss.headers["Cache-Control"] == "no-store"
    (tmp_path / "boss").write_text(boss.json["token"])
    until(lambda: own.rest.get("/v1/tokens").status == 401 and cli("tokens", "list").code == 0, "the API accepts the first token")
    made = cli("tokens", "new", "--name", "worker-7", "--scopes", "report,read", "--topics", "orders.,mails.", "--json")
    assert made.code == 0 and not made.err and json.loads(made.out)["topics"] == ["orders.", "mails."], made
    worker = Rest(own.url, token=json.loads(made.out)["token"])
    assert cli("tokens", "new", "--name", "worker-7", "--scopes", "read").code == 1, "the name is taken"
    for topics in ("", "*"):
        assert cli("tokens", "new", "--name", "other", "--scopes", "read", "--topics", topics).code == 1, "all topics are asked for without --topics"
    until(lambda: worker.get("/v1/jobs").status == 200, "the API accepts the worker's token")
    refused(worker.get("/v1/tokens"), 403, "forbidden")
    listed = cli("tokens", "list", "--json")
    assert [json.loads(line)["name"] for line in listed.out.splitlines()] == ["boss", "worker-7"] and "dt_" not in listed.out
    assert cli("tokens", "revoke", "worker-7").code == 0 and cli("tokens", "revoke", "worker-7").code == 3
    until(lambda: worker.get("/v1/jobs").status == 401, "it is refused")
    told = [json.loads(line) for line in cli("events", "list", "--json").out.splitlines()]
    assert [(event["actor"], event["action"], event["subject"]) for event in told] == [
        ("boss", "token_revoke", "worker-7"), ("boss", "token_create", "worker-7"), ("-", "token_create", "boss")]
    assert cli("tokens", "revoke", "boss").code == 0
    until(lambda: cli("tokens", "list").code == 1, "it is refused")
    assert own.rest.get("/v1/tokens").status == 401, "none is left, and one is asked for"

"""apply: topics and schedules as a file says; what differs is shown first; nothing changes twice."""
import json

import pytest

from harness.command_line import at_a_terminal, run

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


@pytest.fixture
def apply(duetime, tmp_path):
    """apply(document, …) -> what `duetime apply -f FILE` told."""
    def ask(document, *options):
        path = tmp_path / "file.json"
        path.write_text(document if isinstance(document, str) else json.dumps(document))
        return duetime("apply", "-f", path, *options)
    return ask


def test_a_file_is_applied_once_and_then_nothing_differs(apply, api, topic):
    schedule = f"{topic}-s"
    document = {"topics": [{"name": topic, "delivery": "pull", "max_in_flight": 5, "ack_timeout": "60s", "retry": ["15s", 60000]}],
                "schedules": [{"name": schedule, "topic": topic, "cron": "0 3 * * *", "payload": {"a": 1}, "paused": True}]}
    dry = apply(document, "--dry-run")
    assert dry.code == 2 and f"+ topic {topic}\n" in dry.out and "    max_in_flight: 5\n" in dry.out and f"+ schedule {schedule}\n" in dry.out, dry
    assert "would be created: 2" in dry.err and api.get(f"/v1/topics/{topic}").status == 404
    done = apply(document)
    assert done.code == 0 and done.out == dry.out and "created: 2, changed: 0, deleted: 0" in done.err, done
    again = apply(document)
    assert again.code == 0 and not again.out and "nothing differs" in again.err, again
    assert apply(document, "--dry-run").code == 0
    assert api.get(f"/v1/topics/{topic}").json["effective"]["ack_timeout"] == "PT1M" and api.get(f"/v1/schedules/{schedule}").json["paused"] is True
    document["topics"][0]["max_in_flight"] = None
    document["schedules"] = [{"name": schedule, "topic": topic, "every": "PT1H", "overlap": None}]
    changed = apply(document, "--json")
    assert changed.code == 0 and [(line["action"], line["kind"], line["changes"]) for line in changed.lines] == [
        ("change", "topic", [{"member": "max_in_flight", "from": 5, "to": None}]), ("change", "schedule", [{"member": "every", "from": None, "to": "PT1H"}])], changed
    stored = api.get(f"/v1/schedules/{schedule}").json
    assert (stored["every"], stored["payload"], stored["paused"]) == ("PT1H", {"a": 1}, True) and "cron" not in stored, "what the file does not name stays"


def test_what_get_and_list_print_can_be_applied(duetime, apply, api, topic):
    api.put(f"/v1/topics/{topic}", {"delivery": "pull", "retention": "P3D", "alerts": {"dead": 1}})
    api.put(f"/v1/schedules/{topic}", {"topic": topic, "cron": "0 3 * * *", "payload": {"a": 1}, "starts_at": "2030-01-01T00:00:00+01:00"})
    for printed in (duetime("topics", "get", topic, "--json"), duetime("schedules", "get", topic, "--json"), duetime("topics", "list", "--json"),
                    duetime("schedules", "list", "--json")):
        told = apply(printed.out, "--dry-run")
        assert told.code == 0 and "nothing differs" in told.err, (printed, told)
    assert duetime("apply", "-f", "-", "--dry-run", stdin=json.dumps(api.get("/v1/topics?limit=1000").json)).code == 0
    listed = json.dumps({"schedules": [one for one in api.get("/v1/schedules?limit=1000").json["schedules"] if one["name"] == topic]})
    assert "payload" not in listed and apply(listed.replace("0 3 * * *", "0 4 * * *")).code == 0
    assert api.get(f"/v1/schedules/{topic}").json["payload"] == {"a": 1}, "a list has no payloads, and they stay"


def test_a_hidden_secret_is_kept_and_no_secret_is_shown(apply, db, api, topic):
    wanted = {"name": topic, "delivery": "pull", "callback_url": "http://127.0.0.1:1/", "callback_secret": SECRET, "callback_headers": {"x-key": "geheim"}}
    made = apply(wanted)
    assert made.code == 0 and SECRET not in made.out and "geheim" not in made.out and 'callback_secret: "***"' in made.out, made
    hidden = {**api.get(f"/v1/topics/{topic}").json, "max_in_flight": 7}
    assert hidden["callback_secret"] == "***"
    told = apply(hidden)
    assert told.code == 0 and told.out == f"~ topic {topic}\n    max_in_flight: null -> 7\n", told
    assert SECRET in str(db("SELECT callback_secret FROM topics WHERE name = %s", topic))
    fresh = apply({**hidden, "name": f"{topic}-x"})
    assert fresh.code == 1 and "callback_secret" in fresh.err, "a new topic has no secret that could be kept"


def test_prune_deletes_what_the_lists_of_the_file_lack(own_apis, tmp_path):
    own = own_apis("apply_prune").start()
    for name in ("a", "b", "c"):
        own.rest.put(f"/v1/topics/{name}", {"delivery": "pull"})
    own.rest.put("/v1/schedules/s", {"topic": "b", "cron": "0 3 * * *"})
    path = tmp_path / "file.json"

    def apply(document, *options):
        path.write_text(json.dumps(document))
        return run("apply", "-f", path, *options, variables={"DUETIME_URL": own.url})
    assert apply({"topics": [{"name": "a"}]}).code == 0 and len(own.rest.get("/v1/topics").json["topics"]) == 3, "without --prune nothing is deleted"
    refused = apply({"topics": [{"name": "a"}], "next_cursor": "x"}, "--prune")
    assert refused.code == 2 and "whole list" in refused.err, "a page of a list does not say what is to be deleted"
    assert apply({"name": "a"}, "--prune").code == 2
    kept = apply({"topics": [{"name": "a"}]}, "--prune")
    assert kept.code == 1 and "- topic b\n- topic c\n" in kept.out and "the topic b was not deleted" in kept.err, "a schedule needs b"
    done = apply({"topics": [{"name": "a"}], "schedules": []}, "--prune")
    assert done.code == 0 and done.out == "- schedule s\n- topic b\n- topic c\n", done
    assert [one["name"] for one in own.rest.get("/v1/topics").json["topics"]] == ["a"] and own.rest.get("/v1/schedules").json["schedules"] == []


def test_a_user_at_a_terminal_is_asked_before_a_file_is_applied(stack, api, topic, tmp_path):
    path = tmp_path / "file.json"
    path.write_text(json.dumps({"name": topic, "delivery": "pull"}))
    left = at_a_terminal(stack["DUETIME_URL_API1"], "apply", "-f", str(path), typed="\n", code=1)
    assert "apply? [y/N]" in left and api.get(f"/v1/topics/{topic}").status == 404
    done = at_a_terminal(stack["DUETIME_URL_API1"], "apply", "-f", str(path), typed="y\n")
    assert f"+ topic {topic}\n" in left and "created: 1" in done and api.get(f"/v1/topics/{topic}").status == 200


@pytest.mark.parametrize("text, hint", [("{", "not valid JSON"), ("{}\n{", "not valid JSON"), ("5", "no topics"), ('{"topics":[{"delivery":"pull"}]}', "without a name"),
                                        ('[{"name":"x"},{"name":"x"}]', "twice")])
def test_a_file_that_cannot_be_understood_changes_nothing(apply, text, hint):
    told = apply(text)
    assert told.code == 2 and hint in told.err, told


def test_an_unknown_member_is_refused_by_the_api(apply, duetime, topic):
    told = apply({"name": topic, "paussed": True})
    assert told.code == 1 and "paussed" in told.err and f"topic {topic} was not changed" in told.err, told
    assert duetime("apply").code == 2 and duetime("apply", "-f", "/nonexistent/x").code == 2

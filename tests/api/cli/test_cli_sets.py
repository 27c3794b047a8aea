"""Sets of jobs by filter from the terminal: previewed, done, followed."""
from harness.stack import until


def make(api, topic, n, **job):
    return [api.make(topic=topic, key=f"k{i}", **{"delay": "P9D", **job}) for i in range(n)]


def test_a_set_of_jobs_is_previewed_and_not_changed_without_yes(duetime, api, topic):
    make(api, topic, 3)
    told = duetime("jobs", "cancel", "--topic", topic, "--json")
    assert told.code == 1 and "--yes" in told.err and (told.json["matched"], told.json["changed"], told.json["dry_run"]) == (3, 0, True), told
    dry = duetime("jobs", "cancel", "--topic", topic, "--dry-run", "--json")
    assert dry.code == 0 and dry.json["matched"] == 3 and not dry.err
    assert api.get(f"/v1/topics/{topic}").json["counts"]["scheduled"] == 3


def test_jobs_of_a_set_are_cancelled_moved_run_and_listed(duetime, api, topic):
    jobs = make(api, topic, 3)
    moved = duetime("jobs", "change", "--topic", topic, "--key-prefix", "k0", "--shift", "P1D", "--yes", "--json")
    assert moved.code == 0 and (moved.json["kind"], moved.json["state"], moved.json["changed"]) == ("reschedule", "done", 1), moved
    assert api.get(f"/v1/jobs/{jobs[0]['id']}").json["run_at"] > jobs[0]["run_at"]
    done = duetime("jobs", "cancel", "--ids", f"{jobs[0]['id']}, {jobs[1]['id']}", "--rate", "1000/s", "--yes", "--json")
    assert done.code == 0 and done.json["changed"] == 2, done
    assert duetime("operations", "get", done.json["id"], "--json").json == done.json
    assert done.json["id"] in [row[0] for row in duetime("operations", "list", "--limit", "20").rows]
    assert duetime("operations", "watch", done.json["id"]).code == 0
    assert duetime("jobs", "run-now", "--topic", topic, "--yes").code == 0


def test_dead_jobs_are_redriven_by_the_command(duetime, api, topic):
    api.put(f"/v1/topics/{topic}", {"delivery": "pull"})
    [job] = make(api, topic, 1, delay=0)
    assert api.post(f"/v1/topics/{topic}/pop", {"wait": "PT1M"}).json["jobs"]
    api.post(f"/v1/jobs/{job['id']}/results", {"attempt": 1, "status": "gave_up", "error": {"code": "E7"}})
    assert duetime("jobs", "redrive", "--topic", topic, "--error-code", "E8", "--yes", "--json").json["matched"] == 0
    assert duetime("jobs", "redrive", "--topic", topic, "--failed-to", "2026-01-01T00:00:00Z", "--yes", "--json").json["matched"] == 0
    assert duetime("jobs", "redrive", "--topic", topic, "--error-code", "E7", "--failed-from", "2026-01-01T00:00:00Z", "--yes", "--json").json["changed"] == 1
    until(lambda: api.get(f"/v1/jobs/{job['id']}").json["state"] == "scheduled", "it is scheduled again")


def test_a_long_operation_can_be_stopped(duetime, api, topic):
    make(api, topic, 3)
    begun = api.post("/v1/jobs:cancel", {"filter": {"topic": topic}, "rate": "1/m", "wait": 0}).json
    stopped = duetime("operations", "stop", begun["id"])
    assert stopped.code == 0, stopped
    watched = duetime("operations", "watch", begun["id"], "--json")
    assert watched.code == 1 and watched.json["state"] == "stopped", watched


def test_options_for_a_set_and_for_a_single_job_cannot_be_mixed(duetime, topic):
    for words, hint in ((["jobs", "cancel"], "a filter"), (["jobs", "cancel", "1", "--topic", topic], "--topic is for sets"), (["jobs", "cancel", "--yes"], "a filter"),
                        (["jobs", "cancel", "--topic", topic, "--retries"], "--retries is for one job"), (["jobs", "redrive", "1", "--yes"], "--yes is for sets")):
        told = duetime(*words)
        assert told.code == 2 and hint in told.err, told
    refused = duetime("jobs", "change", "--topic", topic, "--payload", "1", "--yes")
    assert refused.code == 1 and "--payload" in refused.err, refused


def test_a_topic_is_deleted_with_its_jobs_after_a_preview(duetime, api, topic):
    make(api, topic, 2)
    told = duetime("topics", "delete", topic, "--cancel", "--json")
    assert told.code == 1 and "its 2 jobs" in told.err and told.json["counts"]["scheduled"] == 2, told
    assert duetime("topics", "delete", topic).code != 0 and api.get(f"/v1/topics/{topic}").status == 200
    done = duetime("topics", "delete", topic, "--cancel", "--yes", "--json")
    assert done.code == 0 and (done.json["kind"], done.json["state"], done.json["changed"]) == ("delete-topic", "done", 2), done
    assert api.get(f"/v1/topics/{topic}").status == 404

"""Quotas of tokens: what they refuse, how they are set, and that several APIs together let pass no more than one would."""
import json
import socket
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from harness.command_line import run
from harness.problems import refused
from harness.rest import Rest
from harness.stack import until

pytestmark = pytest.mark.in_turns(3)
QUOTAS = {"requests_per_second": None, "jobs_per_second": None, "payload_bytes_per_second": None, "pending_jobs": None}


@pytest.fixture(scope="module")
def two(own_apis):
    """Two APIs of one installation, and a Rest for the boss of it."""
    first = own_apis("quotas", {"quotas.payload_bytes_per_second": 50000}).start()
    second = own_apis("quotas_two", {"quotas.payload_bytes_per_second": 50000, "mysql.database": "api_quotas", "installation.name": "quotas"}, shared=True).start()
    made = first.command("--new-token", "boss", "--scopes", "admin", "--quotas", "payload_bytes_per_second=0")
    assert made.returncode == 0, made.stderr
    boss = Rest(first.url, token=made.stdout.strip())
    until(lambda: all(Rest(api.url).get("/v1/tokens").status == 401 for api in (first, second)) and boss.get("/v1/tokens").status == 200, "the API accepts the token")
    yield first, second, boss
    boss.close()


def new_token(two, name, **quotas):
    """Rests for both APIs that carry a new token."""
    first, second, boss = two
    made = boss.post("/v1/tokens", {"name": name, "scopes": ["write", "read"], **quotas})
    assert made.status == 201 and {**QUOTAS, **quotas}.items() <= made.json.items(), made
    rests = [Rest(api.url, token=made.json["token"]) for api in (first, second)]
    until(lambda: all(rest.get("/v1/jobs").status == 200 for rest in rests), "the API accepts the token")
    return rests


def job(key):
    return {"topic": "q", "key": key, "delay": "PT24H"}


def over(problem, quota, limit):
    assert problem["status"] == 429 and problem["type"].endswith("/problems/quota-exceeded"), problem
    assert (problem["quota"], problem["limit"]) == (quota, limit) and problem["retry_after"].startswith("PT"), problem


def refused_of(rest, n=200, **more):
    """Returns the refused elements of a batch of n jobs. n is far more than the quota allows while the batch runs."""
    return [answer for answer in rest.post("/v1/jobs:batch", [{"topic": "q", "delay": "PT24H", **more}] * n).json if answer["status"] != 201]


def test_single_jobs_batches_and_commands_are_refused_beyond_the_quota(two):
    began = time.monotonic()
    rest, _ = new_token(two, "worker", jobs_per_second=10)
    answers = rest.post("/v1/jobs:batch", [job(f"worker {n}") for n in range(400)]).json
    made = sum(answer["status"] == 201 for answer in answers)
    assert 10 // 3 <= made <= 10 * (time.monotonic() - began + 2), "at least a third of the burst: two APIs share it, and one that another test has just ended"
    for answer in answers:
        if answer["status"] != 201:
            over(answer, "jobs_per_second", 10)

    def spent(ask):
        """ask(), run right after a batch that has spent the quota; the quota allows a job again after a tenth of a second."""
        return lambda: refused_of(rest) and ask()
    answer = until(spent(lambda: (answer := rest.post("/v1/jobs", {"topic": "q", "delay": "PT24H"})).status == 429 and answer), "a single job is refused")
    over(refused(answer, 429, "quota-exceeded"), "jobs_per_second", 10)
    assert int(answer.headers["Retry-After"]) >= 1
    lines = rest.ask("POST", "/v1/jobs:batch", "\n".join(json.dumps(job(f"worker {n}")) for n in range(400, 800)), content_type="application/x-ndjson").lines
    assert {line["status"] for line in lines} in ({429}, {201, 429})
    command = {"command": "add", "topic": "pulled", "delay": 3600, "TTR": 60, "body": "x"}
    until(spent(lambda: "quota" in rest.post("/v1/commands", {**command, "id": f"c {time.monotonic()}"}).text), "a command is refused")
    until(lambda: rest.post("/v1/jobs", job("single")).status == 201, "the quota has refilled")
    assert rest.put("/v1/topics/q/jobs/single", {"delay": "PT24H"}).status in (200, 429)


def test_a_repeated_create_does_not_use_the_quota(two):
    rest, _ = new_token(two, "repeater", jobs_per_second=2)
    until(lambda: rest.post("/v1/jobs", job("same")).status == 201, "it is made")
    until(lambda: rest.post("/v1/jobs", job("same")).status == 200, "the quota has refilled")
    assert [rest.post("/v1/jobs", job("same")).status for _ in range(20)] == [200] * 20


def test_requests_beyond_the_quota_are_refused_and_other_tokens_are_not_affected(two):
    rest, _ = new_token(two, "reader", requests_per_second=5)
    answer = until(lambda: next((answer for answer in (rest.get("/v1/jobs?topic=none") for _ in range(50)) if answer.status == 429), None), "over")
    over(refused(answer, 429, "quota-exceeded"), "requests_per_second", 5)
    assert int(answer.headers["Retry-After"]) >= 1
    until(lambda: rest.get("/v1/jobs?topic=none").status == 200, "the quota has refilled")
    assert [two[2].get("/v1/jobs?topic=none").status for _ in range(20)] == [200] * 20


def test_a_configured_quota_of_payload_bytes_is_enforced_and_a_patch_changes_quotas(two):
    rest, _ = new_token(two, "heavy")
    over(until(lambda: refused_of(rest, payload="x" * 30000), "over")[0], "payload_bytes_per_second", 50000)
    boss = two[2]
    changed = boss.patch("/v1/tokens/heavy", {"payload_bytes_per_second": 0, "jobs_per_second": 7})
    assert changed.status == 200 and changed.json["payload_bytes_per_second"] == 0 and changed.json["jobs_per_second"] == 7, changed
    assert [token["jobs_per_second"] for token in boss.get("/v1/tokens").json["tokens"] if token["name"] == "heavy"] == [7]
    over(until(lambda: next((one for one in refused_of(rest, payload="x" * 30000) if one["quota"] == "jobs_per_second"), None), "changed"), "jobs_per_second", 7)
    assert boss.patch("/v1/tokens/heavy", {"jobs_per_second": None}).json["jobs_per_second"] is None
    for body, pointer in (({"jobs_per_second": -1}, "/jobs_per_second"), ({"jobs_per_second": 1.5}, "/jobs_per_second"), ({"jobs": 1}, "/jobs"), ({"scopes": ["read"]}, "")):
        refused(boss.patch("/v1/tokens/heavy", body), 422, "invalid", pointer)
    refused(boss.patch("/v1/tokens/none", {"jobs_per_second": 1}), 404, "not-found")
    event = boss.get("/v1/events?actor=boss&limit=1").json["events"][0]
    assert (event["action"], event["subject"], event["before"]) == ("token_change", "heavy", {"jobs_per_second": 7}), event


def test_pending_jobs_of_the_topics_of_a_token_have_a_quota(two):
    rest, other = new_token(two, "filler", topics=["pend."], pending_jobs=20)
    made = []

    def fill(through, n):
        answers = through.post("/v1/jobs:batch", [{"topic": "pend.x", "delay": "PT24H"}] * n).json
        made.extend(answer["id"] for answer in answers if answer["status"] == 201)
        return answers
    until(lambda: fill(rest, 2)[-1]["status"] == 429 and len(made) >= 19, lambda: made)
    over(fill(rest, 3)[-1], "pending_jobs", 20)
    assert int(rest.post("/v1/jobs", {"topic": "pend.x", "delay": "PT24H"}).headers["Retry-After"]) >= 1
    over(until(lambda: (answers := fill(other, 5))[-1]["status"] == 429 and answers[-1], "through the other"), "pending_jobs", 20)
    assert len(made) <= 22, "a tenth more, where two begin at once"
    assert two[2].post("/v1/jobs", {"topic": "elsewhere", "delay": "PT24H"}).status == 201
    for job_id in made[:5]:
        assert rest.delete(f"/v1/jobs/{job_id}").status == 200
    until(lambda: fill(other, 1)[-1]["status"] == 201, "there is room again")


def test_a_token_sees_its_own_usage_and_an_admin_sees_all(two):
    first, second, boss = two
    rest, other = new_token(two, "used", topics=["used."], jobs_per_second=1000)
    assert [through.post("/v1/jobs", {"topic": "used.x", "delay": "PT24H", "payload": "12345678"}).status for through in (rest, rest, other)] == [201] * 3
    [own] = until(lambda: (usage := rest.get("/v1/usage").json["usage"])[0]["jobs"] == 3 and usage, lambda: rest.get("/v1/usage"))
    assert own["token"] == "used" and own["payload_bytes"] == 30 and own["pending_jobs"] == 3 and own["requests"] >= 5 and own["jobs_refused"] == 0, own
    assert own["limits"] == {**QUOTAS, "jobs_per_second": 1000, "payload_bytes_per_second": 50000}
    everybody = {usage["token"]: usage for usage in boss.get("/v1/usage?days=2").json["usage"]}
    assert {"used", "boss"} <= set(everybody) and everybody["used"]["jobs"] == 3 and everybody["boss"]["limits"] == QUOTAS
    assert boss.delete("/v1/tokens/used").status == 200
    [gone] = [usage for usage in boss.get("/v1/usage").json["usage"] if usage["token"] == "used"]
    assert gone["jobs"] == 3 and "limits" not in gone
    for days in ("0", "401", "x", "", "1.5", "0001"):
        refused(boss.get(f"/v1/usage?days={days}"), 422, "invalid", "?days")
    assert 'duetime_api_quota_refused_total{quota="jobs_per_second"}' in boss.get("/metrics").text


def test_old_usage_is_deleted_when_an_api_first_writes_usage(two, own_apis):
    first, _, boss = two
    first.rows("INSERT INTO token_usage (day, token, requests) VALUES (0, 'long_gone', 1)")
    third = own_apis("quotas_three", {"mysql.database": "api_quotas", "installation.name": "quotas"}, shared=True).start()
    third.rest.close()
    third.rest = Rest(third.url, token=boss.token)
    until(lambda: third.rest.get("/v1/jobs").status == 200, "the API accepts the token")
    until(lambda: not first.rows("SELECT 1 FROM token_usage WHERE token = 'long_gone'"), third.log)
    third.end()


def flood(rest, quota, enough):
    """Requests twice the quota, in batches, until enough(seconds, jobs created) is true. Returns both."""
    began = asked = time.monotonic()
    made = 0
    while not enough(asked - began, made):
        n = min(1000, 20 + int((time.monotonic() - asked) * 2 * quota))
        asked = time.monotonic()
        made += n - len(refused_of(rest, n))
        time.sleep(0.02)
    return asked - began, made


def test_two_apis_together_admit_the_quota_of_jobs_and_one_alone_admits_all_of_it(two):
    rests, quota = new_token(two, "flooder", jobs_per_second=100), 100
    began = time.monotonic()
    with ThreadPoolExecutor(2) as pool:
        counts = [made for _, made in pool.map(lambda rest: flood(rest, quota, lambda seconds, _: seconds > 3), rests)]
    took = time.monotonic() - began
    assert sum(counts) <= (took + 2) * quota, (counts, took)
    assert min(counts) > 0, counts

    def alone():
        """Whether it gets more than its half within a second and a half, starting with a full bucket."""
        flood(rests[1], quota, lambda seconds, _: seconds > 0.5)
        seconds, made = flood(rests[1], quota, lambda seconds, _: seconds > 1.5)
        return made > 0.7 * quota * seconds
    until(alone, "one gets more than its half when the other has ended")


def cut_off(rest):
    """Sends batches and disconnects in the middle of a line. More elements are refused than are free of charge (10,000), until the token's debt is at its maximum."""
    body = (json.dumps({"topic": "q", "delay": "PT24H"}) + "\n").encode() * 4000 + b'{"topic":'
    for _ in range(4):
        with socket.create_connection((rest.host, rest.port), 120) as wire:
            wire.sendall(f"POST /v1/jobs:batch HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {rest.token}\r\n"
                         f"Content-Type: application/x-ndjson\r\nContent-Length: {len(body) + 100}\r\n\r\n".encode() + body)
            wire.shutdown(socket.SHUT_WR)
            assert wire.recv(1 << 20).startswith(b"HTTP/1.1")


def lines_of(rest, topic, n):
    """Returns the statuses of a batch of n jobs."""
    line = json.dumps({"topic": topic, "delay": "PT24H", "payload": "p" * 40})  # its refusal is less than four times as long
    answer = rest.ask("POST", "/v1/jobs:batch", (line + "\n") * n, content_type="application/x-ndjson")
    assert answer.status == 200 and len(answer.lines) == n, answer
    return {line["status"] for line in answer.lines}


def waits_alone(owes, ask, *others, least=2):
    """Whether ask() waits for at least `least` seconds after owes() has run, while all others are answered. A debt lasts five seconds: if the machine stalls
    for longer, this returns False, and the caller may try again."""
    owes()
    began = time.monotonic()
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(ask)
        for other in others:
            other()
        waited = not asked.done()
        asked.result()
    return waited and time.monotonic() - began > least


def test_a_token_whose_batches_were_cut_off_waits_before_its_next_batch_and_others_do_not(two):
    owing, other = (new_token(two, name)[0] for name in ("leaver", "stayer"))
    until(lambda: waits_alone(lambda: cut_off(owing), lambda: lines_of(owing, "q", 1), *[lambda: lines_of(other, "q", 1)] * 3), "it waits, and the other does not")


def test_a_token_with_many_refused_elements_holds_few_connections(two):
    """Sixteen of its batches wait for their beginning, and one more is told to come again."""
    rest, _ = new_token(two, "crowd")

    def statuses():
        cut_off(rest)
        with ThreadPoolExecutor(24) as threads:
            answers = list(threads.map(lambda n: rest.ask("POST", "/v1/jobs:batch", json.dumps(job(f"crowd {n}")) + "\n", content_type="application/x-ndjson"), range(24)))
        assert all(int(answer.headers["Retry-After"]) >= 1 for answer in answers if answer.status == 503)
        return Counter(answer.status for answer in answers)
    until(lambda: statuses() == {200: 16, 503: 8}, statuses)


def passed_together(rests, seconds, ask):
    """How often both APIs together let pass what each is asked for all the time, and in what time."""
    counts, ends, began = [0] * len(rests), time.monotonic() + seconds, time.monotonic()

    def go_on(n):
        while time.monotonic() < ends:
            answer = ask(rests[n])
            counts[n] += answer.status != 429
            assert answer.status != 429 or int(answer.headers["Retry-After"]) >= 1, answer
    with ThreadPoolExecutor(len(rests)) as pool:
        list(pool.map(go_on, range(len(rests))))
    assert min(counts) > 0, counts
    return sum(counts), time.monotonic() - began


def test_two_apis_together_admit_the_quota_of_requests(two):
    count, took = passed_together(new_token(two, "asker", requests_per_second=40), 3, lambda rest: rest.get("/v1/jobs?topic=none&limit=1"))
    assert count <= (took + 2) * 40, (count, took)


def test_two_apis_together_admit_the_quota_of_bytes(two):
    payload = "x" * 998
    rests = new_token(two, "sender", payload_bytes_per_second=40000)
    count, took = passed_together(rests, 3, lambda rest: rest.post("/v1/jobs", {"topic": "q", "delay": "PT24H", "payload": payload}))
    assert count <= (took + 2) * 40 + 2, (count, took)  # the last one of each may be larger than what is left


def test_the_command_line_makes_tokens_with_quotas_and_changes_them(two, tmp_path):
    first, _, boss = two
    (tmp_path / "boss").write_text(boss.token)

    def cli(*words):
        return run(*words, "--url", first.url, "--token-file", str(tmp_path / "boss"), "--json")
    made = cli("tokens", "new", "--name", "cli", "--scopes", "write", "--jobs-per-second", "5", "--pending-jobs", "50")
    assert made.code == 0 and json.loads(made.out)["pending_jobs"] == 50, made
    changed = cli("tokens", "set", "cli", "--pending-jobs", "null", "--requests-per-second", "9")
    assert changed.code == 0 and {**QUOTAS, "jobs_per_second": 5, "requests_per_second": 9}.items() <= json.loads(changed.out).items(), changed
    used = cli("usage", "--days", "3")
    assert used.code == 0 and "cli" in [json.loads(line)["token"] for line in used.out.splitlines()], used
    wrong = first.command("--new-token", "x", "--scopes", "read", "--quotas", "jobs=3")
    assert wrong.returncode != 0 and "jobs_per_second" in wrong.stderr


def test_a_token_with_very_many_refused_elements_is_answered_late_and_other_tokens_are_not(two):
    flood, honest, owing = (new_token(two, name)[0] for name in ("flood", "honest", "owing"))

    def says(status, rest, topic, n):
        assert lines_of(rest, topic, n) == {status}

    def owes():
        for n in (9000, 2000):
            says(422, flood, "no topic", n)
    until(lambda: waits_alone(owes, lambda: says(422, flood, "no topic", 3000), lambda: says(422, honest, "no topic", 100), lambda: says(201, honest, "q", 100)),
          "refused requests wait, and another token does not")
    until(lambda: waits_alone(lambda: cut_off(owing), lambda: says(201, owing, "q", 1), lambda: says(201, flood, "q", 100)), "the token in debt waits, accepted jobs of another do not")


def test_failed_commands_of_an_array_count_as_refused_elements(two):
    rest, _ = new_token(two, "commands")
    held = two[2].metric("duetime_api_batches")

    def wrong():
        answer = rest.post("/v1/commands", [{"command": "add", "topic": "no topic", "id": str(n), "delay": 60, "body": "x"} for n in range(1000)])
        assert answer.status == 200 and len(answer.json) == 1000 and not any(one["success"] for one in answer.json), answer

    def fine():
        answer = rest.post("/v1/commands", [{"command": "add", "topic": "q.pulled", "id": "fine", "delay": 60, "body": "x"}])
        assert answer.json == [{"success": True, "id": "fine"}]
    until(lambda: waits_alone(lambda: [wrong() for _ in range(11)], lambda: (wrong(), wrong()), fine, least=1.5), "failing requests wait, successful ones do not")
    assert two[2].metric("duetime_api_batches") == held

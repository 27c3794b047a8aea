"""`duetime doctor`: each finding is seen when its fault is planted, on the real stack or in what an API says of itself."""
import re
import subprocess

import pytest

from harness.command_line import run
from harness.program import OwnApi
from harness.stack import TREE, until
from stand_in import answering

pytestmark = pytest.mark.in_turns(2)

READY = {"status": "ready", "mysql": "ok", "workers": "ok", "redis": "ok", "leaders": "ok", "kafka": "ok", "age_ms": {}}
SEEN = set()


def info(**members):
    return {"version": re.search(r"\d\S+", run("version").out)[0], "shards": [], **members}


def saying(answers, certificate=None):
    """An API that answers these paths so; gives its URL."""
    return answering(lambda path, _: answers.get(path, {"topics": [], "next_cursor": None}), certificate)


def findings(told):
    """{finding: its detail}; each is told with what it means, what to do, and where to read on."""
    assert told.code == (1 if any(line["severity"] != "note" for line in told.lines) else 0), told
    for line in told.lines:
        assert set(line) == {"finding", "severity", "detail", "means", "do", "runbook", "cause"}, line
        assert all(value for name, value in line.items() if name != "cause") and line["severity"] in ("error", "warning", "note"), line
        assert (TREE / line["runbook"]).is_file(), line
    SEEN.update(line["finding"] for line in told.lines)
    return {line["finding"]: line["detail"] for line in told.lines}


def doctor(url, *words, **variables):
    return findings(run("doctor", "--json", "--url", url, *words, variables=variables))


def healthy(stack):
    """Nothing is found on the stack; what earlier tests left behind is over. Jobs of theirs may be late, and their topics paused."""
    return until(lambda: not set(doctor(stack["DUETIME_URL_API1"], "--late", "P30D")) - {"paused-and-due", "shards-moving"},
                 lambda: run("doctor", "--url", stack["DUETIME_URL_API1"]))


# ---- on the real stack ----

def test_a_healthy_installation_has_no_findings():
    with saying({"/readyz": READY, "/v1/info": info()}) as url:
        assert doctor(url) == {}
        told = run("doctor", "--url", url)
        assert told.code == 0 and not told.out and "nothing is wrong" in told.err


def test_doctor_finds_an_unreachable_api_and_a_server_that_is_not_duetime():
    assert "127.0.0.1:9" in doctor("http://127.0.0.1:9")["api-unreached"]
    with saying({"/readyz": b"<html>"}) as url:
        assert set(doctor(url)) == {"not-an-api"}
    with saying({"/readyz": {"hello": 1}}) as url:
        assert set(doctor(url)) == {"not-an-api"}


def test_doctor_finds_leaderless_shards_and_late_jobs_until_the_dispatcher_is_back(stack, api, topic):
    url = stack["DUETIME_URL_API1"]
    healthy(stack)
    stack.stop("dispatcher1")
    try:
        until(lambda: {"no-dispatcher", "shard-without-leader"} <= set(doctor(url)), lambda: doctor(url))
        told = run("doctor", "--url", url)
        assert told.code == 1 and told.out.startswith("error no-dispatcher: dispatchers: no dispatcher was seen") and "\n  so:    error shard-without-leader: shard 0, shard 1\n" in told.out
        lines = run("doctor", "--json", "--url", url).lines
        assert [line["finding"] for line in lines if line["cause"] == "no-dispatcher"][:2] == ["shard-without-leader"] * 2
    finally:
        stack.start("dispatcher1")
    healthy(stack)


def test_findings_of_the_server_are_shown_with_their_subject(stack, db):
    url = stack["DUETIME_URL_API1"]
    healthy(stack)
    db("SET GLOBAL sync_binlog = 0")
    try:
        assert doctor(url, "--late", "P30D")["mysql-binlog"] == "mysql: sync_binlog is 0"
        assert "warning mysql-binlog: mysql: sync_binlog is 0\n  means: " in run("doctor", "--late", "P30D", "--url", url).out
    finally:
        db("SET GLOBAL sync_binlog = 1")
    healthy(stack)


def test_a_paused_topic_is_reported_as_a_note_and_not_as_late_jobs_until_it_is_resumed(stack, api, held):
    url = stack["DUETIME_URL_API1"]
    healthy(stack)
    api.make(topic=held, delay=0)

    def told():
        return [line for line in run("doctor", "--json", "--late", "P30D", "--url", url).lines if line["detail"].startswith(f"{held}: ")]
    [line] = until(told, lambda: run("doctor", "--url", url))
    assert (line["finding"], line["severity"], line["do"]) == ("paused-and-due", "note", f"duetime topics resume {held}")
    until(lambda: run("doctor", "--late", "P30D", "--url", url).code == 0, lambda: run("doctor", "--late", "P30D", "--url", url))
    late = run("jobs", "list", "--overdue", "--topic", held, "--url", url)
    assert late.code == 0 and held not in late.out and "1 due jobs are held, and not listed" in late.err, late
    assert run(*line["do"].split()[1:], variables={"DUETIME_URL": url}).code == 0
    until(lambda: not told(), told)


def test_doctor_finds_a_refused_token(own_apis, tmp_path):
    owned = own_apis("cli_doctor")
    owned.start()
    token = owned.command("--new-token", "bound", "--scopes", "read", "--topics", "a.").stdout.strip()
    until(lambda: "token-refused" in doctor(owned.url), "the API asks for a token")
    assert "may not" in doctor(owned.url, DUETIME_TOKEN=token)["token-refused"]


def test_doctor_finds_a_missing_schema_and_its_advice_repairs_it(stack, tmp_path):
    owned = OwnApi(stack, tmp_path, "cli_schema", migrate=False).start(ready=False)
    try:
        until(lambda: "schema-differs" in doctor(owned.url), lambda: doctor(owned.url))
        told = run("doctor", "--url", owned.url)
        assert "do:    duetime-api --migrate" in told.out and owned.command("--migrate").returncode == 0
        until(lambda: "schema-differs" not in doctor(owned.url), lambda: doctor(owned.url))
    finally:
        assert owned.end() == 0


def test_doctor_finds_a_wrong_clock(stack, tmp_path):
    library = tmp_path / "clock_shim.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, TREE / "tests/support/clock_shim.c", "-ldl"], check=True)
    for skew, word in ((5000, "ahead of"), (-5000, "behind")):
        told = run("doctor", "--json", "--url", stack["DUETIME_URL_API1"], variables={"LD_PRELOAD": str(library), "DUETIME_CLOCK_SKEW_MS": str(skew), "ASAN_OPTIONS": "verify_asan_link_order=0"})
        assert word in findings(told)["clock-skew"], told


def test_doctor_finds_a_certificate_that_expires_soon(tmp_path):
    for days, found in ((10, True), (60, False)):
        files = [tmp_path / f"{days}.key", tmp_path / f"{days}.pem"]
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", files[0], "-out", files[1], "-days", str(days), "-subj", "/CN=127.0.0.1",
                        "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)
        both = tmp_path / f"{days}.both"
        both.write_bytes(files[0].read_bytes() + files[1].read_bytes())
        with saying({"/readyz": READY, "/v1/info": info()}, both) as url:
            assert "api-unreached" in doctor(url)  # nobody vouches for it
            assert ("certificate-ends" in doctor(url, "--ca-file", files[1])) == found


# ---- by what an API says ----

@pytest.mark.parametrize("members, finding, detail", [
    ({"mysql": "unavailable"}, "mysql-away", "unavailable"), ({"mysql": "failing"}, "mysql-away", "failing"), ({"mysql": "read-only"}, "mysql-read-only", "read-only"),
    ({"mysql": "schema"}, "schema-differs", "schema"),
    ({"draining": True}, "api-draining", "")])
def test_a_failing_readiness_is_a_finding(members, finding, detail):
    with saying({"/readyz": {**READY, **members}, "/v1/info": info()}) as url:
        told = doctor(url)
        assert set(told) == {finding} and detail in told[finding]


def test_doctor_finds_an_api_of_another_version():
    with saying({"/readyz": READY, "/v1/info": info(version="9.9.9")}) as url:
        assert "9.9.9" in doctor(url)["versions-differ"]


def test_doctor_finds_a_token_that_is_sent_unencrypted():
    with saying({"/readyz": READY, "/v1/info": info()}) as url:
        assert doctor(url, DUETIME_TOKEN="t") == {}
        assert set(doctor("http://duetime.invalid", DUETIME_TOKEN="t", http_proxy=url)) == {"token-in-the-clear"}


def test_every_finding_is_covered_by_this_file(request):
    items = [item for item in request.session.items if item.path == request.path]
    if len(items) < 17 or items[-1] is not request.node:
        return  # only some of them were asked for, or the others come later
    kinds = dict(re.findall(r'\[(DT_FINDING_\w+)\]\s*=\s*\{\s*"([a-z-]+)"', (TREE / "scheduler/features/doctor/finding.c").read_text()))
    names = {kinds[kind] for kind in re.findall(r"\bDT_FINDING_(?!KINDS)\w+", (TREE / "api/cli/run_status.c").read_text())}
    assert len(names) == 11 and names - SEEN == set(), names - SEEN

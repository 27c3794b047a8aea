"""The standard streams of the command line, and of the servers' own commands: full, closed, left by their reader, interrupted, with a byte order mark."""
import json
import os
import re
import signal
import subprocess

import pytest

from harness.command_line import PROGRAM, run
from harness.stack import PRESET, TREE, until

API, DISPATCHER = (TREE / "build" / PRESET / name / f"duetime-{name}" for name in ("api", "dispatcher"))
BOM = "\ufeff"


def into(out, *words, url=None, stdin="", program=PROGRAM, err=subprocess.PIPE, **options):
    """(exit code, standard error) with standard output as given; "closed": it is not there."""
    closed = {"stdout": None, "preexec_fn": lambda: os.close(1)} if out == "closed" else {"stdout": out}
    done = subprocess.run([program, *words], env={**os.environ, "DUETIME_URL": url or "", "HOME": "/nonexistent"}, input=stdin, stderr=err, text=True,
                          timeout=300, check=False, **closed, **options)
    assert "Sanitizer" not in (done.stderr or ""), done.stderr
    return done.returncode, done.stderr


def a_gone_reader():
    read, write = os.pipe()
    os.close(read)
    return write


READING = [["jobs", "list"], ["jobs", "export"], ["topics", "list", "--json"], ["shards", "list"], ["overview"], ["overview", "--watch"], ["forecast"], ["forecast", "--json"],
           ["help"], ["jobs", "--help"], ["version"], ["--version"], ["completion", "bash"], ["--man"]]


@pytest.mark.parametrize("words", READING, ids="_".join)
def test_a_command_reports_an_output_that_cannot_be_written(api, stack, topic, words):
    api.make(topic=topic, delay="P9D")
    url = stack["DUETIME_URL_API1"]
    with open("/dev/full", "w") as full:
        assert into(full, *words, url=url) == (1, "duetime: standard output cannot be written: No space left on device\n")
    code, err = into("closed", *words, url=url)
    assert code == 1 and err == "duetime: standard output cannot be written: Bad file descriptor\n"
    reader = a_gone_reader()
    assert into(reader, *words, url=url) == (-signal.SIGPIPE, "")
    os.close(reader)


CHANGING = [(["jobs", "create", "--topic", "TOPIC", "--delay", "P9D"], r"jobs create: id \d+"),
            (["jobs", "import"], r'jobs import: \{"made":1,'),
            (["jobs", "change", "TOPIC", "k", "--delay", "P8D"], r"jobs change TOPIC k: id \d+"),
            (["jobs", "cancel", "--topic", "TOPIC", "--yes"], r"jobs cancel: id \d+"),
            (["topics", "set", "TOPIC", "--delivery", "pull"], "topics set TOPIC: name TOPIC"),
            (["topics", "pause", "TOPIC"], "topics pause TOPIC: name TOPIC"),
            (["topics", "delete", "TOPIC", "--cancel", "--yes"], r"topics delete TOPIC: id \d+"),
            (["schedules", "set", "TOPIC", "--topic", "TOPIC", "--every", "P1D"], "schedules set TOPIC: name TOPIC"),
            (["pop", "TOPIC"], r"pop TOPIC: id \d+, attempt 1")]


@pytest.mark.parametrize(("words", "done"), CHANGING, ids=lambda one: "_".join(one[:2]) if isinstance(one, list) else "")
@pytest.mark.parametrize("out", ["full", "closed", "gone"])
def test_a_command_reports_its_change_when_the_answer_cannot_be_written(duetime, api, stack, topic, words, done, out):
    api.make(topic=topic, key="k", delay="P9D")
    if words[0] == "pop":
        api.put(f"/v1/topics/{topic}", {"delivery": "pull"})
        api.make(topic=topic, delay=0)
        words = [*words, "--wait", "20s"]
    target = {"full": os.open("/dev/full", os.O_WRONLY), "closed": "closed", "gone": a_gone_reader()}
    code, err = into(target[out], *(word.replace("TOPIC", topic) for word in words), url=stack["DUETIME_URL_API1"], stdin=json.dumps({"topic": topic, "delay": "P9D"}))
    assert code == 1 and "duetime: standard output cannot be written: " in err, err
    assert re.search("duetime: the API has carried out " + done.replace("TOPIC", topic), err), err
    duetime("schedules", "delete", topic)


def test_a_preview_that_cannot_be_written_does_not_claim_that_it_was_carried_out(api, stack, topic):
    api.make(topic=topic, delay="P9D")
    with open("/dev/full", "w") as full:
        code, err = into(full, "jobs", "cancel", "--topic", topic, "--dry-run", url=stack["DUETIME_URL_API1"])
    assert code == 1 and "carried out" not in err, err


def test_a_command_works_and_its_exit_code_is_right_when_standard_error_is_closed(api, stack, topic):
    words = ("jobs", "create", "--topic", topic, "--delay")
    for err in (os.open("/dev/full", os.O_WRONLY), a_gone_reader()):
        assert into(subprocess.PIPE, *words, "P9D", url=stack["DUETIME_URL_API1"], err=err)[0] == 0
        assert into(subprocess.PIPE, *words, "soon", url=stack["DUETIME_URL_API1"], err=err)[0] == 1
    closed = subprocess.run(f"'{PROGRAM}' {' '.join(words)} P9D --url {stack['DUETIME_URL_API1']} <&- 2>&- | grep -c scheduled", shell=True, text=True,
                            stdout=subprocess.PIPE, check=False)
    assert closed.stdout == "1\n"
    assert len(api.list(topic=topic)) == 3


def test_the_commands_of_the_servers_report_an_output_that_cannot_be_written(stack, tmp_path):
    config = tmp_path / "config.ini"
    config.write_text("")
    for program in (API, DISPATCHER):
        for words in (["--help"], ["--version"], ["--config", config, "--print-config"]):
            with open("/dev/full", "w") as full:
                code, err = into(full, *words, program=program)
            assert code == 1 and err.endswith(f"{program.name}: standard output cannot be written: No space left on device\n"), err


def test_new_token_names_the_command_that_revokes_it_when_the_token_cannot_be_shown(own_apis):
    api = own_apis.running("cli_lost_tokens")
    with open("/dev/full", "w") as full:
        code, err = into(full, "tokens", "new", "--name", "first", "--scopes", "read", url=api.url)
        assert code == 1 and "tokens new: name first; its secret is lost: duetime tokens revoke first removes it" in err, err
        code, err = into(full, "--config", api.config, "--new-token", "lost", "--scopes", "read", program=API)
    assert code == 1 and "could not be shown: remove it with --revoke-token lost" in err, err


# ---- interrupts ----

def slow(stack, topic, *more):
    """A cancel that takes its time, and what it says on standard error. It hears SIGHUP, whatever the tests were started with (nohup)."""
    return subprocess.Popen([PROGRAM, "jobs", "cancel", "--topic", topic, "--rate", "1/m", "--yes", "--url", stack["DUETIME_URL_API1"], *more],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_after_an_interrupt_the_operation_continues_and_the_cli_prints_how_to_stop_it(api, stack, topic, number):
    for n in range(3):
        api.make(topic=topic, key=f"k{n}", delay="P9D")
    process = slow(stack, topic)
    operation = until(lambda: [one["id"] for one in api.get("/v1/operations").json["operations"] if one["filter"].get("topic") == topic], "it has begun")[0]
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == -number and out == "", (process.returncode, out, err)
    assert f"operation {operation} continues without this program" in err, err
    stop = next(line.strip() for line in err.splitlines() if "operations stop" in line)
    assert api.get(f"/v1/operations/{operation}").json["state"] == "running"
    subprocess.run(stop.replace("duetime", f"'{PROGRAM}'", 1), shell=True, check=True, stdout=subprocess.DEVNULL)
    assert api.get(f"/v1/operations/{operation}").json["state"] == "stopped"


def test_an_interrupted_import_says_how_far_it_came(stack, api, topic):
    process = subprocess.Popen([PROGRAM, "jobs", "import", "--url", stack["DUETIME_URL_API1"]], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
    process.stdin.write((json.dumps({"topic": topic, "delay": "P9D"}) + "\n") * 5000)  # a batch
    process.stdin.flush()
    until(lambda: api.get(f"/v1/topics/{topic}").status == 200 and api.get(f"/v1/topics/{topic}").json["counts"]["scheduled"] == 5000, "the batch is made")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGINT and "5000 jobs were created; to continue" in err, err


# ---- nothing ----

EMPTY = [["jobs", "list", "--topic", "TOPIC"], ["jobs", "export", "--topic", "TOPIC"], ["jobs", "dead", "--topic", "TOPIC"], ["spikes"],
         ["usage"], ["events", "list", "--topic", "TOPIC"], ["pop", "TOPIC"]]


@pytest.mark.parametrize("words", EMPTY, ids="_".join)
def test_an_empty_list_says_so(duetime, api, topic, words):
    api.put(f"/v1/topics/{topic}", {"delivery": "pull"})
    words = [word.replace("TOPIC", topic if words[0] != "events" else f"{topic}-none") for word in words]
    told = duetime(*words)
    assert (told.code, told.out, told.err) == (0, "", "duetime: there is nothing to show\n"), told
    told = duetime(*words, "--json")
    assert (told.code, told.lines, told.err) == (0, [], ""), told


# ---- byte order marks ----

@pytest.mark.parametrize(("name", "text"), [("jobs.csv", 'topic,delay,key\nTOPIC,P9D,a\nTOPIC,P9D,b\n'), ("jobs.csv", '"topic","delay","key"\r\n"TOPIC","P9D","a"\r\nTOPIC,P9D,b\r\n'),
                                            ("jobs.ndjson", '{"topic":"TOPIC","delay":"P9D","key":"a"}\n{"topic":"TOPIC","delay":"P9D","key":"b"}\n'),
                                            ("jobs.ndjson", '\n{"topic":"TOPIC","delay":"P9D","key":"a"}\n{"topic":"TOPIC","delay":"P9D","key":"b"}')])
def test_a_file_with_a_byte_order_mark_is_imported_whole(duetime, api, topic, tmp_path, name, text):
    path = tmp_path / name
    path.write_text(BOM + text.replace("TOPIC", topic), newline="")
    told = duetime("jobs", "import", path, "--json")
    assert told.code == 0 and told.json == {"made": 2, "existing": 0, "refused": 0, "unknown": 0}, told
    told = duetime("jobs", "import", "--json", "--format", path.suffix[1:], stdin=BOM + text.replace("TOPIC", topic))
    assert told.code == 0 and told.json == {"made": 0, "existing": 2, "refused": 0, "unknown": 0}, told
    assert {job["key"] for job in api.list(topic=topic)} == {"a", "b"}


def test_payload_token_and_empty_import_files_with_a_byte_order_mark_are_read(duetime, own_apis, topic, tmp_path):
    payload, empty = tmp_path / "payload.json", tmp_path / "empty.csv"
    payload.write_text(BOM + '{"n":1}')
    empty.write_text(BOM)
    made = duetime("jobs", "create", "--topic", topic, "--delay", "P9D", "--payload", f"@{payload}", "--json")
    assert made.code == 0 and made.json["payload"] == {"n": 1}, made
    assert duetime("jobs", "create", "--topic", topic, "--delay", "P9D", "--payload", "@-", stdin=BOM + "[1]").code == 0
    nothing = duetime("jobs", "import", "--format", "ndjson", empty, "--json")
    assert nothing.code == 0 and nothing.json["made"] == 0, nothing
    secured = own_apis.running("cli_streams")
    token = tmp_path / "token"
    token.write_text(BOM + secured.command("--new-token", "reader", "--scopes", "read").stdout)
    until(lambda: run("topics", "list", "--url", secured.url).code == 1, "a token is asked for")
    until(lambda: run("topics", "list", "--url", secured.url, "--token-file", token).code == 0, "the token is known")


def test_an_import_fails_when_its_file_cannot_be_read_to_the_end(duetime, tmp_path):
    told = duetime("jobs", "import", tmp_path)
    assert told.code == 2 and "line 1 cannot be read: Is a directory" in told.err, told


def test_bodies_with_a_byte_order_mark_are_read(api, topic):
    mark, job = BOM.encode(), json.dumps({"topic": topic, "delay": "P9D"}).encode()
    batch = {"content_type": "application/x-ndjson"}
    for body, options in ((job + b"\n" + job, batch), (b"[" + job + b"," + job + b"]", {})):
        answer = api.post("/v1/jobs:batch", mark + body, **options)
        assert answer.status == 200 and [one["status"] for one in (answer.lines if options else answer.json)] == [201, 201], answer
    made = api.post("/v1/jobs", mark + job)
    assert made.status == 201, made
    report = json.dumps({"job_id": made.json["id"], "attempt": 1, "status": "succeeded"}).encode()
    assert api.post("/v1/results", mark + report + b"\n", **batch).lines[0]["status"] == 200
    second = api.post("/v1/jobs:batch", job + b"\n" + mark + job, **batch)
    assert [one["status"] for one in second.lines] == [201, 400], "a mark that begins no body is none"

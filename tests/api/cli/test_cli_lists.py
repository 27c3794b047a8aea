"""Lists: columns by worth, how late jobs are, one screen at a terminal, names alone, again and again; a job by its key alone."""
import re
import subprocess
import time

import pytest

from harness.command_line import PROGRAM, at_a_terminal, run
from stand_in import answering

NOW = time.time()


def moment(seconds):
    return time.strftime("%Y-%m-%dT%H:%M:%S.123Z", time.gmtime(NOW + seconds))


def job(number, **members):
    return {"id": f"76870874498{number:04}", "topic": "orders.close.of.shop", "key": f"order-of-customer-{number}", "state": "scheduled", "next_at": moment(3600), "attempt": 0,
            "max_attempts": 10, "waiting_for": "time", "created_at": moment(-7200), "run_at": moment(3600), **members}


def listing(*jobs):
    return lambda path, query: {"jobs": [*jobs][:int(query.get("limit", 1000))], "next_cursor": "more" if int(query.get("limit", 1000)) < len(jobs) else None}


@pytest.mark.parametrize("columns", [40, 60, 80, 100, 120, 160])
@pytest.mark.parametrize("words", [["jobs", "list"], ["jobs", "list", "--topic", "orders.close.of.shop"]], ids=len)
def test_a_table_fits_and_its_ids_states_and_times_stay_whole(columns, words):
    late, failed = job(1, next_at=moment(-5400), waiting_for="leader"), job(2, attempt=1, last_error={"code": "http_503", "message": "no"})
    with answering(listing(late, failed)) as url:
        lines = at_a_terminal(url, *words, columns=columns, NO_COLOR="1").splitlines()
    text = "\n".join(lines)
    assert max(map(len, lines)) <= columns and len(lines) == 3, text
    assert late["id"] in text and re.search(r"1 h 3\d min", text), "the id and how late it is are worth most"
    assert columns < 60 or "scheduled" in text, text
    for time_of in re.findall(r"\b20\d\d\S*", text):
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d{3})?)?Z", time_of), text
    assert columns < 80 or "NEXT AT" in lines[0], text
    assert ("TOPIC" in lines[0]) == (columns >= (160 if "--topic" in words else 60)), "the topic that was asked for is worth least"


def test_how_late_a_job_is_is_shown_unless_its_topic_is_paused():
    jobs = [job(1, next_at=moment(-93784)), job(2, next_at=moment(-125), waiting_for="paused"), job(3), job(4, state="dispatched", next_at=moment(-60))]
    with answering(listing(*jobs)) as url:
        told = run("jobs", "list", variables={"DUETIME_URL": url})
    at = told.out.index("LATE BY")
    assert [line[at:at + 9].strip() for line in told.out.splitlines()[1:]] == ["1 d 2 h", "-", "-", "-"], told


def test_a_list_at_a_terminal_is_one_screen_and_says_how_to_see_more():
    jobs = [job(number) for number in range(1, 41)]
    with answering(listing(*jobs)) as url:
        told = at_a_terminal(url, "jobs", "list", columns=100, lines=20, NO_COLOR="1")
        assert told.count("order-of") == 17 and "these are the first 17: --limit COUNT shows more, --all shows all" in told and len(told.splitlines()) == 19, told
        assert at_a_terminal(url, "jobs", "list", "--all", columns=100, lines=20, NO_COLOR="1").count("order-of") == 40
        assert at_a_terminal(url, "jobs", "list", "--limit", "30", columns=100, lines=20, NO_COLOR="1").count("order-of") == 30
        assert at_a_terminal(url, "jobs", "list", "--json", columns=100, lines=20).count("order-of") == 40
        assert run("jobs", "list", variables={"DUETIME_URL": url}).out.count("order-of") == 40, "a pipe gets all"
        assert run("jobs", "list", "--all", "--limit", "3", variables={"DUETIME_URL": url}).code == 2


def test_names_alone_are_printed_for_scripts(duetime, api, topic):
    made = duetime("jobs", "create", "--topic", topic, "--delay", "1h", "--output", "name")
    assert api.get(f"/v1/jobs/{made.out.strip()}").json["topic"] == topic, made
    assert topic in duetime("topics", "list", "--output", "name").out.splitlines()
    assert duetime("jobs", "list", "--topic", topic, "--output", "name").out == made.out
    assert duetime("topics", "list", "--output", "names").code == 2 and duetime("topics", "list", "--output", "name", "--json").code == 2


@pytest.mark.parametrize("words", [["jobs", "list"], ["topics", "list"], ["shards", "list"], ["processes", "list"], ["alerts", "list"], ["jobs", "dead"]], ids=" ".join)
def test_any_list_can_be_watched(words):
    looks = []

    def then_away(path, query):
        looks.append(path)
        name = "groups" if "dead" in path else path.rsplit("/", 1)[1]
        lists = {"overview": "processes", "info": "shards"}
        return {lists.get(name, name): [{"id": "1", "name": "n", "shard": 0, "jobs": len(looks)}], "next_cursor": None} if len(looks) <= 3 else None
    with answering(then_away) as url:
        told = at_a_terminal(url, *words, "--watch", "--interval", "20", NO_COLOR="1", code=1)
    assert told.count("\x1b[H\x1b[2J") == 3 and len(looks) == 4, told


def test_a_watched_list_prints_json_again_and_again(stack):
    with subprocess.Popen([PROGRAM, "shards", "list", "--watch", "--json", "--interval", "10", "--url", stack["DUETIME_URL_API1"]], stdout=subprocess.PIPE) as watching:
        assert [b'"shard":0' in watching.stdout.readline() for _ in range(4)] == [True, False, True, False]
        watching.terminate()


def test_processes_are_listed_with_what_they_lead(duetime):
    told = duetime("processes", "list", "--json")
    assert sorted({one["kind"] for one in told.lines}) == ["api", "dispatcher"], told
    assert duetime("processes", "list").rows[0][:2] == ["NAME", "KIND"]


def test_a_job_is_found_by_its_key_alone(duetime, api, topic):
    key = f"order {topic}"
    made = api.make(topic=topic, key=key, delay="PT1H")
    assert duetime("jobs", "get", key, "--json").json["id"] == made["id"]
    assert "It is due in" in duetime("jobs", "explain", key).out and duetime("jobs", "events", key).code == 0
    number = str(int(time.time() * 1000))
    by_number = api.make(topic=topic, key=number, delay="PT1H")
    assert duetime("jobs", "get", number, "--json").json["id"] == by_number["id"], "digits are an id first, then a key"
    api.make(topic=f"{topic}-2", key=key, delay="PT1H")
    twice = duetime("jobs", "get", key)
    assert twice.code == 1 and f"2 topics have a job with this key: add the topic: {topic}, {topic}-2" in twice.err, twice
    gone = duetime("jobs", "get", f"no {topic}")
    assert gone.code == 3 and "no such job" in gone.err, gone
    assert duetime("jobs", "cancel", key).code in (1, 3), "a change needs the topic"

"""What a person at a terminal is shown: colours, tables that fit, questions, how far it is, one screen."""
import json
import re
import time

import pytest

from harness.command_line import at_a_terminal, run
from stand_in import answering

pytestmark = pytest.mark.in_turns(2)

CLEAR = "\x1b[H\x1b[2J"


def plain(text):
    return re.sub(r"\x1b\[[\d;]*m", "", text)


def test_a_terminal_gets_colours_and_tables_that_fit(stack, api, topic):
    job = api.make(topic=topic, key="k" * 200, delay="PT1H")
    coloured = at_a_terminal(stack["DUETIME_URL_API1"], "jobs", "list", "--topic", topic)
    without = at_a_terminal(stack["DUETIME_URL_API1"], "jobs", "list", "--topic", topic, NO_COLOR="1")
    assert "\x1b[1m" in coloured and "\x1b" not in without
    assert plain(coloured) == without and "…" in without
    assert max(len(line) for line in without.splitlines()) <= 60
    wider = at_a_terminal(stack["DUETIME_URL_API1"], "jobs", "list", "--topic", topic, columns=80, NO_COLOR="1")
    assert job["id"] in wider and max(len(line) for line in wider.splitlines()) <= 80


def test_a_forecast_fits_the_terminal(stack, api, topic):
    api.make(topic=topic + "-" * 100, delay="PT5M")
    told = at_a_terminal(stack["DUETIME_URL_API1"], "forecast", "--topic", topic + "-" * 100, NO_COLOR="1")
    assert "█" in told and max(len(line) for line in told.splitlines()) <= 60


def test_a_user_at_a_terminal_is_asked_to_confirm_the_count(stack, api, topic):
    for n in range(3):
        api.make(topic=topic, key=f"k{n}", delay="P9D")
    words = ("jobs", "cancel", "--topic", topic)
    left = at_a_terminal(stack["DUETIME_URL_API1"], *words, typed="\n", code=1)
    assert "cancel 3 jobs? [y/N]" in left and api.get(f"/v1/topics/{topic}").json["counts"]["scheduled"] == 3
    done = at_a_terminal(stack["DUETIME_URL_API1"], *words, typed="y\n")
    assert "cancel 3 jobs? [y/N]" in done and api.get(f"/v1/topics/{topic}").json["counts"]["cancelled"] == 3


def test_an_operation_longer_than_a_second_shows_its_progress(stack, api, topic):
    for n in range(4):
        api.make(topic=topic, key=f"k{n}", delay="P9D")
    told = at_a_terminal(stack["DUETIME_URL_API1"], "jobs", "cancel", "--topic", topic, "--rate", "1/s", "--yes")
    assert re.search(r"\r\d jobs, \d+/s, \d+ %, \d+ s left", told), told
    assert re.search(r"changed +4\n", told), told


HIDDEN = "\x7f\x85\u009b\u00ad\u061c\u200b\u200d\u200e\u202e\u2028\u2060\u2066\ufe0f\ufeff\U000e0041"
SHOWN = "aäЖ漢é"


def escaped(text):
    units = text.encode("utf-16-be").hex()
    return "".join("\\u" + units[at:at + 4] for at in range(0, len(units), 4))


@pytest.mark.parametrize("words", [["jobs", "list"], ["jobs", "list", "--output", "wide"], ["jobs", "list", "--json"], ["jobs", "get"], ["jobs", "get", "--json"],
                                   ["jobs", "export"], ["jobs", "explain", "--json"], ["events", "list"], ["events", "list", "--json"], ["overview", "--json"]], ids=" ".join)
def test_data_cannot_send_escape_or_invisible_characters_to_the_terminal(words):
    text = SHOWN + HIDDEN
    job = {"id": "1", "topic": "t", "key": text, "run_at": "2035-01-01T00:00:00.000Z", "state": "dead", "payload": {text: [text]}, "last_error": {"code": text, "message": text}}

    def hostile(path, _query):
        return json.dumps(of(path), ensure_ascii=False).encode()

    def of(path):
        if path == "/v1/jobs":
            return {"jobs": [job], "next_cursor": None}
        if path == "/v1/events":
            return {"events": [{"at": "2035-01-01T00:00:00.000Z", "actor": text, "action": text, "topic": text, "after": {text: text}}], "next_cursor": None}
        return job
    words = [*words, *(["1"] if words[1:2] in (["get"], ["explain"]) else [])]
    with answering(hostile) as url:
        told = at_a_terminal(url, *words, columns=5000, NO_COLOR="1")
        piped = run(*words, variables={"DUETIME_URL": url}).out
    assert SHOWN + escaped(HIDDEN) in told and not set(HIDDEN) & set(told), repr(told)
    if "--json" in words or "export" in words:
        assert json.loads(told.splitlines()[0]) == json.loads(piped.split("\n")[0]) and text in piped


def test_a_problem_text_cannot_send_escape_characters_to_the_terminal():
    problem = {"title": SHOWN + HIDDEN, "status": 422, "type": HIDDEN, "errors": [{"pointer": HIDDEN, "reason": HIDDEN}]}
    with answering(lambda *_: (422, json.dumps(problem, ensure_ascii=False).encode())) as url:
        for words in (["topics", "list"], ["topics", "list", "--json"]):
            told = at_a_terminal(url, *words, code=1, NO_COLOR="1")
            assert SHOWN + escaped(HIDDEN) in told and not set(HIDDEN) & set(told), repr(told)


PAGES = 4


def page(path, query):
    """Pages of a job each, half a second apart."""
    if path.startswith("/v1/topics/"):
        return {"counts": {"scheduled": PAGES}}
    time.sleep(0.5)
    n = int(query.get("cursor", "0")) + 1
    return {"jobs": [{"id": str(n), "topic": "t", "run_at": "2035-01-01T00:00:00.000Z"}], "next_cursor": str(n) if n < PAGES else None}


def test_an_export_longer_than_a_second_shows_its_progress(tmp_path):
    with answering(page) as url, open(tmp_path / "jobs", "wb") as out:
        told = at_a_terminal(url, "jobs", "export", "--topic", "t", out=out)
        assert re.fullmatch(r"(\r\d jobs, \d/s, (25|50|75|100) %, \d+ s left\x1b\[K)+\r\x1b\[K", told), repr(told)
        assert len((tmp_path / "jobs").read_text().splitlines()) == PAGES
        told = at_a_terminal(url, "jobs", "export", "--topic", "t", "--key-prefix", "k", out=out)
        assert re.fullmatch(r"(\r\d jobs, \d/s\x1b\[K)+\r\x1b\[K", told), repr(told)


def test_a_long_search_without_matches_shows_that_it_continues():
    def none_yet(path, query):
        answer = page(path, query)
        return answer if answer["next_cursor"] is None else {**answer, "jobs": []}
    with answering(none_yet) as url:
        told = at_a_terminal(url, "jobs", "list", "--error-code", "E1", NO_COLOR="1")
    assert re.match(r"(\r0 jobs, 0/s\x1b\[K)+\r\x1b\[KID +TOPIC", told), repr(told)


RATES = {"created": 120.04, "dispatched": 118.6, "succeeded": 117.3, "failed": 0.4, "dead": 0.0, "cancelled": 0.0}


def large(path, _query):
    """An installation of 40 shards and 60 topics."""
    if path == "/readyz":
        return {"status": "degraded", "mysql": "ok", "workers": "ok", "redis": "ok", "leaders": "degraded", "kafka": "ok"}
    shards = [{"shard": n, "leader": None if n == 39 else "host:1", "health": "no-leader" if n == 39 else "ok", "epoch": 1, "in_flight": 0, "overdue": 0} for n in range(40)]
    topics = [{"topic": f"topic-{n}", "paused": False, "rates": RATES, "scheduled": 1, "dispatched": 0, "dead": 0, "overdue": 0, "oldest_overdue_ms": None} for n in range(50)]
    return {"version": "1", "now": "2026-11-26T09:00:00.000Z", "rates": RATES, "lateness_ms": {"p50": 3, "p99": 21}, "overdue": {"count": 0, "at_least": False, "oldest_ms": None},
            "jobs": {"scheduled": 1, "dispatched": 0, "dead": 0}, "shards": shards, "topics": topics, "topics_more": 10}


def test_the_overview_fits_one_screen_for_any_installation():
    with answering(large) as url:
        for columns, lines in ((80, 24), (60, 30), (200, 50)):
            told = plain(at_a_terminal(url, "overview", columns=columns, lines=lines)).splitlines()
            assert len(told) < lines and max(map(len, told)) <= columns, (columns, lines, told)
            shown = [sum(bool(re.match(begins, line)) for line in told) for begins in (r"\d+ +(-|host:1) ", r"topic.")]
            assert min(shown) > 0 and sum(shown) >= lines - 17, told
            assert [line for line in told if re.match(r"39 +- ", line)], "the shard that is not well is among them"
            assert f"… and {40 - shown[0]} more: duetime shards list" in told and f"… and {60 - shown[1]} more: duetime topics list" in told, told
        assert len(at_a_terminal(url, "overview", columns=200, lines=200).splitlines()) > 60


def test_the_watched_overview_is_redrawn_without_flicker():
    looks = []

    def then_away(path, query):
        looks.append(path)
        return large(path, query) if len(looks) <= 5 else None
    with answering(then_away) as url:
        told = at_a_terminal(url, "overview", "--watch", "--interval", "20", NO_COLOR="1", code=1)
    assert told.count(CLEAR) == 2 and told.count(CLEAR + "degraded") == 2, told


def test_an_overview_without_shards_and_topics_is_shown():
    def small(path, query):
        return {name: value for name, value in large(path, query).items() if name not in ("shards", "topics", "topics_more")}
    with answering(small) as url:
        told = plain(at_a_terminal(url, "overview", columns=100))
    assert "degraded" in told and not re.search(r"host:1|topic-", told), told

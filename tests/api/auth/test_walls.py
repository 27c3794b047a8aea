"""The wall between tenants, route by route as api/routes.c has them: what a token sees of topics that are not its own, by every way in. A route
that is not walked here fails, and so does one whose wall could be left out without anything here noticing."""
import itertools
import json

import pytest

import openapi
from harness.program import OwnApi
from harness.rest import Rest
from harness.stack import until

HOUR = "PT1H"
SETTINGS = {"mysql.database": "api_walls", "installation.name": "walls"}
WALLS = openapi.walls()
QUERIES = {(method, path): names for method, path, _, *names in openapi.written_routes()}
NDJSON = "application/x-ndjson"
TABLES = {"jobs": "id, state, version", "job_keys": "topic, job_key, job_id", "topics": "name, version, paused", "schedules": "name, topic, version",
          "api_tokens": "name, scopes"}
numbers = itertools.count(1)


# ---- what an answer says when the wall holds ----

def gone(answer):
    return answer.status == 404 and answer.json["type"] == "/problems/not-found"


def forbidden(answer):
    return answer.status == 403 and answer.json["type"] == "/problems/forbidden"


def silent(answer):
    return answer.status == 200 and b'"mine.' not in answer.body


def about_others_alone(answer):
    return answer.status == 200 and b'"mine-token"' not in answer.body


def each_gone(answer):
    elements = answer.lines if answer.body.startswith(b"{") else answer.json
    return answer.status == 200 and elements and all(element["status"] == 404 for element in elements)


def each_refused(answer):
    elements = answer.json if answer.body.startswith(b"[") else [answer.json]
    return answer.status == 200 and elements and all(isinstance(element, dict) and "there is no" in element.get("error", "") for element in elements)


def none_matched(answer):
    return answer.status in (200, 202) and answer.json["matched"] == 0


# ---- what there is within the wall ----

class Walled:
    """An API, and what is made in topics that begin with `mine`, by a token that sees all."""

    def __init__(self, api, boss):
        self.api, self.boss = api, boss

    def did(self, method, path, body=None):
        answer = self.boss.ask(method, path, body)
        assert answer.status in (200, 201, 202), answer
        return answer.json

    def a_job(self, state="scheduled", **more):
        job = self.boss.make(**{"topic": "mine.t", "delay": HOUR, "payload": "mine", **more})["id"]
        if state == "dead":
            self.api.rows("UPDATE jobs SET state = 'dead', next_at = NULL, purge_at = 9000000000000 WHERE id = %s", job)
        return job

    def a_dead_letter(self):
        """A job that gave up; how many there are of a topic is kept for a moment, so it has a topic of its own."""
        topic = f"mine.dead-{next(numbers)}"
        self.did("PUT", f"/v1/topics/{topic}", {"delivery": "pull"})
        self.boss.make(topic=topic, delay=0, retry=[])
        [job] = self.did("POST", f"/v1/topics/{topic}/pop", {"max": 1})["jobs"]
        self.did("POST", f"/v1/jobs/{job['id']}/results", {"attempt": 1, "status": "gave_up"})

    def a_key(self):
        key = f"mine-{next(numbers)}"
        self.a_job(key=key)
        return key

    def a_topic(self):
        return self.did("PUT", f"/v1/topics/mine.{next(numbers)}", {})["name"]

    def a_schedule(self, name="mine.s{}"):
        return self.did("PUT", f"/v1/schedules/{name.format(next(numbers))}", schedule())["name"]

    def an_operation(self):
        return self.did("POST", "/v1/jobs:cancel", {"filter": {"topic": self.a_topic()}, "wait": "PT10S"})["id"]

    def an_alert(self):
        self.api.rows("INSERT INTO alerts (topic, kind, value, bound, began_at) VALUES (%s, 'backlog', 2, 1, 1)", f"mine.{next(numbers)}")
        return self.api.rows("SELECT MAX(id) id FROM alerts")[0]["id"]

    def a_command(self):
        name = f"mine-{next(numbers)}"
        self.did("POST", "/v1/commands", {"command": "add", "topic": "mine.pull", "id": name, "delay": 3600, "TTR": 60, "body": "1"})
        return name

    def told(self):
        return [self.api.rows(f"SELECT {columns} FROM {table} ORDER BY {columns}") for table, columns in TABLES.items()]


def schedule():
    return {"every": HOUR, "topic": "mine.t", "payload": 1, "paused": True}


def a_job(**more):
    return {"topic": "mine.t", "delay": HOUR, **more}


def a_result(w):
    return {"job_id": w.a_job(), "attempt": 1, "status": "succeeded"}


def sets(dead=False, **more):
    """Ways to name a set of jobs: by topic, by a prefix, one by one, and as a preview. Those of the first two have no job in them."""
    def one(w, **and_more):
        return {"filter": {"ids": [w.a_job("dead" if dead else "scheduled")]}, "wait": "PT10S", **more, **and_more}
    return [(gone, lambda w: {"filter": {"topic": "mine.t", "key_prefix": "none"}, **more}), (gone, lambda w: {"filter": {"topic": "mine.none*"}, **more}),
            (none_matched, one), (none_matched, lambda w: one(w, dry_run=True))]


# ---- every way in: {(method, path): [(what the answer says, body)]}, path parameters and query by name ----

BODIES = {
    ("POST", "/v1/jobs"): [(gone, lambda w: a_job()), (gone, lambda w: a_job(key=w.a_key()))],
    ("POST", "/v1/jobs:batch"): [(each_gone, lambda w: [a_job()]), (each_gone, lambda w: (json.dumps(a_job()) + "\n") * 3)],
    ("POST", "/v1/results"): [(each_gone, lambda w: [a_result(w)]), (each_gone, lambda w: json.dumps(a_result(w)) + "\n")],
    ("POST", "/v1/commands"): [(each_refused, lambda w: {"command": "add", "topic": "mine.pull", "id": f"mine-{next(numbers)}", "delay": 3600}),
                               (each_refused, lambda w: [{"command": "pop", "topic": "mine.pull"}, {"command": "pop", "topic": "mine.none"}]),
                               (each_refused, lambda w: {"command": "finish", "id": w.a_command()}), (each_refused, lambda w: [{"command": "delete", "id": w.a_command()}])],
    ("POST", "/v1/pop"): [(gone, lambda w: {"topics": ["mine.pull"]}), (gone, lambda w: {"topics": ["shared.pull", "mine.pull"], "wait": "PT1S"})],
    ("POST", "/v1/schedules:preview"): [(gone, lambda w: schedule())],
    ("PUT", "/v1/schedules/{name}"): [(gone, lambda w: schedule())],
    ("POST", "/v1/jobs:cancel"): sets(), ("POST", "/v1/jobs:reschedule"): sets(shift="P1D"), ("POST", "/v1/jobs:redrive"): sets(dead=True), ("POST", "/v1/jobs:run-now"): sets(),
    ("PATCH", "/v1/jobs/{id}"): [(gone, lambda w: {"payload": 2}), (gone, lambda w: {"ack_timeout": "PT10S"})],
    ("POST", "/v1/jobs/{id}/results"): [(gone, lambda w: {"attempt": 1, "status": "succeeded"})],
    ("PUT", "/v1/topics/{topic}/jobs/{key}"): [(gone, lambda w: {"delay": HOUR}), (gone, lambda w: {"delay": HOUR, "payload": 2})],
    ("PUT", "/v1/topics/{topic}"): [(gone, lambda w: {"paused": True})],
    ("POST", "/v1/topics/{topic}/pop"): [(gone, lambda w: {"max": 1}), (gone, lambda w: {"max": 1, "wait": "PT1S"})],
    ("POST", "/v1/alerts/{id}/silence"): [(gone, lambda w: {"for": HOUR})],
}
ROWS = {"/v1/jobs/{id}/redrive": lambda w: w.a_job("dead"), "/v1/jobs/{id}": Walled.a_job, "/v1/operations/{id}": Walled.an_operation,
        "/v1/alerts/{id}": Walled.an_alert, "/v1/schedules/{name}": Walled.a_schedule}
MADE = {"GET /v1/jobs": Walled.a_job, "GET /v1/topics": Walled.a_topic, "GET /v1/operations": Walled.an_operation, "GET /v1/alerts": Walled.an_alert,
        "GET /v1/schedules": Walled.a_schedule, "GET /v1/events": Walled.a_job, "GET /v1/forecast": Walled.a_job, "GET /v1/dead-letters": Walled.a_dead_letter}


def path_of(w, method, path):
    """The path of something that is there, or could be made, within the wall."""
    if path == "/v1/topics/{topic}/pop":
        return "/v1/topics/mine.pull/pop"
    if (method, path) == ("PUT", "/v1/schedules/{name}"):
        return "/v1/schedules/" + w.a_schedule("shared.s{}")  # a name within the prefixes of both tokens
    if "{topic}" in path:
        return path.format(topic="mine.t" if "{key}" in path else w.a_topic(), key=w.a_key() if "{key}" in path else None)
    for begin, make in ROWS.items():
        if path.startswith(begin):
            return path.format(**dict.fromkeys(("id", "name"), make(w)))
    return path.format(name="nobody")


def ways(w, route):
    """(what the answer says when the wall holds, path, body) of each way in."""
    method, path = route
    wall = WALLS[route]
    if wall in ("ALL_TOPICS", "OWN_TOKEN"):
        return [(forbidden if wall == "ALL_TOPICS" else about_others_alone, path_of(w, method, path), {} if method in ("POST", "PATCH") else None)]
    if wall == "TOPIC_IN_QUERY":
        return [(gone, f"{path}?topic=mine.t", None), (forbidden, path, None)]
    if wall == "FILTER":
        MADE[f"{method} {path}"](w)
        query = "&".join(f"{name}={value}" for name, value in {"limit": 1000, "to": "2035-01-01T00:00:00Z", "step": "P365D"}.items() if name in QUERIES[route])
        found = [(silent, f"{path}?{query}", None)]
        return found + [(gone, f"{path}?topic=mine.t", None)] * ("topic" in QUERIES[route])
    found = [(says, path_of(w, method, path), body(w)) for says, body in BODIES.get(route, [(gone, lambda w: None)])]
    if "replace" in QUERIES[route] or "cancel" in QUERIES[route]:
        name = "replace" if "replace" in QUERIES[route] else "cancel"
        found.append((found[0][0], path_of(w, method, path) + f"?{name}=true", found[0][2]))
    return found


def asked(rest, method, path, body):
    return rest.ask(method, path, body, content_type=NDJSON if isinstance(body, str) else "application/json")


@pytest.fixture(scope="module")
def installation(own_apis):
    """An API, and {name: token}: `boss` sees all, `mine` and `theirs` have a prefix each, and one that they share."""
    api = own_apis("walls").start()
    boss = api.rest.post("/v1/tokens", {"name": "boss", "scopes": ["admin"]}).json["token"]
    until(lambda: api.rest.get("/v1/info").status == 401, "the API asks for tokens")
    api.rest.token = boss
    api.rows("INSERT INTO processes (id, kind, name, started_at, seen_at) VALUES (1, 'dispatcher', 'a', 1, 4102444800000)")  # its alerts are judged by nobody here
    api.rows("REPLACE INTO alert_judge (only_row, process) VALUES (1, 1)")
    made = {name: api.rest.post("/v1/tokens", {"name": f"{name}-token", "scopes": ["admin"], "topics": [f"{name}.", "shared."]}).json["token"] for name in ("mine", "theirs")}
    for topic, settings in (("mine.t", {}), ("shared.t", {}), ("mine.pull", {"delivery": "pull"}), ("shared.pull", {"delivery": "pull"})):
        assert api.rest.put(f"/v1/topics/{topic}", settings).status == 201
    return api, {"boss": boss, **made}


def opened(api, tokens):
    rests = {name: Rest(api.url, token=text) for name, text in tokens.items()}
    until(lambda: all(rest.get("/v1/caller").status == 200 for rest in rests.values()), "the API accepts the tokens")
    return Walled(api, rests["boss"]), rests


@pytest.fixture(scope="module")
def walled(installation):
    return opened(*installation)


@pytest.fixture(scope="module")
def unwalled(stack, tmp_path_factory, installation):
    """The same installation by an API that reads the table as if no route had a wall."""
    api = OwnApi(stack, tmp_path_factory.mktemp("unwalled"), "unwalled", SETTINGS, shared=True, variables={"DUETIME_FAIL": "wall.emptied=force"}).start()
    yield opened(api, installation[1])
    api.end()


WITH_WALLS = [route for route, wall in WALLS.items() if wall != "NOTHING"]
NAMES = [" ".join(route) for route in WITH_WALLS]


def test_every_route_that_names_topics_in_its_body_has_its_own_cases():
    assert [route for route in WITH_WALLS if WALLS[route] == "IN_BODY" and route not in BODIES] == []
    assert {f"{method} {path}" for (method, path), wall in WALLS.items() if wall == "FILTER"} == set(MADE)
    assert set(BODIES) <= set(WITH_WALLS) and len(WALLS) == len(QUERIES)
    assert all(any(path.startswith(begin) for _, path in WITH_WALLS) for begin in ROWS)


@pytest.mark.parametrize("route", WITH_WALLS, ids=NAMES)
def test_a_token_neither_sees_nor_changes_topics_outside_its_prefixes(walled, route):
    w, rests = walled
    method = route[0]
    for says, path, body in ways(w, route):
        before = w.told()
        answer = asked(rests["theirs"], method, path, body)
        assert says(answer), (method, path, body, answer)
        assert w.told() == before, (method, path, body, answer)
        mine = asked(rests["boss" if says is forbidden else "mine"], method, path, body)
        assert not says(mine) and mine.status < 500, (method, path, body, mine)


@pytest.mark.parametrize("route", [route for route in WITH_WALLS if WALLS[route] == "ROW_IN_PATH"], ids=lambda route: " ".join(route))
def test_topics_of_other_tenants_look_like_missing_topics(walled, route):
    w, rests = walled
    method, path = route
    [(_, hidden, body), *_] = ways(w, route)
    absent = asked(rests["theirs"], method, path.format(id=999999999, name="theirs.none"), body)
    answer = asked(rests["theirs"], method, hidden, body)
    assert gone(answer) and {**answer.json, "request_id": None} == {**absent.json, "request_id": None}, (answer, absent)


@pytest.mark.parametrize("route", WITH_WALLS, ids=NAMES)
def test_the_tests_notice_a_route_without_a_tenant_check(unwalled, route):
    w, rests = unwalled
    method = route[0]
    noticed = [not says(asked(rests["theirs"], method, path, body)) for says, path, body in ways(w, route)]
    assert any(noticed), route

"""What the server offers besides jobs, and what it does not offer yet."""
import pathlib
import re

import pytest

import openapi
from harness.problems import refused
from harness.stack import until

TREE = pathlib.Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("method, path", [
    ("POST", "/v1/jobs:pause"), ("POST", "/v1/topics/t/pop"), ("DELETE", "/v1/topics/t"), ("DELETE", "/v1/operations/1"), ("PATCH", "/v1/topics/t"), ("POST", "/v1/topics/t/limits"), ("DELETE", "/v1/topics/t/jobs/k"), ("PUT", "/v1/jobs/1"), ("GET", "/v1/admin/shards")])
def test_features_that_are_not_offered_are_404_or_405(api, nothing_made, method, path):
    answer = api.ask(method, path, {} if method != "GET" else None)
    assert answer.status in (404, 405), answer
    refused(answer, answer.status, {404: "not-found", 405: "method-not-allowed"}[answer.status])


@pytest.mark.parametrize("path", ["/", "/v1", "/v2/jobs", "/v1/jobs/", "/v1//jobs", "/v1/jobs/1/2", "/v1/jobs/1/pause", "/v1/topics/t/", "/v1/topics/t/jobs/",
                                  "/v1/topics/t/jobs/a/b", "/healthz/x", "/V1/jobs", "/v1/jobs:batch/x", "/../etc/passwd", "/" + "x" * 2000])
def test_an_unknown_path_is_404(api, path):
    refused(api.get(path), 404, "not-found")


@pytest.mark.parametrize("method, path, allowed", [
    ("PUT", "/v1/jobs", "GET HEAD POST"), ("DELETE", "/v1/jobs", "GET HEAD POST"), ("GET", "/v1/jobs:batch", "POST"), ("POST", "/v1/jobs/1", "GET HEAD PATCH DELETE"),
    ("GET", "/v1/jobs/1/cancel", "POST"), ("POST", "/v1/topics/t/jobs/k", "GET HEAD PUT"), ("POST", "/v1/topics", "GET HEAD"), ("POST", "/healthz", "GET HEAD"),
    ("OPTIONS", "/v1/jobs", "GET HEAD POST"), ("TRACE", "/v1/jobs", "GET HEAD POST"), ("BREW", "/v1/jobs", "GET HEAD POST"), ("get", "/healthz", "GET HEAD")])
def test_another_method_is_405_with_allow(api, method, path, allowed):
    answer = api.ask(method, path, {} if method not in ("GET", "TRACE") else None)
    refused(answer, 405, "method-not-allowed")
    assert set(answer.headers["Allow"].replace(",", " ").split()) == set(allowed.split())


@pytest.mark.parametrize("path", ["/v1/jobs/1?x=1", "/v1/topics?after=x", "/v1/info?x=1", "/healthz?x", "/v1/topics/t?limit=1", "/metrics?format=json", "/v1/jobs/1/attempts?limit=5"])
def test_an_unknown_query_parameter_is_refused(api, path):
    refused(api.get(path), 422, "invalid", "?" + path.split("?")[1].split("=")[0])


def test_a_query_that_is_badly_escaped_is_refused(api):
    refused(api.get("/v1/jobs?topic=%zz"), 400, "malformed")


def test_a_valid_request_id_is_returned_and_an_invalid_one_replaced(api):
    for sane in ("mine-1", "a.B_c-9", "x" * 64):
        assert api.get("/healthz", headers={"X-Request-Id": sane}).headers["X-Request-Id"] == sane
        assert refused(api.get("/v1/jobs/1", headers={"X-Request-Id": sane}), 404, "not-found")["request_id"] == sane
    for odd in ("", "with space", "x" * 1000, "<b>", 'a"b', "a\tb"):
        given = api.get("/v1/jobs/1", headers={"X-Request-Id": odd}).headers["X-Request-Id"]
        assert given and given != odd
    made = [api.get("/healthz").headers["X-Request-Id"] for _ in range(20)]
    assert len(set(made)) == 20


def test_every_answer_has_a_request_id(api, topic):
    for answer in (api.post("/v1/jobs", {"topic": topic, "delay": "PT1H"}), api.post("/v1/jobs", "{"), api.get("/v1/jobs"), api.get("/nope"), api.ask("HEAD", "/v1/info"),
                   api.post("/v1/jobs:batch", []), api.get("/metrics"), api.get("/openapi.yaml"), api.get(f"/v1/topics/{topic}"), api.put("/v1/jobs", {})):
        assert answer.headers["X-Request-Id"], answer


def test_openapi_yaml_is_served_unchanged(api):
    answer = api.get("/openapi.yaml")
    assert answer.status == 200 and answer.body == (TREE / "api" / "openapi.yaml").read_bytes()
    document = openapi.load()
    assert document["openapi"].startswith("3.1") and "/v1/jobs" in document["paths"]


def test_health_and_readiness_succeed_while_all_servers_work(api):
    assert api.get("/healthz").status == 200
    until(lambda: api.get("/readyz").status == 200, lambda: api.get("/readyz"))


def test_info_shows_the_version_and_the_leader_of_each_shard(api):
    info = until(lambda: (seen := api.get("/v1/info").json) and all(shard["leader"] for shard in seen["shards"]) and seen, lambda: api.get("/v1/info"))
    assert info["version"] and [shard["shard"] for shard in info["shards"]] == [0, 1]
    for shard in info["shards"]:
        assert shard["epoch"] >= 1 and shard["backlog"] >= 0 and shard["oldest_overdue_ms"] >= 0 and shard["drift"] is not None, shard


SAMPLE = re.compile(r'([a-zA-Z_:][a-zA-Z0-9_:]*)(\{(?:[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\]|\\.)*",?)*\})? ([0-9.eE+-]+|NaN|[+-]Inf)$')


def test_metrics_are_prometheus_text(api):
    answer = api.get("/metrics")
    assert answer.status == 200 and answer.headers["Content-Type"].startswith("text/plain")
    types, seen = {}, set()
    for line in answer.body.decode().splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split()
            assert name not in types and kind in ("counter", "gauge", "histogram"), line
            types[name] = kind
        elif not line.startswith("#"):
            found = SAMPLE.match(line)
            assert found, line
            base = re.sub(r"_(bucket|sum|count)$", "", found[1])
            assert found[1] in types or types.get(base) == "histogram", line
            assert (found[1], found[2]) not in seen, line
            seen.add((found[1], found[2]))
    assert len(seen) > 20 and all(name.startswith("duetime_") for name in types)
    assert all(name.endswith("_total") for name, kind in types.items() if kind == "counter")


def test_requests_are_counted(api):
    def count():
        return api.metric("duetime_http_requests_total", route="/v1/info", code="2xx")
    before = count()
    for _ in range(3):
        api.get("/v1/info")
    assert count() == before + 3


@pytest.mark.parametrize("path", ["/healthz", "/v1/info", "/openapi.yaml", "/v1/jobs?topic=nobody", "/v1/jobs/1"])
def test_head_answers_as_get_does_without_the_body(api, path):
    head, get = api.ask("HEAD", path), api.get(path)
    assert head.status == get.status and head.body == b"" and head.headers["Content-Type"] == get.headers["Content-Type"]
    assert int(head.headers["Content-Length"]) > 0

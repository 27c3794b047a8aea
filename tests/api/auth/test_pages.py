"""An installation without tokens is for this machine's own programs, and not for every web page in a browser on it."""
import json
import subprocess

import pytest

from harness.program import PROGRAM, environment
from harness.raw import Raw
from harness.stack import until

pytestmark = pytest.mark.in_turns(2)

CHANGES = [("POST", "/v1/topics/{}/pause", ""), ("POST", "/v1/topics/{}/pop", ""), ("POST", "/v1/tokens", '{"name":"mine","scopes":["admin"]}'),
           ("PUT", "/v1/topics/{}", "{}"), ("DELETE", "/v1/topics/{}", ""), ("PATCH", "/v1/jobs/1", '{"delay":0}'),
           ("POST", "/v1/jobs:batch", '[{"topic":"t","delay":0}]'), ("POST", "/v1/jobs:cancel", '{"filter":{"topic":"t"}}')]
ATTACKERS = ["attacker.example", "localhost.attacker.example", "10.0.0.1", "0.0.0.0", ""]


def asked(url, method, path, *headers, body="", host=None):
    """(status, body) of one request with these headers."""
    with Raw(url) as wire:
        lines = [f"Host: {wire.host if host is None else host}", *(["Content-Type: application/json"] if body else []), *headers]
        wire.request(f"{method} {path}", *lines, f"Content-Length: {len(body)}", body=body, host=False)
        status, _, answer = wire.answer()
        return status, json.loads(answer) if answer[:1] == b"{" else answer


def same_origin(url):
    return f"Origin: {url}"


@pytest.mark.parametrize("host", ATTACKERS)
def test_a_request_with_a_foreign_host_header_is_refused(api, topic, host, nothing_made):
    for method, path, body in [*CHANGES, ("GET", "/v1/jobs", ""), ("GET", "/metrics", ""), ("GET", "/console/", ""), ("GET", "/openapi.yaml", "")]:
        status, problem = asked(api.url, method, path.format(topic), body=body, host=host and f"{host}:80")
        assert (status, problem["type"].rsplit("/", 1)[1]) == (403, "forbidden") and "http.names" in problem["detail"], (path, status, problem)
    assert asked(api.url, "GET", f"http://{host}:80/v1/jobs", host="localhost")[0] == 403, "the target's own host comes first"
    for probe in ("/healthz", "/readyz"):
        assert asked(api.url, "GET", probe, host=host and f"{host}:80")[0] in (200, 503)


@pytest.mark.parametrize("headers", [["Origin: https://attacker.example"], ["Origin: null"], ["Sec-Fetch-Site: cross-site"], ["Sec-Fetch-Site: same-site"],
                                     ["Sec-Fetch-Site: none"], ["Origin: http://localhost:1"], ["Origin: SAME", "Sec-Fetch-Site: cross-site"],
                                     ["Origin: SAME", "Origin: https://attacker.example"]], ids=" ".join)
def test_a_change_from_a_page_of_another_origin_is_refused(api, topic, headers, nothing_made):
    headers = [header.replace("Origin: SAME", same_origin(api.url)) for header in headers]
    for method, path, body in CHANGES:
        status, problem = asked(api.url, method, path.format(topic), *headers, body=body)
        assert (status, problem["type"].rsplit("/", 1)[1]) == (403, "forbidden") and "origin" in problem["detail"], (path, status, problem)


def test_changes_from_the_console_and_from_programs_are_accepted(api, topic):
    for n, headers in enumerate([[], [same_origin(api.url)], [same_origin(api.url), "Sec-Fetch-Site: same-origin"]]):
        assert asked(api.url, "PUT", f"/v1/topics/{topic}-{n}", *headers, body="{}")[0] == 201
    port = api.url.rsplit(":", 1)[1]
    for n, host in enumerate(["localhost", f"LOCALHOST:{port}", "127.0.0.7", "[::1]:80", "a.localhost"]):
        assert asked(api.url, "POST", f"/v1/topics/{topic}-0/pause", host=host)[0] == 200, host
    assert asked(api.url, "GET", "/v1/jobs?limit=1", "Origin: https://attacker.example", "Sec-Fetch-Site: cross-site")[0] == 200, "it may not read the answer"
    with Raw(api.url) as wire:
        assert wire.send("GET /v1/jobs?limit=1 HTTP/1.0\r\n\r\n").answer()[0] == 200, "no browser sends this"


def test_configured_host_names_are_accepted(own_apis):
    named = own_apis.beside("named", {"http.names": "duetime.example, *.inside.example"})
    for host, status in (("duetime.example", 200), ("Duetime.Example:80", 200), ("a.inside.example", 200), ("localhost", 200), ("inside.example", 403), ("other.example", 403)):
        assert asked(named.url, "GET", "/v1/jobs?limit=1", host=host)[0] == status, host
    assert asked(named.url, "POST", "/v1/jobs", "Origin: https://duetime.example", body='{"topic":"pages","delay":"PT1H"}', host="duetime.example")[0] == 201
    assert asked(named.url, "POST", "/v1/jobs", "Origin: https://duetime.example", body='{"topic":"pages","delay":"PT1H"}', host="localhost")[0] == 403


def test_if_tokens_are_required_any_host_is_accepted(own_apis):
    api = own_apis("guarded_pages").start()
    assert asked(api.url, "GET", "/console/", host="attacker.example")[0] == 403
    [token] = api.command("--new-token", "one", "--scopes", "admin").stdout.split()
    until(lambda: api.rest.get("/v1/info").status == 401, "the API asks for a token")
    for page in ("/console/", "/openapi.yaml"):
        assert asked(api.url, "GET", page, host="jobs.example")[0] == 200
    shown = f"Authorization: Bearer {token}"
    assert asked(api.url, "GET", "/v1/jobs", shown, host="jobs.example")[0] == 200
    assert asked(api.url, "PUT", "/v1/topics/t", shown, "Origin: https://other.example", body="{}", host="jobs.example")[0] == 201
    assert asked(api.url, "PUT", "/v1/topics/t", "Origin: https://other.example", body="{}", host="jobs.example")[0] == 401


@pytest.mark.parametrize("names", ["duetime.example:8080", "a b", "x,,y", "*", "http://x"])
def test_invalid_host_names_are_refused_at_the_start(names):
    done = subprocess.run([PROGRAM, "--check-config"], env={**environment(), "DUETIME_HTTP_NAMES": names}, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1 and "names without ports" in done.stderr, done

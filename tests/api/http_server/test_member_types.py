"""Each member of each body is given values of types that it has not (openapi.yaml says which it has): it is refused, and named."""
import pytest

import openapi

DOCUMENT = openapi.load()
VALUES = {"string": "\u00e4 ?", "number": 5.5, "boolean": True, "array": [[1]], "object": {"no such member": 1}}
ELSEWHERE = ("/v1/alerts/{id}/silence", "/v1/admin/clock")  # no alert stands here, and no clock of tests
PATHS = {"{topic}": "member-types", "{key}": "k", "{name}": "member-types"}


def resolved(schema):
    while "$ref" in schema:
        schema = {**{name: value for name, value in schema.items() if name != "$ref"}, **at(schema["$ref"])}
    return schema


def at(reference):
    node = DOCUMENT
    for part in reference.removeprefix("#/").split("/"):
        node = node[part]
    return node


def types(schema):
    """The JSON types that a value may have; none: any."""
    schema = resolved(schema)
    found = set()
    for each in schema.get("oneOf", []) + schema.get("anyOf", []):
        inner = types(each)
        if not inner:
            return set()
        found |= inner
    stated = schema.get("type", [])
    found |= {stated} if isinstance(stated, str) else set(stated)
    for value in [schema["const"]] if "const" in schema else schema.get("enum", []):
        found.add("string" if isinstance(value, str) else "boolean" if isinstance(value, bool) else "null" if value is None else "number")
    return {"number" if name == "integer" else name for name in found}


def members(schema, pointer=""):
    """(pointer, types) of each member, and of those of objects in it."""
    schema = resolved(schema)
    for name, inner in schema.get("properties", {}).items():
        allowed = types(inner)
        if allowed:
            yield f"{pointer}/{name}", allowed
        if "object" in allowed:
            yield from members(inner, f"{pointer}/{name}")


def bodies():
    for path, verbs in DOCUMENT["paths"].items():
        for verb, operation in verbs.items() if path not in ELSEWHERE else ():
            body = operation.get("requestBody") if isinstance(operation, dict) else None
            schema = body and resolved(body).get("content", {}).get("application/json", {}).get("schema")
            if schema and "properties" in resolved(schema):
                yield verb.upper(), path, schema


BODIES = list(bodies())


def body_of(pointer, value):
    for name in reversed(pointer.removeprefix("/").split("/")):
        value = {name: value}
    return value


def wrong_of(allowed):
    return [value for name, value in VALUES.items() if name not in allowed]


def asked(path, job):
    for name, value in {**PATHS, "{id}": job}.items():
        path = path.replace(name, value)
    return path


def refused(answer, pointer):
    return answer.status == 422 and any((error["pointer"] + "/").startswith(pointer + "/") for error in answer.json.get("errors", []))


@pytest.fixture(scope="module")
def job(api):
    return api.make(topic="member-types", delay="P1D")["id"]


def test_most_request_bodies_of_the_api_have_a_case():
    assert len(BODIES) >= 12 and sum(len(list(members(schema))) for _, _, schema in BODIES) > 100, BODIES


@pytest.mark.parametrize("method, path, schema", BODIES, ids=[f"{method} {path}" for method, path, _ in BODIES])
def test_a_member_of_another_type_is_refused_and_named(api, job, method, path, schema):
    let_pass = []
    for pointer, allowed in members(schema):
        for value in wrong_of(allowed):
            answer = api.ask(method, asked(path, job), body_of(pointer, value))
            if not refused(answer, pointer):
                let_pass.append((pointer, value, answer.status, answer.text[:300]))
    assert not let_pass, let_pass

#!/usr/bin/python3
"""api/openapi.yaml is equal to what the server does.

Compares the document with the router's own table (as `duetime-api --print-routes` tells it, or read from api/routes.c) and with
the table of problems in scheduler/job/problem.h, and checks that the document is sound: references resolve, operations have ids, path
parameters are declared.

Usage: openapi.py [PATH/TO/duetime-api]
"""
import functools
import pathlib
import re
import subprocess
import sys
import unittest

import yaml

TREE = pathlib.Path(__file__).resolve().parent.parent
ANY = "write|report|read|admin"
METHODS = {"get", "put", "post", "patch", "delete", "head", "options"}


@functools.cache
def load():
    with open(TREE / "api" / "openapi.yaml", encoding="utf-8") as file:
        return yaml.load(file, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))


def printed_routes(program):
    """Lines of "METHOD PATH" -> set of pairs; what follows the path is the scope and the query names, when printed."""
    text = subprocess.run([program, "--print-routes"], check=True, capture_output=True, text=True).stdout
    return [line.split() for line in text.splitlines() if line.strip()]


def written_routes():
    """The same from the source."""
    text = (TREE / "api" / "routes.c").read_text(encoding="utf-8")
    macros = dict(re.findall(r'^#define (\w+) "([^"]*)"', text, re.MULTILINE))
    rows = re.findall(r'ROUTE\("([A-Z]+)",\s*"([^"]+)",\s*(\w+),\s*\w+,\s*\w+,\s*(NULL|\w+|"[^"]*"),', text)
    for method, path, scope, query in rows:
        names = "" if query == "NULL" else macros.get(query, query.strip('"'))
        yield [method, path, "-" if scope == "NONE" else ANY if scope == "ANY" else scope.lower().replace("_or_", "|"), *names.split()]


def walls():
    """{(method, path): wall} of api/routes.c, as request/router.h names them."""
    text = (TREE / "api" / "routes.c").read_text(encoding="utf-8")
    return {(method, path): wall for method, path, wall in re.findall(r'^ +ROUTE\("(\w+)", +"([^"]+)", +\w+, +(\w+),', text, re.MULTILINE)}


def operations(document):
    for path, item in document["paths"].items():
        for method, operation in item.items():
            if method in METHODS:
                yield method.upper(), path, item, operation


def resolve(document, node):
    while isinstance(node, dict) and "$ref" in node:
        target = document
        for part in node["$ref"].removeprefix("#/").split("/"):
            target = target[part.replace("~1", "/").replace("~0", "~")]
        node = target
    return node


def references(node):
    if isinstance(node, dict):
        if "$ref" in node:
            yield node["$ref"]
        for value in node.values():
            yield from references(value)
    elif isinstance(node, list):
        for value in node:
            yield from references(value)


# Bodies, or members of them (behind a space) -> the tables that they are read by: a file, and the name of its rows.
BODIES = {
    "POST /v1/jobs": [("scheduler/job/job_json.c", "fields")],
    "POST /v1/jobs/{id}/results": [("scheduler/job/results/results_json.c", "fields")],
    "PUT /v1/topics/{topic}": [("api/rest/topics_rest.c", "fields")],
    "PUT /v1/topics/{topic} alerts": [("api/rest/alerts_rest.c", "alerts_fields")],
    "PUT /v1/schedules/{name}": [("api/rest/schedules_rest.c", "fields"), ("scheduler/job/job_json.c", "fields")],
    "POST /v1/jobs:reschedule": [("api/rest/operations_rest.c", "fields")],
    "POST /v1/jobs:reschedule filter": [("api/rest/operations_rest.c", "filter_fields")],
    "POST /v1/pop": [("api/pull/pop_take.c", "fields")],
    "POST /v1/commands": [("api/pull/command_json.c", "fields")],
    "POST /v1/alerts/{id}/silence": [("api/rest/alerts_rest.c", "silence_fields")],
    "POST /v1/admin/shards": [("api/rest/ops_rest.c", "shards_fields")],
    "POST /v1/admin/clock": [("api/rest/ops_rest.c", "clock_fields")],
}
# Members that bodies may have, so that an answer can be put back or compared, and that nobody is told to send.
BESIDE = {"PUT /v1/topics/{topic}": {"name"}, "PUT /v1/schedules/{name}": {"name", "key", "run_at", "delay"}}


def number(text):
    """A number, or a macro of a header that is one; None for what is neither."""
    if re.fullmatch(r"\d+", text):
        return int(text)
    if text == "INT32_MAX":
        return 2**31 - 1
    for header in TREE.glob("*/**/*.h"):
        found = re.search(rf"^#define {text} +(\d+)\b", header.read_text(encoding="utf-8"), re.MULTILINE)
        if found:
            return int(found[1])
    return None


def rows(path, name):
    """The members of a table that bodies set -> their bounds where they are whole numbers, else None."""
    text = (TREE / path).read_text(encoding="utf-8")
    table = re.search(rf"struct dt_json_field {name}\[\] = \{{(.*?)^ *\}};", text, re.DOTALL | re.MULTILINE)[1]
    for row in re.split(r"(?=\b(?:DT_FIELD\w*|[A-Z]+)\(\")", table):
        member = re.match(r'(?!DT_FIELD_FOR_SHOW|SHOWN)[A-Z_]+\("(\w+)"(, COUNT)?', row)
        if member:
            bounds = [re.search(rf"\.{end} = (\w+)", row) for end in ("min", "max")]
            counts = member[2] and all(bounds)
            yield member[1], [number(bound[1]) for bound in bounds] if counts else None


def members(document, schema):
    schema = resolve(document, schema)
    found = dict(schema.get("properties", {}))
    for part in schema.get("allOf", []) + schema.get("anyOf", []) + schema.get("oneOf", []):
        found.update(members(document, part))
    return found


def parameters(document, item, operation, place):
    found = [resolve(document, p) for p in item.get("parameters", []) + operation.get("parameters", [])]
    return {p["name"] for p in found if p["in"] == place}


class TheDescription(unittest.TestCase):
    program = None

    @classmethod
    def setUpClass(cls):
        cls.document = load()
        cls.routes = printed_routes(cls.program) if cls.program else list(written_routes())

    def test_openapi_has_exactly_the_routes_of_the_router(self):
        described = {(method, path) for method, path, _, _ in operations(self.document)}
        self.assertGreater(len(described), 20)
        self.assertEqual(described, {(r[0], r[1]) for r in self.routes})

    def test_openapi_has_the_scopes_of_the_router(self):
        for method, path, _, operation in operations(self.document):
            scopes = {s for choice in operation["security"] for s in choice.get("bearer", [])}
            route = next(r for r in self.routes if (r[0], r[1]) == (method, path))
            self.assertEqual(scopes or {"-"}, set(route[2].split("|")), f"{method} {path}")

    def test_openapi_has_the_query_parameters_of_the_router(self):
        for method, path, item, operation in operations(self.document):
            route = next(r for r in self.routes if (r[0], r[1]) == (method, path))
            self.assertEqual(parameters(self.document, item, operation, "query"), set(route[3:]), f"{method} {path}")

    def test_openapi_declares_every_parameter_of_a_path(self):
        for method, path, item, operation in operations(self.document):
            names = set(re.findall(r"\{(\w+)\}", path))
            self.assertEqual(parameters(self.document, item, operation, "path"), names, f"{method} {path}")

    def test_openapi_has_one_operation_id_for_each_route(self):
        ids = [operation["operationId"] for _, _, _, operation in operations(self.document)]
        self.assertEqual(len(ids), len(set(ids)))

    def test_openapi_resolves_every_reference(self):
        for reference in references(self.document):
            self.assertIsNotNone(resolve(self.document, {"$ref": reference}), reference)

    def test_openapi_uses_every_component(self):
        used = set(references(self.document))
        for kind, named in self.document["components"].items():
            if kind != "securitySchemes":
                for name in named:
                    self.assertIn(f"#/components/{kind}/{name}", used)

    def test_openapi_has_the_members_of_bodies_with_their_bounds(self):
        bodies = {f"{method} {path}": operation for method, path, _, operation in operations(self.document)}
        for body, tables in BODIES.items():
            route, _, member = body.rpartition(" ") if body.count(" ") == 2 else (body, "", "")
            content = resolve(self.document, bodies[route]["requestBody"])["content"]["application/json"]
            described = members(self.document, content["schema"])
            described = members(self.document, described[member]) if member else described
            read = {name: bounds for table in tables for name, bounds in rows(*table)}
            self.assertGreater(len(read), 0, body)
            self.assertEqual(set(described), set(read) - BESIDE.get(body, set()), body)
            for name, bounds in read.items():
                schema = resolve(self.document, described.get(name, {}))
                if bounds and None not in bounds:
                    self.assertEqual([schema.get("minimum"), schema.get("maximum")], bounds, f"{body} {name}")

    def test_openapi_names_the_problems_of_the_table(self):
        table = (TREE / "scheduler" / "job" / "problem.h").read_text(encoding="utf-8")
        slugs = re.findall(r"X\(\w+, \d{3}, \"([a-z-]+)\"", table)
        self.assertGreater(len(slugs), 10)
        described = self.document["components"]["schemas"]["Problem"]["properties"]["type"]["enum"]
        self.assertEqual(described, [f"/problems/{slug}" for slug in slugs])

    def test_openapi_answers_only_with_statuses_of_the_table(self):
        table = (TREE / "scheduler" / "job" / "problem.h").read_text(encoding="utf-8")
        statuses = set(re.findall(r"X\(\w+, (\d{3}), ", table)) | {"200", "201", "202", "304", "308"}
        for method, path, _, operation in operations(self.document):
            self.assertLessEqual(set(operation["responses"]), statuses, f"{method} {path}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        TheDescription.program = sys.argv.pop(1)
    unittest.main(verbosity=2)

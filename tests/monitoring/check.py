#!/usr/bin/python3
"""Rules for Prometheus, dashboard and runbook fit the programs, and each other.

Each rule fires in one test of rules_test.yml and stays quiet in another. Rules and dashboard name metrics and labels that
deploy/metrics.md has. Each finding, kind of alert and rule has a page in the runbook, and each page is somebody's; links and
commands in it are there.
"""
import json
import pathlib
import re
import subprocess
import unittest

import yaml

TREE = pathlib.Path(__file__).resolve().parents[2]
DEPLOY = TREE / "deploy"
RULES = DEPLOY / "monitoring" / "alerts.yml"
TESTS = TREE / "tests" / "monitoring" / "rules_test.yml"
RUNBOOK = DEPLOY / "runbook"
OF_EVERY_TARGET = {"instance", "job", "le"}
SECTIONS = ["What it means", "How to look", "What to do", "Cured when"]
METRIC = re.compile(r"\bduetime_\w+|\bup\b")
PAGE = r'PAGE\("([a-z]+/[a-z-]+)"\)'


def rules():
    document = yaml.safe_load(RULES.read_text(encoding="utf-8"))
    return [rule for group in document["groups"] for rule in group["rules"]]


def queries():
    """(title, query) of each panel, and of the annotations."""
    board = json.loads((DEPLOY / "monitoring" / "dashboard.json").read_text(encoding="utf-8"))
    yield from ((panel["title"], target["expr"]) for panel in board["panels"] for target in panel.get("targets", []))
    yield from ((each["name"], each["expr"]) for each in board["annotations"]["list"])


def known_metrics():
    """{name: its labels}, with the three series of a histogram."""
    known = {"up": set()}
    for line in (DEPLOY / "metrics.md").read_text(encoding="utf-8").splitlines():
        row = re.match(r"\| `(\w+)(?:{([a-z,]+)})?`( \(histogram\))? \|", line)
        if row:
            names = [row[1] + end for end in ("_bucket", "_sum", "_count")] if row[3] else [row[1]]
            known.update({name: set(row[2].split(",") if row[2] else ()) for name in names})
    return known


def labels_of(query):
    """Labels that a query selects or groups by."""
    selected = re.findall(r"(\w+)\s*(?:=~|!~|!=|=)\s*\"", query)
    grouped = re.findall(r"\b(?:by|on|without|ignoring)\s*\(([^)]*)\)", query)
    return {*selected, *(name.strip() for names in grouped for name in names.split(",") if name.strip())}


def findings():
    """{finding: its page}"""
    pages = {}
    text = (TREE / "scheduler/features/doctor/finding.c").read_text(encoding="utf-8")
    for entry in re.finditer(r"\[DT_F\w+\]\s*=\s*\{\s*\"([a-z-]+)\",(.*?)\},\n", text, re.S):
        page = re.search(PAGE, entry[2])
        pages.setdefault(entry[1], set()).add(page[1] if page else None)
    return pages


def kinds_of_alerts():
    return re.findall(r'\[DT_ALERT_\w+\]\s*=\s*"(\w+)"', (TREE / "scheduler/features/alerts/alerts_model.c").read_text(encoding="utf-8"))


def index():
    """{page: (findings, alerts, rules)} as the head of each page says."""
    rows = {}
    for path in sorted(RUNBOOK.rglob("*/*.md")):
        head = path.read_text(encoding="utf-8").split("##")[0]
        rows[str(path.relative_to(RUNBOOK).with_suffix(""))] = tuple(set(re.findall(rf"{kind} `([\w-]+)`", head)) for kind in ("finding", "alert", "rule"))
    return rows


def anchors(path):
    headings = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.M)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


class OfRules(unittest.TestCase):
    def test_promtool_accepts_the_rules_and_their_tests_pass(self):
        for words in (["check", "rules", RULES], ["test", "rules", TESTS]):
            done = subprocess.run(["promtool", *words], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_each_rule_has_a_test_that_fires_it_and_one_that_does_not(self):
        tests = {}
        for test in yaml.safe_load(TESTS.read_text(encoding="utf-8"))["tests"]:
            series = " ".join(one["series"] for one in test["input_series"])
            for one in test["promql_expr_test"]:
                name = re.search(r'alertname="(\w+)"', one["expr"])[1]
                tests.setdefault(name, {})[bool(one["exp_samples"])] = set(METRIC.findall(series))
        for rule in rules():
            seen = tests.pop(rule["alert"], {})
            self.assertEqual(set(seen), {True, False}, rule["alert"])
            for metrics in seen.values():  # a test without any figures proves nothing
                self.assertTrue(metrics & set(METRIC.findall(rule["expr"])), rule["alert"])
        self.assertEqual(tests, {})

    def test_each_rule_has_severity_summary_and_runbook_link(self):
        for rule in rules():
            self.assertIn(rule["labels"]["severity"], ("critical", "warning"))
            self.assertEqual(set(rule["annotations"]), {"summary", "description", "runbook"})
            self.assertTrue((TREE / rule["annotations"]["runbook"]).is_file(), rule["alert"])


class OfMetrics(unittest.TestCase):
    def check(self, where, query):
        known = known_metrics()
        names = METRIC.findall(query)
        self.assertTrue(names or "ALERTS{" in query, where)
        for name in names:
            self.assertIn(name, known, where)
        if names:
            allowed = OF_EVERY_TARGET.union(*(known[name] for name in names))
            self.assertLessEqual(labels_of(query), allowed, where)

    def test_rules_use_existing_metrics(self):
        for rule in rules():
            self.check(rule["alert"], rule["expr"])

    def test_the_dashboard_uses_existing_metrics(self):
        seen = list(queries())
        self.assertGreater(len(seen), 40)
        for title, query in seen:
            self.check(title, query)


class OfTheRunbook(unittest.TestCase):
    def pages(self):
        return sorted(path for path in RUNBOOK.rglob("*.md") if path.name != "README.md")

    def test_each_finding_has_its_runbook_page(self):
        self.assertGreater(len(findings()), 25)
        for name, pages in findings().items():
            self.assertEqual(len(pages), 1, (name, pages))
            page = pages.pop()
            self.assertTrue(page and (RUNBOOK / f"{page}.md").is_file(), (name, page))
            self.assertIn(name, index()[page][0])

    def test_the_list_of_pages_is_complete(self):
        listed = index()
        self.assertEqual(sorted(re.findall(r"[(, ]\[[a-z-]+\]\(([a-z]+/[a-z-]+)\.md\)[,.]", (RUNBOOK / "README.md").read_text(encoding="utf-8").split("\n- ", 1)[1])), sorted(listed))
        for page, (found, alerts, of_rules) in listed.items():
            self.assertTrue(found | alerts | of_rules, page)
            self.assertLessEqual({name.replace("no_leader", "shard_without_leader").replace("_", "-") for name in (*found, *alerts)}, {page.split("/")[1]}, page)
        self.assertEqual(set().union(*(row[0] for row in listed.values())), set(findings()))
        self.assertEqual(set().union(*(row[1] for row in listed.values())), set(kinds_of_alerts()))
        by_rule = {name: page for page, row in listed.items() for name in row[2]}
        self.assertEqual(by_rule, {rule["alert"]: rule["annotations"]["runbook"].removeprefix("deploy/runbook/").removesuffix(".md") for rule in rules()})

    def test_each_page_has_its_four_sections(self):
        for path in self.pages():
            text = path.read_text(encoding="utf-8")
            self.assertEqual(re.findall(r"^## (.*)$", text, re.M), SECTIONS, path.name)
            look = text.split("## How to look")[1].split("## What to do")[0]
            self.assertIn("```sh", look, path.name)
            self.assertIn("```sql", look, path.name)

    def test_links_have_existing_targets(self):
        for path in [*RUNBOOK.rglob("*.md"), DEPLOY / "monitoring" / "README.md"]:
            for target in re.findall(r"\]\(([^)]+)\)", path.read_text(encoding="utf-8")):
                name, _, anchor = target.partition("#")
                there = (path.parent / name).resolve() if name else path
                self.assertTrue(there.exists(), (path.name, target))
                self.assertTrue(not anchor or anchor in anchors(there), (path.name, target))

    def test_commands_and_flags_in_the_pages_exist(self):
        reference = (DEPLOY / "command-line.md").read_text(encoding="utf-8")
        commands = set(re.findall(r"^### (.*)$", reference, re.M))
        flags = set(re.findall(r"--[a-z-]+", reference))
        for path in self.pages():
            for words in re.findall(r"(?:^|`)duetime ([a-z-]+(?: [a-z-]+)?)", path.read_text(encoding="utf-8"), re.M):
                self.assertTrue(words in commands or words.split()[0] in commands, (path.name, words))
            for line in re.findall(r"(?:^|`)duetime ([^`\n]*)", path.read_text(encoding="utf-8"), re.M):
                self.assertLessEqual(set(re.findall(r"--[a-z-]+", line)), flags, (path.name, line))


if __name__ == "__main__":
    unittest.main()

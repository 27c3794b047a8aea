"""The ten questions of the person on call: each command and each statement of the table in deploy/README.md is carried out as it stands there, and its answer is looked at."""
import time

import pytest

from harness.checker import connect, rows
from harness.command_line import run
from harness.stack import TREE, until

DAY_MS = 86400000
SHOWN = {"topic": "orders.close", "key": "order-42", "id": "758663023165448"}


def table():
    """{question: (command, statement)}."""
    section = (TREE / "deploy" / "README.md").read_text(encoding="utf-8").split("## Ten questions", 1)[1].split("\n## ", 1)[0]
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in section.splitlines() if line.startswith("| ") and "`duetime " in line]
    return {question: (command.strip("`"), statement.strip("`")) for question, command, statement, _ in cells}


class Asked:
    """A topic with a job in question; what the table asks of it, with names filled in."""

    def __init__(self, stack, api, topic, question):
        self.url, self.connection, self.api, self.topic, self.key = stack["DUETIME_URL_API1"], connect(stack), api, topic, "k-42"
        self.command, self.statement = next(row for name, row in table().items() if name.startswith(question))
        self.id, self.account = "", f"sql:{stack['DUETIME_MYSQL_USER']}"
        self.caller = "stack" if stack.env.get("DUETIME_TOKEN") else "-"  # the name of a secured stack's token

    def make(self, key=None, **members):
        return self.api.make(topic=self.topic, key=key or self.key, payload=1, **members)

    def told(self):
        """What the command says: its output, or an AssertionError."""
        words = self._filled(self.command).split()
        assert words[0] == "duetime"
        told = run(*words[1:], variables={"DUETIME_URL": self.url})
        assert told.code == 0, (words, told)
        return told.out

    def read(self):
        return rows(self.connection, self._filled(self.statement))

    def _filled(self, text):
        return text.replace(SHOWN["topic"], self.topic).replace(SHOWN["key"], self.key).replace(SHOWN["id"], str(self.id))

    def line_of(self, word):
        """The words of the line of the command's table that has this one."""
        return next(words for words in map(str.split, self.told().splitlines()) if word in words)


@pytest.fixture
def asked(stack, api, topic):
    made = []

    def ask(question):
        made.append(Asked(stack, api, topic, question))
        return made[-1]
    yield ask
    for one in made:
        one.connection.close()
    api.post("/v1/jobs:cancel", {"filter": {"topic": topic}})


def test_the_on_call_page_has_ten_questions():
    assert len(table()) == 10


def test_where_is_job_x(asked):
    question = asked("Where is job X")
    job = question.make(delay="PT1H")
    question.id = job["id"]
    shown = dict(line.split(None, 1) for line in question.told().splitlines())
    assert (shown["id"], shown["state"], shown["next_at"]) == (job["id"], "scheduled", job["next_at"])
    (row,) = question.read()
    assert (str(row["id"]), row["state"], row["waiting_for"]) == (job["id"], "scheduled", "time")


def test_why_has_it_not_fired(asked, api, topic):
    question = asked("Why has it not fired")
    api.put(f"/v1/topics/{topic}", {"delivery": "pull", "paused": True})
    question.id = question.make(delay=0)["id"]
    assert "paused" in question.told()
    assert "paused" in str(question.read())


def test_what_is_late(asked, api, topic):
    question = asked("What is late")
    api.put(f"/v1/topics/{topic}", {"delivery": "pull"})  # nobody pops
    question.id = question.make(delay=0)["id"]
    until(lambda: question.id in question.told(), "the command lists it")
    rows(question.connection, "UPDATE jobs SET next_at = 1000 WHERE id = %s", question.id)  # the most overdue of all
    row = until(lambda: [row for row in question.read() if str(row["id"]) == question.id], "the statement lists it")[0]
    assert row["overdue_ms"] > DAY_MS and row["missing"]
    assert question.told().splitlines()[1].split()[0] == question.id


def fail(api, topic, job, message):
    def popped():
        assert api.post(f"/v1/topics/{topic}/pop", {"max": 10}).status == 200
        return api.get(f"/v1/jobs/{job['id']}").json["state"] == "dispatched"
    until(popped, "the job is popped")
    answer = api.post(f"/v1/jobs/{job['id']}/results", {"attempt": 1, "status": "gave_up", "error": {"code": "E42", "message": message}})
    assert answer.json["outcome"] == "applied", answer


def wait_for_a_day_that_lasts(connection):
    until(lambda: rows(connection, "SELECT TIME_TO_SEC(UTC_TIME()) s")[0]["s"] < 86400 - 60, "midnight has passed", every=1, seconds=90)


def test_what_failed_today_and_why(asked, api, topic):
    question = asked("What failed today")
    wait_for_a_day_that_lasts(question.connection)
    api.put(f"/v1/topics/{topic}", {"delivery": "pull", "retry": []})
    job = question.make(delay=0)
    fail(api, topic, job, "mill-stood-still")
    assert {"1", "E42", topic, "mill-stood-still"} <= set(question.line_of(job["id"]))
    (row,) = [row for row in question.read() if row["topic"] == topic.encode()]
    assert (row["error_code"], row["jobs"], row["such_as"]) == (b"E42", 1, b"mill-stood-still")


def test_who_leads_shard_3(asked, api):
    question = asked("Who leads shard 3")

    def agreed():
        leader = api.get("/v1/info").json["shards"][3]["leader"]
        line = next(words for words in map(str.split, question.told().splitlines()) if words[0] == "3")
        owner = question.read()[0]["owner"]
        return leader and line[1] == leader == (owner.decode() if isinstance(owner, bytes) else owner)
    until(agreed, "command, statement and the API name one leader")


def test_is_redis_complete(asked):
    question = asked("Is Redis complete")

    def drift():
        """What was repaired of each shard since it was gained, where command and SQL agree that its index is whole."""
        head, *lines = question.told().splitlines()
        told = [[line[head.index(name):].split()[0] for name in ("MISSING", "EXTRA", "WRONG")] for line in lines]
        whole = {line[head.index("INDEX WHOLE"):].split()[0] for line in lines}
        read = question.read()
        agreed = told == [[str(row[f"drift_{name}"]) for name in ("missing", "extra", "wrong")] for row in read]
        return told if len(told) == 4 and agreed and whole == {"true"} and {row["whole"] for row in read} == {1} else None

    def complete():
        """Nothing more is found for a few of the reconciler's passes; what others did to this stack before was repaired."""
        before = drift()
        time.sleep(3)
        return before and before == drift()
    until(complete, lambda: f"nothing is missing, extra or wrong:\n{question.told()}\n{question.read()}")


def test_the_forecast_tells_the_jobs_due_in_the_next_hour(asked, api, topic):
    question = asked("What comes in the next hour")
    at = rows(question.connection, "SELECT DATE_FORMAT(UTC_TIMESTAMP() + INTERVAL 30 MINUTE, '%Y-%m-%dT%H:%i') m")[0]["m"]
    api.batch([{"topic": topic, "run_at": f"{at}:00.500Z"} for _ in range(400)])
    assert topic in question.told()
    due = {str(row["minute"])[:16].replace(" ", "T"): row["due"] for row in question.read()}
    assert due[at] >= 400


@pytest.mark.parametrize("by", ["told", "read"])
def test_stop_topic_t(asked, api, topic, by):
    question = asked("Stop topic T")
    api.put(f"/v1/topics/{topic}", {"delivery": "pull"})
    job = question.make(delay=0)
    getattr(question, by)()
    assert api.get(f"/v1/topics/{topic}").json["paused"] is True
    until(lambda: api.get(f"/v1/jobs/{job['id']}").json["waiting_for"] == "paused" and not api.post(f"/v1/topics/{topic}/pop").json["jobs"], "it waits")


@pytest.mark.parametrize("by", ["told", "read"])
def test_redo_yesterdays_dead(asked, api, topic, by):
    question = asked("Redo yesterday's dead")
    wait_for_a_day_that_lasts(question.connection)
    api.put(f"/v1/topics/{topic}", {"delivery": "pull", "retry": []})
    jobs = [question.make(key=f"k{n}", delay=0) for n in range(2)]
    for job in jobs:
        fail(api, topic, job, "no")
    api.post(f"/v1/topics/{topic}/pause")
    rows(question.connection, "UPDATE jobs SET error_at = error_at - %s, finished_at = finished_at - %s WHERE id = %s", DAY_MS, DAY_MS, jobs[0]["id"])
    rows(question.connection, "UPDATE jobs SET run_at = run_at - %s WHERE id = %s", DAY_MS, jobs[1]["id"])  # yesterday's job, today's death
    getattr(question, by)()
    until(lambda: api.get(f"/v1/jobs/{jobs[0]['id']}").json["state"] == "scheduled", "yesterday's is redriven")
    assert api.get(f"/v1/jobs/{jobs[1]['id']}").json["state"] == "dead"
    assert api.get(f"/v1/jobs/{jobs[0]['id']}/events").json["events"][0]["actor"] == (question.caller if by == "told" else question.account)


@pytest.mark.parametrize("by", ["told", "read"])
def test_move_10000_jobs_by_a_day(asked, api, topic, by):
    question = asked("Move 10,000 jobs")
    api.batch([{"topic": topic, "key": f"k{n}", "delay": "PT2H"} for n in range(1000)])
    before = {job["key"]: job["run_at"] for job in api.list(topic=topic, limit=1000)}
    getattr(question, by)()
    until(lambda: rows(question.connection, "SELECT COUNT(*) n FROM operations WHERE topic_from = %s AND state = 'done' AND changed = 1000", topic)[0]["n"] == 1,
          "all are moved")
    after = {job["key"]: job["run_at"] for job in api.list(topic=topic, limit=1000)}
    assert len(after) == 1000 and all(after[key][:10] > before[key][:10] and after[key][10:] == before[key][10:] for key in before)

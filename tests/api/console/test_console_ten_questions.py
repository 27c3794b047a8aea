"""The ten questions of the person on call, in the console: each row of the table in deploy/README.md from the overview on, in two clicks at most.
What is typed, and Enter, are no clicks; where something is changed, the answer to the one question is counted like any other click."""
import pytest

from harness.stack import TREE, until

CLICKS = 2
DAY_MS = 86400000


def rows_of_the_table():
    section = (TREE / "deploy" / "README.md").read_text(encoding="utf-8").split("## Ten questions", 1)[1].split("\n## ", 1)[0]
    return [line.strip("|").split(" | ")[0].strip() for line in section.splitlines() if line.startswith("| ") and "`duetime " in line]


class Asked:
    """The overview, with clicks counted; a topic with a job, and what tests say of them."""

    def __init__(self, console, api, db, topic):
        self.console, self.browser, self.api, self.db, self.topic, self.clicks = console, console.browser, api, db, topic, 0

    def click(self, **what):
        self.clicks += 1
        self.browser.click(**what)

    def see(self, css):
        self.browser.sees(css=css)

    def type(self, label, text):
        self.browser.fill(label=label, value=text)
        self.browser.press(keys=["Enter"])

    def settle(self, **settings):
        assert self.api.put(f"/v1/topics/{self.topic}", {"delivery": "pull", **settings}).status in (200, 201)

    def late(self, jobs=1, **settings):
        """Jobs that no worker pops, later than the jobs of other tests; with many of them, their topic is first in the overview."""
        self.settle(**settings)
        self.api.batch([{"topic": self.topic, "key": f"late-{n}", "delay": 0} for n in range(jobs)])
        self.db("UPDATE jobs SET next_at = 1000 WHERE topic = %s AND job_key = 'late-0'", self.topic)
        return self.api.list(topic=self.topic, key="late-0")[0]

    def dead(self, key, days_ago=0):
        job = self.api.make(topic=self.topic, key=key, delay=0, retry=[])
        until(lambda: self.api.post(f"/v1/topics/{self.topic}/pop", {"wait": "PT5S"}).json["jobs"], "the job is popped")
        report = {"attempt": 1, "status": "gave_up", "error": {"code": "E42", "message": "the mill stood still"}}
        assert self.api.post(f"/v1/jobs/{job['id']}/results", report).json["outcome"] == "applied"
        self.db("UPDATE jobs SET finished_at = finished_at - %s, error_at = error_at - %s WHERE id = %s", days_ago * DAY_MS, days_ago * DAY_MS, job["id"])
        return job

    def state(self, job):
        return self.api.get(f"/v1/jobs/{job['id']}").json["state"]

    def open(self):
        self.console.open("#/overview")
        self.see("table[aria-label=Shards]")

    def wait_for_a_day_that_lasts(self):
        until(lambda: self.db("SELECT TIME_TO_SEC(UTC_TIME()) s")[0]["s"] < 86400 - 60, "midnight has passed", every=1, seconds=90)


def where_is_it(asked):
    job = asked.api.make(topic=asked.topic, key="order-42", delay="PT1H")
    asked.open()
    asked.browser.press(keys=["/"])
    asked.type("Find a job: its id, or its topic and key", f"{asked.topic} order-42")
    asked.see(f"h1:has-text('{job['id']}')")
    asked.see(".facts .state.scheduled")


def why_has_it_not_fired(asked):
    asked.late(paused=True)
    asked.open()
    asked.click(css="a.figure:has-text('overdue')")
    asked.click(css=f"tr:has-text('{asked.topic}') a.row:has-text('late-0')")
    asked.see(".reason.warn:has-text('paused') .to-do")


def what_is_late(asked):
    job = asked.late()
    asked.open()
    asked.click(css="a.figure:has-text('overdue')")
    asked.see(f"table[aria-label=Jobs] tbody tr:first-child:has-text('{job['id']}') td[data-label='Late by'] .late")


def what_failed_today(asked):
    asked.wait_for_a_day_that_lasts()
    asked.settle()
    asked.dead("k")
    asked.dead("older", days_ago=3)
    asked.open()
    asked.click(css="a.figure:has-text('dead')")
    asked.click(css="[aria-label='When they died'] a:text-is('Today')")
    asked.see(f"tr:has-text('{asked.topic}'):has-text('E42'):has-text('the mill stood still') td.number span:text-is('1')")


def who_leads(asked):
    until(lambda: all(shard["leader"] for shard in asked.api.get("/v1/info").json["shards"]), "all shards have leaders")
    asked.open()
    leader = asked.api.get("/v1/info").json["shards"][1]["leader"]
    asked.see(f"table[aria-label=Shards] tr:has(td[data-label=Shard] span:text-is('1')) td[data-label=Leader]:has-text('{leader}')")


def is_redis_complete(asked):
    asked.open()
    asked.see("table[aria-label=Shards] tbody tr:nth-child(2) td[data-label=Index] span:has-text('complete'):not(:has-text('incomplete'))")
    assert asked.browser.count(css="table[aria-label=Shards] td[data-label=Index]") == 2


def what_comes(asked):
    asked.api.batch([{"topic": asked.topic, "delay": "PT30M"} for _ in range(400)])
    asked.open()
    asked.see("[aria-label='Due in the next hour'] [aria-label^='Jobs due in the next hour, by minute; at most ']")
    told = lambda: int(asked.browser.text(css="a.figure:has-text('in the next hour') .note-line").split()[0].rstrip("+").replace(",", ""))  # noqa: E731
    until(lambda: told() >= 400, told)


def stop_a_topic(asked):
    asked.late(300)
    asked.open()
    asked.see(f"tr:has-text('{asked.topic}') td[data-label=Scheduled]:has-text('300')")
    asked.click(role="button", name=f"Pause {asked.topic}")
    asked.see("dialog:has-text('300 scheduled jobs')")
    asked.click(css="dialog button[type=submit]")
    asked.see(f"tr:has-text('{asked.topic}') .flag:has-text('paused')")
    assert asked.api.get(f"/v1/topics/{asked.topic}").json["paused"] is True


def redo_yesterdays_dead(asked):
    asked.wait_for_a_day_that_lasts()
    asked.settle()
    today, yesterday = asked.dead("today"), asked.dead("yesterday", days_ago=1)
    asked.open()
    asked.click(role="link", name="Dead letters")
    asked.click(role="button", name="Redrive yesterday")
    asked.see("dialog h2:has-text('Redrive 1 job?')")
    asked.browser.press(keys=["Enter"])
    until(lambda: asked.state(yesterday) == "scheduled", lambda: asked.state(yesterday))
    assert asked.state(today) == "dead"


def move_them_by_a_day(asked):
    asked.late(300, paused=True)
    asked.api.batch([{"topic": asked.topic, "key": f"k{n}", "run_at": "2035-01-01T00:00:00Z"} for n in range(100)])
    asked.open()
    asked.click(css=f"tr:has-text('{asked.topic}') td[data-label=Scheduled] a")
    asked.click(role="button", name="Move")
    asked.see("dialog h2:has-text('Move 400 jobs?')")
    asked.type("By, or to", "P1D")
    until(lambda: {job["run_at"][:10] for job in asked.api.list(topic=asked.topic, key_prefix="k", limit=1000)} == {"2035-01-02"}, "they are moved")


WAYS = {
    "Where is job X?": where_is_it, "Why has it not fired?": why_has_it_not_fired, "What is late?": what_is_late, "What failed today, and why?": what_failed_today,
    "Who leads shard 3?": who_leads, "Is Redis complete?": is_redis_complete, "What comes in the next hour?": what_comes, "Stop topic T.": stop_a_topic,
    "Redo yesterday's dead.": redo_yesterdays_dead, "Move 10,000 jobs by a day.": move_them_by_a_day,
}


@pytest.mark.in_turns(5)
@pytest.mark.parametrize("question", WAYS)
def test_each_question_of_the_runbook_is_answered_in_two_clicks(console, api, db, topic, question):
    asked = Asked(console, api, db, topic)
    try:
        WAYS[question](asked)
        assert asked.clicks <= CLICKS
        console.is_sound()
    finally:
        api.post("/v1/jobs:cancel", {"filter": {"topic": topic}})


def test_every_question_of_the_runbook_has_a_test():
    assert rows_of_the_table() == list(WAYS)

"""The console's frame: what is down, who one is, keys, light and dark, narrow and wide."""
import pytest

from harness.rest import Rest
from harness.stack import until
from stack import ports

pytestmark = pytest.mark.in_turns(6)

VIEWS = ["#/overview", "#/jobs", "#/topics", "#/schedules", "#/dead", "#/operations", "#/alerts", "#/events"]


def test_the_console_shows_that_the_api_is_down_and_recovers_by_itself(console_of, own_apis, tmp_path):
    own = own_apis.beside("console_down", {"http.port": ports.choose(set(), tmp_path)})
    own.rest.make(topic="down", key="before", delay="PT1H")
    console = console_of(own.url).open("#/jobs?topic=down")
    console.browser.sees(css="a.row:has-text('before')")
    own.end()
    console.says("The API does not answer")
    console.browser.sees(css="a.row:has-text('before')")
    console.is_sound()
    own.start()
    own.rest.make(topic="down", key="meanwhile", delay="PT1H")
    console.browser.sees(css="a.row:has-text('meanwhile')")
    console.browser.misses(css=".parts.bad")


@pytest.mark.parametrize("part, name, tone", [("redis1", "Redis", "warn"), ("zookeeper", "leaders of shards", "warn"), ("mysql", "MySQL", "bad")])
def test_the_console_names_a_server_that_is_down(console, stack, api, held, part, name, tone):
    """Also to whoever opens the page then; what was there stays, and what cannot be had is told of."""
    api.make(topic=held, key="before", delay="PT1H")
    console.open(f"#/jobs?topic={held}")
    console.browser.sees(css="a.row:has-text('before')")
    with stack.stopped(part):
        console.browser.sees(css=f".parts.{tone}:has-text('{name}')")
        console.browser.sees(css="a.row:has-text('before')")
        console.is_sound()
        console.open("#/overview")
        console.browser.sees(css=f".parts.{tone}:has-text('{name}')")
        console.browser.sees(css="main .note.bad:has-text('This cannot be shown')" if part == "mysql" else "table[aria-label=Shards]")
        console.is_sound()
    console.browser.misses(css=".parts")
    console.browser.sees(css="table[aria-label=Shards]")


@pytest.fixture(scope="module")
def guarded(own_apis):
    """An API that asks for tokens, with one of each kind by name."""
    own = own_apis("console_tokens").start()
    tokens = {}
    for name, scopes, topics in (("reader", "read", None), ("admin", "admin", None), ("bound", "read,write", "in.")):
        done = own.command("--new-token", name, "--scopes", scopes, *(["--topics", topics] if topics else []))
        assert done.returncode == 0, done.stderr
        tokens[name] = done.stdout.strip()
    until(lambda: Rest(own.url).get("/v1/info").status == 401, "the API asks for tokens")
    until(lambda: all(Rest(own.url, token=token).get("/v1/caller").status == 200 for token in tokens.values()), "the API knows all tokens")
    own.jobs_made = {topic: Rest(own.url, token=tokens["admin"]).make(topic=topic, key="k", delay="PT1H") for topic in ("in.side", "outside")}
    return own, tokens


def sign_in(console, token):
    console.browser.fill(label="Token", value=token)
    console.press_button("Sign in")


def test_the_console_asks_for_a_token_and_stores_it_only_in_the_session(console_of, guarded):
    own, tokens = guarded
    console = console_of(own.url).open("#/jobs")
    console.browser.sees(label="Token")
    console.is_sound()
    sign_in(console, "dt_nonsense")
    console.says("This token is unknown.")
    sign_in(console, tokens["reader"])
    console.browser.sees(role="link", name="k", exact=False)
    kept = console.browser.storage()
    assert kept == {"session": {"duetime.token": tokens["reader"]}, "local": {}, "cookies": ""}
    console.press_button("Sign out")
    console.browser.sees(label="Token")
    assert console.browser.storage()["session"] == {}


def test_the_console_hides_actions_that_the_token_does_not_allow(console_of, guarded):
    own, tokens = guarded
    console = console_of(own.url).open(f"#/jobs/{own.jobs_made['in.side']['id']}")
    sign_in(console, tokens["reader"])
    console.browser.sees(css=".reason")
    assert console.browser.count(css="main button") == 0
    console.press_button("Sign out")
    sign_in(console, tokens["bound"])
    console.browser.sees(role="button", name="Cancel")
    console.goto("#/topics/in.side")
    console.browser.sees(css=".figures")
    assert console.browser.count(css="main button") == 0  # pausing is for admins
    console.goto(f"#/jobs/{own.jobs_made['outside']['id']}")
    console.says("Not found")
    console.press_button("Sign out")
    sign_in(console, tokens["admin"])
    console.goto("#/topics/in.side")
    console.browser.sees(role="button", name="Pause")


def test_two_clicks_lead_from_the_overview_to_the_reason_of_a_held_job(console_of, guarded):
    own, tokens = guarded
    admin = Rest(own.url, token=tokens["admin"])
    assert admin.put("/v1/topics/in.late", {"paused": True}).status == 201
    admin.make(topic="in.late", key="tardy", delay=0)
    console = console_of(own.url).open()
    sign_in(console, tokens["admin"])
    console.browser.sees(css="tr:has-text('in.late') .flag:has-text('paused')")
    console.browser.sees(css="[aria-label='What is wrong'] .bad:has-text('dispatchers')")  # this database has none
    console.browser.misses(css="[aria-label='What is wrong'] details li:has-text('shard 0')")  # folded below its cause
    console.browser.click(css="[aria-label='What is wrong'] summary:has-text('consequence')")
    console.browser.sees(css="[aria-label='What is wrong'] details li:has-text('shard 0')")
    console.is_sound()
    console.browser.click(css="tr:has-text('in.late') a:has-text('1 held')")
    console.browser.click(css="a.row:has-text('tardy')")
    console.browser.sees(css=".reason.warn:has-text('paused') .to-do")
    console.browser.sees(css="[aria-label='What affects this job'] dt:has-text('Shard')")
    console.is_sound()
    console.press_button("Sign out")
    sign_in(console, tokens["bound"])
    console.goto("#/overview")
    console.says("The token may not read the whole installation")
    admin.close()


def test_the_overview_shows_throughput_backlog_forecast_and_server_states(console, api, held):
    api.batch([{"topic": held, "delay": 0} for _ in range(400)])  # so many that its topic stands among the first
    console.open("#/overview")
    for figure in ("overdue", "lateness p99", "created", "dispatched", "succeeded", "failed", "dead", "scheduled"):
        console.browser.sees(css=f".figure .name:text-is('{figure}')")
    for panel in ("Throughput in the last hour (jobs/s)", "Lateness in the last hour", "Due in the next hour"):
        console.browser.sees(css=f"[aria-label='{panel}'] .chart canvas")
    console.browser.sees(css=f"table[aria-label=Topics] tr:has-text('{held}') td[data-label=Overdue]:has-text('400 held')")
    for part in ("MySQL", "Redis", "Kafka", "ZooKeeper"):
        console.browser.sees(css=f"[aria-label=Parts] div:has(dt:text-is('{part}')) .state.done:has-text('ok')")
    console.browser.sees(css="table[aria-label=Shards] tr:nth-child(2) td[data-label=Health] .state.done:has-text('ok')")
    api.post("/v1/jobs:cancel", {"filter": {"topic": held}})


def test_late_jobs_are_listed_as_they_become_late(console, api, held):
    api.make(topic=held, key="first", delay=0)
    console.open(f"#/jobs?topic={held}&state=scheduled&run_to=now")
    console.browser.sees(css="a.row:has-text('first')")
    api.make(topic=held, key="second", delay=0)
    console.browser.sees(css="a.row:has-text('second')")
    assert console.view().endswith("run_to=now")


def test_every_page_can_be_reached_by_keyboard(console, api, held):
    for n in range(3):
        api.make(topic=held, key=f"k{n}", delay="PT1H")
    console.open(f"#/jobs?topic={held}&key_prefix=k")
    console.browser.sees(role="link", name="k2")
    console.browser.press(keys=["j", "j", "j", "k"])
    assert console.browser.focused().startswith("k1")
    console.browser.press(keys=["Enter"])
    console.browser.sees(css="h1:has-text('k1')")
    console.browser.press(keys=["g", "t"])
    console.browser.sees(css="h1:has-text('Topics')")
    console.browser.press(keys=["?"])
    console.says("find a job")
    console.browser.press(keys=["Escape"])
    console.browser.misses(css="dialog")
    until(lambda: console.browser.press(keys=["/"]) or console.browser.focused() == "words", "the search has the focus")


@pytest.mark.parametrize("width", [1280, 360])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_every_page_passes_the_accessibility_check(console, api, held, dark, width):
    job = api.make(topic=held, key="k" * 200, delay=0, payload={"long": "x" * 500})
    console.open(VIEWS[0], dark=dark, width=width)
    for view in [*VIEWS, f"#/jobs?topic={held}", f"#/jobs/{job['id']}", f"#/topics/{held}", "#/nothing"]:
        console.goto(view)
        console.browser.sees(css="h1")
        console.browser.misses(css="[role=status]:has-text('Loading')")
        console.is_sound()
    light = console.browser.styles(css="body", property="backgroundColor") == "rgb(255, 255, 255)"
    assert light is not dark


def test_the_first_page_sends_its_requests_at_once_and_none_twice(console):
    """Nothing is answered before all of it has been asked for; what waited for an answer before it asks would not come."""
    shown = ["/v1/overview", "/v1/forecast", "/v1/series", "/v1/doctor", "/v1/caller", "/v1/alerts"]
    console.open(together=shown)
    console.browser.sees(css="a.figure:has-text('overdue')")
    console.browser.sees(css="[aria-label='Due in the next hour']")
    asked = [(path, start, end) for path, start, end in console.browser.asked() if path in shown]
    answered = min(end for _, _, end in asked)
    at_once = [path for path, start, _ in asked if start < answered]
    assert set(at_once) == set(shown)
    assert [at_once.count(path) for path in ("/v1/overview", "/v1/forecast", "/v1/doctor", "/v1/alerts")] == [1, 1, 1, 1]

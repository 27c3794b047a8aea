"""What holds of every client, as one table: a row is a thing that networks, servers and processes do, and runs for each language or says why it
does not apply. A language has one program for it (`rows`, beside its tests), which does what it is told, a call a line, and says what came of it.
"""
import json
import re
import subprocess
from dataclasses import dataclass, field

from ..secured.certificates import Authority
from ..stack import until
from .doubles import Api, Proxy
from .languages import CLIENTS

FAR = "duetime.test"  # a host that only the proxy knows


class Caller:
    """One run of a language's program: `ask` gives what came of a call, {"error": kind} included."""

    def __init__(self, programs, url, **variables):
        if url != programs.env.get("DUETIME_URL"):
            variables = {"DUETIME_URL": url, "DUETIME_CA_FILE": "", **variables}
        with open(programs.effects.with_suffix(".out"), "ab") as said:
            self.process = subprocess.Popen(programs.language.rows, cwd=programs.folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said,
                                            text=True, env={**programs.env, **variables})
        programs.running.append(self.process)
        self.programs = programs

    def tell(self, call, **members):
        self.process.stdin.write(json.dumps({"call": call, "topic": "t", **members}) + "\n")
        self.process.stdin.flush()

    def go_on(self):
        """The program waits for this in the midst of a call."""
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def told(self):
        line = self.process.stdout.readline()
        assert line, self.programs.said()
        told = json.loads(line)
        return {**told, "error": re.sub(r"^Err|(Error|Exception)$", "", told["error"])} if "error" in told else told

    def ask(self, call, **members):
        self.tell(call, **members)
        return self.told()

    def end(self):
        self.process.stdin.close()
        assert self.process.wait(60) == 0, self.programs.said()


@dataclass(frozen=True)
class Row:
    run: object  # run(programs, rest, topic, folder)
    not_for: dict = field(default_factory=dict)  # language: why

    def __str__(self):
        return self.run.__name__


# ---- workers ----

def workers_get_their_own_answers_and_make_every_job(programs, rest, topic, _):
    """Two processes of a client that the parent has used: as gunicorn --preload, Celery's prefork, PHP's pcntl_fork and Node's cluster have them."""
    for keys in ({}, {"DUETIME_MAKE_KEYS": "1"}):
        caller = Caller(programs, programs.env["DUETIME_URL"], **keys)
        ours = f"{topic}-{len(keys)}"
        first = caller.ask("create", topic=ours)["id"]
        assert caller.ask("get", id=first)["id"] == first
        told = caller.ask("workers", topic=ours, count=2, calls=100)
        assert told["wrong"] == [], told
        assert len(set(told["made"])) == 200, f"{len(set(told['made']))} different jobs of 200 creates"
        assert caller.ask("get", id=first)["id"] == first and caller.ask("create", topic=ours)["id"] not in told["made"]
        caller.end()
        assert rest.get(f"/v1/topics/{ours}").json["counts"]["scheduled"] == 202


def lines_that_wait_at_a_fork_are_sent_once_and_end_in_the_child(programs, _rest, _topic, _folder):
    with Api() as api:
        api.hold.clear()
        caller = Caller(programs, api.url)
        caller.tell("fork")
        until(lambda: api.asked or programs.name == "php", "a line is on its way; PHP sends nothing before it is asked for the answer")
        caller.go_on()
        assert caller.told() == {"child": ["OutcomeUnknown"] * 2}
        api.hold.set()
        assert caller.told() == {"parent": ["0", "1"]} or len(api.asked) == 2
        caller.end()
        assert sum(body.count(b"\n") for _, body in api.asked) == 2


# ---- the way to the API ----

def a_path_of_the_base_url_is_kept(programs, _rest, _topic, _folder):
    with Api() as api:
        for base in ("/gate/way", "/gate/way/"):
            caller = Caller(programs, api.url + base)
            assert caller.ask("create")["id"] == "0" and caller.ask("get", id="7")["id"] == "7" and caller.ask("report", id="7") == {"outcome": "applied"}
            caller.end()
        assert {path for path, _ in api.asked} == {"/gate/way/v1/jobs:batch", "/gate/way/v1/jobs/7", "/gate/way/v1/results"}


def an_api_by_ipv6_is_asked(programs, _rest, _topic, _folder):
    with Api("::1") as api:
        caller = Caller(programs, api.url)
        assert caller.ask("create")["id"] == "0" and caller.ask("get", id="7")["id"] == "7"
        caller.end()
        assert {head["host"] for head in api.heads} == {api.url.removeprefix("http://")}


def the_proxy_of_the_environment_is_asked(programs, _rest, _topic, folder):
    authority = Authority(folder)
    for certificate in (None, authority.issue("far", f"DNS:{FAR}")):
        with Api(certificate=certificate) as api, Proxy(api.port) as proxy:
            scheme, port = ("https", 8443) if certificate else ("http", 8080)
            variables = {f"{scheme}_proxy": proxy.url, "DUETIME_CA_FILE": str(authority.file) if certificate else "",
                         "JAVA_TOOL_OPTIONS": f"-D{scheme}.proxyHost=127.0.0.1 -D{scheme}.proxyPort={proxy.url.rpartition(':')[2]}"}  # Java reads these
            caller = Caller(programs, f"{scheme}://{FAR}:{port}/gate", **variables)
            assert caller.ask("create")["id"] == "0" and caller.ask("get", id="7")["id"] == "7"
            caller.end()
            assert {path for path, _ in api.asked} == {"/gate/v1/jobs:batch", "/gate/v1/jobs/7"}
            assert proxy.asked and set(proxy.asked) <= {f"{FAR}:{port}"}
            if not certificate:
                asked = len(proxy.asked)
                direct = Caller(programs, api.url, no_proxy="127.0.0.1,elsewhere", **variables)
                assert direct.ask("get", id="7")["id"] == "7" and len(proxy.asked) == asked
                direct.end()


def a_kept_connection_that_was_closed_leaves_nothing_in_doubt(programs, _rest, _topic, _folder):
    with Api() as api:
        caller = Caller(programs, api.url)
        for _ in range(5):
            assert caller.ask("create") == {"id": "0"} and caller.ask("get", id="7") == {"id": "7"}
            api.end_connections()
        caller.end()
        assert len(api.asked) == 10


def calls_wait_for_a_server_that_restarts(programs, _rest, _topic, _folder):
    with Api() as api:
        caller = Caller(programs, api.url)
        for key in (None, "k"):
            assert caller.ask("create", key=key) == {"id": "0"}
            for call in ("create", "get"):
                api.stop()
                caller.tell(call, key=key, id="7")
                api.start()
                assert caller.told() == {"id": "7" if call == "get" else "0"}
        caller.end()


def a_call_that_is_given_up_ends_and_the_next_has_its_own_answer(programs, _rest, _topic, _folder):
    with Api() as api:
        caller = Caller(programs, api.url, DUETIME_TIMEOUT="60000")
        assert caller.ask("get", id="7") == {"id": "7"}
        api.hold.clear()
        caller.tell("give_up")
        until(lambda: len(api.asked) == 2, "the pop is on its way")
        caller.go_on()
        assert caller.told() == {"gave_up": True}
        until(lambda: api.left, "the server sees that the caller has left")
        api.hold.set()
        assert [caller.ask("get", id=str(n)) for n in range(5)] == [{"id": str(n)} for n in range(5)]
        caller.end()


# ---- values ----

DIGITS = ["9007199254740993", "9223372036854775807", "-9223372036854775808", "18446744073709551617"]


def integers_keep_all_digits(programs, rest, topic, _):
    caller = Caller(programs, programs.env["DUETIME_URL"])
    told = caller.ask("big", topic=topic)
    caller.end()
    assert told["digits"] == DIGITS, told
    sent = re.search(rb'"payload":\[(.*?)\]', rest.get(f"/v1/jobs/{told['id']}").body).group(1).decode()
    assert [one.strip().strip('"') for one in sent.split(",")] == DIGITS, sent
    assert programs.name == "php" or '"' not in sent, "PHP has no integers beyond 64 bits, and gives their digits"


# (status, the problem's last segment, kind); clients whose kinds are fewer have the second name
ERRORS = [(400, "malformed", "Invalid"), (413, "too-large", "Invalid"), (415, "media", "Invalid"), (422, "invalid", "Invalid"),
          (401, "unauthorized", "Unauthorized|Forbidden"), (403, "forbidden", "Forbidden"), (404, "not-found", "NotFound"), (409, "key-conflict", "KeyConflict"),
          (409, "too-late", "TooLate"), (409, "not-pull", "Conflict"), (412, "version", "VersionMismatch|Conflict"), (429, "quota-exceeded", "Unavailable"),
          (503, "unavailable", "Unavailable"), (408, "timeout", "Unavailable"), (503, "outcome-unknown", "OutcomeUnknown"), (502, "", "OutcomeUnknown"),
          (504, "", "OutcomeUnknown"), (301, "", "Problem|Duetime"), (500, "internal", "Problem|Duetime")]
CLASSES = {"go": ("go/errors.go", r"\tErr(\w+) +="), "java": ("java/src/main/java/duetime/client/DuetimeException.java", r"class (\w+) extends DuetimeException"),
           "node": ("node/src/errors.js", r"class (\w+)Error extends DuetimeError"), "python": ("python/duetime/errors.py", r"class (\w+)\("),
           "php": ("php/src/Exception", None)}


def kinds_of(language):
    """The error classes of a client, with the one of other refusals."""
    path, pattern = CLASSES[language]
    names = re.findall(pattern, (CLIENTS / path).read_text()) if pattern else [one.stem for one in (CLIENTS / path).iterdir()]
    return {name for name in names if not name.startswith("Duetime")} | {"Problem" if language in ("go", "php", "python") else "Duetime"}


def every_refusal_is_an_error_of_its_kind(programs, _rest, _topic, _folder):
    seen = set()
    kinds = kinds_of(programs.name)
    with Api() as api:
        caller = Caller(programs, api.url, DUETIME_TIMEOUT="1000")
        assert caller.ask("get", id="7") == {"id": "7"}
        for status, slug, names in ERRORS:
            wanted = next(name for name in names.split("|") if name in kinds)
            problem = {"type": f"/problems/{slug}", "title": "no", "status": status}
            line = (200, json.dumps(problem).encode() + b"\n")
            for call, answer in (("get", (status, json.dumps(problem).encode())), ("create", (status, json.dumps(problem).encode())), ("create", line)):
                api.answer = answer
                until(lambda call=call, wanted=wanted: caller.ask(call, id="7")["error"] == wanted,  # a late answer on a busy machine is in doubt
                      f"{status} {slug} to {call} is {wanted}")
                seen.add(wanted)
        caller.end()
    assert kinds <= seen, f"no row makes {kinds - seen}"


NO_FORK = "its processes begin with exec, and inherit neither connections nor threads"

ROWS = [
    Row(workers_get_their_own_answers_and_make_every_job, {"go": NO_FORK, "java": NO_FORK}),
    Row(lines_that_wait_at_a_fork_are_sent_once_and_end_in_the_child, {"go": NO_FORK, "java": NO_FORK, "node": NO_FORK}),
    Row(a_path_of_the_base_url_is_kept),
    Row(an_api_by_ipv6_is_asked),
    Row(the_proxy_of_the_environment_is_asked),
    Row(a_kept_connection_that_was_closed_leaves_nothing_in_doubt),
    Row(calls_wait_for_a_server_that_restarts),
    Row(a_call_that_is_given_up_ends_and_the_next_has_its_own_answer,
        {"php": "PHP does one thing at a time: nothing can give up a call but its deadline, of which its own tests are"}),
    Row(integers_keep_all_digits),
    Row(every_refusal_is_an_error_of_its_kind),
]

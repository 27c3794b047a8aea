"""However a batch ends, it answers for what it made, and its place, its threads and its memory come back."""
import concurrent.futures
import contextlib
import json
import select
import threading
import time

import pytest

from harness.raw import Raw
from harness.rest import Rest
from harness.stack import until

pytestmark = pytest.mark.in_turns(3)

FAR = 300 * 86400000
AT_REST = ("duetime_api_batch_rows", "duetime_api_batches_waiting", "duetime_api_batches", "duetime_api_turns",
           "duetime_api_workers_queued", "duetime_api_workers_busy", "duetime_api_queue_jobs")


def gauges(rest):
    return {name: rest.metric(name) for name in AT_REST + ("duetime_api_held_bytes",)}


def at_rest(own):
    """Every place, worker and byte is back."""
    until(lambda: not any(gauges(own.rest).values()), lambda: str(gauges(own.rest)))


def line(topic, **more):
    return json.dumps({"topic": topic, "delay": FAR, **more}).encode() + b"\n"


def begin_lines(api, body, length=None, path="/v1/jobs:batch", media="application/x-ndjson"):
    wire = Raw(api.url)
    return wire.request(f"POST {path}", f"Content-Type: {media}", f"Content-Length: {length or len(body)}", body=body)


def results(answer):
    assert answer, "the connection ended without an answer"
    status, headers, body = answer
    assert status == 200, answer
    assert headers["content-type"] == "application/x-ndjson" and headers["x-request-id"]
    return [json.loads(text) for text in body.splitlines()]


def answered_by_now(wires):
    return len(select.select([wire.socket for wire in wires], [], [], 0)[0])


def answer_of(wire):
    """Returns None if the server or the client ran out of time."""
    with contextlib.suppress(ConnectionError, AssertionError):
        return wire.answer()
    return None


def true_of(own, topic, answered, lost=0):
    """Exactly the jobs answered with 201 exist; `lost` lines had no answer."""
    made = {int(result["id"]) for result in answered if result["status"] == 201}
    unknown = lost + sum(result["type"].endswith("outcome-unknown") for result in answered if "type" in result)
    there = {row["id"] for row in own.rows("SELECT id FROM jobs WHERE topic = %s", topic)}
    assert made <= there and len(there) <= len(made) + unknown, (len(made), len(there), unknown)
    return len(made)


def no_job_was_made(result):
    return result["status"] in (408, 503) and result["type"].startswith("/problems/") and "no job was created" in result["detail"]


def stops(own, topic):
    body = line(topic) * 1500
    with begin_lines(own, body + line(topic)[:9], length=len(body) * 2) as wire:
        answered = results(wire.answer())
        assert wire.closed()
    assert len(answered) == 1501
    assert all(result["status"] == 201 for result in answered[:1000])
    assert all(result["status"] == 201 or no_job_was_made(result) for result in answered)
    assert answered[-1]["status"] == 408 and answered[-1]["detail"].endswith("no job was created from here on")
    assert true_of(own, topic, answered) >= 1000


def drips(own, topic):
    body = line(topic) * 1000
    with begin_lines(own, body, length=len(body) + 10**6) as wire:
        ended = threading.Event()

        def drip():
            while not ended.wait(0.05):
                with contextlib.suppress(OSError):
                    wire.send(line(topic))

        dripping = threading.Thread(target=drip)
        dripping.start()
        try:
            answered = results(wire.answer())
        finally:
            ended.set()
            dripping.join()
    assert answered[-1]["status"] == 408 and answered[0]["status"] == 201
    true_of(own, topic, answered)


def is_no_batch(own, _topic):
    with Raw(own.url) as wire:
        status, headers, body = wire.request("POST /v1/jobs", "Content-Type: application/json", "Content-Length: 100", "X-Request-Id: late-1",
                                             body=b'{"topic":').answer()
        assert (status, headers["content-type"], headers["x-request-id"]) == (408, "application/problem+json", "late-1")
        assert json.loads(body)["request_id"] == "late-1"


RESULT = json.dumps({"job_id": "7", "attempt": 1, "status": "succeeded"}).encode()


def has_results(own, _topic):
    with begin_lines(own, (RESULT + b"\n") * 1000, 65000 * 2, "/v1/results") as wire:
        answered = results(wire.answer())
    assert len(answered) == 1001 and answered[-1]["status"] == 408, answered[-1]


def test_if_a_body_stops_or_drips_the_answer_covers_the_lines_that_arrived(own_apis, topic):
    """The body stops, drips, is no batch, or has results. All run at once and last long enough for the server to process what arrived."""
    own = own_apis.beside("late", {"http.request_timeout": "PT8S"})
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for each in [pool.submit(body, own, f"{topic}.{body.__name__}") for body in (stops, drips, is_no_batch, has_results)]:
            each.result()
    at_rest(own)


def test_a_client_that_stops_sending_but_keeps_reading_learns_which_jobs_were_created(plain, topic):
    body = line(topic) * 1000
    with begin_lines(plain, body, length=len(body) * 2) as wire:
        wire.socket.shutdown(1)
        answered = results(wire.answer())
    assert [result["status"] for result in answered] == [201] * 1000 + [400]
    assert true_of(plain, topic, answered) == 1000
    at_rest(plain)


def all_answered(own, topic, answers):
    """Each batch gets an answer for each line, or one for the whole batch if its head was already late."""
    lost = answers.count(None)
    answered = [results(answer) for answer in answers if answer and answer[0] not in (408, 503)]
    assert all(len(each) <= 1301 for each in answered) and lost < len(answers)
    true_of(own, topic, [result for each in answered for result in each], lost * 1301)
    at_rest(own)
    until(lambda: own.rest.post("/v1/jobs", {"topic": topic, "delay": FAR}).status == 201, own.log)
    assert own.end() == 0


@pytest.mark.in_turns(2)
@pytest.mark.parametrize("seconds", [8, 60])
def test_two_hundred_queued_batches_are_all_answered_when_mysql_pauses(stack, own_apis, topic, seconds):
    """With eight seconds, the batches time out while they are queued."""
    own = own_apis.beside(f"line{seconds}", {"http.request_timeout": f"PT{seconds}S"})
    body = line(topic) * 1300
    half = len(body) // 2
    with contextlib.ExitStack() as wires, concurrent.futures.ThreadPoolExecutor(200) as pool:
        begun = time.monotonic()
        open_ones = [wires.enter_context(begin_lines(own, body[:half], length=len(body))) for _ in range(200)]
        time.sleep(max(0, 6.5 - (time.monotonic() - begun)) if seconds == 8 else 0)   # so that they time out during the pause
        with stack.stopped("mysql"):
            sent = [pool.submit(wire.send, body[half:]) for wire in open_ones]
            time.sleep(1.9)  # the pause
        for future in sent:
            with contextlib.suppress(ConnectionError):
                future.result()
        answers = list(pool.map(answer_of, open_ones))
    all_answered(own, topic, answers)


@pytest.mark.in_turns(3)
def test_two_hundred_batches_with_short_deadlines_are_all_answered_when_mysql_pauses(stack, own_apis, topic):
    own = own_apis.beside("brief", {"http.request_timeout": "PT1S"})
    body = line(topic) * 1300

    def ask(_):
        with contextlib.suppress(ConnectionError):
            with begin_lines(own, body) as wire:
                return answer_of(wire)

    with concurrent.futures.ThreadPoolExecutor(200) as pool:
        with stack.stopped("mysql"):
            asked = [pool.submit(ask, n) for n in range(200)]
            time.sleep(1.9)  # the pause
        all_answered(own, topic, [future.result() for future in asked])


@pytest.mark.in_turns(3)
def test_batches_in_every_state_are_answered_when_the_server_shuts_down(plain, topic):
    body = line(topic) * 1500
    array = json.dumps([{"topic": topic, "delay": FAR}] * 30000).encode()
    before = plain.jobs()
    with contextlib.ExitStack() as wires, concurrent.futures.ThreadPoolExecutor(40) as pool:
        stalled = [wires.enter_context(begin_lines(plain, body, length=2 * len(body))) for _ in range(10)]
        open_one = wires.enter_context(Raw(plain.url))
        open_one.request("POST /v1/jobs", "Content-Type: application/json", "Content-Length: 100", body=b'{"topic":')
        silent = wires.enter_context(Raw(plain.url))
        until(lambda: plain.jobs() >= before + 10000, plain.log)
        arrays = [pool.submit(Rest(plain.url).post, "/v1/jobs:batch", array) for _ in range(8)]
        until(lambda: gauges(plain.rest)["duetime_api_batches"] >= 12, lambda: str(gauges(plain.rest)))
        ended = pool.submit(plain.end)
        for wire in stalled:
            answered = results(wire.answer())
            assert answered[-1]["status"] == 503 and answered[-1]["detail"].endswith("no job was created from here on")
            assert all(result["status"] == 201 for result in answered[:1000])
        assert open_one.answer()[0] == 503
        for answer in (future.result() for future in arrays):
            assert answer.status == 200 and len(answer.json) == 30000, answer
            assert all(result["status"] == 201 or no_job_was_made(result) for result in answer.json)
        assert silent.closed()
        assert ended.result() == 0


@pytest.mark.in_turns(3)
def test_the_server_shuts_down_even_if_mysql_hangs(stack, own_apis, topic):
    own = own_apis.beside("hanging", {"api.database_timeout": "PT3S"})
    body = line(topic) * 3000
    array = json.dumps([{"topic": topic, "delay": FAR}] * 5000).encode()
    with contextlib.ExitStack() as wires, concurrent.futures.ThreadPoolExecutor(40) as pool:
        with stack.stopped("mysql"):
            whole = [wires.enter_context(begin_lines(own, body)) for _ in range(30)]
            arrays = [pool.submit(Rest(own.url).post, "/v1/jobs:batch", array) for _ in range(8)]
            until(lambda: gauges(own.rest)["duetime_api_batches"] + answered_by_now(whole) + sum(each.done() for each in arrays) >= 38, lambda: str(gauges(own.rest)))
            begun = time.monotonic()
            assert own.end() == 0
            seconds = time.monotonic() - begun
        answers = [answer_of(wire) for wire in whole]
        assert all(future.result().status == 200 for future in arrays)
    lost = answers.count(None)
    assert lost == 0 or seconds > 9, "at shutdown the server waits ten seconds for requests"
    answered = [result for answer in answers if answer for result in results(answer)] + [result for future in arrays for result in future.result().json]
    true_of(own, topic, answered, lost * 3000)


@pytest.mark.in_turns(3)
def test_queued_arrays_occupy_no_worker(plain, topic):
    """A job is read several times while all arrays are queued. This may need several tries if the test itself gets no core."""
    job = plain.rest.make(topic=topic, delay=FAR)
    array = json.dumps([{"topic": topic, "delay": FAR, "payload": "x" * 100}] * 10000).encode()

    def read_meanwhile():
        with concurrent.futures.ThreadPoolExecutor(12) as pool:
            arrays = [pool.submit(Rest(plain.url).post, "/v1/jobs:batch", array) for _ in range(12)]
            until(lambda: gauges(plain.rest)["duetime_api_batches"] >= 9, lambda: str(gauges(plain.rest)))
            looks = 0
            while not any(future.done() for future in arrays):
                assert plain.rest.get(f"/v1/jobs/{job['id']}").status == 200
                looks += not any(future.done() for future in arrays)
        assert all(result["status"] == 201 for future in arrays for result in future.result().json)
        return looks > 2
    until(read_meanwhile, "the job is read while arrays are in line")
    at_rest(plain)


@pytest.mark.parametrize("path, media", [("/v1/jobs:batch", "application/x-ndjson"), ("/v1/jobs:batch", "application/json"),
                                         ("/v1/results", "application/x-ndjson"), ("/v1/results", "application/json"), ("/v1/commands", "application/json")])
def test_clients_that_disconnect_silently_leave_no_resources_behind(stack, plain, topic, path, media):
    """Half of them go in the middle of their bodies, half when all is sent and waits for MySQL."""
    element = {"/v1/jobs:batch": {"topic": topic, "delay": FAR}, "/v1/results": {"job_id": "7", "attempt": 1, "status": "succeeded"},
               "/v1/commands": {"command": "finish", "id": "7"}}[path]
    whole, body = [], (json.dumps(element).encode() + b"\n") * 1000 if media.endswith("ndjson") else json.dumps([element] * 1000).encode()
    with stack.stopped("mysql"):
        with contextlib.ExitStack() as wires:
            for _ in range(4):
                wires.enter_context(begin_lines(plain, body[:len(body) // 2], len(body), path, media))
                whole.append(wires.enter_context(begin_lines(plain, body, len(body), path, media)))
            busy = "duetime_api_workers_busy" if path == "/v1/commands" else "duetime_api_batches"
            until(lambda: gauges(plain.rest)[busy] + answered_by_now(whole) >= 4, lambda: str(gauges(plain.rest)))
    at_rest(plain)
    until(lambda: plain.rest.post("/v1/jobs", {"topic": topic, "delay": FAR}).status == 201, plain.log)


def test_results_and_commands_release_all_resources_however_they_end(plain, topic):
    lines, array = (RESULT + b"\n") * 1000, b"[" + b",".join([RESULT] * 1000) + b"]"
    commands = [{"command": "add", "topic": topic, "id": f"{topic}-1", "delay": 3600}, {"command": "delete", "id": f"{topic}-1"}, {"command": "finish", "id": f"{topic}-2"}]
    for path, body in (("/v1/results", array), ("/v1/results", array[:-1]), ("/v1/commands", commands), ("/v1/commands", json.dumps(commands)[:-1])):
        assert plain.rest.post(path, body).status == (200 if body in (array, commands) else 400)
        at_rest(plain)
    for length, last in ((1, 404), (2, 400)):   # complete, and closed by the client
        with begin_lines(plain, lines, length * len(lines), "/v1/results") as wire:
            if length == 2:
                wire.socket.shutdown(1)
            answered = results(wire.answer())
        assert len(answered) == 999 + length and answered[-1]["status"] == last
        at_rest(plain)


class Commands:
    """An array: an add, a delete, adds of ids that somebody else holds, which keep it a second each, then a delete and an add."""

    def __init__(self, own, topic, seconds):
        self.own, self.topic = own, topic
        for name in ("early", "late"):
            assert own.rest.post("/v1/commands", self._add(name)).json["success"]
        self.array = [self._add("first"), self._of("delete", "early")]
        for n in range(seconds):   # what stands between them keeps each in a transaction of its own
            self.array += [self._add(f"held{n}"), self._of("finish", "nothing")]
        self.array += [self._of("delete", "late"), self._add("last")]
        self.held = [f"{topic}-held{n}" for n in range(seconds)]

    def _of(self, command, name):
        return {"command": command, "id": f"{self.topic}-{name}"}

    def _add(self, name):
        return {**self._of("add", name), "topic": self.topic, "delay": 3600}

    def send(self):
        with contextlib.closing(self.own.connect()) as holder, holder.cursor() as cursor:
            holder.begin()
            cursor.executemany("INSERT INTO command_ids (id, job_id) VALUES (%s, 1)", [(one,) for one in self.held])
            return Rest(self.own.url).post("/v1/commands", self.array)

    def there(self):
        rows = self.own.rows("SELECT job_key, state FROM jobs WHERE topic = %s", self.topic)
        return {row["job_key"].decode().removeprefix(f"{self.topic}-"): row["state"] for row in rows}

    def done(self, answer):
        """Those that were carried out. Each command is told, by its id, and what is told is what is there."""
        assert answer.status == 200 and [one["id"] for one in answer.json] == [one["id"] for one in self.array], answer
        assert all(one["success"] or one["error"] for one in answer.json)
        done = {one["id"].removeprefix(f"{self.topic}-") for one in answer.json if one["success"]}
        assert self.there() == {**dict.fromkeys(done, "scheduled"), **{name: "cancelled" if name in done else "scheduled" for name in ("early", "late")}}
        return done


def test_an_array_of_commands_reports_those_that_were_done_before_its_deadline(own_apis, topic):
    own = own_apis.beside("commanded", {"http.request_timeout": "PT6S"})
    commands = Commands(own, topic, seconds=6)
    assert commands.done(commands.send()) == {"first", "early"}
    at_rest(own)


@pytest.mark.in_turns(3)
def test_an_array_of_commands_reports_those_that_were_done_before_the_server_stopped(plain, topic):
    """The server gives requests ten seconds, then ends its committers, and its workers after them."""
    commands = Commands(plain, topic, seconds=20)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        answer = pool.submit(commands.send)
        until(lambda: "first" in commands.there(), commands.there)
        assert plain.end() == 0
    assert commands.done(answer.result()) - {"late"} == {"first", "early"}   # the delete may find a worker yet


def test_requests_that_wait_for_mysql_are_answered_at_their_deadline(stack, own_apis, topic):
    """All requests are answered except those in progress, which wait up to a minute for MySQL."""
    own = own_apis.beside("queued", {"http.request_timeout": "PT2S"})
    path = until(lambda: (answer := own.rest.put(f"/v1/topics/{topic}/jobs/k", {"delay": FAR})).status in (200, 201) and f"/v1/jobs/{answer.json['id']}", own.log)
    asks = [lambda rest: rest.post("/v1/jobs", {"topic": topic, "delay": FAR}), lambda rest: rest.get(path), lambda rest: rest.post(f"{path}/cancel"),
            lambda rest: rest.post(f"{path}/results", {"attempt": 1, "status": "succeeded"})]
    under_way = 30 + 8 + 1                                     # creates in the committers' batches, requests in workers, results
    with concurrent.futures.ThreadPoolExecutor(120) as pool:
        with stack.stopped("mysql"):
            asked = [pool.submit(ask, Rest(own.url)) for ask in asks * 30]
            until(lambda: sum(one.done() for one in asked) >= 120 - under_way, lambda: sum(one.done() for one in asked), seconds=5)
        assert {one.result().status for one in asked} <= {200, 201, 503}        # the first ones may finish before the signal
    at_rest(own)

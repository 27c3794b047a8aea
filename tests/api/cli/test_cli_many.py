"""Many jobs from the terminal: export, import, watching one until it is finished."""
import csv
import io
import json
import socket
import subprocess
import threading

import pytest

from harness.command_line import PROGRAM, run
from harness.stack import until


def ndjson(jobs):
    return "".join(json.dumps(job) + "\n" for job in jobs)


def sums(told):
    return {name: int(value) for name, value in told.rows}


# ---- import ----

def test_jobs_are_imported_once_however_often_they_are_sent(duetime, api, topic, swept):
    jobs = [{"topic": topic, "key": f"k{n}", "run_at": "2036-01-01T00:00:00Z", "payload": {"n": n}} for n in range(6001)]
    told = duetime("jobs", "import", stdin=ndjson(jobs) + "\n\n")
    assert told.code == 0 and sums(told) == {"made": 6001, "existing": 0, "refused": 0, "unknown": 0}, told
    again = duetime("jobs", "import", "-", "--json", stdin=ndjson(jobs))
    assert again.code == 0 and again.json == {"made": 0, "existing": 6001, "refused": 0, "unknown": 0}, again
    assert api.get(f"/v1/topics/{topic}").json["counts"]["scheduled"] == 6001


def test_refused_lines_are_reported_by_number_and_the_others_are_imported(duetime, api, topic, tmp_path):
    path = tmp_path / "jobs.ndjson"
    path.write_text(ndjson([{"topic": topic, "delay": "P1D"}, {"topic": topic, "delay": "soon"}]) + "\nnonsense\n" + ndjson([{"topic": topic, "delay": "P1D", "key": "last"}]))
    told = duetime("jobs", "import", path)
    assert told.code == 1 and sums(told) == {"made": 2, "existing": 0, "refused": 2, "unknown": 0}, told
    assert "line 2: /delay: " in told.err and "line 4: " in told.err, told
    assert api.get(f"/v1/topics/{topic}/jobs/last").status == 200


def test_if_very_many_lines_are_refused_some_are_shown_and_all_are_counted(duetime, topic):
    told = duetime("jobs", "import", stdin=ndjson([{"topic": topic, "delay": "soon"}] * 30))
    assert told.code == 1 and sums(told)["refused"] == 30, told
    assert told.err.count(": /delay: ") == 20 and told.err.count("further lines that fail are counted, but not shown") == 1, told


def test_import_sends_small_batches_to_an_api_that_allows_no_larger_ones(small, topic):
    told = run("jobs", "import", "--json", "--url", small.url, stdin=ndjson({"topic": topic, "delay": "P1D"} for _ in range(95)))
    assert told.code == 0 and told.json == {"made": 95, "existing": 0, "refused": 0, "unknown": 0}, told


def test_csv_is_imported_by_the_names_of_its_first_line(duetime, api, topic, tmp_path):
    out = io.StringIO()
    rows = [["topic", "key", "delay", "payload", "retry", "headers"],
            [topic, 'a"b,c\nd', "P1D", '{"text": "x, \\"y\\"",\n "n": 1}', "1s, 2m", '{"h":"v"}'], [topic, "ü", "P2D", "", "", ""]]
    csv.writer(out).writerows(rows)
    path = tmp_path / "jobs.csv"
    path.write_text(out.getvalue(), newline="")
    told = duetime("jobs", "import", path)
    assert told.code == 0 and sums(told)["made"] == 2, told
    first, second = sorted(api.list(topic=topic, include="payload"), key=lambda job: job["key"])
    assert (first["key"], first["payload"], first["retry"], first["headers"]) == ('a"b,c\nd', {"text": 'x, "y"', "n": 1}, ["1s", "2m"], {"h": "v"})
    assert second["key"] == "ü" and second["payload"] is None


@pytest.mark.parametrize("text, hint", [('topic,key\n"a', "line 2 is not valid CSV"), ("topic,,key\n", "no name"), ("topic\na,b\n", "more cells"), ('topic\na"b\n', "line 2 is not valid CSV")])
def test_an_invalid_csv_file_is_refused(duetime, text, hint):
    told = duetime("jobs", "import", "--format", "csv", stdin=text)
    assert told.code == 2 and hint in told.err, told


def test_a_missing_file_is_reported(duetime):
    told = duetime("jobs", "import", "/nonexistent/jobs")
    assert told.code == 2 and "/nonexistent/jobs" in told.err


def test_an_export_can_be_imported(duetime, api, topic, swept):
    other = topic + "-o"
    for job in ({"key": "a", "payload": {"x": [1]}, "headers": {"h": "v"}, "partition_key": "p", "retry": ["1s"], "ack_timeout": "PT9S"}, {"key": "b"},
                {"key": "c", "payload_base64": "AAE=", "content_type": "application/x"}):
        api.make(topic=topic, delay="P9D", **job)
    api.post(f"/v1/jobs/{api.make(topic=topic, delay='P9D')['id']}/cancel")
    exported = duetime("jobs", "export", "--topic", topic)
    assert exported.code == 0 and sorted(job["key"] for job in exported.lines) == ["a", "b", "c"], exported
    told = duetime("jobs", "import", stdin=exported.out.replace(topic, other))
    assert sums(told)["made"] == 3, told

    def settings(name):
        kept = ("key", "run_at", "payload", "payload_base64", "content_type", "headers", "partition_key", "retry", "ack_timeout")
        return sorted(([job.get(member) for member in kept] for job in api.list(topic=name, include="payload", state="scheduled")), key=repr)
    assert settings(other) == settings(topic)
    api.put(f"/v1/topics/{other}", {"paused": True})


class Cutting:
    """Forwards to the API; the first answer to a batch is lost, and the connection with it."""

    def __init__(self, url):
        self.target = int(url.rsplit(":", 1)[1])
        self.server = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.server.getsockname()[1]}"
        self.cuts = 1
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                client, _ = self.server.accept()
            except OSError:
                return
            threading.Thread(target=self.forward, args=(client,), daemon=True).start()

    def forward(self, client):
        with client, socket.create_connection(("127.0.0.1", self.target)) as api:
            threading.Thread(target=self.upwards, args=(client, api), daemon=True).start()
            while piece := api.recv(65536):
                if self.cuts:
                    self.cuts -= 1
                    client.shutdown(socket.SHUT_RDWR)
                    return
                client.sendall(piece)

    @staticmethod
    def upwards(client, api):
        try:
            while piece := client.recv(65536):
                api.sendall(piece)
        except OSError:
            pass


def test_a_lost_answer_neither_duplicates_nor_loses_jobs(api, stack, topic):
    cutting = Cutting(stack["DUETIME_URL_API1"])
    jobs = [{"topic": topic, "key": f"k{n}", "run_at": "2036-01-01T00:00:00Z"} for n in range(50)] + [{"topic": topic, "run_at": "2036-01-01T00:00:00Z"}]
    told = run("jobs", "import", "--url", cutting.url, "--json", stdin=ndjson(jobs))
    cutting.server.close()
    assert told.json == {"made": 0, "existing": 50, "refused": 0, "unknown": 1} and told.code == 1, told
    assert "line 51: it has no key" in told.err
    assert api.get(f"/v1/topics/{topic}").json["counts"]["scheduled"] == 51


# ---- watching ----

def test_a_job_is_watched_until_it_is_finished(duetime, api, topic):
    api.put(f"/v1/topics/{topic}", {"delivery": "pull"})
    job = api.make(topic=topic, key="k", delay=0)
    out = subprocess.Popen([PROGRAM, "jobs", "watch", topic, "k", "--interval", "20", "--json", "--url", api.url], stdout=subprocess.PIPE, text=True)
    first = json.loads(out.stdout.readline())
    assert first["id"] == job["id"] and first["state"] == "scheduled"
    until(lambda: api.post(f"/v1/topics/{topic}/pop", {"wait": "PT5S"}).json["jobs"], "the job is popped")
    assert json.loads(out.stdout.readline())["state"] == "dispatched"
    api.post(f"/v1/jobs/{job['id']}/results", {"attempt": 1, "status": "succeeded"})
    assert json.loads(out.stdout.readline())["state"] == "succeeded"
    assert out.wait(120) == 0 and out.stdout.read() == ""


def test_a_job_that_did_not_succeed_ends_the_watch_with_1(duetime, api, topic):
    job = api.make(topic=topic, delay="P1D")
    api.post(f"/v1/jobs/{job['id']}/cancel")
    told = duetime("jobs", "watch", job["id"])
    assert told.code == 1 and "cancelled" in told.rows[1], told
    assert duetime("jobs", "watch", "1").code == 3

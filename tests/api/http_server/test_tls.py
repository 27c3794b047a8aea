"""HTTP with TLS: who is served and who is not, certificates that change while requests are under way, and that no wall is lower behind it."""
import contextlib
import http.client
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import threading
import time

import pytest

from harness.command_line import run
from harness.h2 import H2
from harness.program import PATIENT, OwnApi
from harness.raw import Raw
from harness.rest import Rest
from harness.secured.certificates import Authority
from harness.stack import until

pytestmark = pytest.mark.in_turns(3)


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def stranger(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("stranger"), "stranger")


class Secured:
    """An API with a certificate, which is in files of its own that can be changed. All are of one installation."""

    def __init__(self, stack, folder, authority, settings, shared=True, variables=None):
        self.authority, self.folder = authority, folder
        self.cert, self.key = folder / "server.pem", folder / "server.key"
        self.good = authority.issue(folder.name)
        self.show(self.good)
        self.api = OwnApi(stack, folder, "secured", {"http.listen": "plain:127.0.0.1, tls:127.0.0.1", "http.tls_cert": self.cert, "http.tls_key": self.key,
                                                     **PATIENT, **settings}, shared=shared, variables=variables).start()
        self.port = self.api.listener("tls")
        self.url = f"https://127.0.0.1:{self.port}"

    def show(self, pair):
        """Its files hold another certificate; the key's comes second, as a person may do it."""
        for source, target in zip(pair, (self.cert, self.key)):
            fresh = target.with_suffix(".new")
            shutil.copy(source, fresh)
            os.replace(fresh, target)

    def present(self, pair):
        """New connections are shown this one."""
        self.show(pair)
        self.api.process.send_signal(signal.SIGHUP)
        until(lambda: self.shown() == serial(pair), self.api.log)

    def context(self, pair=None, most=None):
        context = ssl.create_default_context(cafile=self.authority.file)
        if most:
            context.minimum_version, context.maximum_version = ssl.TLSVersion.TLSv1, most
            context.set_ciphers("DEFAULT:@SECLEVEL=0")
        if pair:
            context.load_cert_chain(*pair)
        return context

    def rest(self, timeout=120, **options):
        return Rest(self.url, tls=self.context(**options), timeout=timeout)

    def wire(self):
        """A socket without TLS."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=120)

    def secure_wire(self):
        return self.context().wrap_socket(self.wire(), server_hostname="localhost")

    def shown(self):
        """The serial number of the certificate that a new connection is shown, good or not."""
        context = ssl._create_unverified_context()
        with context.wrap_socket(self.wire()) as wire:
            return serial_of(wire.getpeercert(binary_form=True))


@contextlib.contextmanager
def serving(*arguments, **options):
    server = Secured(*arguments, **options)
    try:
        yield server
    finally:
        assert server.api.end() == 0, server.api.log()[-3000:]


@pytest.fixture(scope="module")
def secured(stack, authority, tmp_path_factory):
    with serving(stack, tmp_path_factory.mktemp("secured"), authority, {}, shared=False) as server:
        yield server


@pytest.fixture(scope="module")
def narrow(stack, secured, authority, tmp_path_factory):
    """One HTTP thread, 40 connections that may wait, and five seconds for a handshake with the head after it."""
    settings = {"http.threads": 1, "http.waiting": 40, "http.head_timeout": "PT5S", "http.trusted_proxies": "127.0.0.2/32", "log.level": "debug"}
    with serving(stack, tmp_path_factory.mktemp("narrow"), authority, settings) as server:
        yield server


def serial_of(der):
    return subprocess.run(["openssl", "x509", "-inform", "der", "-noout", "-serial"], input=der, capture_output=True, check=True).stdout


def serial(pair):
    return serial_of(ssl.PEM_cert_to_DER_cert(pair[0].read_text()))


# ---- who is served ----

@pytest.mark.parametrize("most", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_large_and_small_requests_are_answered_on_one_tls_connection(secured, topic, most):
    rest = secured.rest(most=most)
    jobs = [{"topic": topic, "delay": "PT1H", "payload": "x" * 2000} for _ in range(1500)]  # more than all buffers between
    assert all(line["status"] == 201 for line in rest.batch(jobs))
    assert len(rest.list(topic=topic)) == 1500
    assert secured.api.rest.get("/openapi.yaml").body == rest.get("/openapi.yaml").body
    secured.api.rows("DELETE FROM jobs WHERE topic = %s", topic)


def test_older_versions_of_tls_are_refused(secured):
    with pytest.raises(ssl.SSLError):
        secured.rest(most=ssl.TLSVersion.TLSv1_1).get("/healthz")
    assert secured.rest().get("/healthz").status == 200


def test_a_client_notices_at_once_that_the_server_closed_its_connection(secured):
    """It need not say farewell first."""
    with secured.secure_wire() as wire:
        wire.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        while wire.recv(65536):
            pass
        begun = time.monotonic()
        with socket.socket(fileno=wire.detach()) as below:
            below.settimeout(60)
            assert below.recv(1) == b"" and time.monotonic() - begun < 30, "silence is ended after 75 seconds"


def test_a_client_that_does_not_speak_tls_gets_an_error(secured):
    with Raw(f"http://127.0.0.1:{secured.port}") as wire:
        status, headers, body = wire.request("GET /healthz").answer()
    assert status == 400 and "https" in json.loads(body)["detail"] and headers["x-request-id"]


def test_a_tls_client_of_a_listener_without_tls_is_refused(secured):
    plain = Rest(f"https://127.0.0.1:{secured.api.listener('plain')}", tls=secured.context())
    with pytest.raises(ssl.SSLError):
        plain.get("/healthz")


def test_malformed_requests_are_also_refused_with_a_text_over_tls(secured):
    with secured.secure_wire() as wire:
        wire.sendall(b"GET / HTTP/1.1\r\nbad header\r\n\r\n")
        answer = http.client.HTTPResponse(wire)
        answer.begin()
        assert answer.status == 400 and json.loads(answer.read())["type"] == "/problems/malformed"
        assert wire.recv(1) == b"", "and the connection has ended"


def test_the_expiry_of_the_certificate_is_reported(secured, api):
    left = secured.api.rest.metric("duetime_tls_certificate_expires_seconds")
    assert 29 * 86400 < left <= 30 * 86400
    assert secured.rest().get("/v1/info").json["tls"]["certificate_ends_at"].endswith("Z")
    assert api.get("/v1/info").json["tls"] is None


def test_a_certificate_that_expires_soon_is_a_finding_until_it_is_renewed(secured, authority):
    def told():
        found = secured.api.rest.get("/v1/doctor").json["findings"]
        return [each["detail"] for each in found if each["subject"] == "http.tls_cert"]
    secured.show(authority.issue("renewed", days=60))
    until(lambda: not told(), told)
    secured.show(authority.issue("ending", days=10))
    assert until(told, told)[0].startswith("the served certificate of the API expires in ")
    secured.show(authority.issue("renewed", days=60))
    until(lambda: not told(), told)
    secured.present(secured.good)


# ---- what clients refuse ----

@pytest.mark.parametrize("names, days, told", [("DNS:elsewhere.example", 30, "127.0.0.1"), ("IP:127.0.0.1", -1, "expired")], ids=["name", "expired"])
def test_the_command_line_refuses_an_invalid_certificate(secured, authority, names, days, told):
    pair, lines = authority.issue("bad", names, days), secured.api.log().count("the certificate has expired")
    secured.present(pair)
    answer = run("topics", "list", "--url", secured.url, "--ca-file", str(authority.file))
    secured.present(secured.good)
    assert answer.code == 4 and told in answer.err, answer
    assert (secured.api.log().count("the certificate has expired") > lines) == (days < 0)  # twice when a look at the file meets the signal
    assert run("topics", "list", "--url", secured.url, "--ca-file", str(authority.file)).code == 0


def test_the_command_line_refuses_an_unknown_authority(secured, stranger):
    assert "certificate" in (told := run("topics", "list", "--url", secured.url, "--ca-file", str(stranger.file))).err and told.code == 4
    variables = {"DUETIME_URL": secured.url, "DUETIME_CA_FILE": str(secured.authority.file)}
    assert run("topics", "list", variables=variables).code == 0


# ---- certificates of clients ----

@pytest.fixture(scope="module")
def choosy(stack, secured, authority, tmp_path_factory):
    """An API that asks its clients for a certificate."""
    with serving(stack, tmp_path_factory.mktemp("choosy"), authority, {"http.tls_client_ca": authority.file}) as server:
        yield server


def test_a_client_without_a_certificate_or_with_an_unknown_one_is_refused(choosy, authority, stranger):
    for pair in (None, stranger.issue("them"), authority.issue("late", days=-1)):
        with pytest.raises((ssl.SSLError, ConnectionError)):
            choosy.rest(pair=pair).get("/healthz")
    assert choosy.rest(pair=authority.issue("us")).get("/healthz").status == 200
    with H2(choosy.url, choosy.context(pair=authority.issue("we"))) as h2:
        assert h2.get("/healthz")[0] == 200
    until(lambda: choosy.api.rest.metric("duetime_tls_handshakes_total", outcome="failed") >= 3, "they are counted")


def test_the_command_line_shows_a_certificate(choosy, authority):
    cert, key = authority.issue("person")
    words = ["topics", "list", "--url", choosy.url, "--ca-file", str(authority.file)]
    assert run(*words, "--cert-file", str(cert), "--key-file", str(key)).code == 0
    assert (told := run(*words)).code == 4 and "certificate" in told.err, told


def test_if_client_certificates_are_optional_none_is_needed_and_an_unknown_one_is_refused(choosy, authority, stranger):
    """A setting that is read again on SIGHUP."""
    text = choosy.api.config.read_text()
    choosy.api.config.write_text(text.replace("[http]\n", "[http]\ntls_client_cert = optional\n"))
    choosy.present(authority.issue("lax"))
    assert choosy.rest().get("/healthz").status == 200
    with pytest.raises((ssl.SSLError, ConnectionError)):
        choosy.rest(pair=stranger.issue("other")).get("/healthz")
    assert choosy.rest(pair=authority.issue("known")).get("/healthz").status == 200
    choosy.api.config.write_text(text)
    choosy.present(authority.issue("strict"))
    with pytest.raises((ssl.SSLError, ConnectionError)):
        choosy.rest().get("/healthz")


# ---- another certificate ----

def test_new_connections_get_the_new_certificate_and_running_requests_are_not_dropped(secured, authority, topic):
    plain, answers = secured.api.rest, {}
    assert plain.put(f"/v1/topics/{topic}", {"delivery": "pull"}).status == 201
    kept = secured.rest()
    assert kept.get("/healthz").status == 200
    before = secured.shown()

    def wait():
        answers["pop"] = secured.rest().post(f"/v1/topics/{topic}/pop", {"wait": "PT1M"}).status

    waiting = threading.Thread(target=wait)
    upload = http.client.HTTPSConnection("127.0.0.1", secured.port, timeout=120, context=secured.context())
    upload.putrequest("POST", "/v1/jobs:batch")
    upload.putheader("Content-Type", "application/x-ndjson")
    upload.putheader("Transfer-Encoding", "chunked")
    upload.endheaders()
    line = (json.dumps({"topic": topic, "delay": "PT1H"}) + "\n").encode()
    upload.send(b"%x\r\n%s\r\n" % (len(line), line))
    waiting.start()
    until(lambda: secured.api.rest.metric("duetime_pops_waiting") >= 1, lambda: secured.api.rest.get("/metrics").text)
    secured.present(authority.issue("second"))
    assert secured.shown() != before
    assert kept.get("/healthz").status == 200
    upload.send(b"%x\r\n%s\r\n0\r\n\r\n" % (len(line), line))
    answer = upload.getresponse()
    assert answer.status == 200 and [json.loads(text)["status"] for text in answer.read().splitlines()] == [201, 201]
    assert plain.put(f"/v1/topics/{topic}", {"delivery": "kafka"}).status == 200
    waiting.join()
    assert answers == {"pop": 409}, "the pop waited until the topic changed its delivery"


def test_http2_is_chosen_in_the_handshake_and_continues_while_the_certificate_changes(secured, authority, topic):
    with H2(secured.url, secured.context()) as kept:
        asked = [kept.post("/v1/jobs", {"topic": topic, "delay": "PT1H", "payload": "x" * 30000}) for _ in range(50)]
        secured.present(authority.issue("third"))
        assert {kept.answer(id)[0] for id in asked} == {201}
        assert kept.get("/openapi.yaml")[1] == secured.api.rest.get("/openapi.yaml").body
    with H2(secured.url, secured.context()) as h2:
        assert h2.get("/healthz")[0] == 200


def test_a_changed_file_is_noticed_without_a_signal_and_a_broken_pair_is_logged_once(secured, authority, stranger):
    before = secured.shown()
    lines = secured.api.log().count("the certificate could not be read: the previous one is kept")
    secured.cert.write_text("this is no certificate\n")
    until(lambda: secured.shown() == before and secured.api.log().count("the certificate could not be read: the previous one is kept") > lines, secured.api.log)
    for _ in range(8):  # periods in which the file is checked without a change: no event follows them
        assert secured.shown() == before
        time.sleep(0.2)
    assert secured.api.log().count("the certificate could not be read: the previous one is kept") == lines + 1
    pair = authority.issue("third")
    secured.show(pair)
    until(lambda: secured.shown() == serial(pair), secured.api.log)


# ---- the walls ----

def served(server, within=5):
    """Before the timeout of the others."""
    start = time.monotonic()
    assert server.rest().get("/healthz").status == 200
    return time.monotonic() - start < within


HELLO = bytes.fromhex("1603010200010001fc0303") + bytes(20)  # the beginning of a greeting


@pytest.mark.parametrize("opening", [b"", b"\x16", HELLO], ids=["silent", "letter", "half"])
def test_unfinished_handshakes_do_not_keep_other_clients_out(narrow, opening):
    """Four times as many as may wait, all of them from one address, which has half of the places."""
    with contextlib.ExitStack() as ends:
        wires = [ends.enter_context(narrow.wire()) for _ in range(160)]
        for wire in wires:
            with contextlib.suppress(OSError):
                wire.sendall(opening)
        assert served(narrow) and served(narrow)
        until(lambda: narrow.api.rest.metric("duetime_tls_connections") <= 1, "the connections time out")


@pytest.mark.parametrize("greeted", [False, True])
def test_a_handshake_or_a_head_that_arrived_while_the_process_was_stopped_is_not_late(narrow, greeted):
    """It may take five seconds, and is continued after seven."""
    wire = narrow.secure_wire() if greeted else narrow.wire()
    with wire:
        until(lambda: narrow.api.rest.metric("duetime_http_waiting") >= 1, "it waits for its head")
        os.kill(narrow.api.process.pid, signal.SIGSTOP)
        try:
            if greeted:
                wire.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            time.sleep(7)
        finally:
            os.kill(narrow.api.process.pid, signal.SIGCONT)
        if greeted:
            assert wire.recv(15) == b"HTTP/1.1 200 OK"
            return
        with narrow.context().wrap_socket(wire, server_hostname="localhost") as secure:
            secure.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            assert secure.recv(15) == b"HTTP/1.1 200 OK"


def test_silence_after_a_handshake_does_not_keep_other_clients_out(narrow):
    with contextlib.ExitStack() as ends:
        for _ in range(60):
            with contextlib.suppress(OSError):
                ends.enter_context(narrow.secure_wire())
        assert served(narrow) and served(narrow)
        until(lambda: narrow.api.rest.metric("duetime_http_waiting") == 0, "the connections time out")


def test_two_hundred_idle_connections_are_kept_and_other_clients_are_served(secured):
    idle = [secured.rest() for _ in range(200)]
    try:
        assert all(rest.get("/healthz").status == 200 for rest in idle)
        assert secured.api.rest.metric("duetime_http_connections") >= 200
        assert served(secured)
        assert all(rest.get("/healthz").status == 200 for rest in idle[::20])
    finally:
        for rest in idle:
            rest.close()
    until(lambda: secured.api.rest.metric("duetime_tls_connections") == 0, "they have left")


@pytest.fixture(scope="module")
def lean(stack, secured, authority, tmp_path_factory):
    """One whose memory can be judged: the sanitizer keeps little of what was freed."""
    variables = {"ASAN_OPTIONS": "abort_on_error=1:detect_leaks=1:quarantine_size_mb=1:thread_local_quarantine_size_kb=64"}
    with serving(stack, tmp_path_factory.mktemp("lean"), authority, {}, variables=variables) as server:
        yield server


def fill(server, wires, most):
    """So many connections on which a request was answered. KiB that the process has then."""
    while len(wires) < most:
        wires.append(server.secure_wire())
        wires[-1].sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert wires[-1].recv(4096).startswith(b"HTTP/1.1 200")
    until(lambda: server.api.rest.metric("duetime_tls_connections") >= most, "they are open")
    return server.api.resident()


def stands_still(api):
    size = api.resident()
    time.sleep(0.3)
    return api.resident() == size


def test_the_memory_of_a_connection_is_bounded_idle_or_busy(lean):
    """In KiB, with the sanitizer's own part: deploy/README.md says 37 and at most 256. A session that keeps its buffers while it is idle has 20 more."""
    wires = []
    try:
        few, many = fill(lean, wires, 60), fill(lean, wires, 360)
        assert (many - few) / 300 < 66, f"{(many - few) / 300:.1f} a connection that is idle"
        for wire in wires:
            wire.setblocking(False)
            with contextlib.suppress(OSError):
                for _ in range(10):
                    wire.sendall(b"GET /openapi.yaml HTTP/1.1\r\nHost: localhost\r\n\r\n" * 100)  # nobody reads the answers
            with contextlib.suppress(OSError):
                os.write(wire.fileno(), b"\x17\x03\x03\x40\x11" + bytes(16000))  # nor is this a whole record
        until(lambda: stands_still(lean.api), "memory stops growing", seconds=20)
        busy = (lean.api.resident() - few) / 300
        assert busy < 400, f"{busy:.1f} a connection whose client does not read"
    finally:
        for wire in wires:
            wire.close()


def test_an_idle_connection_of_http2_holds_64_kib(lean):
    """With TLS, and with the sanitizer's own part."""
    some = []
    try:
        sizes = []
        for most in (50, 250):
            while len(some) < most:
                some.append(H2(lean.url, lean.context()))
                assert some[-1].get("/healthz")[0] == 200
            sizes.append(lean.api.resident())
        assert (sizes[1] - sizes[0]) / 200 < 100, f"{(sizes[1] - sizes[0]) / 200:.1f} a connection"
    finally:
        for h2 in some:
            h2.socket.close()


def test_the_unread_answer_of_a_client_uses_a_bounded_amount_of_memory(secured):
    """Requests one behind the other whose answers nobody reads: the server stops reading instead of keeping what it would say."""
    with secured.secure_wire() as wire:
        wire.settimeout(1)
        with pytest.raises(TimeoutError):
            for _ in range(500):
                wire.sendall(b"GET /openapi.yaml HTTP/1.1\r\nHost: localhost\r\n\r\n" * 2000)
        assert served(secured)


@pytest.mark.parametrize("source, client", [("127.0.0.2", "203.0.113.9"), ("127.0.0.1", "127.0.0.1")], ids=["trusted", "spoofed"])
def test_forwarding_headers_of_a_trusted_proxy_are_believed(narrow, source, client):
    """In the log, where the address of who asks is told; a client's own words before its proxy's are not believed either."""
    said = {"X-Forwarded-For": "127.0.0.3, 203.0.113.9", "Forwarded": "for=192.0.2.1", "X-Request-Id": f"of-{source}"}
    for kind in (http.client.HTTPSConnection("127.0.0.1", narrow.port, source_address=(source, 0), context=narrow.context()),
                 http.client.HTTPConnection("127.0.0.1", narrow.api.listener("plain"), source_address=(source, 0))):
        with contextlib.closing(kind) as connection:
            connection.request("GET", "/healthz", headers=said)
            assert connection.getresponse().status == 200
    lines = until(lambda: len(found := [line for line in narrow.api.log().splitlines() if f"id=of-{source}" in line]) == 2 and found, narrow.api.log)
    assert all(f"client={client} " in line for line in lines), lines


# ---- the start ----

@pytest.mark.parametrize("settings, told", [
    ({"http.listen": "tls:127.0.0.1"}, "tls_cert"),
    ({"http.tls_cert": "CERT", "http.tls_key": "/nowhere/key.pem"}, "/nowhere/key.pem: No such file"),
    ({"http.tls_cert": "CERT", "http.tls_key": "OTHER"}, "tls_key"),
    ({"http.tls_cert": "CERT", "http.tls_key": "KEY", "http.tls_client_ca": "KEY"}, "tls_client_ca"),
    ({"http.tls_client_ca": "CERT"}, "tls_cert"),
    ({"http.listen": "127.0.0.1, nonsense:x"}, "listen"),
])
def test_a_start_without_a_usable_certificate_is_refused(secured, authority, tmp_path, settings, told):
    files = dict(zip(("CERT", "KEY"), authority.issue("start")), OTHER=authority.issue("other")[1])
    sections = "".join(f"{name.split('.')[1]} = {files.get(value, value)}\n" for name, value in settings.items())
    config = tmp_path / "duetime.ini"
    config.write_text(f"[http]\nport = 0\n{sections}")
    for words in (["--check-config"], []):
        done = secured.api.run_as(config, *words)
        assert done.returncode == 1 and told in done.stderr, done.stderr


# ---- listeners ----

def test_a_unix_socket_is_served_with_its_mode_and_removed_at_the_end(stack, secured, tmp_path):
    path = tmp_path / "api.sock"
    stale = socket.socket(socket.AF_UNIX)
    stale.bind(str(path))
    stale.close()
    api = OwnApi(stack, tmp_path, "secured", {"http.listen": f"127.0.0.1, unix:{path}", "http.unix_mode": "0600"}, shared=True).start()
    try:
        assert path.stat().st_mode & 0o777 == 0o600
        assert Rest(f"unix:{path}").get("/v1/topics").status == 200
        assert run("topics", "list", "--url", f"unix:{path}").code == 0
        second = api.command()
        assert second.returncode == 1 and "Address already in use" in second.stderr, "two do not share it"
    finally:
        assert api.end() == 0 and not path.exists()


def test_without_a_token_no_listener_accepts_connections_beyond_the_loopback(secured, tmp_path):
    """One of several is enough, and TLS does not change it."""
    config = tmp_path / "duetime.ini"
    for listen in ("127.0.0.1, tls:0.0.0.0", f"unix:{tmp_path}/x.sock, plain:0.0.0.0"):
        config.write_text(secured.api.config.read_text().replace("plain:127.0.0.1, tls:127.0.0.1", listen))
        done = secured.api.run_as(config)
        assert done.returncode == 1 and "no token" in done.stderr and "msg=listening" not in done.stderr, done.stderr

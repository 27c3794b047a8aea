"""single POSTs over TLS, and over HTTP/2 on one connection, beside plain HTTP/1.1 on 64 connections"""
import os
import re
import socket
import subprocess

from harness.rest import Rest
from harness.stack import until

import clients
import programs

TOPIC = "protocols"
CONNECTIONS = 64


def listens(port):
    with socket.socket() as some:
        return some.connect_ex(("127.0.0.1", port)) == 0


def certificate():
    cert, key = programs.scratch("cert.pem"), programs.scratch("key.pem")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=localhost",
                    "-keyout", key, "-out", cert], check=True, capture_output=True)
    return cert, key


def multiplexed(url, seconds):
    """(POSTs a second, how many were accepted): one connection of HTTP/2 with as many streams as the others have connections."""
    body = programs.scratch("body.json")
    body.write_text(f'{{"topic":"{TOPIC}","delay":"PT50M","payload":{{"text":"{clients.TEXT}"}}}}')
    done = subprocess.run(["chrt", "--batch", "0", "h2load", "-c1", f"-m{CONNECTIONS}", f"-D{seconds}", "-d", body, "-H", "content-type: application/json", f"{url}/v1/jobs"],
                          check=True, capture_output=True, text=True).stdout
    accepted = int(re.search(r"status codes: (\d+) 2xx", done)[1])
    return accepted / seconds, accepted


def start_api(bench, stack):
    """(URL without TLS, URL with it): one more API, so that both are served by the same process."""
    cert, key = certificate()
    plain, secured = clients.free_port(), clients.free_port()
    settings = {"LISTEN": f"plain:127.0.0.1:{plain},tls:127.0.0.1:{secured}", "TLS_CERT": cert, "TLS_KEY": key}
    process = subprocess.Popen([programs.RELEASE.parent / "api" / "duetime-api", "--config", stack.home / "api1" / "duetime.ini"],
                               env={**os.environ, **{f"DUETIME_HTTP_{name}": str(value) for name, value in settings.items()}}, stderr=subprocess.DEVNULL)
    bench.at_end(lambda: (process.terminate(), process.wait()))
    until(lambda: listens(plain) and Rest(f"http://127.0.0.1:{plain}").get("/readyz").status == 200, "the API with TLS is ready")
    return f"http://127.0.0.1:{plain}", f"https://127.0.0.1:{secured}"


def measure(bench):
    stack = bench.stack()
    account, seconds = bench.account(stack), bench.seconds(6, 3)
    clients.make_topic(stack, TOPIC)
    plain, secured = start_api(bench, stack)

    def over(url):
        def posts():
            done = clients.Posts({"DUETIME_URL": url}, TOPIC, CONNECTIONS, seconds)
            account.accepted(TOPIC, done.accepted, done.unanswered)
            return done.rate
        return posts

    def streams(url):
        def posts():
            rate, accepted = multiplexed(url, seconds)
            account.accepted(TOPIC, accepted, CONNECTIONS)
            return rate
        return posts

    over(plain)()
    for what, ours in {"HTTP/1.1 over TLS": over(secured), "HTTP/2, one connection": streams(plain), "HTTP/2 over TLS, one connection": streams(secured)}.items():
        bench.ratio(None, f"{what}, {CONNECTIONS} at a time", bench.rounds(ours, over(plain), bench.count(3, 1)), "plain HTTP/1.1")

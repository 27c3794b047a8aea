"""single POSTs over TLS, and over HTTP/2 on one connection, beside plain HTTP/1.1 on 64 connections"""
import re
import socket
import subprocess

import clients
import programs

TOPIC = "protocols"
CONNECTIONS = 64


def free_port():
    with socket.socket() as some:
        some.bind(("127.0.0.1", 0))
        return some.getsockname()[1]


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


def measure(bench):
    cert, key = certificate()
    port = free_port()
    stack = bench.stack("--set", f"http.listen=plain:127.0.0.1,tls:127.0.0.1:{port}", "--set", f"http.tls_cert={cert}", "--set", f"http.tls_key={key}")
    account, seconds = bench.account(stack), bench.seconds(6, 3)
    plain, secured = stack["DUETIME_URL"], f"https://127.0.0.1:{port}"
    clients.make_topic(stack, TOPIC)

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

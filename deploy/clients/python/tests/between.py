"""What stands between a client and the API in the tests: it counts requests, and does to them what networks and servers do."""
import contextlib
import http.server
import socket
import threading
import urllib.parse


class Between:
    """Passes bytes on. `cut` > 0: so many requests go through, but their answers do not come back. `requests`: bodies as they came."""

    def __init__(self, url):
        parts = urllib.parse.urlsplit(url)
        self._to = (parts.hostname, parts.port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.cut, self.requests, self.links = 0, [], []
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self):
        self._listener.close()
        self.end_all()

    def end_all(self):
        """Every connection ends now."""
        links, self.links = self.links, []
        for one in links:
            with contextlib.suppress(OSError):  # it has ended already
                one.shutdown(socket.SHUT_RDWR)

    def _accept(self):
        while True:
            try:
                client = self._listener.accept()[0]
            except OSError:
                return
            threading.Thread(target=self._pass_on, args=(client,), daemon=True).start()

    def _pass_on(self, client):
        server = socket.create_connection(self._to)
        self.links += [client, server]
        try:
            with client.makefile("rb") as asked, server.makefile("rb") as told:
                while self._one(asked, told, client, server):
                    pass
        except (OSError, ValueError):
            pass
        finally:
            client.close()
            server.close()

    def _one(self, asked, told, client, server):
        request, body = message(asked)
        if not request:
            return False
        self.requests.append(body)
        server.sendall(request + body)
        answer, rest = message(told)
        if self.cut:
            self.cut -= 1
            client.shutdown(socket.SHUT_RDWR)
            return False
        client.sendall(answer + rest)
        return True


def message(stream):
    """(head, body) of the next message."""
    head, length, chunked = b"", 0, False
    for line in stream:
        head += line
        name, _, value = line.partition(b":")
        length = int(value) if name.lower() == b"content-length" else length
        chunked = chunked or (name.lower() == b"transfer-encoding" and b"chunked" in value)
        if line == b"\r\n":
            break
    return head, _chunks(stream) if chunked else stream.read(length)


def _chunks(stream):
    body = b""
    while True:
        size = stream.readline()
        data = stream.read(int(size, 16) + 2)
        body += size + data
        if int(size, 16) == 0:
            return body


class Told(http.server.ThreadingHTTPServer):
    """A server that answers as it was told: a list of (status, headers, body), the last one for ever. `asked`: bodies as they came."""

    daemon_threads = True

    def __init__(self, *answers):
        super().__init__(("127.0.0.1", 0), _Teller)
        self.answers, self.asked, self.hold = list(answers), [], threading.Event()
        self.hold.set()
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, daemon=True, kwargs={"poll_interval": 0.02}).start()

    def handle_error(self, *_):
        """A client that gave up is no error."""

    def close(self):
        self.shutdown()
        self.server_close()


class _Teller(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.asked.append(body)
        self.server.hold.wait()
        status, headers, text = self.server.answers.pop(0) if len(self.server.answers) > 1 else self.server.answers[0]
        text = text(body) if callable(text) else text
        self.send_response(status)
        for name, value in {**headers, "content-length": len(text)}.items():
            self.send_header(name, str(value))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass

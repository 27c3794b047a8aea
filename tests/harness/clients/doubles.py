"""What the table of the clients has in the place of an API, and a proxy before it."""
import http.server
import json
import socket
import ssl
import threading


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_):
        """A client that left is no error."""


class Api:
    """Answers each call as an API would; `answer` (status, body) takes the place of that. `asked`: (path, body) of requests, `heads` theirs."""

    def __init__(self, host="127.0.0.1", certificate=None):
        self.family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.host, self.port, self.certificate = host, 0, certificate
        self.asked, self.heads, self.connections, self.answer = [], [], [], None
        self.hold, self.left = threading.Event(), False
        self.hold.set()
        self.start()
        self.url = f"{'https' if certificate else 'http'}://{f'[{host}]' if ':' in host else host}:{self.port}"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.hold.set()
        self.stop()

    def start(self):
        made = type("Made", (Server,), {"address_family": self.family})((self.host, self.port), handler_of(self))
        if self.certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*self.certificate)
            made.socket = context.wrap_socket(made.socket, server_side=True)
        self.server, self.port = made, made.server_address[1]
        threading.Thread(target=made.serve_forever, daemon=True, kwargs={"poll_interval": 0.02}).start()

    def stop(self):
        self.server.shutdown()
        self.server.server_close()
        self.end_connections()

    def end_connections(self):
        connections, self.connections = self.connections, []
        for one in connections:
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # it has ended

    def said(self, path, body):
        """(status, body) of an API."""
        if path.endswith(":batch"):
            return 200, b"".join(b'{"status":201,"id":"%d"}\n' % n for n in range(body.count(b"\n")))
        if path.endswith("/results"):
            return 200, b'{"status":200,"outcome":"applied"}\n' * body.count(b"\n")
        if path.endswith("/pop"):
            return 200, b'{"jobs":[]}'
        now = "2030-01-01T00:00:00.000Z"
        return 200, json.dumps({"id": path.rpartition("/")[2], "topic": "t", "state": "scheduled", "attempt": 0, "run_at": now, "version": 1}).encode()


def handler_of(api):
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self):
            super().setup()
            api.connections.append(self.connection)

        def do_GET(self):
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            api.asked.append((self.path, body))
            api.heads.append(self.headers)
            while not api.hold.wait(0.02):
                self.look()
            status, text = api.answer or api.said(self.path, body)
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def look(self):
            """Whether the client has left; by TLS that is not seen."""
            self.connection.setblocking(False)
            try:
                api.left = api.left or self.connection.recv(1, socket.MSG_PEEK) == b""
            except ConnectionResetError:
                api.left = True
            except OSError:
                pass  # it waits
            finally:
                self.connection.setblocking(True)

        do_POST = do_PATCH = do_GET

        def log_message(self, *_):
            pass

    return Handler


class Proxy:
    """Passes requests and connections to the port, whatever host they name. `asked`: HOST:PORT of each."""

    def __init__(self, port):
        self.port, self.asked = port, []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.close()

    def accept(self):
        while True:
            try:
                client = self.listener.accept()[0]
            except OSError:
                return
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client):
        with client, socket.create_connection(("127.0.0.1", self.port)) as server, client.makefile("rb") as asked:
            first = asked.readline().decode().split(" ")
            if first[0] == "CONNECT":
                self.asked.append(first[1])
                while asked.readline() not in (b"\r\n", b""):
                    pass
                client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                threading.Thread(target=pump, args=(server, client), daemon=True).start()
                pump(asked, server)
                return
            threading.Thread(target=pump, args=(server, client), daemon=True).start()
            while len(first) == 3:
                host, _, path = first[1].removeprefix("http://").partition("/")
                self.asked.append(host)
                self.pass_on(asked, server, f"{first[0]} /{path} {first[2]}".encode())
                first = asked.readline().decode().split(" ")

    @staticmethod
    def pass_on(asked, server, head):
        length = 0
        while (line := asked.readline()) not in (b"\r\n", b""):
            head += line
            if line.lower().startswith(b"content-length:"):
                length = int(line.partition(b":")[2])
        server.sendall(head + b"\r\n" + asked.read(length))


def pump(source, to):
    """Until either side ends."""
    read = source.recv if isinstance(source, socket.socket) else source.read1
    try:
        while piece := read(1 << 16):
            to.sendall(piece)
        to.shutdown(socket.SHUT_WR)
    except OSError:
        pass

"""A server in the place of an API, which says what a test wants it to say."""
import contextlib
import http.server
import json
import ssl
import threading
import urllib.parse


@contextlib.contextmanager
def answering(answer, certificate=None):
    """Its GETs are answered by answer(path, query): a body as bytes or to be written as JSON, or (status, body); None is a refusal. Gives its
    URL."""
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            at = urllib.parse.urlsplit(self.path)
            told = answer(at.path, dict(urllib.parse.parse_qsl(at.query)))
            status, told = told if isinstance(told, tuple) else (403 if told is None else 200, told)
            data = told if isinstance(told, bytes) else json.dumps(told).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"{'https' if certificate else 'http'}://127.0.0.1:{server.server_port}"
        server.shutdown()

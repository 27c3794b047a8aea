"""One kept connection. Knows which failures leave the outcome open, and nothing of jobs."""
from __future__ import annotations

import base64
import contextlib
import http.client
import json
import os
import select
import socket
import ssl
import time
import urllib.parse
import urllib.request
from typing import Any, NamedTuple, cast

from .errors import DuetimeError
from .forks import Forked

KEPT_SECONDS = 50  # the server closes a connection that was silent for 75


NO_RESULT = {"status": 503, "type": "/problems/outcome-unknown", "title": "no result"}  # of a line that has none


class NotSent(DuetimeError):
    """There was no connection: nothing happened."""


class Broken(DuetimeError):
    """The request was on its way and no whole answer came."""


class Answer(NamedTuple):
    status: int
    content_type: str
    retry_after: float | None
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body) if self.body else None

    def lines(self) -> list[Any]:
        return [_told(line) for line in self.body.splitlines() if line.strip()]

    def problem(self) -> dict[str, Any]:
        """The members of the problem, also when something between us and the server answered in its own words."""
        try:
            members = json.loads(self.body)
        except ValueError:
            members = None
        return {"status": self.status, **(members if isinstance(members, dict) else {"title": http.client.responses.get(self.status, "")})}


def _told(line: bytes) -> dict[str, Any]:
    """The result in a line; whatever else may stand there says nothing."""
    try:
        members = json.loads(line)
    except ValueError:
        return NO_RESULT
    return members if isinstance(members, dict) and isinstance(members.get("status"), int) else NO_RESULT


class Address:
    """Whom to ask, and as whom."""

    def __init__(self, url: str, token: str | None = None, tls: ssl.SSLContext | None = None) -> None:
        parts = urllib.parse.urlsplit(url)
        self.socket = parts.path if parts.scheme == "unix" else None
        if not self.socket and (parts.scheme not in ("http", "https") or not parts.hostname):
            raise ValueError(f"{url} is no http or https URL, and no Unix socket (unix:/PATH)")
        self.name = self.socket or parts.netloc
        self.host, self.port, self.prefix = parts.hostname or "localhost", parts.port, "" if self.socket else parts.path.rstrip("/")
        self.tls = (tls or ssl.create_default_context()) if parts.scheme == "https" else None
        self.headers = {"User-Agent": "duetime-python/0.1.0", **({"Authorization": f"Bearer {token}"} if token else {})}
        place = parts.netloc.rpartition("@")[2]
        self.proxy = None if self.socket else _proxy_of(parts.scheme, place)
        self.proxy_headers = _authorization_of(self.proxy)
        self.target = self.prefix  # of requests
        if self.proxy and not self.tls:
            self.target = f"http://{place}{self.prefix}"
            self.headers.update(self.proxy_headers)

    def connection(self, timeout: float) -> http.client.HTTPConnection:
        if self.socket:
            return _UnixConnection(self.socket, timeout)
        host, port = (self.proxy.hostname, self.proxy.port) if self.proxy else (self.host, self.port)
        if not self.tls:
            return http.client.HTTPConnection(host or "", port, timeout=timeout)
        link = http.client.HTTPSConnection(host or "", port, timeout=timeout, context=self.tls)
        if self.proxy:
            link.set_tunnel(self.host, self.port or 443, self.proxy_headers)
        return link


def _proxy_of(scheme: str, place: str) -> urllib.parse.SplitResult | None:
    """Of the environment, as urllib reads it: http_proxy, https_proxy, no_proxy."""
    url = urllib.request.getproxies().get(scheme)
    if not url or urllib.request.proxy_bypass(place):
        return None
    return urllib.parse.urlsplit(url if "://" in url else f"http://{url}")


def _authorization_of(proxy: urllib.parse.SplitResult | None) -> dict[str, str]:
    if not proxy or proxy.username is None:
        return {}
    pair = f"{urllib.parse.unquote(proxy.username)}:{urllib.parse.unquote(proxy.password or '')}"
    return {"Proxy-Authorization": "Basic " + base64.b64encode(pair.encode()).decode()}


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            made.settimeout(self.timeout)
            made.connect(self._path)
        except OSError:
            made.close()
            raise
        self.sock = made


class Connection(Forked):
    """For one thread at a time."""

    def __init__(self, address: Address) -> None:
        super().__init__()
        self._address = address
        self._http: http.client.HTTPConnection | None = None
        self._used = 0.0

    def close(self) -> None:
        if self._http:
            self._http.close()
            self._http = None

    def after_fork(self) -> None:
        """The connection stays the parent's: only this process's descriptor of it is closed, which says nothing to the server."""
        link, self._http = self._http, None
        if link and link.sock:
            with contextlib.suppress(OSError):
                os.close(link.sock.detach())

    def interrupt(self) -> None:
        """Ends the exchange that another thread waits for."""
        link = self._http
        if link and link.sock:
            with contextlib.suppress(OSError):  # it has ended already
                link.sock.shutdown(socket.SHUT_RDWR)

    def ask(self, method: str, path: str, body: bytes | None, seconds: float, headers: dict[str, str]) -> Answer:
        """One exchange, in so many seconds. Raises NotSent or Broken."""
        end = time.monotonic() + seconds
        link = self._ready(seconds)
        try:
            link.request(method, self._address.target + path, body, {**self._address.headers, **headers})
            at = cast(socket.socket, link.sock)
            reply = link.getresponse()
            answer = Answer(reply.status, reply.headers.get("Content-Type", ""), _seconds(reply.headers.get("Retry-After")), _whole(reply, at, end))
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise Broken(f"{type(error).__name__}: {error}") from error
        self._used = time.monotonic()
        if reply.will_close:
            self.close()
        return answer

    def _ready(self, seconds: float) -> http.client.HTTPConnection:
        """The connection, made anew when it is old or the server has closed it: a request on such a one would have an open outcome."""
        if self._http and (time.monotonic() - self._used > KEPT_SECONDS or _has_news(self._http)):
            self.close()
        if self._http is None:
            link = self._address.connection(seconds)
            try:
                link.connect()
            except OSError as error:
                raise NotSent(f"{self._address.name}: {error}") from error
            self._http = link
        if self._http.sock:
            self._http.sock.settimeout(seconds)
        return self._http


def _whole(reply: http.client.HTTPResponse, at: socket.socket, end: float) -> bytes:
    """The body, if it comes to its end in time: a socket's own timeout begins anew with each byte."""
    parts = []
    while part := reply.read1(1 << 16):
        parts.append(part)
        if time.monotonic() >= end:
            raise TimeoutError("the answer did not come to its end in time")
        at.settimeout(end - time.monotonic())
    if reply.length:
        raise http.client.IncompleteRead(b"".join(parts), reply.length)
    reply.close()
    return b"".join(parts)


def _has_news(link: http.client.HTTPConnection) -> bool:
    """Nothing was asked, so what there is to read is the connection's end."""
    if link.sock is None:
        return True
    poll = select.poll()
    poll.register(link.sock, select.POLLIN)
    return bool(poll.poll(0))


def _seconds(text: str | None) -> float | None:
    """Retry-After in seconds; as a date it is not understood, and left to our own pauses."""
    return float(text) if text and text.strip().isdigit() else None

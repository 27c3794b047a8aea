"""Fault proxies between the programs of a stack and its servers: one for each pair, so that each pair can be cut alone."""
import json
import os

from . import protocols
from .proxy import Proxy

SPOKEN = {"mysql": protocols.MySQL, "kafka": protocols.Kafka, "zookeeper": protocols.ZooKeeper}


class Detours:
    """`pairs`: (program, server). The proxies listen before the stack is there, and find the servers through its record of ports.

        detours = Detours([("api1", "mysql"), …]);  stack = Stack(name, *detours.options);  detours.attach(stack);  stack.up()
        detours["api1", "mysql"].hold(REPLY)

    Over secured connections nothing can be read but that bytes pass: no rules for messages of a kind then.
    """

    def __init__(self, pairs):
        self._stack = None
        spoken = {} if os.environ.get("DUETIME_TEST_SECURED") else SPOKEN
        self._proxies = {pair: Proxy(self._address(*pair), spoken.get(pair[1], protocols.Raw)) for pair in pairs}
        self.options = [word for (part, server), proxy in self._proxies.items() for word in ("--via", f"{part}:{server}={proxy.port}")]

    def _address(self, part, server):
        # A broker tells its clients where to connect: those that come by a detour have a listener of their own.
        name = f"kafka_{part}" if server == "kafka" else server
        return lambda: ("127.0.0.1", self._port(name))

    def _port(self, name):
        """Where it speaks TLS, if it has a port of its own for that."""
        ports = json.loads((self._stack.home / "state.json").read_text())["ports"]
        return ports.get(f"{name}_secured", ports[name])

    def attach(self, stack):
        self._stack = stack

    def __getitem__(self, pair):
        return self._proxies[pair]

    def of(self, server):
        """Those that lead to a server."""
        return [proxy for (_, name), proxy in self._proxies.items() if name == server]

    def heal(self, late=True):
        for proxy in self._proxies.values():
            proxy.heal(late)

    def end(self):
        for proxy in self._proxies.values():
            proxy.end()

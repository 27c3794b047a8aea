"""Redis, without persistence: the index is rebuilt from MySQL, and here that is to be seen."""
from ..part import Part
from . import wire


class Redis(Part):
    def __init__(self, home, name, port, options=()):
        super().__init__(home, name)
        self.options = options
        self.port = port
        self.address = f"127.0.0.1:{port}"

    def argv(self):
        return ["redis-server", "--port", self.port, "--bind", "127.0.0.1", "--dir", self.data,
                "--save", "", "--appendonly", "no", "--daemonize", "no", "--tcp-backlog", "128", *self.options]

    def is_ready(self):
        return wire.ask(self.port, b"PING\r\n").startswith(b"+PONG")

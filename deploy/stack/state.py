"""What a stack was made with: its options, ports and passwords, in state.json (readable by its owner only).

Invariant: a port, once chosen, is never changed while the data live.
"""
import json
import os
import secrets

from . import ports

DEFAULTS = {"apis": 1, "dispatchers": 2, "shards": 2, "redis": 1, "mysql": "mariadb", "kafka": "3",
            "kafka_jvm": "quick", "preset": "release", "settings": {}, "via": {}, "kafka_settings": {}, "without": [], "small": False, "monitoring": False, "secured": False}


class State:
    def __init__(self, home):
        self.file = home / "state.json"
        self.exists = self.file.exists()
        data = json.loads(self.file.read_text()) if self.exists else {}
        self.options = {**DEFAULTS, **data.get("options", {})}
        self.ports = data.get("ports", {})
        self.password = data.get("password") or secrets.token_hex(12)
        self.token = data.get("token")  # of the API, where one is asked for

    def port(self, name):
        if name not in self.ports:
            self.ports[name] = ports.choose(set(self.ports.values()), self.file.parent)
        return self.ports[name]

    def save(self):
        data = {"options": self.options, "ports": self.ports, "password": self.password, "token": self.token}
        temporary = self.file.with_suffix(".new")
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as out:
            json.dump(data, out, indent=2)
        temporary.replace(self.file)
        self.exists = True

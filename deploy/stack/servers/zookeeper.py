"""ZooKeeper, one node, from Debian's package, with short ticks so that sessions expire when they say."""
import os

from ..part import Part
from . import wire

CONFIG = """\
tickTime=100
maxSessionTimeout=120000
maxClientCnxns=0
admin.enableServer=false
clientPortAddress=127.0.0.1
clientPort={port}
dataDir={data}
"""
JARS = ("/usr/share/java/zookeeper.jar", "/usr/share/java/slf4j-simple.jar")


class ZooKeeper(Part):
    def __init__(self, home, port):
        super().__init__(home, "zookeeper")
        self.port = port
        self.address = f"127.0.0.1:{port}"
        self.config = self.data / "zoo.cfg"

    def prepare(self):
        self.config.write_text(CONFIG.format(port=self.port, data=self.data))

    def argv(self):
        path = ":".join(jar for jar in JARS if os.path.exists(jar))
        return ["java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dzookeeper.preAllocSize=1024",
                "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", path,
                "org.apache.zookeeper.server.quorum.QuorumPeerMain", self.config]

    def is_ready(self):
        return wire.ask(self.port, b"srvr").startswith(b"Zookeeper version")

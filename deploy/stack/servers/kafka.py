"""Apache Kafka in KRaft mode, one node that is broker and controller. The jars come from Maven Central, named by
deploy/kafka/pom.xml, and are kept in the cache; profile "3" is 3.9, "4" is 4.1.

The controller lets a broker that was killed register again only when its old session has ended: the session is
short here, so that `kill` and `start` take two seconds and not ten. It has few threads: on the two cores that are
assumed here, more of them only hand work to each other. A topic is made only by whoever means to: a client's question
about one would otherwise bring back a topic that was deleted a moment ago. Indexes are small: when a partition has got
its first 4 KB, Linux fetches as much of each of its two indexes as the disk's read-ahead says, empty as they are. With
the default of 10 MB and a read-ahead of 8 MB that is some 20 ms a partition, for which all others wait: twelve seconds
when 300 partitions come so far together."""
import re
import shutil
import struct
import subprocess
import zlib

from .. import locks, paths, say
from ..part import Part
from . import wire

CONFIG = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}{listeners}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}{advertised}
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT{protocols}
log.dirs={data}/logs
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=4
min.insync.replicas=1
auto.create.topics.enable=false
group.initial.rebalance.delay.ms=0
log.cleaner.dedupe.buffer.size=4194304
log.index.size.max.bytes=262144
num.network.threads=1
num.io.threads=2
broker.session.timeout.ms=2000
broker.heartbeat.interval.ms=500
"""

METADATA = struct.pack(">ihhihi", 14, 3, 1, 0, -1, 0)  # request version 1, no client name, no topics: the answer lists only the brokers

# A collection of the young generation takes as long for a small one as for a large one, and every batch waits for it. A broker that is
# measured has Kafka's own default of 1 GB, most of it for what is young, and gets it at its start: what survives is copied to pages that
# are there, not to such as a virtual machine must fetch from its host, ten microseconds each. With thousands of partitions so much survives
# that each collection takes 260 ms, once a minute: "many" has the collector that Kafka's own scripts choose, whose pauses are shorter, and more.
SERIAL = ["-XX:+UseSerialGC"]
MEASURED = ["-Xms1g", "-Xmx1g", "-XX:+AlwaysPreTouch"]
MACHINES = {
    "quick": [*SERIAL, "-Xms256m", "-Xmx512m", "-XX:TieredStopAtLevel=1"],
    "full": [*SERIAL, *MEASURED, "-Xmn768m"],
    "many": ["-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35", *MEASURED],
}


def jars(version):
    """The folder with the jars; fetched when they are not there yet."""
    pom = paths.TREE / "deploy/kafka/pom.xml"
    folder = paths.CACHE / f"kafka-{version}-{zlib.crc32(pom.read_bytes()):08x}"
    with locks.held(paths.CACHE / "kafka.lock"):
        if not folder.exists():
            _fetch(version, pom, folder)
    return folder


FETCHED_MB = 60  # with Maven's own parts
TRANSFER = re.compile(r"Downloaded from .*\(([\d.]+) (k|M)B")


def _fetch(version, pom, folder):
    say.step(f"fetching the Kafka {version} jars from Maven Central (about {FETCHED_MB} MB)")
    temporary = folder.with_name(f"{folder.name}.new")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    argv = ["mvn", "-B", "-f", pom, "-P", version, "dependency:copy-dependencies", f"-DoutputDirectory={temporary}"]
    told, fetched = [], 0
    with say.progress("the download") as tell, \
            subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as running:
        for line in running.stdout:
            size = TRANSFER.search(line)
            if size:
                fetched += float(size[1]) / (1000 if size[2] == "k" else 1)
                tell(f"{say.bar(fetched / FETCHED_MB)} {fetched:.0f} MB")
            told.append(line)
    if running.returncode != 0 or not any(temporary.glob("kafka_*.jar")):
        raise say.StackError("the Kafka jars could not be fetched:\n" + "".join(told)[-4000:])
    temporary.rename(folder)


class Kafka(Part):
    def __init__(self, home, version, port, controller_port, detours, settings, jvm="quick"):
        super().__init__(home, "kafka")
        self.version = version
        self.port = port
        self.controller_port = controller_port
        self.detours = detours
        self.settings = settings
        self.machine = MACHINES[jvm]
        self.address = f"127.0.0.1:{port}"
        self.config = self.data / "server.properties"

    def _java(self, *arguments):
        logging = "-Dlog4j.configuration=file:{}/log4j.properties" if self.version == "3" \
            else "-Dlog4j2.configurationFile={}/log4j2.properties"
        return ["java", *self.machine,
                f"-Dkafka.logs.dir={self.data}", logging.format(paths.TREE / "deploy/kafka"),
                "-cp", f"{jars(self.version)}/*", *arguments]

    def _tool(self, *arguments):
        done = subprocess.run([str(word) for word in self._java("kafka.tools.StorageTool", *arguments)],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False, text=True)
        if done.returncode != 0:
            raise say.StackError(f"Kafka's storage tool failed:\n{done.stdout}{done.stderr}")
        return done.stdout

    def prepare(self):
        each = sorted(self.detours.items())
        self.config.write_text(CONFIG.format(
            port=self.port, controller=self.controller_port, data=self.data,
            listeners="".join(f",{name}://127.0.0.1:{port}" for name, (port, _) in each),
            advertised="".join(f",{name}://127.0.0.1:{told}" for name, (_, told) in each),
            protocols="".join(f",{name}:PLAINTEXT" for name, _ in each)) +
            "".join(f"{key}={value}\n" for key, value in self.settings.items()))
        if (self.data / "logs" / "meta.properties").exists():
            return
        cluster = self._tool("random-uuid").split()[-1]
        self._tool("format", "-t", cluster, "-c", self.config)

    def argv(self):
        return self._java("kafka.Kafka", self.config)

    def is_ready(self):
        """Whether the broker lists itself among the brokers that are up."""
        return b"127.0.0.1" + struct.pack(">i", self.port) in wire.ask(self.port, METADATA)

"""What tests do to a broker as its operator: topics made, limited, forbidden, deleted, trimmed."""
import socket
import struct

from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic

from .stack import until

# Requests that Debian's client for Python does not have; (key, version) with the old, plain encoding.
DELETE_RECORDS, CREATE_ACLS, DELETE_ACLS = (21, 0), (30, 1), (31, 1)
TOPIC, LITERAL, ANY = 2, 3, 1
ALL, WRITE = 2, 4
DENY, ALLOW = 2, 3


def text(value):
    return struct.pack(">h", -1) if value is None else struct.pack(">h", len(value)) + value.encode()


class Broker:
    def __init__(self, stack):
        self.address = stack["DUETIME_KAFKA"]
        self.admin = AdminClient({"bootstrap.servers": self.address})

    def make(self, topic, partitions=4, **config):
        names = {name.replace("_", "."): str(value) for name, value in config.items()}
        self.admin.create_topics([NewTopic(topic, partitions, 1, config=names)])[topic].result(90)
        until(lambda: topic in self.topics(), f"{topic} is there")

    def delete(self, topic):
        self.admin.delete_topics([topic])[topic].result(90)
        until(lambda: topic not in self.topics(), f"{topic} is gone")

    def set(self, topic, **config):
        """These are the topic's own settings now, and no others."""
        names = {name.replace("_", "."): str(value) for name, value in config.items()}
        for done in self.admin.alter_configs([ConfigResource(ConfigResource.Type.TOPIC, topic, set_config=names)]).values():
            done.result(90)

    def topics(self):
        return self.admin.list_topics(timeout=90).topics

    def _ask(self, kind, body):
        """The body of the answer, after its correlation number."""
        request = struct.pack(">hhi", *kind, 1) + text("test") + body
        host, port = self.address.split(":")
        with socket.create_connection((host, int(port)), timeout=90) as connection:
            connection.sendall(struct.pack(">i", len(request)) + request)
            reader = connection.makefile("rb")
            return reader.read(struct.unpack(">i", reader.read(4))[0])[4:]

    def forbid(self, topic):
        """Nobody may write to it; all else stays allowed."""
        body = struct.pack(">i", 2)
        for operation, permission in ((ALL, ALLOW), (WRITE, DENY)):
            body += struct.pack(">b", TOPIC) + text(topic) + struct.pack(">b", LITERAL) + text("User:ANONYMOUS") + text("*")
            body += struct.pack(">bb", operation, permission)
        answer = self._ask(CREATE_ACLS, body)
        assert struct.unpack(">h", answer[8:10])[0] == 0, f"CreateAcls: {answer!r}"

    def permit(self, topic):
        answer = self._ask(DELETE_ACLS, struct.pack(">ib", 1, TOPIC) + text(topic) + struct.pack(">b", ANY) + text(None) + text(None) +
                           struct.pack(">bb", ANY, ANY))
        assert struct.unpack(">h", answer[8:10])[0] == 0, f"DeleteAcls: {answer!r}"

    def trim(self, topic, partition, below=-1):
        """Deletes what lies below an offset, or all that the partition has now; its new first offset."""
        answer = self._ask(DELETE_RECORDS, struct.pack(">i", 1) + text(topic) + struct.pack(">iiqi", 1, partition, below, 10000))
        low, error = struct.unpack(">qh", answer[-10:])  # throttle, topics [name, partitions [partition, low watermark, error]]
        assert error == 0, f"DeleteRecords: error {error}"
        return low

"""Tenants beside the honest one, each sort in two forms: `attack` takes what one tenant can get, with many topics, hosts, names or times to report;
`well_behaved` asks for as much, of one topic and one host that answers. How long honest callers wait beside the one is compared with the other.

A neighbour has a token whose prefix is the beginning of all its topics. Those of an attack have different first parts (`atkpops17.x`).
"""
import json
import math
import multiprocessing
import selectors
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from ..commands import Commander
from ..receiver import Receiver
from ..rest import Rest
from ..stack import until
from .floods import Target, close_all, status_of

FORMS = ("well_behaved", "attack")


@dataclass(frozen=True)
class World:
    """What neighbours reach: the APIs, Kafka, a port of every loopback address that says nothing, and one that answers."""
    urls: list
    admin: str
    kafka: str
    silent: int
    answering: int


class Host:
    """A process that others connect to. end() resets its connections, and nothing listens there any more."""

    def __init__(self, serve, *arguments):
        self._process = multiprocessing.get_context("fork").Process(target=serve, args=arguments, daemon=True)
        self._process.start()

    def end(self):
        self._process.kill()
        self._process.join(10)


def say_nothing(port):
    """Accepts every connection on all addresses of the loopback, and reads none."""
    with socket.create_server(("", port), backlog=4096) as listener:
        kept = []
        while True:
            kept.append(listener.accept()[0])


def answer_all(port):
    Receiver(port=port).ended.wait()


class Neighbour:
    """`number` is that of the round: names that must be new have it in them. Made and prepared by the parent; a form runs in a process of its own."""
    quotas = {}
    topics = 0  # that an administrator makes before, with `settings`
    settings = {}
    released = 90  # seconds until what it had is given back

    def __init__(self, world, form, number):
        self.world, self.form, self.number = world, form, number
        self.prefix = ("atk" if form == "attack" else "good") + self.name().replace("_", "")
        self.admin = Rest(world.urls[0], token=world.admin)
        self.rest, self.targets = None, []

    @classmethod
    def name(cls):
        return "".join("_" * (letter.isupper() and n > 0) + letter.lower() for n, letter in enumerate(cls.__name__))

    def topic(self, i=0):
        return f"{self.prefix}{i}.x" if self.form == "attack" else f"{self.prefix}.x"

    def url(self, i=0):
        """Where its callbacks go: as many silent addresses as it likes, or one host that answers."""
        return f"http://127.1.{i // 250}.{i % 250 + 1}:{self.world.silent}/" if self.form == "attack" else f"http://127.0.0.1:{self.world.answering}/"

    def use(self, token):
        self.rest = Rest(self.world.urls[0], token=token)
        self.targets = [Target(url, token, self.prefix, self.number) for url in self.world.urls]

    def make_topics(self):
        def put(i):
            """A 503 says that nothing happened."""
            def done():
                answer = self.admin.put(f"/v1/topics/{self.topic(i)}", {"retry": [], **self.settings, **self.more_settings(i)})
                assert answer.status in (200, 201, 503), answer
                return answer.status < 500
            until(done, f"topic {i} is made", every=0.2)
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(put, range(self.topics if self.topic(1) != self.topic(0) else min(self.topics, 1))))

    def more_settings(self, _i):
        return {}

    def prepare(self):
        """Before the time that counts."""

    def batch(self, jobs):
        """The number of jobs that were made."""
        return sum(line["status"] == 201 for line in self.rest.batch(jobs))

    def release(self):
        """Gives back what lasts longer than its connections."""
        self.admin.post("/v1/jobs:cancel", {"filter": {"topic": f"{self.prefix}*"}, "wait": "PT1M"})

    def allowed(self, _seconds):
        """The number of its jobs that may be due in this time."""
        return math.inf

    def attack(self, deadline):
        raise NotImplementedError

    def well_behaved(self, deadline):
        raise NotImplementedError


def rest_until(deadline):
    time.sleep(max(0.0, deadline - time.monotonic()))


class WaitingPops(Neighbour):
    """1,500 waiting pops, of as many different times to report, and ten jobs a second for them."""
    pops, jobs_a_second = 1500, 10
    topics, settings = 1, {"delivery": "pull"}

    def attack(self, deadline):
        return self._wait(deadline, lambda i: 60_000 + i)

    def well_behaved(self, deadline):
        return self._wait(deadline, lambda i: 60_000)

    def _wait(self, deadline, ttr):
        polled, got, due = selectors.DefaultSelector(), 0, time.monotonic()
        for i in range(self.pops):
            self._pop(polled, i, ttr(i))
        while (now := time.monotonic()) < deadline:
            if now >= due:
                self.rest.post("/v1/jobs", {"topic": self.topic(), "delay": 0})
                due = max(due + 1 / self.jobs_a_second, now - 1)
            for key, _ in polled.select(max(0.0, due - time.monotonic())):
                got += self._take(polled, key.fileobj)
                self._pop(polled, key.data, ttr(key.data))
        close_all([key.fileobj for key in list(polled.get_map().values())])
        return got

    def _pop(self, polled, i, ttr):
        target, body = self.targets[i % len(self.targets)], json.dumps({"wait": "PT60S", "ttr": ttr}).encode()
        wire = target.connect()
        wire.sendall(target.head("POST", f"/v1/topics/{self.topic()}/pop", "Content-Type: application/json", f"Content-Length: {len(body)}", "Connection: close") + body)
        polled.register(wire, selectors.EVENT_READ, i)

    def _take(self, polled, wire):
        polled.unregister(wire)
        with wire:
            try:
                return status_of(wire.recv(65536)) == 200
            except OSError:
                return False


class CallbackPlaces(Neighbour):
    """3,840 callbacks at once to 960 hosts that accept and never answer, and that may take ten minutes."""
    topics, jobs = 960, 3840
    settings = {"delivery": "http", "callback_timeout": "PT10M", "ack_timeout": "PT15M"}

    def more_settings(self, i):
        return {"callback_url": self.url(i)}

    def attack(self, deadline):
        made = self.batch([{"topic": self.topic(i % self.topics), "delay": 0} for i in range(self.jobs)])
        rest_until(deadline)
        return made

    well_behaved = attack


class UnresolvedNames(Neighbour):
    """1,500 callbacks to as many hosts whose name servers do not answer."""
    topics, jobs = 300, 1500
    settings = {"delivery": "http"}
    released = 240  # 1,000 attempts have been claimed by then; two dispatchers look up 64 of its names at a time, 20 s each

    def attack(self, deadline):
        return self._call(deadline, lambda i: f"http://n{self.number}-{i}.slow.test/")

    def well_behaved(self, deadline):
        return self._call(deadline, lambda i: f"http://n.fast.test:{self.world.answering}/")

    def _call(self, deadline, url):
        made = self.batch([{"topic": self.topic(i % self.topics), "delay": 0, "callback_url": url(i)} for i in range(self.jobs)])
        rest_until(deadline)
        return made


class RatedOperations(Neighbour):
    """300 operations that change a job a minute, each in a topic of its own."""
    topics, settings, jobs = 300, {"delivery": "pull"}, 4  # jobs of each operation

    def prepare(self):
        self.batch([{"topic": self.topic(i), "key": f"{self.number}-{i}-{n}", "delay": "P30D"} for i in range(self.topics) for n in range(self.jobs)])

    def attack(self, deadline):
        return self._ask(deadline, {"rate": "1/m"})

    def well_behaved(self, deadline):
        return self._ask(deadline, {})

    def _ask(self, deadline, how):
        answers = [self.rest.post("/v1/jobs:reschedule", {"filter": {"topic": self.topic(i), "key_prefix": f"{self.number}-{i}-"}, "delay": "P40D",
                                                          "wait": "PT0S", **how}) for i in range(self.topics)]
        rest_until(deadline)
        for answer in answers:
            if answer.status == 202:
                self.rest.post(f"{answer.headers['Location']}/stop")
        return sum(answer.status in (200, 202) for answer in answers)


class SilentAlerts(Neighbour):
    """450 alerts at once, and as many once more, to hosts that accept and never answer."""
    topics = 900
    settings = {"delivery": "pull", "paused": True}

    def topic(self, i=0):
        return f"{self.prefix}{i}.x" if self.form == "attack" else f"{self.prefix}.{i}"

    def more_settings(self, i):
        return {"alerts": {"backlog": 1, "url": self.url(i)}}

    def attack(self, deadline):
        made, half = 0, self.topics // 2
        for first in (0, half):
            made += self.batch([{"topic": self.topic(first + i), "delay": 0} for i in range(half)])
            rest_until(deadline if first else (time.monotonic() + deadline) / 2)
        return made

    well_behaved = attack

    def release(self):
        """What has no place to go any more is not sent again."""
        self.settings = {**self.settings, "alerts": None}
        self.more_settings = lambda i: {}
        self.make_topics()
        super().release()


class ReplyTopics(Neighbour):
    """300 commands with 50 KB each, whose answers go to as many topics that Kafka does not have yet."""
    commands, payload = 300, "x" * 50_000

    def attack(self, deadline):
        return self._send(deadline, lambda i: f"{self.prefix}.r{self.number}-{i}.replies")

    def well_behaved(self, deadline):
        return self._send(deadline, lambda i: f"{self.prefix}.replies")

    def _send(self, deadline, reply_to):
        commander = Commander(self.world.kafka)
        for i in range(self.commands):
            key = f"{self.number}-{i}"
            commander.send({"action": "create", "topic": self.topic(i), "key": key, "delay": "P30D", "payload": self.payload}, key=key,
                           headers=[("reply_to", reply_to(i).encode())])
        commander.flush()
        rest_until(deadline)
        return self.commands


class FrequentSchedules(Neighbour):
    """A hundred schedules that fire five times a second, of a tenant that may make ten jobs a second and have a hundred; or that keep to it."""
    quotas = {"jobs_per_second": 10, "pending_jobs": 100}
    schedules = 100

    def attack(self, deadline):
        return self._put(deadline, "PT0.2S")

    def well_behaved(self, deadline):
        return self._put(deadline, "PT10S")

    def _names(self):
        return [f"{self.prefix}-{i}" for i in range(self.schedules)]

    def _put(self, deadline, every):
        answers = [self.rest.put(f"/v1/schedules/{name}", {"topic": self.topic(i), "every": every, "retry": [], "ack_timeout": "PT5S"}) for i, name in enumerate(self._names())]
        rest_until(deadline)
        return sum(answer.status in (200, 201) for answer in answers)

    def release(self):
        for name in self._names():
            self.admin.delete(f"/v1/schedules/{name}?cancel=true")
        super().release()

    def allowed(self, seconds):
        """What its quota lets pass, and the first fire of each schedule."""
        return self.quotas["jobs_per_second"] * (seconds + 2) + self.schedules


class NewTopicsEach(Neighbour):
    """300 due jobs, each in a topic that Kafka does not have yet."""
    jobs = 300

    def attack(self, deadline):
        return self._make(deadline, lambda i: f"{self.prefix}{self.number}-{i}.x")

    def well_behaved(self, deadline):
        return self._make(deadline, lambda i: f"{self.prefix}.{self.number}")

    def _make(self, deadline, topic):
        made = self.batch([{"topic": topic(i), "delay": 0, "retry": []} for i in range(self.jobs)])
        rest_until(deadline)
        return made


NEIGHBOURS = (WaitingPops, CallbackPlaces, UnresolvedNames, RatedOperations, SilentAlerts, ReplyTopics, FrequentSchedules, NewTopicsEach)

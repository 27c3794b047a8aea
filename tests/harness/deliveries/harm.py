"""Faults at the ends of callbacks and pops, for a nemesis: receivers out of order, topics whose delivery changes, limits that come and go."""
from ..harm.nemesis import fault
from .in_flight import InFlight

OF_DELIVERIES = {}
RECEIVER_MODES = ("silent", "slow", "drip", "failing", "refusing")


@fault(("receiver",), 12, 0.5, 5, into=OF_DELIVERIES)
def receiver_out_of_order(it, _part, chance):
    mode = chance.choice(RECEIVER_MODES)
    it.note(mode)
    it.ways.receiver.switch(mode)
    yield
    it.ways.receiver.switch("plan")


@fault(("turning",), 8, 0, 1, into=OF_DELIVERIES)
def another_delivery(it, _part, chance):
    kind = chance.choice(("http", "pull"))
    it.note(kind)
    it.ways.turn(kind)
    yield


@fault(("http", "pull"), 6, 1, 5, into=OF_DELIVERIES)
def limited(it, kind, chance):
    limit = chance.choice((1, 5, 20, 100))
    it.note(f"to {limit}")
    it.limits[kind].ask(limit)
    yield
    it.limits[kind].ask(None)


@fault(("http", "pull"), 4, 0.2, 3, into=OF_DELIVERIES)
def paused(it, kind, _chance):
    it.ways.post(f"/v1/topics/{it.ways.of[kind]}/pause")
    yield
    it.ways.post(f"/v1/topics/{it.ways.of[kind]}/resume")


class Limits:
    """The limit of one topic, and who counts what is in flight of it."""

    def __init__(self, stack, ways, kind):
        self.ways, self.kind, self.topic = ways, kind, ways.of[kind]
        self.counting = InFlight(stack, self.topic)

    def ask(self, limit):
        more = {} if limit is None else {"max_in_flight": limit}
        self.counting.limit(limit, lambda: self.ways.put(self.topic, self.kind, **more) == 200)

    def heal(self):
        self.ask(None)

    def end(self):
        """Raises with what was over a limit."""
        problems = self.counting.end()
        assert not problems, "\n".join(problems[:20])


def heal(ways, limits):
    """All is as at the beginning: whoever looks wants quiet."""
    ways.receiver.switch("plan")
    for one in limits.values():
        one.heal()
        ways.post(f"/v1/topics/{one.topic}/resume")

"""Rows of the fault catalogue in which the network does the harm: replies that are lost, requests that come late, one-way cuts."""
import os
import random
import signal
import socket
import threading
import time

import pytest

from harness.load import under_load
from harness.harm.proxy import REPLY, REQUEST
from harness.raw import post
from harness.rest import Rest
from harness.shards import shares
from harness.stack import until

LONG = bool(os.environ.get("DUETIME_TEST_LONG"))
DISPATCHERS = ("dispatcher1", "dispatcher2")


def again_and_again(run, times, proxy, what, fault, kind, direction, action, seconds=20):
    """Arms a rule, waits until it was met, lets work go on; so many times."""
    for _ in range(times):
        rule = proxy.on(kind, direction, action)
        rule.wait(seconds)
        run.faults[fault] += 1
        run.goes_on(30)
        if what:
            what(rule)


def doubts(stack, part):
    return stack.log(part).count('msg="took over"')


# ---- MySQL ----

def lost_commit(run, proxy, rest, key, alone):
    """A create while replies to COMMIT are lost; alone: nor can the API connect again. How it was answered, which was true."""
    rule = proxy.on("COMMIT", REPLY, "cut", count=None if alone else 1, where=lambda _: proxy.__setattr__("refusing", alone) or True)
    path, job = f"/v1/topics/{run.topics[0]}/jobs/{key}", {"delay": "PT1H", "payload": key}
    answer = rest.put(path, job)
    rule.wait(10)
    proxy.heal()
    run.faults["a COMMIT's reply cut"] += len(rule.hits)
    told = answer.status if answer.status == 201 else answer.json["type"].rsplit("/", 1)[1]
    same = until(lambda: (a := rest.put(path, job)).status != 503 and a, "an answer")
    assert same.status == {201: 200, "unavailable": 201}.get(told, 200), (answer, same)
    if told != "unavailable":
        assert same.json["id"] == answer.json["id"], (answer, same)
    run.journal.made(same.json["id"], time.time() * 1000)
    assert rest.delete(f"/v1/jobs/{same.json['id']}").status == 200
    return told


def test_row3_a_commit_with_a_lost_answer_is_resolved_by_a_repeated_request(proxied, seed):
    """By the API itself when it can ask MySQL anew, which it does first; else by the caller."""
    stack, detours = proxied
    stack.restart("api1", settings={"mysql.io_timeout": "PT1M", "api.database_timeout": "PT1M"})  # the API waits for a slow MySQL and refuses no request
    proxy, rest = detours["api1", "mysql"], Rest(stack["DUETIME_URL_API1"])
    with under_load(stack, seed) as run:
        assert [lost_commit(run, proxy, rest, f"lost-{n}", alone=False) for n in range(3)] == [201] * 3
        assert any(lost_commit(run, proxy, rest, f"alone-{n}", alone=True) == "outcome-unknown" for n in range(20))
        again_and_again(run, 2, proxy, None, "a COMMIT's reply cut", "COMMIT", REPLY, "cut")
        again_and_again(run, 1, detours["dispatcher1", "mysql"], None, "a leader's COMMIT's reply cut", "COMMIT", REPLY, "cut")
        again_and_again(run, 1, detours["dispatcher1", "mysql"], None, "a leader's COMMIT cut", "COMMIT", REQUEST, "cut")


# ---- Redis ----

def test_row4_lost_index_updates_are_repaired_within_a_period(proxied, seed):
    """reconcile.period is a second here, but a full walk takes an hour: jobs that are only in MySQL do not wait for the walk."""
    stack, detours = proxied
    rest, seen = Rest(stack["DUETIME_URL_API1"]), {}
    with under_load(stack, seed) as run:
        for part in DISPATCHERS:
            stack.restart(part, settings={"reconcile.walk": "PT1H"})
        for api in ("api1", "api2"):
            detours[api, "redis1"].refuse()
        run.faults["index writes refused"] += 1
        for delay in (1200, 2000, 2500, 3000):
            due = time.time() * 1000 + delay
            answer = rest.post("/v1/jobs", {"topic": run.topics[0], "delay": delay, "payload": "unseen"})
            assert answer.status == 201, answer
            run.journal.made(answer.json["id"], due)
            seen[answer.json["id"]] = due
        assert rest.get("/readyz").status == 200
        until(lambda: len(run.consumer.which(set(seen))) == len(seen), lambda: f"{run.consumer.which(set(seen))} of {seen} arrived")
        detours.heal()
        run.goes_on()


def test_row22_jobs_are_dispatched_while_redis_hangs(proxied, seed):
    stack, detours = proxied
    with under_load(stack, seed) as run:
        stack.signal("redis1", signal.SIGSTOP)
        run.faults["redis stopped"] += 1
        run.goes_on(60)  # from MySQL
        run.wait(30 if LONG else 4)
        stack.signal("redis1", signal.SIGCONT)
        run.goes_on()
        for proxy in detours.of("redis1"):  # late replies that nobody asked for any more
            proxy.hold(REPLY)
        run.faults["redis answers late"] += 1
        run.goes_on(60)
        detours.heal(late=True)
        run.goes_on()


# ---- Kafka ----

def test_row13_an_endtxn_whose_answer_is_lost_ends_the_producer_and_has_no_other_effect(proxied, seed):
    stack, detours = proxied
    before = sum(doubts(stack, part) for part in DISPATCHERS)
    with under_load(stack, seed) as run:
        for part in DISPATCHERS:
            again_and_again(run, 2, detours[part, "kafka"], None, "an EndTxn's reply cut", "EndTxn", REPLY, "cut")
        until(lambda: sum(doubts(stack, part) for part in DISPATCHERS) >= before + 4, "each lost answer counts as a doubt")


def test_row14_a_late_endtxn_does_not_end_the_next_transaction(proxied, seed):
    """The request stays in the network, its connection breaks, librdkafka sends it again by itself; the first one is delivered when
    the next transaction is open."""
    stack, detours = proxied
    with under_load(stack, seed) as run:
        for n in range(3):
            proxy = detours[DISPATCHERS[n % 2], "kafka"]
            late = proxy.on("EndTxn").wait(20)
            proxy.leave(late.hits[0])
            following = proxy.on("Produce", skip=random.Random(seed + n).randrange(4))
            following.wait(20)  # a transaction is open: its messages are on the way
            late.release()
            following.release()
            run.faults["an EndTxn delivered in the next transaction"] += 1
            run.goes_on(30)


@pytest.mark.one_of
@pytest.mark.parametrize("kind", ["Produce", "AddPartitionsToTxn", "InitProducerId"])
def test_row15_late_messages_of_an_earlier_producer_are_refused(proxied, seed, kind):
    """Delivered after its connection broke and a new producer took over; the end of what readers see goes on rising."""
    stack, detours = proxied
    with under_load(stack, seed) as run:
        for n in range(2):
            proxy = detours[DISPATCHERS[n % 2], "kafka"]
            if kind == "InitProducerId":
                proxy.on("EndTxn", REPLY, "cut").wait(20)  # makes it take over
            late = proxy.on(kind).wait(20)
            proxy.leave(late.hits[0])
            proxy.on("EndTxn", REPLY, "watch").wait(20)  # the next one has sent something
            late.release()
            run.faults[f"{kind} delivered late"] += 1
            run.goes_on(30)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["Produce", "AddPartitionsToTxn", "EndTxn"])
def test_row15_a_request_held_past_the_transaction_timeout_is_given_up(proxied, seed, kind):
    stack, detours = proxied
    with under_load(stack, seed, finish_seconds=90) as run:
        held = detours["dispatcher1", "kafka"].on(kind).wait(20)
        run.faults[f"{kind} held"] += 1
        run.wait(16)
        held.release()
        run.goes_on(seconds=60)


def test_row17_a_coordinator_that_cannot_be_reached_is_waited_for(proxied, seed):
    stack, detours = proxied
    with under_load(stack, seed, finish_seconds=150 if LONG else 60) as run:
        for proxy in detours.of("kafka"):
            random.Random(seed).choice([proxy.hold, proxy.refuse])()
        run.faults["kafka unreachable"] += 1
        run.wait(60 if LONG else 6)
        detours.heal(late=False)
        run.goes_on(seconds=90)


# ---- ZooKeeper ----

def test_row30_a_node_whose_creation_was_not_answered_is_found_and_not_orphaned(proxied, seed):
    """An orphan among the leaders' nodes would be a shard that nobody leads; among the members', a share too small."""
    stack, detours = proxied
    with under_load(stack, seed) as run:
        until(lambda: shares(stack) == [2, 2], lambda: f"2, 2: {shares(stack)}")
        for n in range(2):
            stayer, leaver = DISPATCHERS[n], DISPATCHERS[1 - n]
            lost = detours[stayer, "zookeeper"].on("create", REPLY, "cut", count=2)
            stack.stop(leaver)
            lost.wait(20)  # it takes the shards of the one that left
            run.goes_on(60)
            until(lambda: shares(stack) == [4], lambda: f"4: {shares(stack)}")
            lost = detours[leaver, "zookeeper"].on("create", REPLY, "cut", skip=random.Random(seed + n).randrange(6), count=2)
            stack.start(leaver)
            until(lambda: shares(stack) == [2, 2], lambda: f"2, 2: {shares(stack)}")
            lost.release()
            run.faults["a create's reply cut"] += 2 + len(lost.hits)
            run.goes_on(60)


# ---- each pair ----

PAIRS = [("api1", "mysql"), ("api1", "redis1")] + [("dispatcher1", server) for server in ("mysql", "redis1", "kafka", "zookeeper")]


@pytest.mark.one_of
@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_row31_a_one_way_cut_is_safe_and_heals_by_itself(proxied, seed, pair):
    """What was on the way comes late, or never."""
    stack, detours = proxied
    chance = random.Random(f"{seed}{pair}")
    with under_load(stack, seed) as run:
        for direction in chance.sample([REQUEST, REPLY], 2):
            detours[pair].hold(direction)
            run.faults[f"{'-'.join(pair)} cut, {direction}"] += 1
            run.wait(chance.uniform(1, 12 if LONG else 5))
            detours[pair].heal(late=chance.random() < 0.5)
            run.goes_on()


# ---- clients ----

class Dripper(threading.Thread):
    """Connections that send a create byte by byte and never come to its end."""

    def __init__(self, url, connections):
        super().__init__(daemon=True)
        host, port = url.rsplit("/", 1)[1].split(":")
        self.sockets = [socket.create_connection((host, int(port)), timeout=5) for _ in range(connections)]
        self.words = [post("/v1/jobs", {"topic": "never", "delay": 0, "payload": "x" * 5000 * (n % 2)}) for n in range(connections)]
        self.at = [n * 37 % (len(self.words[n]) - 10) for n in range(connections)]  # some within the headers, some within the body
        for n, one in enumerate(self.sockets):
            one.sendall(self.words[n][:self.at[n]])
        self._end = threading.Event()
        self.start()

    def run(self):
        while not self._end.wait(0.2):
            for n, one in enumerate(self.sockets):
                if self.at[n] == len(self.words[n]) - 1:
                    continue  # the last byte never comes
                try:
                    one.sendall(self.words[n][self.at[n]:self.at[n] + 1])
                    self.at[n] += 1
                except OSError:
                    pass

    def end(self):
        self._end.set()
        self.join(10)
        for one in self.sockets:
            one.close()


def test_row38_slow_clients_do_not_delay_others(proxied, seed):
    stack, _ = proxied
    url = stack["DUETIME_URL_API1"]
    with under_load(stack, seed) as run:
        dripper = Dripper(url, 250)
        try:
            run.faults["dripping clients"] += 250
            for _ in range(150):
                assert Rest(url).post("/v1/jobs", {"topic": "row38", "delay": "P30D"}).status == 201
            run.goes_on()
        finally:
            dripper.end()
        assert Rest(url).get("/v1/jobs?topic=never").json["jobs"] == []

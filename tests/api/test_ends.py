"""Programs that are told to end in the middle of something end cleanly: no sanitizer has anything to say."""
import contextlib

import pytest
from harness.harm.nth import no_report
from harness.program import OwnApi
from harness.receiver import Receiver
from harness.stack import PRESET, TREE, until

DISPATCHER = TREE / "build" / PRESET / "dispatcher" / "duetime-dispatcher"
SETTINGS = {"redis.endpoints": "", "kafka.brokers": "", "zookeeper.servers": "", "shards.count": 2, "dispatch.metrics_port": 0,
            "zookeeper.session_timeout": "PT6S", "callbacks.enabled": "true", "callbacks.allow_networks": "127.0.0.0/8"}


@pytest.fixture
def receiver():
    made = Receiver()
    yield made
    made.end()


@contextlib.contextmanager
def programs(stack, folder, rule):
    """(API, dispatcher with that rule for its fail points)."""
    api = OwnApi(stack, folder / "api", "ends", SETTINGS).start()
    dispatcher = OwnApi(stack, folder / "dispatcher", "ends", SETTINGS, shared=True, program=DISPATCHER,
                        variables={"DUETIME_FAIL": rule}).launch()
    try:
        yield api, dispatcher
    finally:
        assert dispatcher.end() is not None and api.end() == 0


def ends_cleanly(dispatcher):
    assert dispatcher.end() == 0, dispatcher.log()[-6000:]
    no_report(dispatcher.log(), "the end")


def test_a_dispatcher_that_ends_while_it_renews_the_lease_of_its_callbacks_ends_cleanly(stack, tmp_path, receiver):
    with programs(stack, tmp_path, "callbacks.renew=delay:1500@1") as (api, dispatcher):
        assert api.rest.put("/v1/topics/called", {"delivery": "http", "callback_url": receiver.url}).status == 201
        api.rest.make(topic="called", delay=0)
        until(lambda: receiver.log, dispatcher.log)
        until(lambda: "callbacks.renew" in dispatcher.log(), dispatcher.log)
        ends_cleanly(dispatcher)


def test_a_dispatcher_ends_cleanly_if_its_election_releases_shards_last(stack, tmp_path):
    with programs(stack, tmp_path, "election.moved=delay:1500@1-9") as (_, dispatcher):
        until(lambda: 'msg="joined the election"' in dispatcher.log(), dispatcher.log)  # the log reports this next
        ends_cleanly(dispatcher)
        assert "election.moved" in dispatcher.log(), dispatcher.log()[-6000:]

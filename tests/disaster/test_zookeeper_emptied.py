"""ZooKeeper loses all that it has, and later is replaced by another one: leaders come back, epochs rise, nothing is dispatched twice."""
import shutil

import pytest

from harness.checker import connect, rows
from harness.load import under_load
from harness.operator.servers import empty_zookeeper
from harness.stack import until

pytestmark = pytest.mark.turn(6, 15)

PAGE = "zookeeper-emptied"


@pytest.fixture
def another(tmp_path):
    with empty_zookeeper(tmp_path / "zookeeper") as address:
        yield address


def led(stack):
    return rows(connect(stack), "SELECT COUNT(*) n FROM v_shards WHERE named AND owner IS NOT NULL")[0]["n"]


def lost(stack):
    """Nobody leads, and attempts that were under way are where they were."""
    stack.kill("zookeeper")
    until(lambda: led(stack) == 0, "all step down")
    shutil.rmtree(stack.home / "zookeeper")


def test_no_job_is_lost_or_sent_twice_when_zookeeper_is_emptied_and_then_replaced(stack, seed, person, another):
    operator = person(ZOOKEEPER=another)
    with under_load(stack, seed, finish_seconds=60) as run:
        lost(stack)
        stack.start("zookeeper")
        operator.follow(PAGE, "Under the same address")
        run.goes_on(150, seconds=60)
        lost(stack)
        operator.follow(PAGE, "Under another address")
        run.goes_on(150, seconds=60)

"""Redis is lost for good, and an empty one at another address takes its place."""
import pytest

from harness.checker import connect, rows
from harness.load import under_load
from harness.operator.servers import empty_redis

pytestmark = pytest.mark.turn(0, 15)


@pytest.fixture
def new_redis(tmp_path):
    with empty_redis(tmp_path / "redis") as address:
        yield address


def homes(stack):
    return {row["index_at"].decode() for row in rows(connect(stack), "SELECT index_at FROM v_shards WHERE named")}


def test_redis_is_replaced_by_an_empty_one_while_jobs_continue(stack, seed, person, new_redis):
    old = stack["DUETIME_REDIS"]
    operator = person(OLD_REDIS=old, NEW_REDIS=new_redis)
    with under_load(stack, seed, finish_seconds=60) as run:
        before = run.counts["creates without a 2xx"]
        stack.kill("redis1")
        run.goes_on(150, seconds=60)
        assert run.counts["creates without a 2xx"] == before or "outage=mysql" in stack.log("api1") + stack.log("api2"), "creates need no Redis"
        operator.follow("redis-lost")
        run.goes_on(150, seconds=60)
        assert homes(stack) == {new_redis}

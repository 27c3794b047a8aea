"""Somebody drops the database under load, and it is restored from last night's dump and the binary logs: nothing is lost, nothing is sent twice."""
import pytest

from harness.checker import connect, rows
from harness.load import under_load
from harness.operator import clients
from harness.operator.servers import Replica

pytestmark = pytest.mark.turn(13, 15)

PAGE = "backup"


@pytest.fixture
def scratch(tmp_path):
    made = Replica(tmp_path / "scratch", "of-nobody", [])
    try:
        yield made.up()
    finally:
        made.process.stop()
        made.discard()


def test_a_dropped_database_is_restored_to_its_last_commit(stack, seed, person, scratch, tmp_path):
    operator = person(ADMIN=clients.admin_options(stack["DUETIME_MYSQL_SOCKET"]), SCRATCH=clients.admin(scratch.socket),
                      DATABASE=stack["DUETIME_MYSQL_DATABASE"], BACKUPS=tmp_path / "backups")
    with under_load(stack, seed, finish_seconds=60) as run:
        operator.follow(PAGE, "Back up")
        run.goes_on(200, seconds=60)
        operator.follow(PAGE, "Check a backup")
        client = connect(stack)
        rows(client, f"DROP DATABASE {stack['DUETIME_MYSQL_DATABASE']}")
        client.close()
        operator.follow(PAGE, "When the database is lost")
        run.goes_on(200, seconds=60)
        assert not rows(connect(stack), "SELECT shard FROM shards WHERE halted IS NOT NULL"), "the restored rows have all that the ledger tells of"

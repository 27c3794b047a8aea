"""The MySQL primary is killed under load, and its semi-synchronous replica is promoted."""
import pytest

from harness.checker import connect, rows
from harness.load import under_load
from harness.operator import clients, page
from harness.operator.person import PAGES
from harness.operator.servers import Replica
from harness.rest import Rest
from harness.stack import until

pytestmark = pytest.mark.turn(3, 15)

PAGE = "mysql-primary-lost"


@pytest.fixture
def replica(tmp_path):
    made = Replica(tmp_path / "replica", "of-the-stack", page.settings(PAGES / f"{PAGE}.md", clients.READER))
    try:
        yield made.up()
    finally:
        made.process.stop()
        made.discard()


@pytest.fixture
def operator(stack, replica, person):
    """Of programs that know both servers, the replica first."""
    stack.up_again("--set", f"mysql.hosts={replica.address},127.0.0.1:{stack['DUETIME_MYSQL_PORT']}")
    return person(PRIMARY=clients.admin(stack["DUETIME_MYSQL_SOCKET"]), REPLICA=clients.admin(replica.socket), PRIMARY_HOST="127.0.0.1",
                  PRIMARY_PORT=stack["DUETIME_MYSQL_PORT"], REPL_USER=stack["DUETIME_MYSQL_USER"], REPL_PASSWORD=stack["DUETIME_MYSQL_PASSWORD"])


def asked(rest, topic):
    try:
        return rest.post("/v1/jobs", {"topic": topic, "delay": "PT1H"}).status == 201
    except OSError:
        return False


def test_after_a_failover_writes_continue_and_no_job_is_lost_or_duplicated(stack, seed, operator, replica):
    with under_load(stack, seed, finish_seconds=60) as run:
        operator.follow(PAGE, "Before it happens")
        run.goes_on(200, seconds=60)
        stack.kill("mysql")
        stack.env["DUETIME_MYSQL_SOCKET"] = str(replica.socket)  # where the checker looks from now on
        operator.follow(PAGE, "When the primary is lost")
        rest = Rest(stack["DUETIME_URL"])
        until(lambda: asked(rest, f"after-{seed}"), "a create is acknowledged")
        run.goes_on(200, seconds=60)
        assert not rows(connect(stack), "SELECT shard FROM shards WHERE halted IS NOT NULL"), "the replica had all that the ledger tells of"

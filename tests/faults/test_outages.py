"""Rows of the fault catalogue that need nothing but signals, the servers' own commands and a second client."""
import signal

from harness.load import under_load


def test_row10_a_leader_stopped_past_its_session_writes_nothing(stack, seed):
    with under_load(stack, seed) as run:
        stack.signal("dispatcher1", signal.SIGSTOP)
        run.goes_on(150)  # the shards of both
        stack.signal("dispatcher1", signal.SIGCONT)
        run.goes_on()

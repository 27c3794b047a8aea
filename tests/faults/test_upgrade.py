"""A row of the fault catalogue about versions: programs of the next one, and of this one again, on its schema. `tests/upgrade` does it with the version
before, built from git; here both have the same sources, and the next one a migration more."""
from harness.harm import upgrade
from harness.load import under_load
from harness.stack import PRESET, TREE


def test_row58_programs_replaced_one_by_one_by_those_of_the_next_version_and_back_lose_nothing(stack, seed):
    before, after = TREE / "build" / PRESET, upgrade.next_version(PRESET)
    try:
        with under_load(stack, seed, kinds=("kafka", "http", "pull"), finish_seconds=60) as run:
            upgrade.there_and_back(stack, run, before, after)
        upgrade.refused(stack, before)
    finally:
        upgrade.taken_back(stack)
    stack.heal()  # who was refused goes on by itself: every shard gets a leader

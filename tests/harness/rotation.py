"""Slow tests take turns: a bounded run takes one in n of a file's, or of a test's variants, beginning where its seed says; n runs with seeds
one after the other see them all. What is named by -k runs, and with DUETIME_TEST_LONG=1, or without a seed, everything does.

Files whose setting up is what takes the time take turns as wholes: `pytestmark = pytest.mark.turn(k, n)` for the k-th of n files.

With DUETIME_TEST_SLICE=secured a bounded run of the integration suite takes the folder `secured` and, over secured connections, one in thirteen of the
other files that use a stack.

All of them run in an order that the seed draws.

For a conftest.py: `from harness.rotation import pytest_collection_modifyitems, pytest_configure`; a file says
`pytestmark = pytest.mark.in_turns(3)`, and a test with at least three variants `@pytest.mark.in_turns(3)`.
"""
import os
import random
import zlib

SLICES = 13  # shares no divisor with the turns of tests and files: each gets to be in the slice


def pytest_configure(config):
    config.addinivalue_line("markers", "in_turns(n): a bounded run takes one in n of a file's tests, by its seed")
    config.addinivalue_line("markers", "secured: runs first, on an unused stack")
    config.addinivalue_line("markers", "turn(k, n): a bounded run takes the file when its seed leaves k, divided by n")


def leave_out(config, items, some):
    if some:
        config.hook.pytest_deselected(items=some)
        items[:] = [item for item in items if item not in some]


def begins_at(item, seed):
    """Where the turns of a test's file begin: at another place for each file, lest a run has the slow ones of all."""
    return seed + zlib.crc32(item.path.name.encode())


def not_in_turn(items, seed):
    """Those of the marked tests whose turn it is not."""
    numbers, others = {}, []
    for item in items:
        turn = item.get_closest_marker("turn")
        if turn and seed % turn.args[1] != turn.args[0]:
            others.append(item)
            continue
        mark = item.get_closest_marker("in_turns")
        if mark is None:
            continue
        number = numbers[item.path] = numbers.get(item.path, -1) + 1
        if (number + begins_at(item, seed)) % mark.args[0]:
            others.append(item)
    return others


def has_a_stack(item):
    """It uses the stack that the whole suite has, or makes one of its own."""
    return "stack" in item.fixturenames or hasattr(item.module, "Stack")


def in_slice(items, seed):
    """Those that go over secured connections this time: whole files, so that what one sets up is set up once."""
    files = sorted({item.path for item in items if has_a_stack(item)})
    chosen = set(files[seed % SLICES::SLICES])
    return [item for item in items if item.path.parent.name == "secured" or (item.path in chosen and has_a_stack(item))]


def take_slice(config, items, seed):
    if os.environ.get("DUETIME_TEST_SLICE") == "secured":
        chosen = in_slice(items, seed)
        leave_out(config, items, [item for item in items if item not in chosen])


def in_drawn_order(items, seed):
    """Shuffles the files, and the tests of each file, by the seed. The tests of a file stay together: they share its fixtures."""
    files = {}
    for item in items:
        files.setdefault(item.path, []).append(item)
    draw = random.Random(seed)
    for group in files.values():
        draw.shuffle(group)
    groups = list(files.values())
    draw.shuffle(groups)
    return [item for group in groups for item in group]


def pytest_collection_modifyitems(config, items):
    seed = int(os.environ.get("DUETIME_TEST_SEED") or random.SystemRandom().randrange(1 << 31))
    if os.environ.get("DUETIME_TEST_SEED") and not config.option.keyword and not os.environ.get("DUETIME_TEST_LONG"):
        take_slice(config, items, seed)
        leave_out(config, items, not_in_turn(items, seed))
    items[:] = in_drawn_order(items, seed)
    items.sort(key=lambda item: not item.get_closest_marker("secured"))  # first, on a stack that nobody has used

"""Which files a bounded run takes over secured connections: each in its turn, whole, and none twice in a run. No stack is needed."""
import pathlib
import types

from harness.rotation import SLICES, in_slice


class Item:
    def __init__(self, path, fixtures=("stack", "api"), marks=(), **module):
        self.path, self.fixturenames, self.marks, self.module = pathlib.Path(path), fixtures, marks, types.SimpleNamespace(**module)

    def get_closest_marker(self, name):
        return name in self.marks


def test_each_test_file_has_its_turn_as_a_whole():
    items = [Item(f"file-{number:02}") for number in range(20) for _ in range(3)]
    turns = [in_slice(items, seed) for seed in range(SLICES)]
    assert sorted(item.path for turn in turns for item in turn) == sorted(item.path for item in items)
    assert all(sum(other.path == item.path for other in turn) == 3 for turn in turns for item in turn)


def test_files_with_a_stack_of_their_own_have_theirs_and_files_without_a_stack_none():
    items = [Item("a", fixtures=("wide",), Stack=object), Item("b"), Item("c", fixtures=("tmp_path",))]
    assert {item.path for seed in range(SLICES) for item in in_slice(items, seed)} == {pathlib.Path("a"), pathlib.Path("b")}


def test_marked_tests_are_in_each_turn():
    always = Item("secured/a", fixtures=("secured",), marks=("secured",), Stack=object)
    assert all(always in in_slice([always, Item("b")], seed) for seed in range(SLICES))

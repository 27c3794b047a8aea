"""The pages themselves, and that whoever follows them does so word for word and notices what is not as they say."""
import pathlib
import re

import pytest

from harness.operator import page
from harness.operator.person import PAGES, Person

ALL = sorted(path.stem for path in PAGES.glob("*.md") if path.stem != "README")


def following(tmp_path, monkeypatch, text, reader="mariadb"):
    (tmp_path / "trial.md").write_text(text)
    monkeypatch.setattr("harness.operator.person.PAGES", tmp_path)
    return Person(tmp_path, {"GIVEN": "a b"}, reader).follow("trial")


def test_each_page_is_listed_and_followed_by_a_test():
    listed = set(re.findall(r"\]\(([\w-]+)\.md\)", (PAGES / "README.md").read_text(encoding="utf-8")))
    followed = set()
    for path in pathlib.Path(__file__).parent.glob("test_*.py"):
        followed |= set(re.findall(r'(?:\.follow\(|^PAGE = )"([\w-]+)"', path.read_text(encoding="utf-8"), re.M))
    assert listed == set(ALL) <= followed


@pytest.mark.parametrize("name", ALL)
def test_a_page_uses_no_undefined_variable(name):
    """Those of the page of pages, those of its own table, and what its commands set themselves."""
    text = (PAGES / f"{name}.md").read_text(encoding="utf-8")
    tables = text + (PAGES / "README.md").read_text(encoding="utf-8")
    given = {word for line in tables.splitlines() if line.startswith("| `") for word in re.findall(r"`([A-Z_]+)`", line.split("|")[1])}
    commands = "\n".join(step.commands for reader in ("mariadb", "mysql") for step in page.steps(PAGES / f"{name}.md", reader))
    made = set(re.findall(r"\bfor (\w+) in ", commands)) | set(re.findall(r"\b(\w+)=", commands))
    made |= {word for words in re.findall(r"\bread -r ([\w ]+)", commands) for word in words.split()}
    assert set(re.findall(r"\$\{?([A-Za-z_]\w*)", commands)) <= given | made


ONLY = {"mariadb": r"\b(?:START|STOP|RESET|SHOW) SLAVE\b|CHANGE MASTER|semi_sync_(?:slave|master)|MASTER_GTID_WAIT|\bslave_|log_slave|\\G\b|\bmariadb(?:-\w+)? ",
        "mysql": r"\b(?:START|STOP|RESET|SHOW) REPLICA\b|REPLICATION SOURCE|semi_sync_(?:replica|source)|WAIT_FOR_EXECUTED|super_read_only|gtid_mode|log_replica|semisync_|\bmysql(?:dump|binlog)? "}


@pytest.mark.parametrize("kind", ["sh", "ini"])
@pytest.mark.parametrize("name", ALL)
def test_a_command_for_one_server_has_its_counterpart_for_the_other(name, kind):
    """MariaDB's commands first, then MySQL's; whatever says for nobody in particular what it is for, both understand."""
    found = [(line, word, inside) for line, _, of, word, inside, _ in page.blocks((PAGES / f"{name}.md").read_text(encoding="utf-8")) if of == kind]
    words = [word for _, word, _ in found if word]
    assert words == ["mariadb", "mysql"] * (len(words) // 2)
    for line, word, inside in found:
        strange = [foreign[0] for reader, pattern in ONLY.items() if reader != word for foreign in re.finditer(pattern, inside)]
        assert not strange, f"{name}.md, line {line}: {strange}"


def test_blocks_are_run_in_order_in_one_shell_and_their_output_is_read(tmp_path, monkeypatch):
    told = following(tmp_path, monkeypatch, "```sh\nseen=\"$GIVEN 7\"\n```\nprose\n\n```sh\necho \"  $seen\"\necho end\n```\n```text\na b …\nend\n```\n")
    assert told == ["", "  a b 7\nend\n"]


@pytest.mark.parametrize("text", ["```sh\necho one\n```\n```text\ntwo\n```\n", "```sh\necho one; echo two\n```\n```text\ntwo\none\n```\n",
                                  "```sh\nfalse\n```\n", "```sh\nfalse | true\n```\n", "```sh\necho $NOBODY_SET_IT\n```\n"])
def test_output_that_differs_from_the_page_is_noticed(tmp_path, monkeypatch, text):
    with pytest.raises(AssertionError):
        following(tmp_path, monkeypatch, text)


def test_a_command_to_be_repeated_runs_until_its_output_is_that_of_the_page(tmp_path, monkeypatch):
    text = "Repeat it:\n\n```sh\necho x >>count; wc -l <count\n```\n```text\n3\n```\n"
    assert following(tmp_path, monkeypatch, text) == ["3\n"]


def test_commands_for_the_other_server_are_repeated_too(tmp_path, monkeypatch):
    text = "Repeat it:\n\n```sh mysql\nexit 1\n```\n```text mysql\nnothing\n```\n```sh mariadb\necho x >>count; wc -l <count\n```\n```text mariadb\n3\n```\n"
    assert following(tmp_path, monkeypatch, text) == ["3\n"]


def test_configuration_lines_are_selected_by_server(tmp_path):
    (tmp_path / "trial.md").write_text("```ini\n[mysqld]\na = 1  # why\n```\n```ini mariadb\nb = 2\n```\n```ini mysql\nc = 3\nc = 4\n```\n")
    assert page.settings(tmp_path / "trial.md", "mysql") == [("a", "1"), ("c", "3"), ("c", "4")]


def test_blocks_for_the_other_server_are_skipped(tmp_path, monkeypatch):
    text = "```sh mysql\nexit 1\n```\n```text mysql\nnothing\n```\n```sh mariadb\necho one\n```\n```text mariadb\none\n```\n"
    assert following(tmp_path, monkeypatch, text) == ["one\n"]

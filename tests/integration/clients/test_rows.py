"""Each row of the table (harness/clients/rows.py) for each client: what networks, servers and processes do to it."""
import functools

import pytest

from harness.clients.languages import LANGUAGES, Programs
from harness.clients.rows import ROWS


def cases():
    """As in test_clients.py a run takes half of one language; a row that does not apply says why."""
    for k, language in enumerate(sorted(LANGUAGES)):
        for row in ROWS:
            why = row.not_for.get(language)
            marks = [pytest.mark.skip(reason=f"{language}: {why}")] if why else [pytest.mark.turn(2 * k + 1, 2 * len(LANGUAGES))]
            yield pytest.param(language, row, id=f"{language}-{row}", marks=marks)


@functools.cache
def prepare(language, stack):
    Programs(stack, language, "/dev/null").prepare()


@pytest.mark.parametrize(("language", "row"), cases())
def test_each_row_of_the_table_of_client_guarantees_holds(stack, api, topic, tmp_path, language, row):
    prepare(language, stack)
    programs = Programs(stack, language, tmp_path / "effects.log")
    try:
        row.run(programs, api, topic, tmp_path)
    finally:
        programs.end()

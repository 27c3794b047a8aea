"""The runbook: each statement of its pages by which a person looks is one that the database takes."""
import re

from harness.stack import TREE

RUNBOOK = TREE / "deploy" / "runbook"


def statements():
    """(page, statement) of the sections that tell how to look."""
    for path in sorted(RUNBOOK.rglob("*/*.md")):
        look = path.read_text(encoding="utf-8").split("## How to look")[1].split("## What to do")[0]
        for block in re.findall(r"```sql\n(.*?)```", look, re.S):
            text = re.sub(r"--[^\n]*", "", block)
            yield from ((path.stem, one.strip()) for one in text.split(";") if one.strip())


def test_sql_of_the_runbook_fits_this_schema(db):
    seen = list(statements())
    assert len(seen) > 60
    refused = []
    for page, statement in seen:
        assert statement.split()[0] in ("SELECT", "SHOW"), (page, statement)
        try:
            db(statement)
        except Exception as error:  # noqa: BLE001: all of them are told together
            refused.append((page, statement, str(error)))
    assert not refused, "\n".join(map(str, refused))

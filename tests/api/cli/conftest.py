"""The program `duetime` against the session's stack."""
import pytest

from harness.command_line import run


@pytest.fixture
def duetime(stack):
    """duetime("jobs", "list", …) -> what it told."""
    def ask(*words, variables=None, **options):
        return run(*words, variables={"DUETIME_URL": stack["DUETIME_URL_API1"], **(variables or {})}, **options)
    return ask

"""Operations on sets of jobs."""
from .stack import until


def ended(api, answer, **waits):
    """Returns the operation of an answer once it has ended. On a busy machine this can take longer than a request may wait."""
    assert answer.status in (200, 202), answer
    return until(lambda: (seen := api.get(f"/v1/operations/{answer.json['id']}").json)["state"] != "running" and seen, answer, **waits)

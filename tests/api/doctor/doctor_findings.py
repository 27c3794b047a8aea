"""What GET /v1/doctor tells, waited for."""
from harness.stack import TREE, until


def findings(api):
    answer = api.get("/v1/doctor")
    assert answer.status == 200, answer
    assert all(each[name] for each in answer.json["findings"] for name in ("finding", "severity", "subject", "detail", "means", "do", "runbook", "at"))
    assert all((TREE / each["runbook"]).is_file() for each in answer.json["findings"]), answer
    causes_come_first(answer.json["findings"])
    return answer.json["findings"]


def causes_come_first(told):
    """What another finding explains follows it, with nothing but what it explains between."""
    root = None
    for each in told:
        assert each["cause"] in (None, root), told
        root = root if each["cause"] else each["finding"]


def explained_by(api, cause):
    """The names of the findings that this one explains."""
    return {each["finding"] for each in findings(api) if each["cause"] == cause}


def found(api, name, subject=None):
    """The finding, once it is there."""
    return until(lambda: next((each for each in findings(api) if each["finding"] == name and subject in (None, each["subject"])), None),
                 lambda: findings(api))


def gone(api, name, subject=None):
    until(lambda: not any(each["finding"] == name and subject in (None, each["subject"]) for each in findings(api)), lambda: findings(api), seconds=30)

"""What GET /v1/doctor tells, waited for."""
from harness.stack import TREE, until


def findings(api):
    answer = api.get("/v1/doctor")
    assert answer.status == 200, answer
    assert all(each[name] for each in answer.json["findings"] for name in ("finding", "severity", "subject", "detail", "means", "do", "runbook"))
    assert all((TREE / each["runbook"]).is_file() for each in answer.json["findings"]), answer
    return answer.json["findings"]


def found(api, name, subject=None):
    """The finding, once it is there."""
    return until(lambda: next((each for each in findings(api) if each["finding"] == name and subject in (None, each["subject"])), None),
                 lambda: findings(api))


def gone(api, name, subject=None):
    until(lambda: not any(each["finding"] == name and subject in (None, each["subject"]) for each in findings(api)), lambda: findings(api), seconds=30)

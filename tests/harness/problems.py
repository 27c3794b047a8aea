"""What a refusal must look like (RFC 9457), whatever was refused."""


def refused(answer, status, slug, *pointers):
    """The answer is that problem and, when pointers are given, its errors point at exactly these; gives its document."""
    assert answer.status == status, answer
    assert answer.headers["Content-Type"] == "application/problem+json", dict(answer.headers)
    document = answer.json
    assert document["type"].endswith(f"/problems/{slug}"), document
    assert document["status"] == status and document["title"], document
    assert document["request_id"] == answer.headers["X-Request-Id"], document
    for error in document.get("errors", []):
        assert error["reason"] and isinstance(error["pointer"], str), document
    if pointers:
        assert sorted(error["pointer"] for error in document["errors"]) == sorted(pointers), document
    return document

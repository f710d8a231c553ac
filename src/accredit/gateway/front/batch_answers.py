"""Answers of two origins to one batch: what the upstream says, and what the gate refused. No I/O.

An error status stays as it is: then the whole batch has failed.
"""

from accredit.errors import AnswerError
from accredit.gateway.headers import RawHeaders


def merged(refused: tuple[bytes, ...], status: int, body: bytes, headers: RawHeaders) -> tuple[int, bytes, RawHeaders]:
    """The answer with the `refused` responses in its array. Raises `AnswerError` for one that is encoded."""
    if status >= 400:
        return status, body, headers
    if any(name == b"content-encoding" for name, _ in headers):
        raise AnswerError("a Content-Encoding that was not asked for")
    body = body.strip(b" \t\r\n")
    if not body:
        headers = [*headers, (b"content-type", b"application/json")]
    theirs = [body[1:-1]] if body.startswith(b"[") else [body] if body else []
    return 200, b"[" + b",".join([*theirs, *refused]) + b"]", headers

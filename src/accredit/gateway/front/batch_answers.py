"""Merging two sources of answers to one batch: the upstream's, and the gate's refusals. No I/O.

An error status stays as it is: then the whole batch has failed.
"""

from accredit.errors import AnswerError
from accredit.gateway.headers import RawHeaders


def merged(refused: tuple[bytes, ...], status: int, body: bytes, headers: RawHeaders) -> tuple[int, bytes, RawHeaders]:
    """Return the answer with the `refused` responses in its array. Raises `AnswerError` if it is encoded."""
    if status >= 400:
        return status, body, headers
    if any(name == b"content-encoding" for name, _ in headers):
        raise AnswerError("a Content-Encoding that was not asked for")
    body = body.strip(b" \t\r\n")
    if not body:
        headers = [*headers, (b"content-type", b"application/json")]
    theirs = [body[1:-1]] if body.startswith(b"[") else [body] if body else []
    return 200, b"[" + b",".join([*theirs, *refused]) + b"]", headers

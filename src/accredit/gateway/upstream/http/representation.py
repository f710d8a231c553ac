"""Checks and decodes the body of an upstream's answer, and writes the headers that say how to read it. No I/O.

- [headers] An answer is invalid if it names a charset other than UTF-8, more than one session or revision, or a session
  id of more than `MAX_SESSION_ID_BYTES`.
- [encoding] An encoded body is forwarded as it came only if its client decodes this coding and all decoders read it
  alike. Otherwise it is decoded.
- [error-body] If the body of an error claims to be JSON, it must be a JSON-RPC error of this exchange. Otherwise it is
  taken for text.
"""

import codecs

from accredit.errors import AnswerError, FrameError
from accredit.gateway.headers import RawHeaders
from accredit.gateway.media_types import EVENTS_TYPE, JSON_TYPE
from accredit.gateway.turns import in_turns, next_turn
from accredit.gateway.upstream.http.answer import Answer, Grow
from accredit.gateway.upstream.http.encoding import Decoded, accepted_codings, decode_answer
from accredit.jsonrpc.frames import decode_error_in_steps
from accredit.jsonrpc.responses import Expected
from accredit.jsonrpc.text import check_utf8
from accredit.limits import MAX_SESSION_ID_BYTES

LEADING_BLANK_BYTES = 65_536
"""In how many bytes of a compressed body its first character is searched. This tells whether the raw body looks like
JSON."""


def head_problem(answer: Answer) -> AnswerError | None:
    """Return what is wrong with an answer's head ([headers]), or None."""
    if not answer.head.names_once:
        return AnswerError("more than one Mcp-Session-Id or MCP-Protocol-Version, or one that is none")
    if not answer.head.session_fits:
        return AnswerError(f"a session's id of more than {MAX_SESSION_ID_BYTES} bytes", bound=True)
    return None if answer.head.in_utf8 else AnswerError("a charset other than utf-8")


async def decode_body(answer: Answer, raw: bytes, limit: int, grow: Grow | None = None) -> Decoded:
    """Return the decoded body of an answer; `grow` reserves memory for a number of bytes. Raises `AnswerError`."""
    coding = answer.head.fields.get(b"content-encoding")
    if coding is None:
        return Decoded(raw)
    steps = decode_answer(raw, coding, limit)
    while True:
        try:
            size = next(steps)
        except StopIteration as last:
            return last.value
        if grow is not None:
            await grow(len(raw) + size)
        await next_turn()


def as_it_came(raw: bytes, body: Decoded, accepted: bytes | None) -> tuple[bytes, RawHeaders]:
    """Return the bytes to send for an unchanged body, and the header that names their coding.

    `accepted` is the client's `Accept-Encoding`. A client without one may decode the body or not. So it gets a decoded
    body if the encoded bytes could be JSON themselves, as a Brotli stream can.
    """
    if not body.coding:
        return body.text, []
    decodes = accepted is None or body.coding in accepted_codings(accepted).split(b", ")
    if decodes and not _looks_like_json(raw):
        return raw, [(b"content-encoding", body.coding)]
    return body.text, []


async def error_type(answer: Answer, raw: bytes, body: bytes, expected: Expected) -> RawHeaders:
    """Check an error's body, and return its content type as a header. `raw` is the body as it came, `body` the decoded
    one. Raises `AnswerError`."""
    claimed = answer.head.media_type.name
    try:
        if claimed == JSON_TYPE and raw:
            frame = await in_turns(decode_error_in_steps(body))
            if frame.id is not None and frame.id not in expected.open:
                raise FrameError("an error for an id that was not asked for")
            for request in expected.open.values():
                if request.watcher is not None:
                    request.watcher.answered(frame)
        else:
            check_utf8(body)
    except FrameError as error:
        raise AnswerError(error.detail, bound=error.bound) from None
    if b"\0" in body:
        raise AnswerError("an error that is neither JSON nor text")
    if answer.header(b"content-type") is None:
        return []
    return [(b"content-type", claimed if claimed not in (b"", EVENTS_TYPE) else b"text/plain")]


def _looks_like_json(body: bytes) -> bool:
    return body[:LEADING_BLANK_BYTES].removeprefix(codecs.BOM_UTF8).lstrip()[:1] in (b"{", b"[")

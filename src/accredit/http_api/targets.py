"""A request's target. Only one spelling is accepted, so that every later reader reads the same target. No I/O.

A proxy, a framework and a file system normalise paths in different ways. So nothing is normalised here. A target is
accepted only if no such reader would change it:

- [origin-form] It begins with a slash, holds only characters that RFC 3986 allows in a path and a query, and is within
  its bound. There is no fragment, no backslash and no control character.
- [segments] A path has no empty segment (`//`), no dot segment, and no parameters (`;`). Its last segment may be empty.
- [encoding] These are never encoded: `/`, backslash, `;`, control characters, and all that need no encoding (letters,
  digits, `.`, `~` and others). The text after an encoded `%` must not make it look like another encoded character.
- [unicode] Decoded text is printable UTF-8. It holds no compatibility form of a slash, a backslash, a semicolon or a
  dot segment.

In the query, only the characters are checked. The proof is bound to the query as it was sent. `facts` reads values from
it.
"""

import re
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from accredit.errors import RequestError
from accredit.jsonrpc.encode import INVALID_REQUEST
from accredit.policy.guarded_call import read_freely

MAX_TARGET_BYTES = 8_192
"""The longest target, with its query. RFC 9110 section 4.1 asks for at least 8,000 octets; proxies allow 8 KiB for the
whole request line."""

_PATH = re.compile(r"(?:/(?:[A-Za-z0-9._~!$&'()*+,=:@-]|%[0-9A-Fa-f]{2})*)+")
_QUERY = re.compile(r"(?:[A-Za-z0-9._~!$&'()*+,;=:@/?\[\]|-]|%[0-9A-Fa-f]{2})*")
_ENCODED = re.compile(r"%([0-9A-Fa-f]{2})")
_ENCODED_TWICE = re.compile(r"%25(?:[0-9A-Fa-f]{2}|[uU])")
_NEVER_ENCODED = frozenset(
    b"/\\;\x7f" + bytes(range(0x20)) + b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"
)
_SEPARATORS = frozenset("/\\;")


class Target(NamedTuple):
    """A target: `text` as it was sent, the decoded `segments` of its path, and its `query` ("" if there is none).

    `folded` has each segment as the most lenient reader could compare it.
    """

    text: str
    segments: tuple[str, ...]
    folded: tuple[str, ...]
    query: str


def read_target(raw: bytes) -> Target:
    """Read a target. Raises `RequestError` (400) if it breaks one of the rules above."""
    if len(raw) > MAX_TARGET_BYTES:
        raise unclear(f"it has more than {MAX_TARGET_BYTES} bytes", status=414)
    text = raw.decode("latin-1")
    path, _, query = text.partition("?")
    if not _PATH.fullmatch(path) or not _QUERY.fullmatch(query):
        raise unclear("it is not in origin form, or holds characters that are not taken")
    if "//" in path:
        raise unclear("it has an empty segment")
    if any(int(code, 16) in _NEVER_ENCODED for code in _ENCODED.findall(path)):
        raise unclear("it encodes a character that separates, controls, or needs no encoding")
    if _ENCODED_TWICE.search(path):
        raise unclear("it is encoded twice")
    segments = tuple(map(_decode, path[1:].split("/")))
    folded = tuple(map(fold, segments))
    for segment, seen in zip(segments, folded, strict=True):
        if segment and not seen:
            raise unclear("it has a dot segment")
        if not _SEPARATORS.isdisjoint(seen):
            raise unclear("it holds a character that could be taken for a separator")
    return Target(text, segments, folded, query)


def fold(segment: str) -> str:
    """Return a segment as the most lenient reader compares it: case, compatibility forms, and blanks and dots at its
    end make no difference. It is "" for dots alone."""
    return read_freely(segment).rstrip(".")


def unclear(why: str, status: int = 400) -> RequestError:
    """Return the refusal of a request that could be read in more than one way."""
    return RequestError(INVALID_REQUEST, f"The target is not clear: {why}", status=status, word="unclear_target")


def _decode(segment: str) -> str:
    try:
        text = unquote_to_bytes(segment).decode("utf-8")
    except UnicodeDecodeError:
        raise unclear("it is not UTF-8") from None
    if not text.isprintable():
        raise unclear("it holds a character that can't be seen")
    return text

"""Reads a `Content-Type` exactly as RFC 9110 section 8.3.1 defines it, and an `Accept` (section 12.5.1). No I/O.

    media-type = token "/" token *( OWS ";" OWS token "=" ( token / quoted-string ) )

A reader that honours a charset, and one that ignores it, get different messages from the same bytes. So bodies are read
only as UTF-8 here. A header that names another charset, or is ambiguous, counts as absent.
"""

import re

from msgspec import Struct

from accredit.base.caching import cache_short_values
from accredit.jsonrpc.param_headers import DUPLICATED

MAX_MEDIA_TYPE_BYTES = 256
"""How many bytes of a `Content-Type`, or of one element of `Accept`, are read. RFC 6838 allows 127 for each half of a
type's name. The names that MCP uses have at most 17."""


JSON_TYPE = b"application/json"
EVENTS_TYPE = b"text/event-stream"

_TOKEN = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_QUOTED = rb'"(?:[\t \x21\x23-\x5b\x5d-\x7e]|\\[\t \x21-\x7e])*"'
_TYPE = re.compile(rb"(%b/%b)" % (_TOKEN, _TOKEN))
_PARAMETER = re.compile(rb"[ \t]*;[ \t]*(%b)=(%b|%b)" % (_TOKEN, _TOKEN, _QUOTED))
_ESCAPE = re.compile(rb"\\(.)", re.DOTALL)
# Types of answers that are JSON-RPC; some servers use the second.
_JSON_ANSWERS = frozenset({JSON_TYPE, b"application/json-rpc"})


class MediaType(Struct, frozen=True):
    """A type and its parameters: names in lower case, values unquoted."""

    name: bytes
    parameters: tuple[tuple[bytes, bytes], ...] = ()

    @property
    def in_utf8(self) -> bool:
        """Whether no parameter names a charset other than UTF-8."""
        return all(value.lower() == b"utf-8" for name, value in self.parameters if name == b"charset")


_NO_TYPE = MediaType(b"")


@cache_short_values(256)
def parse_media_type(value: bytes | None) -> MediaType | None:
    """Return a header's media type; None if it is absent or ambiguous."""
    if value is None or len(value) > MAX_MEDIA_TYPE_BYTES:
        return None
    value = value.strip(b" \t")
    name = _TYPE.match(value)
    if name is None:
        return None
    parameters: dict[bytes, bytes] = {}
    end = name.end()
    while end < len(value):
        parameter = _PARAMETER.match(value, end)
        if parameter is None or parameter[1].lower() in parameters:
            return None
        parameters[parameter[1].lower()] = _plain(parameter[2])
        end = parameter.end()
    return MediaType(name[1].lower(), tuple(parameters.items()))


@cache_short_values(256)
def is_json_request(value: bytes | None) -> bool:
    """Return whether a request declares its body as JSON in UTF-8, and nothing more."""
    media_type = parse_media_type(value)
    if value is None or media_type is None or media_type.name != JSON_TYPE or b"\\" in value:
        return False
    return not media_type.parameters or (
        media_type.in_utf8 and [name for name, _ in media_type.parameters] == [b"charset"]
    )


@cache_short_values(256)
def answer_type(value: bytes | None) -> MediaType:
    """Return an answer's type. Any type for JSON-RPC becomes `JSON_TYPE`. If the type can't be read, its name is b"".

    A trailing semicolon, which some servers write, is ignored, and is not forwarded.
    """
    media_type = parse_media_type(value.rstrip(b" \t;") if value is not None else None) or _NO_TYPE
    return MediaType(JSON_TYPE, media_type.parameters) if media_type.name in _JSON_ANSWERS else media_type


def _plain(value: bytes) -> bytes:
    return _ESCAPE.sub(rb"\1", value[1:-1]) if value.startswith(b'"') else value


def accepts(value: bytes | None, media_type: bytes) -> bool:
    """Return whether an `Accept` header allows a type; a missing or empty header allows all.

    The most specific matching range decides; a weight of zero refuses.
    """
    if value is None or not value.strip():
        return True
    weights: dict[bytes, bool] = {}
    for part in value.replace(DUPLICATED, b",").split(b","):
        media_range, *parameters = (piece.strip().lower() for piece in part.split(b";"))
        weights[media_range] = not any(_is_zero(parameter) for parameter in parameters)
    kind = media_type.split(b"/", 1)[0]
    for media_range in (media_type, kind + b"/*", b"*/*"):
        if media_range in weights:
            return weights[media_range]
    return False


def takes_events(value: bytes | None) -> bool:
    """Return whether an `Accept` header names event streams, and so comes from a client that reads them. MCP's clients
    name them; `*/*` may come from any program."""
    return value is not None and EVENTS_TYPE in value.lower() and accepts(value, EVENTS_TYPE)


def _is_zero(parameter: bytes) -> bool:
    name, _, weight = parameter.partition(b"=")
    return name.strip() == b"q" and not weight.strip().strip(b"0.")

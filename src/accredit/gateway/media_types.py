"""What a `Content-Type` says, read as strictly as RFC 9110 section 8.3.1 is written. No I/O.

    media-type = token "/" token *( OWS ";" OWS token "=" ( token / quoted-string ) )

Whoever honours a charset, and whoever doesn't, read two messages from the same bytes. So a body is read here in one
way only, UTF-8, and what says otherwise, or says it so that readers could differ, says nothing at all.
"""

import re
from functools import lru_cache

from msgspec import Struct

from accredit.limits import MAX_MEDIA_TYPE_BYTES

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
    """A type and its parameters; names in lower case, values as they are meant."""

    name: bytes
    parameters: tuple[tuple[bytes, bytes], ...] = ()

    @property
    def in_utf8(self) -> bool:
        """Whether no parameter says that the text is in anything but UTF-8."""
        return all(value.lower() == b"utf-8" for name, value in self.parameters if name == b"charset")


NO_TYPE = MediaType(b"")


@lru_cache(256)
def parse_media_type(value: bytes | None) -> MediaType | None:
    """What a header value says; None if that is nothing, or more than one thing."""
    if value is None or len(value) > MAX_MEDIA_TYPE_BYTES:
        return None
    value = value.strip(b" \t")
    found = _TYPE.match(value)
    if found is None:
        return None
    parameters: dict[bytes, bytes] = {}
    end = found.end()
    while end < len(value):
        parameter = _PARAMETER.match(value, end)
        if parameter is None or parameter[1].lower() in parameters:
            return None
        parameters[parameter[1].lower()] = _plain(parameter[2])
        end = parameter.end()
    return MediaType(found[1].lower(), tuple(parameters.items()))


@lru_cache(256)
def is_json_request(value: bytes | None) -> bool:
    """Whether a request says that its body is JSON in UTF-8, and nothing besides."""
    said = parse_media_type(value)
    if value is None or said is None or said.name != JSON_TYPE or b"\\" in value:
        return False
    return not said.parameters or (said.in_utf8 and [name for name, _ in said.parameters] == [b"charset"])


@lru_cache(256)
def answer_type(value: bytes | None) -> MediaType:
    """The type of an answer, `JSON_TYPE` for each that is JSON-RPC; its name is b"" where it can't be told.

    A semicolon at the end, which some servers write, says nothing, and what is forwarded does not have it.
    """
    said = parse_media_type(value.rstrip(b" \t;") if value is not None else None) or NO_TYPE
    return MediaType(JSON_TYPE, said.parameters) if said.name in _JSON_ANSWERS else said


def _plain(value: bytes) -> bytes:
    return _ESCAPE.sub(rb"\1", value[1:-1]) if value.startswith(b'"') else value

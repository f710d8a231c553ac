"""Ids of several servers as one client has them: none collides with another, and each leads back where it came from.
No I/O.

1. What a server numbers (its own requests, their progress tokens) is outside `NAME:` and the JSON of the
   server's id. So 7 and "7" stay two ids, and the server gets its own back, type and all. Such an id is no secret: it
   names something within sessions that its bearer has.
2. What the client numbers for a server to name it (progress tokens) goes there behind a tag, an HMAC over the server,
   the session and the token. Only what comes back from that server in that session, with its tag, leads to the token:
   no server reports the progress of a call that another one has got.
3. An event's id is outside `m1.` and the base64url of the last id of each server whose events are on the stream. So a
   client that resumes gets of each what came after. Of a stream that answers a request, it says which: no server
   answers what another was asked. It has a tag over the session, so that nobody else makes one.

What can't be read so is nobody's.
"""

import base64
import binascii
import hashlib
import re
from collections.abc import Mapping

import msgspec
from msgspec import Raw, Struct

from accredit.errors import FrameError, MessageId
from accredit.jsonrpc.encode import to_json
from accredit.jsonrpc.frames import message_id
from accredit.rounds.sealing import KeyRing

MAX_MERGED_EVENT_ID_BYTES = 4_096
"""Bytes of an event's id of the merged endpoint, which holds one of each server's. Official SDKs number events, or give
them UUIDs: it has room for those of 38 servers. It comes back in a header, beside others."""
MERGED_EVENT_NAME_BYTES = 40
"""Bytes of a server's name in such an id: names have 32 characters at most, and the rest is how they are packed."""


_LABEL = b"accredit merged ids 1"
_TAG_BYTES = 16
_TAG_CHARS = 22
_EVENTS = b"m1."
_PACKED_BYTES = (MAX_MERGED_EVENT_ID_BYTES - len(_EVENTS)) * 3 // 4 - 3 * _TAG_BYTES
_EVENT_ID = re.compile(rb"[\x20-\x7e\x80-\xff]*")  # what a header may hold


def outer_id(name: str, id: MessageId) -> str:
    """Return what the client knows the id of a server's by (rule 1)."""
    return f"{name}:{to_json(id).decode()}"


def inner_id(id: MessageId | None) -> tuple[str, MessageId] | None:
    """Return the server's name and its own id; None for an id that no server has given."""
    if not isinstance(id, str):
        return None
    name, separator, text = id.partition(":")
    try:
        own = message_id(Raw(text.encode())) if separator and text else None
    except (FrameError, UnicodeEncodeError):
        return None
    return (name, own) if own is not None and outer_id(name, own) == id else None


class ProgressTokens:
    """Clients' progress tokens, as one server has them in one merged session (b"" for none): rule 2."""

    def __init__(self, ring: KeyRing, name: str, session: bytes = b"") -> None:
        """`ring` is what `merged_ring` returns."""
        self._ring = ring
        self._bound = msgspec.msgpack.encode(("progress", name, session))

    def outside_in(self, token: MessageId) -> str:
        """Return the token that the server gets."""
        text = to_json(token)
        return _base64(self._ring.tag(self._bound + text)).decode() + text.decode()

    def inside_out(self, token: MessageId | None) -> MessageId | None:
        """Return the client's token; None for one that this server was not given."""
        if not isinstance(token, str) or len(token) <= _TAG_CHARS:
            return None
        try:
            text = token[_TAG_CHARS:].encode()
            tag = _unbase64(token[:_TAG_CHARS].encode())
            return message_id(Raw(text)) if self._ring.has_tagged(tag, self._bound + text) else None
        except (ValueError, FrameError):
            return None


def merged_ring(ring: KeyRing) -> KeyRing:
    """Return the keys for tags."""
    return ring.derived(_LABEL)


class EventIds(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The last event's id of each server, on a stream that they share or, where `answered` is a request's `digest_of`,
    on the one that answers it."""

    of: Mapping[str, bytes]
    answered: bytes = b""

    def text(self, ring: KeyRing, session: bytes) -> bytes:
        """Return the id that the client gets, which is short enough if each server's is (`longest_event_id`)."""
        data = msgspec.msgpack.encode(self)
        return _EVENTS + _base64(ring.tag(_of_event(session, data)) + data)

    @classmethod
    def read(cls, text: bytes, ring: KeyRing, session: bytes) -> "EventIds | None":
        """Return what a client's `Last-Event-ID` says; None for one that was not given out in this session."""
        if not text.startswith(_EVENTS) or len(text) > MAX_MERGED_EVENT_ID_BYTES:
            return None
        try:
            data = _unbase64(text.removeprefix(_EVENTS))
            tag, data = data[:_TAG_BYTES], data[_TAG_BYTES:]
            ids = msgspec.msgpack.decode(data, type=cls) if ring.has_tagged(tag, _of_event(session, data)) else None
        except (ValueError, msgspec.MsgspecError):
            return None
        return ids if ids is not None and all(_EVENT_ID.fullmatch(id) for id in ids.of.values()) else None


def digest_of(request: MessageId) -> bytes:
    """Return what an event's id says of the request that its stream answers."""
    return hashlib.sha256(to_json(request)).digest()[:_TAG_BYTES]


def longest_event_id(servers: int) -> int:
    """Return how many bytes the id of each of so many servers' events may have."""
    return max(_PACKED_BYTES // max(servers, 1) - MERGED_EVENT_NAME_BYTES, 0)


def _of_event(session: bytes, data: bytes) -> bytes:
    return msgspec.msgpack.encode(("event", session, data))


def _base64(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")


def _unbase64(text: bytes) -> bytes:
    """Return what was encoded. Raises `ValueError` for another spelling of it."""
    try:
        data = base64.b64decode(text + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except binascii.Error as error:
        raise ValueError from error
    if _base64(data) != text:
        raise ValueError
    return data

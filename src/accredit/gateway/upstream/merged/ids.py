"""Maps the ids of several servers to ids for one client. They can be mapped back, and never collide. No I/O.

- [server-ids] An id that a server gave (to its request, as a progress token) becomes `NAME:` and the JSON of that id.
  So 7 and "7" stay two ids, and the server gets back its own id, type and all. Such an id is not secret: it is valid
  only within sessions that its bearer has.
- [progress-tokens] A client's progress token is sent with a tag, an HMAC over the server, the session and the token. It
  is mapped back only with that tag, from that server in that session. So no server can report the progress of another's
  call.
- [event-ids] An event's id becomes `m1.` and the base64url of the last event id of each server on the stream. So a
  client that resumes gets each server's later events. On a stream that answers a request, the id also names that
  request, so that after resuming no server can answer another request. A tag over the session keeps others from making
  such an id.
- [session-ids] A session's id is sealed (`front.session_ids`), and holds what is packed here: for each server that has
  answered `initialize` its name, its own session id, its replica and its revision. So nothing has to be remembered, and
  any process that can open the id can serve all of these sessions. Its size is bounded (`MAX_SESSION_ID_BYTES`), and
  each server has an equal share. A server whose id is longer is left out of the session, so that it takes nothing from
  the others.

Ids that can't be mapped back belong to no server. This module also remembers the start of each session that began in
this process, so that a server's part of it can be restarted (`members`).
"""

import asyncio
import hashlib
import re
from collections.abc import Mapping
from functools import lru_cache

import msgspec
from msgspec import Raw, Struct

from accredit.base.caching import RecentlyUsed
from accredit.base.values import decodable
from accredit.canonical import decode_base64url, encode_base64url
from accredit.errors import MessageId
from accredit.gateway.headers import SESSION_HEADER, RequestHead
from accredit.jsonrpc.encode import to_json
from accredit.jsonrpc.era import VERSION_HEADER
from accredit.jsonrpc.frames import Request
from accredit.jsonrpc.objects import as_id
from accredit.limits import MAX_SESSION_ID_BYTES
from accredit.rounds.sealing import KeyRing

MAX_MERGED_EVENT_ID_BYTES = 4_096
"""How many bytes a merged event id may have. It holds one id of each server. Official SDKs number events, or give them
UUIDs; there is room for UUIDs of 38 servers. The id comes back in a header, beside others."""
MERGED_EVENT_NAME_BYTES = 40
"""How many bytes a server's name takes in a merged event id. Names have 32 characters at most; the rest is their
encoding."""
MERGED_ID_BYTES = 72
"""How many bytes a server takes in the id of a merged session, beside its own id. Names have 32 characters at most,
replicas 16, revisions 10, and the rest is encoding. So there is room for the UUIDs of 37 servers."""

MAX_RENEWABLE_SESSIONS = 1_000
"""For how many merged sessions a process remembers what is needed to restart one server's part."""
MAX_RENEWABLE_BYTES = 65_536
"""How many bytes are remembered of each: the client's `initialize` (some 300 bytes), and the URIs that it has
subscribed to."""

NONCE_BYTES = 12
_OTHER_BYTES = NONCE_BYTES + 8
_LABEL = b"accredit merged ids 1"
_TAG_BYTES = 16
_TAG_CHARS = 22
_EVENTS = b"m1."
_PACKED_BYTES = (MAX_MERGED_EVENT_ID_BYTES - len(_EVENTS)) * 3 // 4 - 3 * _TAG_BYTES
_EVENT_ID = re.compile(rb"[\x20-\x7e\x80-\xff]*")  # what a header may hold


def outer_id(name: str, id: MessageId) -> str:
    """Return the client's id for an id that a server gave ([server-ids])."""
    return f"{name}:{to_json(id).decode()}"


def inner_id(id: MessageId | None) -> tuple[str, MessageId] | None:
    """Return the server's name and its own id for a client's id, or None if that is not such an id."""
    if not isinstance(id, str):
        return None
    name, separator, text = id.partition(":")
    try:
        own = as_id(Raw(text.encode())) if separator and text else None
    except UnicodeEncodeError:
        return None
    return (name, own) if own is not None and outer_id(name, own) == id else None


class ProgressTokens:
    """Maps clients' progress tokens for one server in one merged session: [progress-tokens]. `session` is b"" if there
    is no session."""

    def __init__(self, ring: KeyRing, name: str, session: bytes = b"") -> None:
        """`ring` is the result of `merged_ring`."""
        self._ring = ring
        self._bound = msgspec.msgpack.encode(("progress", name, session))

    def outside_in(self, token: MessageId) -> str:
        """Return the token for the server."""
        text = to_json(token)
        return encode_base64url(self._ring.tag(self._bound + text)).decode() + text.decode()

    def inside_out(self, token: MessageId | None) -> MessageId | None:
        """Return the client's token; None if this server was not given it."""
        if not isinstance(token, str) or len(token) <= _TAG_CHARS:
            return None
        try:
            text = token[_TAG_CHARS:].encode()
            tag = decode_base64url(token[:_TAG_CHARS])
            return as_id(Raw(text)) if self._ring.has_tagged(tag, self._bound + text) else None
        except ValueError:
            return None


def merged_ring(ring: KeyRing) -> KeyRing:
    """Derive the keys for tags."""
    return ring.derived(_LABEL)


@decodable
class EventIds(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The last event id of each server on a stream. If `answered` is the `digest_of` a request, the stream answers that
    request; otherwise all servers share it."""

    of: Mapping[str, bytes]
    answered: bytes = b""

    def text(self, ring: KeyRing, session: bytes) -> bytes:
        """Encode the client's id, which is short enough if each server's is (`longest_event_id`)."""
        data = msgspec.msgpack.encode(self)
        return _EVENTS + encode_base64url(ring.tag(_of_event(session, data)) + data)

    @classmethod
    def read(cls, text: bytes, ring: KeyRing, session: bytes) -> "EventIds | None":
        """Decode a client's `Last-Event-ID`; None if it was not issued in this session."""
        if not text.startswith(_EVENTS) or len(text) > MAX_MERGED_EVENT_ID_BYTES:
            return None
        try:
            data = decode_base64url(text.removeprefix(_EVENTS))
            tag, data = data[:_TAG_BYTES], data[_TAG_BYTES:]
            ids = msgspec.msgpack.decode(data, type=cls) if ring.has_tagged(tag, _of_event(session, data)) else None
        except (ValueError, msgspec.MsgspecError):
            return None
        return ids if ids is not None and all(_EVENT_ID.fullmatch(id) for id in ids.of.values()) else None


def digest_of(request: MessageId) -> bytes:
    """Return the digest of a request's id in the event ids of the stream that answers it."""
    return hashlib.sha256(to_json(request)).digest()[:_TAG_BYTES]


def longest_event_id(servers: int) -> int:
    """Return the most bytes that each server's event id may have, for so many servers."""
    return max(_PACKED_BYTES // max(servers, 1) - MERGED_EVENT_NAME_BYTES, 0)


@decodable
class MemberSession(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The session at one server: its `id` there (b"" if the server gives none), its replica and its revision. The
    revision is "" for a `slow` server: it had not answered when the client's session began (`sessions`). In the
    client's id the replica has the name that is unique over all servers (`HttpUpstream.homes`)."""

    id: bytes
    replica: str
    revision: str

    @property
    def slow(self) -> bool:
        """Whether its client never got the server's `initialize` answer."""
        return not self.revision


MemberSessions = Mapping[str, MemberSession]
"""The sessions by server name."""


def longest_id(servers: int) -> int:
    """Return the most bytes that each server's id may have, for so many servers."""
    return max((MAX_SESSION_ID_BYTES - _OTHER_BYTES) // max(servers, 1) - MERGED_ID_BYTES, 0)


def pack_sessions(sessions: MemberSessions, nonce: bytes) -> bytes:
    """Pack a merged session into the gateway's own id; clients only get it sealed.

    `nonce` is `NONCE_BYTES` of random: without it, servers that give no ids would share one session.
    """
    return msgspec.msgpack.encode((nonce, sessions))


def session_id(head: RequestHead) -> bytes:
    """Return the gateway's own id of a head's session, b"" for none."""
    return head.headers.get(SESSION_HEADER, b"")


def sessions_in(head: RequestHead) -> MemberSessions:
    """Unpack the sessions in a head whose session id was opened. The result is empty if the head names no session."""
    named = head.headers.get(SESSION_HEADER)
    return _unpack(named) if named is not None else {}


def in_session(head: RequestHead, session: MemberSession | None) -> RequestHead:
    """Return a head with one server's own session, or with none."""
    head = head.without((SESSION_HEADER,))
    if session is None:
        return head
    if session.revision:
        head = head.with_field(VERSION_HEADER, session.revision.encode("ascii", "replace"))
    if session.id:
        head = head.with_field(SESSION_HEADER, session.id)
    head.replica = session.replica
    return head


class SessionHistory(Struct, eq=False):
    """The messages by which a client has set up one session, and the sessions that were restarted (`now`). Of these,
    the `unproved` have not answered yet. `subscribed` has a server's name and the server's own URI for each
    subscription."""

    initialize: Request
    now: dict[str, MemberSession]
    unproved: set[str]
    locks: dict[str, asyncio.Lock]
    subscribed: dict[tuple[str, str], None]
    size: int
    level: Raw | None = None


class SessionHistories:
    """The histories of clients' sessions, by the gateway's own id (`members`)."""

    def __init__(self) -> None:
        self._all = RecentlyUsed[bytes, SessionHistory](MAX_RENEWABLE_SESSIONS)

    def begun(self, own: bytes, initialize: Request) -> None:
        """Remember the start of a session."""
        size = len(initialize.text)
        if size <= MAX_RENEWABLE_BYTES:
            bare = Request(initialize.id, initialize.method, initialize.params, initialize.text)
            self._all.put(own, SessionHistory(bare, {}, set(), {}, {}, size))

    def ended(self, own: bytes) -> None:
        """Forget a session."""
        self._all.forget(own)

    def of(self, own: bytes) -> SessionHistory | None:
        """Return a session's history."""
        return self._all.get(own) if own else None

    def now(self, own: bytes) -> Mapping[str, MemberSession]:
        """Return the sessions that replace those in the client's id."""
        history = self._all.peek(own)
        return history.now if history is not None else {}

    def level(self, own: bytes, request: Request) -> None:
        """Remember a client's log level."""
        history, level = self.of(own), request.members.get("level")
        if history is not None and level is not None and len(bytes(level)) <= MAX_RENEWABLE_BYTES:
            history.level = level.copy()  # a view of it would keep the whole request

    def subscribed(self, own: bytes, name: str, uri: str, *, ends: bool) -> None:
        """Remember a subscription, or forget one that ends. Beyond the bound the oldest are forgotten."""
        history = self.of(own)
        if history is None:
            return
        if (name, uri) in history.subscribed:
            del history.subscribed[name, uri]
            history.size -= len(uri)
        if not ends:
            history.subscribed[name, uri] = None
            history.size += len(uri)
        while history.size > MAX_RENEWABLE_BYTES and history.subscribed:
            oldest = next(iter(history.subscribed))
            del history.subscribed[oldest]
            history.size -= len(oldest[1])

    def answered(self, own: bytes, name: str) -> None:
        """Note that a server has answered in its restarted session. So it may be restarted once more."""
        history = self._all.peek(own)
        if history is not None:
            history.unproved.discard(name)


@lru_cache(128)
def _unpack(named: bytes) -> MemberSessions:
    try:
        return msgspec.msgpack.decode(named, type=tuple[bytes, dict[str, MemberSession]])[1]
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return {}


def _of_event(session: bytes, data: bytes) -> bytes:
    return msgspec.msgpack.encode(("event", session, data))

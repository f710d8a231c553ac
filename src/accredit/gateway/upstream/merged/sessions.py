"""A merged session: a client's sessions at several servers, under one id. No I/O.

The client's id is sealed (`front.session_ids`), and holds what is packed here: for each server that has answered
`initialize` its name, its own session id, its replica and its revision. So nothing is remembered, and whoever can open
the id can use all of the sessions.

The packed size is bounded (`MAX_SESSION_ID_BYTES` in all): each server has an equal share, and one whose id is longer
is left out of the session, so that it takes nothing from the others.
"""

from collections.abc import Mapping
from functools import lru_cache

import msgspec
from msgspec import Struct

from accredit.gateway.headers import SESSION_HEADER, RequestHead
from accredit.jsonrpc.era import VERSION_HEADER
from accredit.limits import MAX_SESSION_ID_BYTES

MERGED_ID_BYTES = 72
"""Bytes that a server takes in the id of a merged session beside its own id: names have 32 characters at most, replicas
16, revisions 10, and the rest is encoding. So there is room for the UUIDs of 37 servers."""


NONCE_BYTES = 12
_OTHER_BYTES = NONCE_BYTES + 8


class MemberSession(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The session at one server: its `id` there (b"" if the server gives none), its replica and its revision, which is
    "" for a `slow` one: it had not answered when the client's session began (`starts`). In the client's id the replica
    has the name that is unique over all servers (`HttpUpstream.homes`)."""

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


def sessions_in(head: RequestHead) -> MemberSessions:
    """Unpack the sessions in a head whose id was opened; none if it names none."""
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


@lru_cache(128)
def _unpack(named: bytes) -> MemberSessions:
    try:
        return msgspec.msgpack.decode(named, type=tuple[bytes, dict[str, MemberSession]])[1]
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return {}

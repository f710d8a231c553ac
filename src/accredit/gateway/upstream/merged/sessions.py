"""A merged session: the sessions that a client has at several servers, under one id. No I/O.

The id that its client has is sealed (`front.session_ids`), and holds what is packed here: for each server that has
answered `initialize` its name, its own id of its session, its replica and its revision. So nothing is remembered, and
whoever can open the id can go on with all of the sessions.

What is packed has no room for ids of any length (`MAX_SESSION_ID_BYTES` in all): each server has an equal share, and
one whose id is longer is not in the session, so that it takes nothing from the others.
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
16, revisions 10, and the rest is how they are packed. So there is room for the UUIDs of 37 servers."""


NONCE_BYTES = 12
_OTHER_BYTES = NONCE_BYTES + 8


class MemberSession(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The session at one server: its `id` there (b"" where the server gives none), its replica and its revision, which
    is "" for one that was `slow`: it had not answered when the client's session began (`starts`). In the client's id
    the replica has the name that tells it from those of all servers (`HttpUpstream.homes`)."""

    id: bytes
    replica: str
    revision: str

    @property
    def slow(self) -> bool:
        """Whether its client has never heard what the server says of itself."""
        return not self.revision


MemberSessions = Mapping[str, MemberSession]
"""The sessions by their servers' names."""


def longest_id(servers: int) -> int:
    """Return how many bytes each of so many servers' ids may have."""
    return max((MAX_SESSION_ID_BYTES - _OTHER_BYTES) // max(servers, 1) - MERGED_ID_BYTES, 0)


def pack_sessions(sessions: MemberSessions, nonce: bytes) -> bytes:
    """Return what the gateway calls a merged session itself; no client gets it but sealed.

    `nonce` is `NONCE_BYTES` of random: servers without ids for their sessions would else make one of all of them.
    """
    return msgspec.msgpack.encode((nonce, sessions))


def sessions_in(head: RequestHead) -> MemberSessions:
    """Return the sessions in the one that a head names, whose id was opened; none where it names none."""
    named = head.headers.get(SESSION_HEADER)
    return _unpack(named) if named is not None else {}


def in_session(head: RequestHead, session: MemberSession | None) -> RequestHead:
    """Return a head as it goes to a server with its own session, or with none."""
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

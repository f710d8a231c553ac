"""How each of several servers is spoken to on behalf of one client: in its own session, and under ids that lead back.
I/O through the servers' backends.

1. A server hears its own session, replica and revision, and of the client's headers what `member` lets on.
2. What it tells in an event stream is mapped on its way to the client (`events`).
3. What all are asked they are asked at once, and each has `MERGED_ASK_SECONDS`, and a place in its room for calls or is
   not asked. What fails at one is between it and the gateway, and keeps nothing from the others.
4. A session is at the server, or the replica, where it began. If another one has that name since a reload, it is over
   there (404): whoever has the id of a session may speak in it.
"""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from msgspec import Raw, structs

from accredit.errors import AccreditError, MessageId, RequestError, UpstreamTimeout, UpstreamUnavailable
from accredit.gateway.counters import Counters
from accredit.gateway.headers import SESSION_HEADER, RequestHead
from accredit.gateway.settings import GatewaySettings
from accredit.gateway.turns import set_current_server
from accredit.gateway.upstream.merged.aside import Aside
from accredit.gateway.upstream.merged.events import EventMapper
from accredit.gateway.upstream.merged.ids import EventIds, ProgressTokens, digest_of, longest_event_id, merged_ring
from accredit.gateway.upstream.merged.member import MemberReply, MergedMember, member_head, session_not_found
from accredit.gateway.upstream.merged.messages import Outward
from accredit.gateway.upstream.merged.renewals import Renewals
from accredit.gateway.upstream.merged.sessions import MemberSession, MemberSessions, in_session, sessions_in
from accredit.gateway.upstream.reply import Reply
from accredit.gateway.upstream.stdio.pending_calls import progress_token
from accredit.jsonrpc.encode import INVALID_REQUEST, to_json
from accredit.jsonrpc.frames import Failure, Notification, Request, Success
from accredit.jsonrpc.methods import META_PROGRESS, Era
from accredit.limits import MERGED_ASK_SECONDS

Message = Request | Notification | Success | Failure


class MemberAccess:
    """One for each merged endpoint."""

    def __init__(
        self,
        settings: GatewaySettings,
        members: Mapping[str, MergedMember],
        counters: Counters,
        before: "MemberAccess | None" = None,
    ) -> None:
        """What `before` knows of sessions is known here."""
        self.members = members
        self.renewals = before.renewals if before is not None else Renewals()
        self.max_bytes = settings.max_event_bytes
        self.ring = merged_ring(settings.rounds.ring)
        self._enforces = settings.enforce
        self._counters = counters
        self._added = frozenset(name.lower().encode() for name in settings.forward_headers)

    def toward(self, request: Request, name: str, head: RequestHead) -> Request:
        """Return a request with the progress token that a server gets; `head` is the client's."""
        token = progress_token(request)
        if token is None:
            return request
        own = self._tokens(name, head).outside_in(token)
        return request.with_meta({META_PROGRESS: Raw(to_json(own))})

    def reply_of(self, reply: Reply, request: Request, name: str, own: str | None = None) -> MemberReply:
        """Return what a server answers a request into; `own` is its own name for the target. Raises
        `UpstreamUnavailable` where it is not in the session."""
        if self._enforces:
            return self.member_reply(reply, name, digest_of(request.id), own=own)
        asked = digest_of(request.id)

        def may_answer(id: MessageId) -> bool:
            return digest_of(id) == asked

        member = self.member_reply(reply, name, asked, own=own, may_answer=may_answer)
        member.head = member.head.with_field(b"accept-encoding", b"identity")
        member.answers = request.id
        return member

    def head(self, head: RequestHead, name: str, own: str | None = None) -> RequestHead:
        """Return a client's head as it goes to a server, in its own session. Raises `UpstreamUnavailable`, and
        `RequestError` (404) where its session lives nowhere any more."""
        sessions = self._sessions(head)
        session = self._living(sessions).get(name)
        if session is None and name in sessions:
            raise session_not_found()
        if session is None and SESSION_HEADER in head.headers:
            raise UpstreamUnavailable(f"{name} did not answer when this session began")
        return in_session(member_head(head, self._added, own), session)

    def sessions_of(self, reply: Reply) -> Mapping[str, MemberSession]:
        """Return the sessions that a request names, with servers that are still there: one at least. Raises
        `RequestError`."""
        if SESSION_HEADER not in reply.head.headers:
            raise RequestError(INVALID_REQUEST, "Invalid Request: Mcp-Session-Id is missing")
        found = self._living(self._sessions(reply.head))
        if not found:
            raise session_not_found()
        return found

    def bare_head(self, head: RequestHead) -> RequestHead:
        """Return a client's head as it goes to a server outside any session."""
        return in_session(member_head(head, self._added), None)

    def session_at(self, head: RequestHead, name: str) -> MemberSession | None:
        """Return the session that a client has at a server now."""
        return self._sessions(head).get(name)

    def _sessions(self, head: RequestHead) -> MemberSessions:
        """Return the sessions in the one that a head names, with those that were begun anew."""
        sessions, renewed = sessions_in(head), self.renewals.now(session_id(head))
        return {**sessions, **renewed} if renewed else sessions

    def _living(self, sessions: MemberSessions) -> dict[str, MemberSession]:
        """Return the sessions whose servers are where they were (rule 4)."""
        return {
            name: structs.replace(session, replica=self.members[name].homes[session.replica])
            for name, session in sessions.items()
            if name in self.members and session.replica in self.members[name].homes
        }

    def mapper(self, reply: Reply, name: str, id_outside: Callable[[bytes], bytes | None], **more: Any) -> EventMapper:
        """Return what makes of a server's events those that the client gets."""
        outward = Outward(name, self._tokens(name, reply.head))
        return EventMapper(
            outward,
            id_outside,
            max_event_bytes=self.max_bytes,
            counters=self._counters,
            hears=reply.hears,
            **more,
        )

    def _tokens(self, name: str, head: RequestHead) -> ProgressTokens:
        return ProgressTokens(self.ring, name, session_id(head))

    def member_reply(
        self, reply: Reply, name: str, answered: bytes, *, own: str | None = None, **more: Any
    ) -> MemberReply:
        """Return what a server answers into, on a stream that answers the request with the digest `answered`."""
        session, longest = session_id(reply.head), longest_event_id(1)

        def id_outside(id: bytes) -> bytes | None:
            # One that is too long is left out, and its client can't go on from there.
            member.resumable = len(id) <= longest
            return EventIds({name: id}, answered).text(self.ring, session) if member.resumable else None

        mapper = self.mapper(reply, name, id_outside, **more)
        member = MemberReply(reply, self.head(reply.head, name, own), mapper.feed_in_turns)
        member.renewable = self.members[name].has_sessions and self.renewals.of(session) is not None
        member.hears = None  # the mapper asks, by the client's names
        return member

    def aside(self, reply: Reply, name: str) -> Aside:
        """Return what a server answers the gateway itself into."""
        head = self.head(reply.head, name).with_field(b"accept-encoding", b"identity")
        return Aside(reply, head)

    async def ask(self, asides: Mapping[str, Aside], message: Message) -> None:
        """Send a message to several servers at once (rule 3)."""

        def post(name: str, aside: Aside) -> Coroutine[Any, Any, None]:
            return self.members[name].backend.post(aside, message, Era.LEGACY, {})

        await self.each(asides, post)

    async def each(self, asides: Mapping[str, Aside], work: Callable[[str, Aside], Coroutine[Any, Any, None]]) -> None:
        """Do something at several servers at once (rule 3)."""

        async def one(name: str, aside: Aside) -> None:
            set_current_server(name)
            try:
                async with asyncio.timeout(MERGED_ASK_SECONDS):
                    await self.one(name, aside, work(name, aside))
            except TimeoutError:
                self.late(name)

        async with asyncio.TaskGroup() as group:
            for name, aside in asides.items():
                group.create_task(one(name, aside))

    async def one(self, name: str, aside: Aside, work: Coroutine[Any, Any, None]) -> None:
        """Do something at one server, however long it takes, if there is a place for it. What fails there is noted."""
        try:
            with contextlib.closing(work), self.members[name].rooms.calls.held(aside):
                await work
        except RequestError as error:
            aside.status = error.status
        except AccreditError as error:
            self._counters.refused(error, server=name)

    def failed(self, name: str, error: AccreditError) -> None:
        """Note what a server has not done."""
        self._counters.refused(error, server=name)

    def late(self, name: str) -> None:
        """Note that a server has not answered in its time."""
        self._counters.refused(UpstreamTimeout(f"no answer for {MERGED_ASK_SECONDS:g} s"), server=name)


def session_id(head: RequestHead) -> bytes:
    """Return what the gateway calls the session that a head names, b"" for none."""
    return head.headers.get(SESSION_HEADER, b"")

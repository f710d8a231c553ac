"""Access to each of several servers on behalf of one client: in its own session, and with reversible ids. I/O through
the servers' backends.

1. A server gets its own session, replica and revision, and of the client's headers what `member` allows.
2. Its event streams are mapped for the client (`events`).
3. All servers are asked at once; each has `MERGED_ASK_SECONDS`, and needs a place in its room for calls. An error at
   one stays between it and the gateway, and affects no other.
4. A session is at the server, or the replica, where it began. If a reload gave that name to another one, it is over
   there (404): the id of a session gives access to it.
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
        """The sessions known to `before` are kept."""
        self.members = members
        self.renewals = before.renewals if before is not None else Renewals()
        self.max_bytes = settings.max_event_bytes
        self.ring = merged_ring(settings.rounds.ring)
        self._enforces = settings.enforce
        self._counters = counters
        self._added = frozenset(name.lower().encode() for name in settings.forward_headers)

    def toward(self, request: Request, name: str, head: RequestHead) -> Request:
        """Return a request with the progress token for a server; `head` is the client's."""
        token = progress_token(request)
        if token is None:
            return request
        own = self._tokens(name, head).outside_in(token)
        return request.with_meta({META_PROGRESS: Raw(to_json(own))})

    def reply_of(self, reply: Reply, request: Request, name: str, own: str | None = None) -> MemberReply:
        """Return the reply for the answer of the server `name`; `own` is the server's own name for the target. Raises
        `UpstreamUnavailable` if it is not in the session."""
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
        """Return a client's head for a server, in its own session. Raises `UpstreamUnavailable`, and `RequestError`
        (404) if its session exists nowhere any more."""
        sessions = self._sessions(head)
        session = self._living(sessions).get(name)
        if session is None and name in sessions:
            raise session_not_found()
        if session is None and SESSION_HEADER in head.headers:
            raise UpstreamUnavailable(f"{name} did not answer when this session began")
        return in_session(member_head(head, self._added, own), session)

    def sessions_of(self, reply: Reply) -> Mapping[str, MemberSession]:
        """Return a request's sessions at servers that still exist: one at least. Raises `RequestError`."""
        if SESSION_HEADER not in reply.head.headers:
            raise RequestError(INVALID_REQUEST, "Invalid Request: Mcp-Session-Id is missing")
        found = self._living(self._sessions(reply.head))
        if not found:
            raise session_not_found()
        return found

    def bare_head(self, head: RequestHead) -> RequestHead:
        """Return a client's head for a server outside any session."""
        return in_session(member_head(head, self._added), None)

    def session_at(self, head: RequestHead, name: str) -> MemberSession | None:
        """Return the client's current session at a server."""
        return self._sessions(head).get(name)

    def _sessions(self, head: RequestHead) -> MemberSessions:
        """Return the sessions in a head's id, updated by those restarted."""
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
        """Return the mapper of a server's events for the client."""
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
        """Return the reply for a server, on a stream that answers the request with the digest `answered`."""
        session, longest = session_id(reply.head), longest_event_id(1)

        def id_outside(id: bytes) -> bytes | None:
            # An id that is too long is left out, and the client can't resume there.
            member.resumable = len(id) <= longest
            return EventIds({name: id}, answered).text(self.ring, session) if member.resumable else None

        mapper = self.mapper(reply, name, id_outside, **more)
        member = MemberReply(reply, self.head(reply.head, name, own), mapper.feed_in_turns)
        member.renewable = self.members[name].has_sessions and self.renewals.of(session) is not None
        member.hears = None  # the mapper asks, with the client's ids
        return member

    def aside(self, reply: Reply, name: str) -> Aside:
        """Return a reply for a server's answer to the gateway itself."""
        head = self.head(reply.head, name).with_field(b"accept-encoding", b"identity")
        return Aside(reply, head)

    async def ask(self, asides: Mapping[str, Aside], message: Message) -> None:
        """Send a message to several servers at once (rule 3)."""

        def post(name: str, aside: Aside) -> Coroutine[Any, Any, None]:
            return self.members[name].backend.post(aside, message, Era.LEGACY, {})

        await self.each(asides, post)

    async def each(self, asides: Mapping[str, Aside], work: Callable[[str, Aside], Coroutine[Any, Any, None]]) -> None:
        """Run `work` at several servers at once (rule 3)."""

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
        """Run `work` at one server, for any time, if there is a place for it. Errors are noted."""
        try:
            with contextlib.closing(work), self.members[name].rooms.calls.held(aside):
                await work
        except RequestError as error:
            aside.status = error.status
        except AccreditError as error:
            self._counters.refused(error, server=name)

    def failed(self, name: str, error: AccreditError) -> None:
        """Count a server's error."""
        self._counters.refused(error, server=name)

    def late(self, name: str) -> None:
        """Count a server's missing answer."""
        self._counters.refused(UpstreamTimeout(f"no answer for {MERGED_ASK_SECONDS:g} s"), server=name)


def session_id(head: RequestHead) -> bytes:
    """Return the gateway's own id of a head's session, b"" for none."""
    return head.headers.get(SESSION_HEADER, b"")

"""The servers of a merged endpoint, each reached on behalf of one client: in the client's own session there, and with
ids that can be mapped back. I/O through the servers' backends.

- [headers] Of the client's headers a server gets only those that MCP needs, and those in `[gateway] forward_headers`.
  Otherwise a key or cookie that is meant for one server would be sent to all. `Authorization` and the query of the
  client's URL are sent to none, whether or not proofs or tokens are required.
- [names] `Mcp-Name` is the server's own name for the target. A server gets its own session, replica and revision.
- [room] Each server has its own part of the gateway's room. If it hangs, the others' callers keep theirs.
- [streams] A server's event streams are mapped for the client (`replies`).
- [at-once] All servers are asked at once. Each has `MERGED_ASK_SECONDS`, and needs a place in its room for calls. An
  error at one server concerns only that server and the gateway, and affects no other.
- [same-place] A session is at the server, or the replica, where it began. If a reload gave that name to another server,
  the session is over there (404), because the id of a session gives access to it.
- [history] Of a session that began in this process, the client's `initialize`, its log level and its subscriptions are
  remembered, so that a server's part can be restarted (`session_starts`). This takes few bytes, is done for a bounded
  number of sessions, and ends when the client ends its own.
"""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, NamedTuple

from msgspec import Raw, Struct, structs

from accredit.base.caching import RecentlyUsed, cache_short_values
from accredit.errors import AccreditError, MessageId, RequestError, UpstreamTimeout, UpstreamUnavailable
from accredit.gateway.admission.pinned_tools import PinnedTools
from accredit.gateway.counters import Counters
from accredit.gateway.forwarding import TO_UPSTREAM, Fate
from accredit.gateway.headers import SESSION_HEADER, RequestHead
from accredit.gateway.room import Rooms
from accredit.gateway.settings import GatewaySettings
from accredit.gateway.turns import in_turns, set_current_server
from accredit.gateway.upstream.backend import Backend
from accredit.gateway.upstream.merged.ids import (
    EventIds,
    MemberSession,
    MemberSessions,
    ProgressTokens,
    digest_of,
    in_session,
    longest_event_id,
    merged_ring,
    session_id,
    sessions_in,
)
from accredit.gateway.upstream.merged.messages import Outward
from accredit.gateway.upstream.merged.replies import CapturedReply, EventMapper, MemberReply, session_not_found
from accredit.gateway.upstream.reply import Reply
from accredit.jsonrpc.encode import INVALID_REQUEST, to_json
from accredit.jsonrpc.era import NAME_HEADER
from accredit.jsonrpc.frames import Failure, Notification, Request, Success, progress_token
from accredit.jsonrpc.header_values import encode_header
from accredit.jsonrpc.methods import META_PROGRESS, Era
from accredit.limits import MERGED_ASK_SECONDS
from accredit.policy.passing import AUTHORIZATION

MAX_RENEWABLE_SESSIONS = 1_000
"""For how many merged sessions a process remembers what is needed to restart one server's part."""
MAX_RENEWABLE_BYTES = 65_536
"""How many bytes are remembered of each: the client's `initialize` (some 300 bytes), and the URIs that it has
subscribed to."""

Message = Request | Notification | Success | Failure
_PASSES = frozenset({Fate.PASSES, Fate.OWN})


class MergedMember(NamedTuple):
    """One of several servers: its backend, its rooms, the check of its definitions, and whether `_meta` tells the
    server on whose authority a call comes. `homes` maps the replica names in session ids (`HttpUpstream.homes`) to the
    server's own. `has_sessions` says that the server can lose a session and start a new one, which a child process
    can't."""

    name: str
    backend: Backend
    rooms: Rooms
    pinned: PinnedTools | None = None
    is_told: bool = True
    homes: Mapping[str, str] = {"": ""}
    has_sessions: bool = True

    def session(self, begun: CapturedReply, revision: str) -> MemberSession:
        """Return the session that the server has begun with its answer, as the client's id has it."""
        home = next((home for home, name in self.homes.items() if name == begun.replica), "")
        return MemberSession(begun.session, home, revision)

    def request(self, request: Request) -> Request:
        """Return a request in the form for this server."""
        if not self.is_told and request.in_meta(AUTHORIZATION) is not None:
            request = request.with_meta({}, without=(AUTHORIZATION,))
        return request

    async def compare(self, hello: Success | Failure | None) -> None:
        """Compare the server's answer to `initialize` or `server/discover` with its pins."""
        if self.pinned is not None and isinstance(hello, Success):
            await in_turns(self.pinned.hello(hello))

    def post(self, reply: Reply, message: Message) -> Coroutine[Any, Any, None]:
        """Send a message of a legacy session, as it is."""
        return self.backend.post(reply, message, Era.LEGACY, {})


class SessionHistory(Struct, eq=False):
    """What a client has told its servers in one session, and the sessions that were restarted (`now`). Of these, the
    `unproved` have not answered yet. `subscribed` has a server's name and the server's own URI for each
    subscription."""

    initialize: Request
    now: dict[str, MemberSession]
    unproved: set[str]
    locks: dict[str, asyncio.Lock]
    subscribed: dict[tuple[str, str], None]
    size: int
    level: Raw | None = None


class SessionHistories:
    """The histories of clients' sessions, by the gateway's own id ([history])."""

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


class MemberAccess:
    """One for each merged endpoint."""

    def __init__(
        self,
        settings: GatewaySettings,
        members: Mapping[str, MergedMember],
        counters: Counters,
        before: "MemberAccess | None" = None,
    ) -> None:
        """The sessions that `before` knows are kept."""
        self.members = members
        self.histories = before.histories if before is not None else SessionHistories()
        self.max_event_bytes = settings.max_event_bytes
        self.ring = merged_ring(settings.rounds.ring)
        self._enforces = settings.enforce
        self._counters = counters
        self._added = frozenset(name.lower().encode() for name in settings.forward_headers)

    # --- the client's sessions -----------------------------------------------------------------------

    def head(self, head: RequestHead, name: str, own: str | None = None) -> RequestHead:
        """Return a client's head for a server, in its own session. Raises `UpstreamUnavailable`, and `RequestError`
        (404) if its session exists nowhere any more."""
        sessions = self._sessions(head)
        session = self._living(sessions).get(name)
        if session is None and name in sessions:
            raise session_not_found()
        if session is None and SESSION_HEADER in head.headers:
            raise UpstreamUnavailable(f"{name} did not answer when this session began")
        return in_session(_member_head(head, self._added, own), session)

    def bare_head(self, head: RequestHead) -> RequestHead:
        """Return a client's head for a server outside any session."""
        return in_session(_member_head(head, self._added), None)

    def sessions_of(self, reply: Reply) -> Mapping[str, MemberSession]:
        """Return a request's sessions at servers that still exist, at least one. Raises `RequestError` if there is
        none."""
        if SESSION_HEADER not in reply.head.headers:
            raise RequestError(INVALID_REQUEST, "Invalid Request: Mcp-Session-Id is missing")
        found = self._living(self._sessions(reply.head))
        if not found:
            raise session_not_found()
        return found

    def session_at(self, head: RequestHead, name: str) -> MemberSession | None:
        """Return the client's current session at a server."""
        return self._sessions(head).get(name)

    def _sessions(self, head: RequestHead) -> MemberSessions:
        """Return the sessions in a head's id, with the restarted ones in place of those they replace."""
        sessions, renewed = sessions_in(head), self.histories.now(session_id(head))
        return {**sessions, **renewed} if renewed else sessions

    def _living(self, sessions: MemberSessions) -> dict[str, MemberSession]:
        """Return the sessions whose servers are where they were ([same-place])."""
        return {
            name: structs.replace(session, replica=self.members[name].homes[session.replica])
            for name, session in sessions.items()
            if name in self.members and session.replica in self.members[name].homes
        }

    # --- one server's answer for the client ----------------------------------------------------------

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
        asked = digest_of(request.id)
        if self._enforces:
            return self.stream_reply(reply, name, asked, own)
        member = self.stream_reply(reply, name, asked, own, only=True)
        member.head = member.head.with_field(b"accept-encoding", b"identity")
        member.answers = request.id
        return member

    def stream_reply(
        self, reply: Reply, name: str, answered: bytes, own: str | None = None, *, only: bool = False
    ) -> MemberReply:
        """Return the reply for a server, on a stream that answers the request with the digest `answered`, and `only`
        that one."""
        session, longest = session_id(reply.head), longest_event_id(1)

        def id_outside(id: bytes) -> bytes | None:
            # An id that is too long is left out, and the client can't resume there.
            member.resumable = len(id) <= longest
            return EventIds({name: id}, answered).text(self.ring, session) if member.resumable else None

        def may_answer(id: MessageId) -> bool:
            return digest_of(id) == answered

        mapper = self.mapper(reply, name, id_outside, may_answer=may_answer if only else None)
        member = MemberReply(reply, self.head(reply.head, name, own), mapper.feed_in_turns)
        member.renewable = self.members[name].has_sessions and self.histories.of(session) is not None
        member.hears = None  # the mapper asks, with the client's ids
        return member

    def mapper(self, reply: Reply, name: str, id_outside: Callable[[bytes], bytes | None], **more: Any) -> EventMapper:
        """Return the mapper of a server's events for the client."""
        outward = Outward(name, self._tokens(name, reply.head))
        return EventMapper(
            outward,
            id_outside,
            max_event_bytes=self.max_event_bytes,
            counters=self._counters,
            hears=reply.hears,
            **more,
        )

    def _tokens(self, name: str, head: RequestHead) -> ProgressTokens:
        return ProgressTokens(self.ring, name, session_id(head))

    # --- several servers' answers for the gateway ----------------------------------------------------

    def capture(self, reply: Reply, name: str) -> CapturedReply:
        """Return a reply for a server's answer to the gateway itself."""
        head = self.head(reply.head, name).with_field(b"accept-encoding", b"identity")
        return CapturedReply(reply, head)

    def capture_all(self, reply: Reply) -> dict[str, CapturedReply]:
        """Return a reply as `capture` does, for each server of a session. Raises `RequestError` if there is none."""
        return {name: self.capture(reply, name) for name in self.sessions_of(reply)}

    async def ask(self, replies: Mapping[str, CapturedReply], message: Message) -> None:
        """Send a message to several servers at once ([at-once])."""
        await self.each(replies, lambda name, reply: self.members[name].post(reply, message))

    async def each(
        self, replies: Mapping[str, CapturedReply], work: Callable[[str, CapturedReply], Coroutine[Any, Any, None]]
    ) -> None:
        """Run `work` at several servers at once ([at-once])."""

        async def one(name: str, reply: CapturedReply) -> None:
            set_current_server(name)
            try:
                async with asyncio.timeout(MERGED_ASK_SECONDS):
                    await self.one(name, reply, work(name, reply))
            except TimeoutError:
                self.late(name)

        async with asyncio.TaskGroup() as group:
            for name, reply in replies.items():
                group.create_task(one(name, reply))

    async def one(self, name: str, reply: CapturedReply, work: Coroutine[Any, Any, None]) -> None:
        """Run `work` at one server, for any time, if there is a place for it. Errors are noted."""
        try:
            with contextlib.closing(work), self.members[name].rooms.calls.held(reply):
                await work
        except RequestError as error:
            reply.status = error.status
        except AccreditError as error:
            self._counters.refused(error, server=name)

    def late(self, name: str, detail: str = "") -> None:
        """Count a server's missing answer."""
        self._counters.refused(UpstreamTimeout(detail or f"no answer for {MERGED_ASK_SECONDS:g} s"), server=name)


def _member_head(head: RequestHead, added: frozenset[bytes], own: str | None = None) -> RequestHead:
    """Return a client's head in the form for one server ([headers] and [names]). `added` are the names in
    `forward_headers`."""
    goes = [pair for pair in head.raw_headers if _goes_on(pair[0], added)]
    if own is not None and NAME_HEADER in head.headers:
        mirrored = NAME_HEADER, encode_header(own)
        goes = [mirrored if pair[0] == NAME_HEADER else pair for pair in goes]
    return head.with_fields(goes, query=b"")


@cache_short_values(512)
def _goes_on(name: bytes, added: frozenset[bytes]) -> bool:
    if name in added or name == b"connection":  # it may name some of the added ones
        return True
    return name != b"authorization" and TO_UPSTREAM.fate(name) in _PASSES

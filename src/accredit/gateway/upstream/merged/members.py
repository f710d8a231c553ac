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

A client has one session with all servers together. If one server has lost its part, the client can't restart that part.
So the gateway does, where it can:

- [history] For a session that began in this process, the client's `initialize`, its log level and its subscriptions are
  remembered, within bounds, until the client ends it. A command's session needs none of this: it lives as long as its
  child. Where nothing is remembered, the server's 404 is forwarded, and the client starts anew.
- [renewal] The new session gets the client's own `initialize`, in the revision of the lost one, and the same messages:
  initialized, the log level, the subscriptions. Pinned definitions are compared as at any start.
- [once] A restarted session is restarted again only if its server has answered in it. So a server that knows none of
  its own sessions costs one `initialize`, and not one for each call.
- [ended-elsewhere] Where other processes have the same sessions, one is restarted only if another server still knows
  it: its client may have ended it at another process.
- [failed-call] The call that finds its session lost fails, and so does each call in progress: none is sent again.
  Lists, `ping` and the log level are sent once more. The standing stream continues, with the notice that lists have
  changed.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, NamedTuple

from msgspec import Raw, structs

from accredit.base.caching import cache_short_values
from accredit.base.log_events import log_event
from accredit.errors import AccreditError, MessageId, RequestError, UpstreamTimeout, UpstreamUnavailable
from accredit.gateway.admission.pinned_tools import PinnedTools
from accredit.gateway.counters import Counters
from accredit.gateway.forwarding import TO_UPSTREAM, Fate
from accredit.gateway.headers import LAST_EVENT_HEADER, SESSION_HEADER, RequestHead
from accredit.gateway.replies import session_not_found
from accredit.gateway.room import Rooms
from accredit.gateway.settings import GatewaySettings
from accredit.gateway.turns import current_server, in_turns
from accredit.gateway.upstream.merged.answers import hello_in, revision_of
from accredit.gateway.upstream.merged.ids import (
    EventIds,
    MemberSession,
    MemberSessions,
    ProgressTokens,
    SessionHistories,
    SessionHistory,
    digest_of,
    in_session,
    longest_event_id,
    merged_ring,
    session_id,
    sessions_in,
)
from accredit.gateway.upstream.merged.messages import ToClientMapper
from accredit.gateway.upstream.merged.replies import CapturedReply, EventMapper, MemberReply
from accredit.gateway.upstream.reply import Backend, Reply
from accredit.jsonrpc.encode import INVALID_REQUEST, METHOD_NOT_FOUND, to_json
from accredit.jsonrpc.era import NAME_HEADER, VERSION_HEADER
from accredit.jsonrpc.frames import Failure, Notification, Request, Success, progress_token
from accredit.jsonrpc.methods import META_PROGRESS, Era
from accredit.jsonrpc.param_headers import encode_header
from accredit.limits import LONG_ANSWER_BYTES, MERGED_ASK_SECONDS, RENEW_SECONDS
from accredit.policy.passing import AUTHORIZATION

Message = Request | Notification | Success | Failure
_PASSES = frozenset({Fate.PASSES, Fate.OWN})
_log = logging.getLogger("accredit.gateway.merged")
_ACCEPT = b"application/json, text/event-stream"
_INITIALIZED = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'
_SUBSCRIPTIONS = frozenset({"resources/subscribe", "resources/unsubscribe"})


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
        """Return the session that the server began with this answer, as the client's session id will hold it."""
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


class MemberAccess:
    """Reaches the servers of one merged endpoint."""

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
        self._is_alone = not settings.rounds.shared and settings.workers == 1
        self._enforces = settings.enforce
        self._counters = counters
        self._added = frozenset(name.lower().encode() for name in settings.forward_headers)

    # --- the client's sessions -----------------------------------------------------------------------

    def head(self, head: RequestHead, name: str, own: str | None = None) -> RequestHead:
        """Return a client's head for a server, in its own session. Raises `UpstreamUnavailable`, and `RequestError`
        (404) if the server or replica that had the session no longer exists."""
        sessions = self._sessions(head)
        session = self._living(sessions).get(name)
        if session is None and name in sessions:
            raise session_not_found()
        if session is None and SESSION_HEADER in head.headers:
            raise UpstreamUnavailable(f"{name} did not answer when this session began")
        return in_session(_member_head(head, self._added, own), session)

    def sessions_of(self, reply: Reply) -> Mapping[str, MemberSession]:
        """Return a request's sessions at servers that still exist, at least one. Raises `RequestError` if there is
        none."""
        if SESSION_HEADER not in reply.head.headers:
            raise RequestError(INVALID_REQUEST, "Invalid Request: Mcp-Session-Id is missing")
        found = self._living(self._sessions(reply.head))
        if not found:
            raise session_not_found()
        return found

    def _sessions(self, head: RequestHead) -> MemberSessions:
        """Return the sessions in a head's id, with the restarted ones in place of those they replace."""
        sessions, renewed = sessions_in(head), self.histories.now(session_id(head))
        return {**sessions, **renewed} if renewed else sessions

    def _living(self, sessions: MemberSessions) -> dict[str, MemberSession]:
        """Return the sessions whose servers are still at the same place ([same-place])."""
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
        """Return the reply that forwards what the server `name` answers. `own` is that server's name for the target.
        Raises `UpstreamUnavailable` if the server is not in the session."""
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
        """Return the reply for a server on a stream that answers the request with the digest `answered`. With `only`,
        the server can answer no other request on it."""
        session, longest = session_id(reply.head), longest_event_id(1)

        def id_outside(id: bytes) -> bytes | None:
            # An id that is too long is left out, and the client can't resume there.
            member.resumable = len(id) <= longest
            return EventIds({name: id}, answered).text(self.ring, session) if member.resumable else None

        def may_answer(id: MessageId) -> bool:
            return digest_of(id) == answered

        mapper = self.mapper(reply, name, id_outside, may_answer=may_answer if only else None)
        member = MemberReply(reply, self.head(reply.head, name, own), mapper.feed)
        member.renewable = self._history(session, name) is not None
        member.hears = None  # the mapper asks, with the client's ids
        return member

    def mapper(self, reply: Reply, name: str, id_outside: Callable[[bytes], bytes | None], **more: Any) -> EventMapper:
        """Return the mapper of a server's events for the client."""
        outward = ToClientMapper(name, self._tokens(name, reply.head))
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

    # --- a server's part of a session, begun anew -----------------------------------------------------

    async def renew(self, reply: Reply, name: str, lost: RequestHead) -> bool:
        """Start a new session at a server that does not know the session in `lost`, unless that was done already.
        Return whether there is a new session now. `reply` is the client's."""
        own, id = session_id(reply.head), lost.headers.get(SESSION_HEADER)
        history = self._history(own, name)
        if history is None or id is None:
            return False
        async with history.locks.setdefault(name, asyncio.Lock()):
            session = self._sessions(reply.head).get(name)
            if session is None or session.id != id:
                return session is not None
            if name in history.unproved:
                return False
            try:
                async with asyncio.timeout(RENEW_SECONDS):
                    begun = await self._goes_on(reply, name) and await self._begin_anew(reply, name, history, session)
            except TimeoutError:
                self.late(name, "no new session in time")
                begun = False
            log_event(_log, logging.WARNING, "session_renewed" if begun else "session_lost", server=name)
            return begun

    async def renew_all(
        self, reply: Reply, replies: Mapping[str, CapturedReply], message: Request | Notification
    ) -> dict[str, CapturedReply]:
        """Restart the sessions that servers did not know when asked; return the replies for asking these again."""
        id = message.id if isinstance(message, Request) else None
        lost = {name: each.head for name, each in replies.items() if _is_lost(each, id)}
        found = [name for name, head in lost.items() if await self.renew(reply, name, head)]
        return {name: self.capture(reply, name) for name in found}

    async def renew_for_list(self, reply: Reply, name: str, head: RequestHead, text: bytes | None) -> bool:
        """Return whether a server that gave no list, or an error, had lost its session, and now has a new one."""
        own = session_id(reply.head)
        if text is not None and b'"error"' not in text[:LONG_ANSWER_BYTES]:
            self.histories.answered(own, name)
            return False
        if self._history(own, name) is None:
            return False
        ping = _request("ping", {})
        answer = await self._say(reply, name, head, ping)
        return _is_lost(answer, ping.id) and await self.renew(reply, name, head)

    def note_answer(self, reply: Reply, method: str, name: str, target: str) -> None:
        """Note that a server has answered a request about its own `target`. A subscription, or its end, is remembered
        for a new session."""
        own = session_id(reply.head)
        self.histories.answered(own, name)
        if method in _SUBSCRIPTIONS:
            self.histories.subscribed(own, name, target, ends=method == "resources/unsubscribe")

    def _history(self, own: bytes, name: str) -> SessionHistory | None:
        """Return the history from which a new session at a server can be started, or None ([history])."""
        return self.histories.of(own) if self.members[name].has_sessions else None

    async def _goes_on(self, reply: Reply, name: str) -> bool:
        """Return whether a session that `name` has lost is still the client's ([ended-elsewhere])."""
        if self._is_alone:
            return True
        others = [each for each, session in self.sessions_of(reply).items() if session.id and each != name]
        replies, ping = {each: self.capture(reply, each) for each in others}, _request("ping", {})
        for each in replies.values():
            each.head = each.head.without((LAST_EVENT_HEADER,))
            each.head.method = "POST"
        await self.ask(replies, ping)
        return any(each.response(ping.id) is not None and not _is_lost(each, ping.id) for each in replies.values())

    async def _begin_anew(self, reply: Reply, name: str, history: SessionHistory, lost: MemberSession) -> bool:
        member = self.members[name]
        bare = _member_head(reply.head, self._added).without((SESSION_HEADER, VERSION_HEADER, LAST_EVENT_HEADER))
        begun = await self._say(reply, name, bare, history.initialize)
        response = begun.response(history.initialize.id)
        hello = hello_in(response.result) if isinstance(response, Success) else None
        if hello is None or not begun.session or (lost.revision and revision_of(hello) != lost.revision):
            return False
        await member.compare(response)
        session = member.session(begun, revision_of(hello))
        history.now[name] = session
        history.unproved.add(name)
        head = in_session(bare, MemberSession(begun.session, begun.replica, session.revision))
        await self._say(reply, name, head, Notification("notifications/initialized", None, _INITIALIZED))
        if history.level is not None:
            await self._say(reply, name, head, _request("logging/setLevel", {"level": history.level}))
        for server, uri in list(history.subscribed):
            if server == name:
                await self._say(reply, name, head, _request("resources/subscribe", {"uri": uri}))
        return True

    async def _say(self, reply: Reply, name: str, head: RequestHead, message: Message) -> CapturedReply:
        replica = head.replica
        head = head.with_field(b"accept-encoding", b"identity").with_field(b"accept", _ACCEPT)
        head.method, head.replica = "POST", replica
        captured = CapturedReply(reply, head)
        await self.one(name, captured, self.members[name].post(captured, message))
        return captured

    # --- several servers' answers for the gateway ----------------------------------------------------

    def capture(self, reply: Reply, name: str) -> CapturedReply:
        """Return a reply that captures a server's answer to a request of the gateway's own."""
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
            current_server.set(name)
            try:
                async with asyncio.timeout(MERGED_ASK_SECONDS):
                    await self.one(name, reply, work(name, reply))
            except TimeoutError:
                self.late(name)

        async with asyncio.TaskGroup() as group:
            for name, reply in replies.items():
                group.create_task(one(name, reply))

    async def one(self, name: str, reply: CapturedReply, work: Coroutine[Any, Any, None]) -> None:
        """Run `work` at one server if that has room for another call. There is no time limit. Errors are noted."""
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


def _is_lost(reply: CapturedReply, id: MessageId | None) -> bool:
    """Return whether a server did not know the session in which it was asked."""
    answer = reply.response(id) if reply.status == 404 and id is not None else None
    return reply.status == 404 and not (isinstance(answer, Failure) and answer.code == METHOD_NOT_FOUND)


def _request(method: str, params: Mapping[str, object]) -> Request:
    text = to_json({"jsonrpc": "2.0", "id": "renewed", "method": method, "params": params})
    return Request("renewed", method, Raw(to_json(params)), text)

"""The backend for a stdio server: HTTP clients of both eras in front of child processes.

- [legacy] Legacy era: `initialize` starts a child and a session; later messages name the session. The backend makes the
  checks that clients of that era expect of an HTTP server. It refuses a missing session (400), an unknown one (404), an
  unknown revision (400), and an `Accept` that does not allow the answer (406).
- [modern] Modern era: all clients share one child. `initialize` does not exist there. A client's notification is
  dropped, since a client cancels by closing the answer (2026-07-28, basic/transports).

Each session is a child, so their number is bounded, in equal parts if there are several servers. If there is no room
for a newcomer, the least valuable session ends. Anonymous callers are those who have not authenticated (no token, no
proof). The session to end is chosen by these rules:

- [in-use] never one that owes an answer, or that a request is using;
- [authenticated] a session of an authenticated caller only if no other may end. For an anonymous newcomer it ends only
  while authenticated callers have more sessions than are reserved for them. Where callers can authenticate, anonymous
  callers can't use the reserve;
- [streams] a session with an open stream only if none without one may end. For an anonymous newcomer it ends only if
  its address has more anonymous sessions than the newcomer's address, including the new one;
- [fairness] of the rest, one of the address that has most sessions. Among these, first one that was never used after
  `initialize`, then the one that has been idle longest.

With a `HeadStart` the client may know a session's id before the child has answered. Such a session counts from then on.
Its users wait until the child has answered, and get an error if it does not.
"""

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from typing import Any

from accredit.base.log_events import log_event
from accredit.errors import AccreditError, AnswerError, MessageId, RequestError, UpstreamUnavailable
from accredit.gateway.admission.tool_directory import ToolDirectory
from accredit.gateway.counters import Counters
from accredit.gateway.headers import JSON, LAST_EVENT_HEADER, SESSION_HEADER, RawHeaders
from accredit.gateway.media_types import accepts
from accredit.gateway.room import ALONE, RESERVED_SHARE, EqualShares, leave_once_read
from accredit.gateway.settings import GatewaySettings, StdioUpstream
from accredit.gateway.turns import turn
from accredit.gateway.upstream.large_answers import AnswerReservation, LargeAnswers
from accredit.gateway.upstream.reply import Reply, WhileConnected
from accredit.gateway.upstream.stdio.child import Child, OrphanGuard, find_program
from accredit.gateway.upstream.stdio.session import Session
from accredit.gateway.upstream.stdio.shared import SharedUpstream
from accredit.jsonrpc.encode import INVALID_REQUEST, METHOD_NOT_FOUND, UPSTREAM_ERROR
from accredit.jsonrpc.era import VERSION_HEADER
from accredit.jsonrpc.frames import Frame, Request
from accredit.jsonrpc.methods import LEGACY_REVISIONS, MODERN_REVISIONS, Era
from accredit.jsonrpc.requests import Batch
from accredit.jsonrpc.responses import Edit
from accredit.limits import ASKED_TIMES, BUSY_RETRY_SECONDS

MAX_SESSIONS = 128
"""How many legacy sessions there are at once. Each is a child process, of 20 to 100 MiB, with three descriptors."""
MIN_SESSIONS = 8
"""How many of these sessions each of many stdio servers has at least: enough for all clients that one person runs."""
SESSION_IDLE_SECONDS = 1_800.0
"""How long a session may be without a request or a stream before it ends, with its child. Clients that leave without a
DELETE are common; one that returns later gets a 404 and initializes anew (2025-11-25, basic/transports)."""
SESSION_LEFT_SECONDS = 300.0
"""How long a session stays unused if its client had a long-lived stream and has none any more. The official SDKs keep
their stream for as long as they run, and reopen a broken one within seconds: otherwise the client has left. The
session's child holds some 60 MiB."""


_log = logging.getLogger("accredit.gateway.stdio")


class HeadStart:
    """A session's state before its child has answered `initialize`: its id, b"" before there is one.

    With `confirmed`, the client has got the session already. Then the calling code tells the child that it is
    initialized.
    """

    def __init__(self) -> None:
        self.session = b""
        self.confirmed = False


class StdioBackend:
    """Owns every child of the process."""

    def __init__(
        self,
        settings: GatewaySettings,
        upstream: StdioUpstream,
        counters: Counters,
        tools: ToolDirectory,
        parts: EqualShares = ALONE,
    ) -> None:
        """`parts` divides the process's bounds among its servers."""
        self._settings = settings
        self._upstream = upstream
        self._tools = tools
        self._guard = OrphanGuard()
        self._large = LargeAnswers(settings, parts)
        self._sessions = Sessions(settings, self._start, counters, self._large, parts)
        self._shared = SharedUpstream(settings, self._start, counters, self._large)

    def go_by(self, settings: GatewaySettings) -> None:
        """Apply these settings to running children from now on, and start the next ones with them."""
        self._settings = settings
        self._large.fit(settings)
        self._sessions.go_by(settings)
        self._shared.go_by(settings)

    async def post(self, reply: Reply, message: Frame | Batch, era: Era, edits: Mapping[MessageId, Edit]) -> None:
        """Answer a client's message."""
        try:
            _check_accept(reply, b"application/json", b"text/event-stream")
            await (self._modern if era is Era.MODERN else self._legacy)(reply, message, edits)
        except RequestError as error:
            if error.id is None and isinstance(message, Request):
                error.id = message.id
            raise

    async def begin(self, reply: Reply, initialize: Request, ahead: HeadStart) -> None:
        """Answer `initialize`. Once `ahead` has the session's id, requests that name it wait for the child's answer."""
        _check_accept(reply, b"application/json", b"text/event-stream")
        _check_revision(reply)
        await self._sessions.create(reply, initialize, ahead=ahead)

    async def get(self, reply: Reply, otherwise: Edit | None) -> None:
        """Serve a session's long-lived stream, or resume one. `otherwise` is not needed: responses were edited before
        they were kept."""
        if reply.head.headers.get(VERSION_HEADER, b"").decode("latin-1") in MODERN_REVISIONS:
            raise RequestError(INVALID_REQUEST, "Method not allowed", status=405)
        _check_accept(reply, b"text/event-stream")
        _check_revision(reply)
        async with self._sessions.using(reply, stands=True) as session:
            await session.get(reply, reply.head.headers.get(LAST_EVENT_HEADER))

    async def delete(self, reply: Reply) -> None:
        """End a session."""
        _check_revision(reply)
        self._sessions.end(reply)
        await reply.reply(204)

    async def ask(self, reply: Reply, era: Era, request: Request, most: int | None = None) -> bytes | None:
        """Send one of the gateway's own requests, to the child of the client's session or to the shared child. Return
        the response's text, or None."""
        held = self._large.of(reply, times=ASKED_TIMES)
        try:
            if era is Era.MODERN:
                return await (await self._shared.living()).ask(request, held)
            async with self._sessions.using(reply, watches=False) as session:
                return await session.ask(request, held)
        except AccreditError:
            return None
        finally:
            leave_once_read(held)

    async def ready(self) -> bool:
        """Return whether the upstream's command exists, and is not waiting to be restarted."""
        return find_program(self._upstream) is not None and not self._shared.resting()

    def drain(self) -> None:
        """End long-lived streams and subscriptions; calls continue."""
        self._sessions.drain()
        self._shared.drain()

    async def aclose(self) -> None:
        """End every child."""
        await asyncio.gather(self._sessions.aclose(), self._shared.aclose())
        await self._guard.aclose()

    async def _legacy(self, reply: Reply, message: Frame | Batch, edits: Mapping[MessageId, Edit]) -> None:
        _check_revision(reply)
        initialize = message if isinstance(message, Request) and message.method == "initialize" else None
        if initialize is not None and SESSION_HEADER not in reply.head.headers:
            await self._sessions.create(reply, initialize, edits.get(initialize.id))
        else:
            async with self._sessions.using(reply) as session:
                await session.post(reply, message, edits, self._large.of(reply))

    async def _modern(self, reply: Reply, message: Frame | Batch, edits: Mapping[MessageId, Edit]) -> None:
        if not isinstance(message, Request):
            await reply.reply(202)
        elif message.method == "initialize":
            # The child would take it for the start of a legacy connection, shared by all modern clients.
            raise RequestError(METHOD_NOT_FOUND, "Method not found: initialize", id=message.id, status=404)
        else:
            life = await self._shared.living()
            if message.method == "tools/call":
                await self._tools.check_headers(message, reply.head.headers, life.ask)
            await life.post(reply, message, edits.get(message.id), self._large.of(reply))

    def _start(self) -> Coroutine[Any, Any, Child]:
        return Child.start(self._upstream, self._guard, self._settings.max_event_bytes)


class _Entry:
    """A session and its use: its current exchanges (`streams` are the long-lived ones), and when it expires without
    any.

    `since` is when the last exchange ended, in the loop's time. `listened` says that its client had a long-lived
    stream. `answered` is done once the child has answered `initialize`; its result says whether that made this a
    session.
    """

    def __init__(self, session: Session, reply: Reply) -> None:
        self.session = session
        self.answered = asyncio.get_running_loop().create_future()
        self.peer = reply.peer
        self.proved = reply.proved
        self.uses = 0
        self.streams = 0
        self.used = False
        self.listened = False
        self.since = 0.0
        self.timer: asyncio.TimerHandle | None = None

    @property
    def busy(self) -> bool:
        """Whether the session must not be ended ([in-use]). An unanswered `initialize` does not count: its client can
        start anew."""
        return self.uses > self.streams or (self.session.owes and self.answered.done())


class Sessions:
    """The sessions of a process, by the gateway's own ids. Clients may have other ids (`callers`)."""

    def __init__(
        self,
        settings: GatewaySettings,
        start: Callable[[], Coroutine[Any, Any, Child]],
        counters: Counters,
        large: LargeAnswers,
        parts: EqualShares,
    ) -> None:
        """`start` starts a child. Raises `UpstreamUnavailable`."""
        self._start_child = start
        self._counters = counters
        self._large = large
        self._parts = parts
        self._entries: dict[str, _Entry] = {}
        self.go_by(settings)
        self._children = 0
        self._endings: set[asyncio.Task[None]] = set()

    def go_by(self, settings: GatewaySettings) -> None:
        """Apply these settings from now on."""
        self._settings = settings
        self._most = self._parts.of(MAX_SESSIONS, MIN_SESSIONS)
        self._reserved = int(self._most * RESERVED_SHARE) if settings.proving else 0
        for entry in self._entries.values():
            entry.session.go_by(settings)

    async def create(
        self, reply: Reply, request: Request, edit: Edit | None = None, ahead: HeadStart | None = None
    ) -> None:
        """Start a child for an `initialize`, and answer the client. If the child's answer is valid, there is a session.
        With `ahead`, the client can use the session as soon as it has an id. Raises `AccreditError`."""
        await self._make_room(reply, request)
        held = self._large.of(reply)
        try:
            await self._begin(reply, request, held, edit, ahead)
        finally:
            held.leave()

    async def _begin(
        self, reply: Reply, request: Request, held: AnswerReservation, edit: Edit | None, ahead: HeadStart | None
    ) -> None:
        session = await self._start()
        entry = _Entry(session, reply)
        session.take_room(self._large, entry)
        if ahead is not None:
            self._entries[session.id] = entry
            entry.since = asyncio.get_running_loop().time()
            ahead.session = session.id.encode("ascii")
        kept = False
        try:
            with WhileConnected(reply):
                stream = await session.initialize(request, held, edit)
            established = await self._established(session, stream.whole())
            if established and ahead is not None and ahead.confirmed:
                await session.confirm()
            kept = established
        finally:
            entry.answered.set_result(kept)
            if not kept:
                self._end(session)
        headers: RawHeaders = [JSON]
        if kept:
            if ahead is None:  # otherwise it is listed already, unless it was ended meanwhile
                self._entries[session.id] = entry
            if entry.uses == 0:
                self._rest(entry)
            id = session.id.encode("ascii")
            reply.negotiated(id, session.revision or "")
            headers.append((SESSION_HEADER, id))
        await reply.reply(stream.status, stream.whole(), headers)

    @contextlib.asynccontextmanager
    async def using(self, reply: Reply, *, stands: bool = False, watches: bool = True) -> AsyncGenerator[Session]:
        """Yield the client's session, which can't expire while in use. `stands` says that this is for a standing
        stream. Without `watches` the caller itself watches for a client that disconnects.

        Raises `RequestError` (400, 404), and `UpstreamUnavailable` if the session's child does not start.
        """
        entry = self._find(reply)
        entry.proved = entry.proved or reply.proved
        entry.used = True
        entry.uses += 1
        entry.streams += stands
        entry.listened = entry.listened or stands
        if entry.timer is not None:
            entry.timer.cancel()
        try:
            if not entry.answered.done():
                with WhileConnected(reply) if watches else contextlib.nullcontext():
                    await asyncio.wait([entry.answered])
            if not entry.answered.result():
                raise UpstreamUnavailable("the upstream has not begun the session")
            yield entry.session
        finally:
            entry.uses -= 1
            entry.streams -= stands
            if entry.uses == 0:
                self._rest(entry)

    def end(self, reply: Reply) -> None:
        """End the client's session. Raises `RequestError` (400, 404)."""
        session = self._find(reply).session
        session.withdraw()
        self._end(session)

    def drain(self) -> None:
        """End the long-lived streams."""
        for entry in self._entries.values():
            entry.session.drain()

    async def aclose(self) -> None:
        """End all sessions, at once."""
        for entry in list(self._entries.values()):
            self._end(entry.session)
        await asyncio.gather(*self._endings)

    async def _make_room(self, reply: Reply, request: Request) -> None:
        """While there is no room, wait for other sessions to end. Raises `RequestError` (503)."""
        while self._full(reply):
            entry = self._least_valuable(reply)
            if entry is not None:
                log_event(_log, logging.INFO, "session_made_room", used=entry.used)
                await asyncio.wait([self._end(entry.session)])
            elif self._endings:
                await asyncio.wait(self._endings, return_when=asyncio.FIRST_COMPLETED)
            else:
                detail, retry = "Too many sessions", BUSY_RETRY_SECONDS
                raise RequestError(UPSTREAM_ERROR, detail, id=request.id, status=503, retry_after=retry)

    def _full(self, reply: Reply) -> bool:
        if self._children >= self._most:
            return True
        return not reply.proved and self._children - self._proved() >= self._most - self._reserved

    def _proved(self) -> int:
        return sum(entry.proved for entry in self._entries.values())

    def _least_valuable(self, reply: Reply) -> _Entry | None:
        """Return the session to end by [in-use] to [fairness]."""
        held = Counter(entry.peer for entry in self._entries.values() if not entry.proved)
        spared = not reply.proved and self._proved() <= self._reserved

        def may_end(entry: _Entry) -> bool:
            if entry.busy or (entry.proved and spared):
                return False
            return not entry.streams or reply.proved or held[entry.peer] > held[reply.peer] + 1

        def value(entry: _Entry) -> tuple[bool, bool, int, bool, float]:
            return entry.proved, entry.streams > 0, -held[entry.peer], entry.used, entry.since

        return min(filter(may_end, self._entries.values()), key=value, default=None)

    async def _start(self) -> Session:
        self._children += 1
        try:
            child = await self._start_child()
        except BaseException:
            self._children -= 1
            raise
        session = Session(child, self._settings, self._counters)
        session.over.add_done_callback(lambda _: self._gone(session))
        return session

    async def _established(self, session: Session, answer: bytes) -> bool:
        try:
            await turn(len(answer))
            return session.establish(answer)
        except AnswerError as error:
            if self._settings.enforce:
                raise
            self._counters.refused(error, observed=True)
            return False

    def _find(self, reply: Reply) -> _Entry:
        named = reply.head.headers.get(SESSION_HEADER)
        if named is None:
            raise RequestError(INVALID_REQUEST, "Invalid Request: Mcp-Session-Id is missing")
        entry = self._entries.get(named.decode("latin-1"))
        if entry is None or not entry.session.alive:
            raise RequestError(INVALID_REQUEST, "Session not found", status=404)
        return entry

    def _rest(self, entry: _Entry) -> None:
        if entry.session.id in self._entries and entry.answered.done():
            loop = asyncio.get_running_loop()
            entry.since = loop.time()
            seconds = SESSION_LEFT_SECONDS if entry.listened else SESSION_IDLE_SECONDS
            entry.timer = loop.call_later(seconds, self._end, entry.session)

    def _end(self, session: Session) -> asyncio.Task[None]:
        self._forget(session)
        ending = asyncio.get_running_loop().create_task(session.aclose())
        self._endings.add(ending)
        ending.add_done_callback(self._endings.discard)
        return ending

    def _gone(self, session: Session) -> None:
        self._children -= 1
        self._forget(session)

    def _forget(self, session: Session) -> None:
        entry = self._entries.pop(session.id, None)
        if entry is not None and entry.timer is not None:
            entry.timer.cancel()


def _check_accept(reply: Reply, *types: bytes) -> None:
    value = reply.head.headers.get(b"accept")
    for type in types:
        if not accepts(value, type):
            detail = f"Not acceptable: the client must accept {type.decode('ascii')}"
            raise RequestError(INVALID_REQUEST, detail, status=406)


def _check_revision(reply: Reply) -> None:
    named = reply.head.headers.get(VERSION_HEADER)
    if named is not None and named.decode("latin-1") not in LEGACY_REVISIONS:
        known = ", ".join(LEGACY_REVISIONS + MODERN_REVISIONS)
        raise RequestError(INVALID_REQUEST, f"Unsupported MCP-Protocol-Version; known are {known}")

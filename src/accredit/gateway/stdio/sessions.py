"""The legacy sessions of one gateway process: made, found, ended, and ended by themselves when nobody uses them."""

import asyncio
import contextlib
from collections.abc import Generator

from accredit.errors import AnswerError, RequestError
from accredit.gateway.headers import SESSION_HEADER, RawHeaders
from accredit.gateway.http import JSON, Exchange, WhileConnected
from accredit.gateway.settings import GatewaySettings, StdioUpstream
from accredit.gateway.stdio.child import Child
from accredit.gateway.stdio.guard import OrphanGuard
from accredit.gateway.stdio.session import Session
from accredit.gateway.tally import Tally
from accredit.jsonrpc.encode import INVALID_REQUEST, UPSTREAM_ERROR
from accredit.jsonrpc.frames import Request
from accredit.limits import MAX_SESSIONS


class _Entry:
    """A session, how many exchanges use it, and when it ends because none does."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.uses = 0
        self.timer: asyncio.TimerHandle | None = None


class Sessions:
    """A session is found by its id, which only its client knows."""

    def __init__(
        self,
        settings: GatewaySettings,
        upstream: StdioUpstream,
        guard: OrphanGuard,
        tally: Tally,
        idle_seconds: float,
    ) -> None:
        self._settings = settings
        self._upstream = upstream
        self._guard = guard
        self._tally = tally
        self._idle_seconds = idle_seconds
        self._entries: dict[str, _Entry] = {}
        self._children = 0
        self._endings: set[asyncio.Task[None]] = set()

    async def create(self, exchange: Exchange, request: Request) -> None:
        """Starts a child for an `initialize`, and answers the client: with a session, if the child's answer is valid.

        Raises `AccreditError`.
        """
        if self._children >= MAX_SESSIONS:
            raise RequestError(UPSTREAM_ERROR, "Too many sessions", id=request.id, status=503)
        session = await self._start()
        kept = False
        try:
            with WhileConnected(exchange):
                stream = await session.initialize(request)
            kept = self._established(session, stream.whole())
        finally:
            if not kept:
                self._end(session)
        headers: RawHeaders = [JSON]
        if kept:
            entry = self._entries[session.id] = _Entry(session)
            self._rest(entry)
            headers.append((SESSION_HEADER, session.id.encode("ascii")))
        await exchange.reply(stream.status, stream.whole(), headers)

    @contextlib.contextmanager
    def using(self, exchange: Exchange) -> Generator[Session]:
        """The session that a client names; it does not expire meanwhile. Raises `RequestError` (400, 404)."""
        entry = self._find(exchange)
        entry.uses += 1
        if entry.timer is not None:
            entry.timer.cancel()
        try:
            yield entry.session
        finally:
            entry.uses -= 1
            if entry.uses == 0:
                self._rest(entry)

    def end(self, exchange: Exchange) -> None:
        """Ends the session that a client names. Raises `RequestError` (400, 404)."""
        self._end(self._find(exchange).session)

    def revision(self, session_id: str | None) -> str | None:
        """The revision that a session negotiated."""
        entry = self._entries.get(session_id) if session_id is not None else None
        return entry.session.revision if entry is not None else None

    def drain(self) -> None:
        """Ends the standing streams."""
        for entry in self._entries.values():
            entry.session.drain()

    async def aclose(self) -> None:
        """Ends all sessions, at once."""
        for entry in list(self._entries.values()):
            self._end(entry.session)
        await asyncio.gather(*self._endings)

    async def _start(self) -> Session:
        self._children += 1
        try:
            child = await Child.start(self._upstream, self._guard, self._settings.max_event_bytes)
        except BaseException:
            self._children -= 1
            raise
        session = Session(child, self._settings, self._tally)
        session.over.add_done_callback(lambda _: self._gone(session))
        return session

    def _established(self, session: Session, answer: bytes) -> bool:
        try:
            return session.establish(answer)
        except AnswerError as error:
            if self._settings.enforce:
                raise
            self._tally.refused(error, observed=True)
            return False

    def _find(self, exchange: Exchange) -> _Entry:
        named = exchange.headers.get(SESSION_HEADER)
        if named is None:
            raise RequestError(INVALID_REQUEST, "Invalid Request: Mcp-Session-Id is missing")
        entry = self._entries.get(named.decode("latin-1"))
        if entry is None or not entry.session.alive:
            raise RequestError(INVALID_REQUEST, "Session not found", status=404)
        return entry

    def _rest(self, entry: _Entry) -> None:
        if entry.session.id in self._entries:
            loop = asyncio.get_running_loop()
            entry.timer = loop.call_later(self._idle_seconds, self._end, entry.session)

    def _end(self, session: Session) -> None:
        self._forget(session)
        ending = asyncio.get_running_loop().create_task(session.aclose())
        self._endings.add(ending)
        ending.add_done_callback(self._endings.discard)

    def _gone(self, session: Session) -> None:
        self._children -= 1
        self._forget(session)

    def _forget(self, session: Session) -> None:
        entry = self._entries.pop(session.id, None)
        if entry is not None and entry.timer is not None:
            entry.timer.cancel()

"""The backend for a stdio server: HTTP clients of both eras in front of child processes.

- [legacy] Legacy era: `initialize` starts a child and a session; later messages name the session. The backend makes the
  checks that clients of that era expect of an HTTP server. It refuses a missing session (400), an unknown one (404), an
  unknown revision (400), and an `Accept` that does not allow the answer (406).
- [modern] Modern era: all clients share one child. `initialize` does not exist there. A client's notification is
  dropped, since a client cancels by closing the answer (2026-07-28, basic/transports).
"""

import asyncio
from collections.abc import Mapping

from accredit.errors import AccreditError, MessageId, RequestError
from accredit.gateway.admission.tool_directory import ToolDirectory
from accredit.gateway.counters import Counters
from accredit.gateway.headers import LAST_EVENT_HEADER, SESSION_HEADER
from accredit.gateway.media_types import accepts
from accredit.gateway.room import ALONE, Parts, leave_once_read
from accredit.gateway.settings import GatewaySettings, StdioUpstream
from accredit.gateway.upstream.large_answers import LargeAnswers
from accredit.gateway.upstream.reply import Reply
from accredit.gateway.upstream.stdio.child import find_program
from accredit.gateway.upstream.stdio.orphan_guard import OrphanGuard
from accredit.gateway.upstream.stdio.sessions import HeadStart, Sessions
from accredit.gateway.upstream.stdio.shared import SharedUpstream
from accredit.jsonrpc.encode import INVALID_REQUEST, METHOD_NOT_FOUND
from accredit.jsonrpc.era import VERSION_HEADER
from accredit.jsonrpc.frames import Frame, Request
from accredit.jsonrpc.methods import LEGACY_REVISIONS, MODERN_REVISIONS, Era
from accredit.jsonrpc.requests import Batch
from accredit.jsonrpc.responses import Edit
from accredit.limits import ASKED_TIMES


class StdioBackend:
    """Owns every child of the process."""

    def __init__(
        self,
        settings: GatewaySettings,
        upstream: StdioUpstream,
        counters: Counters,
        tools: ToolDirectory,
        parts: Parts = ALONE,
    ) -> None:
        """`parts` divides the process's bounds among its servers."""
        self._upstream = upstream
        self._guard = OrphanGuard()
        self._large = LargeAnswers(settings, parts)
        self._sessions = Sessions(settings, upstream, self._guard, counters, self._large, parts)
        self._shared = SharedUpstream(settings, upstream, self._guard, counters, tools, self._large)

    def go_by(self, settings: GatewaySettings) -> None:
        """Apply these settings to running children from now on, and start the next ones with them."""
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
                return await self._shared.ask(request, held)
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
            await self._shared.post(reply, message, edits.get(message.id), self._large.of(reply))


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

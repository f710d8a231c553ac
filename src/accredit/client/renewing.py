"""A connection that outlives its server's sessions. A transport that wraps others; no other I/O.

- [lost-session] A legacy session (MCP up to 2025-11-25) that the server no longer knows is replaced by a new one with
  the same state (`legacy_session`). Its revision stays the same too, as the host can't agree to another one any more.
- [resend] If a request finds its session lost, the server has not executed it, so it is sent again, once. If the
  connection broke while a request was open, the request ends with an error that says so: nobody knows whether it was
  done.
- [open-requests] If a session is lost, the server's own requests in it end, too (`legacy_session`).
- [streams] A stream of the modern era (`subscriptions/listen`) that breaks after it was acknowledged is requested
  again.
- [older-transport] If the server has no endpoint of streamable HTTP at the URL, HTTP+SSE (2024-11-05) is tried, where
  the stream is the session.
- [patience] If the server has sent no message for `patience` seconds, a waiting request is abandoned, and cancelled at
  the server. Comments that keep a stream open don't count as messages. Time in which the server waits for the host does
  not count.
- [cancellation] Nothing waits until a cancellation is written: earlier messages may still be queued for a server that
  does not read.

While the server can't be reached, each request gets an error, and the next request tries again. Between requests, a new
session is also attempted, at growing intervals.
"""

import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, NamedTuple, cast

import anyio
from anyio.abc import TaskGroup, TaskStatus
from mcp.shared.message import SessionMessage
from mcp_types import (
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
)
from msgspec import Struct

from accredit.base.values import members_of
from accredit.client.http import SILENCE_SECONDS, GatewayHttp
from accredit.client.legacy_session import LegacySession, ServerRequests
from accredit.client.messages import unavailable
from accredit.client.peers import Answer, Changed, HostSide, Peer
from accredit.client.proving import Params
from accredit.client.sdk import Incoming, ReadStream, Transport, TransportStreams, send_unless_gone
from accredit.client.ways import NoEventStream, is_broken_connection
from accredit.jsonrpc.encode import UPSTREAM_ERROR
from accredit.jsonrpc.methods import LISTEN, META_SUBSCRIPTION
from accredit.limits import BACKOFF_FIRST_SECONDS, BACKOFF_MAX_SECONDS, STOP_GRACE_SECONDS
from accredit.refusals import SESSION_LOST

MAX_TRIES = 2
"""How many sessions may be lost under one request: it fails when the second one is lost."""


_log = logging.getLogger("accredit.client")

_ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
_CUT_OFF = "the connection broke off before the answer came: whether this was done is not known"
_TOO_LATE = "the gateway did not answer in time: whether this was done is not known"
_CHECK_INTERVAL = 0.1
"""The interval between checks for requests that have waited too long, as a fraction of the patience. HTTP's own timeout
is short enough to end a request first, with its own error."""
_NO_SESSION = "the session was lost, and the one that followed it, too: this was not done"


class OpenConnection(NamedTuple):
    """An opened connection to the server: its HTTP client, and the transport on top of that."""

    http: GatewayHttp
    transport: Transport


OpenWay = Callable[[bool, Callable[[], None]], OpenConnection]
"""Opens a connection: of HTTP+SSE if the first argument is true, else of streamable HTTP. The second is called when the
session is lost."""


class _Connection:
    """One opened connection, with the session on it. In the modern era, and before `initialize`, there is no
    session."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.scope = anyio.CancelScope()
        self.http: GatewayHttp
        self.peer: Peer


class _Request(Struct, eq=False):
    """An open request of the host. `to` is the connection to which it was last sent. It is None while the request waits
    for one."""

    sent: SessionMessage
    message: JSONRPCRequest
    to: _Connection | None = None
    tries: int = 0
    since: float = 0.0
    acknowledged: bool = False
    delay: float = BACKOFF_FIRST_SECONDS


class RenewingTransport:
    """A transport over one connection after another. `open` gives a read and a write stream, as every transport
    does."""

    def __init__(self, open_way: OpenWay, patience: float = SILENCE_SECONDS) -> None:
        """`patience` is how many seconds the server may send nothing while it owes an answer ([patience])."""
        self._open_way = open_way
        self._is_sse = False
        self._patience = patience
        self._heard_at = 0.0
        self._open: dict[RequestId, _Request] = {}
        self._server_requests = ServerRequests()
        self._session: LegacySession | None = None
        self._current: _Connection | None = None
        self._held: dict[int, _Connection] = {}
        """The open connections, by their numbers."""
        self._number = 0
        self._renewing = False
        self._closing = False
        self._wanted = anyio.Event()
        self._host: HostSide
        self._connections: TaskGroup
        self._tasks: TaskGroup

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[TransportStreams]:
        """Open the first connection. At the end close every connection, once the host's messages have been forwarded.
        Each connection ends its own session. Raises `NoEventStream`."""
        self._host = HostSide()
        async with anyio.create_task_group() as self._connections:
            try:
                async with self._host.serve(self._take) as self._tasks:
                    self._current = await self._connect()
                    self._tasks.start_soon(self._watch)
                    try:
                        yield self._host.reads, Changed(self._host.writes, self._at_once)
                    finally:
                        self._closing = True
            finally:
                self._let_go()

    def _let_go(self) -> None:
        for connection in self._held.values():
            connection.scope.cancel()
        self._connections.cancel_scope.deadline = anyio.current_time() + STOP_GRACE_SECONDS

    # --- connections ----------------------------------------------------------------------------------

    async def _connect(self) -> _Connection:
        """Return a connection that is open. Raises `NoEventStream`."""
        connection = _Connection(self._number)
        self._number += 1
        fault = await self._connections.start(self._hold, connection)
        if fault is not None:
            raise fault
        return connection

    async def _hold(
        self, connection: _Connection, *, task_status: TaskStatus[NoEventStream | None] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        """Open a connection, and report None, or the error if it can't be opened. Pass on its messages until it
        ends."""
        opened = self._open_way(self._is_sse, lambda: self._lost(connection))
        connection.http = opened.http
        fault: NoEventStream | None = None
        self._held[connection.number] = connection
        try:
            async with opened.transport as (read, write):
                connection.peer = Peer(f"renew-{connection.number}", write)
                task_status.started(None)
                with connection.scope, suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
                    await self._from_server(connection, read)
                connection.peer.lost()
        except* NoEventStream as group:
            fault = cast("NoEventStream", group.exceptions[0])
        finally:
            del self._held[connection.number]
        if fault is not None:
            task_status.started(fault)
        elif not connection.scope.cancel_called:
            await self._ended(connection)

    async def _ended(self, connection: _Connection) -> None:
        """Handle the end of a connection's stream: fail its open requests, and replace its session."""
        for request in [each for each in self._open.values() if each.to is connection]:
            await self._fail(request, unavailable(_CUT_OFF))
        self._lost(connection)

    def _lost(self, connection: _Connection) -> None:
        """Start a new session in place of this connection's, unless that is in progress."""
        if connection is self._current and self._session is not None and not (self._renewing or self._closing):
            self._renewing = True
            self._tasks.start_soon(self._renew, connection)

    async def _watch(self) -> None:
        """Abandon requests that have waited too long ([patience])."""
        while True:
            await anyio.sleep(self._patience * _CHECK_INTERVAL)
            now = anyio.current_time()
            if self._server_requests:
                self._heard_at = now
            for request in [each for each in self._open.values() if self._is_late(each, now)]:
                await self._give_up(request)

    def _is_late(self, request: _Request, now: float) -> bool:
        is_owed = request.to is not None and request.message.method != LISTEN
        return is_owed and now - max(request.since, self._heard_at) > self._patience

    async def _give_up(self, request: _Request) -> None:
        _log.warning("the gateway sent no message in time: a request is given up")
        await self._fail(request, unavailable(_TOO_LATE))
        if request.to is not None and request.message.method != "initialize":
            params: Params = {"requestId": request.message.id, "reason": "no message in time"}
            cancelled = JSONRPCNotification(jsonrpc="2.0", method="notifications/cancelled", params=params)
            metadata = self._session.metadata if self._session is not None else None
            self._tasks.start_soon(request.to.peer.send, SessionMessage(cancelled, metadata))

    def _is_idle(self, connection: _Connection) -> bool:
        return connection is not self._current and all(each.to is not connection for each in self._open.values())

    # --- from the host ----------------------------------------------------------------------------------

    def _at_once(self, item: SessionMessage) -> SessionMessage | None:
        """Return the message, which the caller then writes. A cancellation is instead written here, in the background
        ([cancellation]), and None is returned. Raises `ClosedResourceError`."""
        if self._closing:
            raise anyio.ClosedResourceError
        if not isinstance(item.message, JSONRPCNotification) or item.message.method != "notifications/cancelled":
            return item
        self._tasks.start_soon(send_unless_gone, self._host.writes, item)
        return None

    async def _take(self, item: SessionMessage) -> None:
        match item.message:
            case JSONRPCRequest() as message:
                request = self._open[message.id] = _Request(item, message)
                await self._send(request)
            case JSONRPCNotification() as message:
                await self._notify(item, message)
            case JSONRPCResponse() | JSONRPCError() as answer:
                await self._answer(item, answer)

    async def _send(self, request: _Request) -> None:
        self._wanted.set()
        if self._renewing or self._current is None:
            return  # it is sent, or fails, when that is over
        request.to, request.tries, request.since = self._current, request.tries + 1, anyio.current_time()
        await self._current.peer.send(request.sent)

    async def _notify(self, item: SessionMessage, message: JSONRPCNotification) -> None:
        if message.method == "notifications/cancelled":
            cancelled = self._open.pop(cast("RequestId", (message.params or {}).get("requestId")), None)
            if cancelled is not None and cancelled.to is not None:
                await cancelled.to.peer.send(item)
                self._retire(cancelled.to)
            return
        if self._session is not None:
            self._session.remember_notification(message)
        if not self._renewing and self._current is not None:
            await self._current.peer.send(item)

    async def _answer(self, item: SessionMessage, answer: Answer) -> None:
        settled = self._server_requests.settle(answer)
        connection = self._held.get(settled[0]) if settled is not None else None
        if settled is not None and connection is not None:
            await connection.peer.send(SessionMessage(settled[1], item.metadata))

    # --- from the server --------------------------------------------------------------------------------

    async def _from_server(self, connection: _Connection, read: ReadStream[Incoming]) -> None:
        async for item in read:
            self._heard_at = anyio.current_time()
            message = item.message if isinstance(item, SessionMessage) else None
            if connection.peer.settles(message):
                continue
            match message:
                case JSONRPCResponse() | JSONRPCError() if message.id is not None:
                    await self._answered(connection, message)
                    self._retire(connection)
                case JSONRPCRequest():
                    await self._ask_host(connection, message)
                case JSONRPCNotification(method="notifications/cancelled"):
                    withdrawn = self._server_requests.withdraw(connection.number, message)
                    await self._host.to_host.send(SessionMessage(withdrawn))
                case JSONRPCNotification(method=method) if method == _ACKNOWLEDGED and self._acknowledged(message):
                    pass
                case _:
                    await self._host.to_host.send(item)

    async def _ask_host(self, connection: _Connection, message: JSONRPCRequest) -> None:
        added = self._server_requests.add(connection.number, message)
        if isinstance(added, JSONRPCError):
            await connection.peer.send(SessionMessage(added))
        else:
            await self._host.to_host.send(SessionMessage(added))

    def _acknowledged(self, message: JSONRPCNotification) -> bool:
        """Note that the server has acknowledged the host's stream. Return whether the host was told so before."""
        id = members_of((message.params or {}).get("_meta")).get(META_SUBSCRIPTION)
        request = self._open.get(id) if isinstance(id, str | int) else None
        if request is None:
            return False
        was_acknowledged, request.acknowledged = request.acknowledged, True
        request.delay = BACKOFF_FIRST_SECONDS
        return was_acknowledged

    async def _answered(self, connection: _Connection, answer: Answer) -> None:
        request = self._open.get(cast("RequestId", answer.id))
        if request is None or request.to is not connection:
            return
        if isinstance(answer, JSONRPCError):
            await self._refused(connection, request, answer.error)
            return
        del self._open[request.message.id]
        self._learn(request.message, answer.result)
        await self._tell(answer)

    async def _refused(self, connection: _Connection, request: _Request, error: ErrorData) -> None:
        if error.code == SESSION_LOST and self._session is not None:  # [resend]
            if request.tries >= MAX_TRIES:
                await self._fail(request, unavailable(_NO_SESSION))
                return
            request.to = None
            self._lost(connection)
            await self._send(request)
        elif request.message.method == LISTEN and request.acknowledged and error.code == UPSTREAM_ERROR:
            request.to = None
            self._tasks.start_soon(self._listen_again, request)
        elif request.message.method == "initialize" and self._may_fall_back(connection):
            request.to = None
            self._tasks.start_soon(self._fall_back, request, error)
        else:
            await self._fail(request, _plainly(error))

    def _learn(self, request: JSONRPCRequest, result: dict[str, Any]) -> None:
        """Remember the state that a new session would need."""
        if request.method == "initialize":
            self._session = LegacySession.begun(request, result)
        elif self._session is not None:
            self._session.remember_request(request)

    async def _tell(self, message: JSONRPCMessage) -> None:
        await send_unless_gone(self._host.to_host, SessionMessage(message))

    async def _fail(self, request: _Request, error: ErrorData) -> None:
        if self._open.get(request.message.id) is request:
            del self._open[request.message.id]
            await self._tell(JSONRPCError(jsonrpc="2.0", id=request.message.id, error=error))

    # --- anew -------------------------------------------------------------------------------------------

    async def _renew(self, lost: _Connection) -> None:
        """Try for a new session until there is one ([lost-session])."""
        _log.warning("the gateway does not know this session any more; a new one is begun")
        delay = BACKOFF_FIRST_SECONDS
        while True:
            # A request that comes meanwhile may come after the server is back: it triggers another attempt.
            self._wanted = anyio.Event()
            waiting = [each for each in self._open.values() if each.to is None]
            fault = await self._begin_anew(lost)
            if fault is None:
                break
            for request in waiting:
                await self._fail(request, fault)
            with anyio.move_on_after(delay):
                await self._wanted.wait()
            delay = min(2 * delay, BACKOFF_MAX_SECONDS)
        self._renewing = False
        for request in [each for each in self._open.values() if each.to is None]:
            await self._send(request)

    async def _begin_anew(self, lost: _Connection) -> ErrorData | None:
        """Replace the lost session by a new one. Return None, or the error if there is no new session."""
        session = cast("LegacySession", self._session)
        try:
            connection = await self._connect()
        except NoEventStream:
            text = "the gateway's event stream can't be had: is it running, and is the URL right?"
            return unavailable(text)
        fault = await session.begin_again(connection.peer)
        if fault is not None:
            connection.scope.cancel()
            return fault
        self._current = connection
        for cancelled in self._server_requests.drop(lost.number):
            await self._tell(cancelled)
        self._retire(lost)
        await session.restore(connection.peer)
        for changed in session.list_changes:
            await self._tell(changed)
        return None

    def _retire(self, connection: _Connection) -> None:
        """Close a connection whose session is lost, once no request waits for its answer there."""
        if self._is_idle(connection) and connection.http.lost:
            connection.scope.cancel()

    async def _listen_again(self, request: _Request) -> None:
        """Request a broken stream again, after a pause ([streams])."""
        await anyio.sleep(request.delay)
        request.delay = min(2 * request.delay, BACKOFF_MAX_SECONDS)
        if self._open.get(request.message.id) is request:
            await self._send(request)

    def _may_fall_back(self, connection: _Connection) -> bool:
        return not self._is_sse and connection.http.has_no_endpoint

    async def _fall_back(self, request: _Request, error: ErrorData) -> None:
        """Send the host's `initialize` over HTTP+SSE ([older-transport]). If the server has no HTTP+SSE either, answer
        it with `error`."""
        first, self._is_sse = self._current, True
        try:
            self._current = await self._connect()
        except NoEventStream:
            self._is_sse = False
            await self._fail(request, error)
            return
        if first is not None:
            first.scope.cancel()
        if self._open.get(request.message.id) is request:
            await self._send(request)


def _plainly(error: ErrorData) -> ErrorData:
    """Return an error with a text that the caller understands."""
    if is_broken_connection(error):
        return unavailable(_CUT_OFF)
    if error.code == SESSION_LOST:  # before any session: the server's own words
        return ErrorData.model_validate(error.data or {"code": UPSTREAM_ERROR, "message": error.message})
    return error

"""A connection that outlives its server's sessions. A transport around others; no I/O besides.

1. A session of the legacy era that the server does not know any more is begun anew: with the host's own `initialize`,
   `notifications/initialized`, the level of logging, and the subscriptions that were made. That the roots have changed
   is said again if it was said before; lists that may change are said to have changed.
2. A request that found its session gone was not taken: it is sent again, once. One that was open when the connection
   broke ends with an error that says so, as nobody knows whether it was done.
3. What the server asked in a session that is gone is cancelled at the host, and answered to nobody: ids of requests of
   another session are never the same ones for the host. What it asks beyond `MAX_OPEN_REQUESTS` is refused here.
4. A stream of the modern era (`subscriptions/listen`) that breaks after it was acknowledged is asked for again.
5. A server that has no endpoint of streamable HTTP at the URL is tried with HTTP+SSE (2024-11-05), whose session is its
   stream.
6. The server may be silent about what it owes for so long. Every message of it counts, comments that keep a stream
   open don't, nor does the time for which it waits for the host. What takes longer is given up, and taken back.

A session can be begun again only in the revision that the host agreed to. While the server is away each request gets an
error, and the next one finds it again; a session is tried for without being asked for as well, less and less often.
"""

import logging
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from types import TracebackType
from typing import Any, NamedTuple, cast

import anyio
from anyio.abc import TaskGroup, TaskStatus
from anyio.streams.memory import MemoryObjectReceiveStream
from mcp import MCPError
from mcp.client import Transport
from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER
from mcp.shared.message import ClientMessageMetadata, SessionMessage
from mcp_types import (
    INTERNAL_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
)
from msgspec import Struct

from accredit.base.caching import RecentlyUsed
from accredit.base.text import excerpt
from accredit.client.http import GatewayHttp
from accredit.client.peers import Answer, Peer
from accredit.client.proving import Params
from accredit.client.sdk import Incoming, ReadStream, TransportStreams
from accredit.client.ways import NoEventStream, broken_off
from accredit.jsonrpc.encode import UNAVAILABLE, UPSTREAM_ERROR
from accredit.jsonrpc.methods import LISTEN, META_SUBSCRIPTION
from accredit.limits import (
    BACKOFF_FIRST_SECONDS,
    BACKOFF_MAX_SECONDS,
    MAX_OPEN_REQUESTS,
    MAX_RENEWED_SUBSCRIPTIONS,
    MAX_TRIES,
    RENEW_SECONDS,
    SILENCE_SECONDS,
    STOP_GRACE_SECONDS,
)
from accredit.refusals import SESSION_LOST

_log = logging.getLogger("accredit.client")

_ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
_ROOTS_CHANGED = "notifications/roots/list_changed"
_CUT_OFF = "the connection broke off before the answer came: whether this was done is not known"
_TOO_LATE = "the gateway did not answer in time: whether this was done is not known"
_LOOKS = 0.1
"""Of the patience: how often is looked who has waited for too long. HTTP's own timeout comes first, in its words."""
_NO_SESSION = "the session was lost, and the one that followed it, too: this was not done"


class Opened(NamedTuple):
    """A way to the server that was opened: its HTTP connection and the transport over it."""

    http: GatewayHttp
    transport: Transport


class Ways(NamedTuple):
    """How either way is opened. What they get is called when the session is gone."""

    streamable: Callable[[Callable[[], None]], Opened]
    sse: Callable[[Callable[[], None]], Opened]


class _Connection:
    """One session, or what is not known to be one yet."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.scope = anyio.CancelScope()
        self.http: GatewayHttp
        self.peer: Peer


class _Request(Struct, eq=False):
    """A request of the host, and the connection that it went to last; None: it waits for one."""

    sent: SessionMessage
    message: JSONRPCRequest
    to: _Connection | None = None
    tries: int = 0
    since: float = 0.0
    acknowledged: bool = False
    delay: float = BACKOFF_FIRST_SECONDS


class _Session(Struct):
    """What a session has to be told that is to go on where another one ended."""

    begun: JSONRPCRequest
    revision: object
    capabilities: dict[str, Any]
    subscribed: RecentlyUsed[object, JSONRPCRequest]
    initialized: JSONRPCNotification | None = None
    level: JSONRPCRequest | None = None
    roots_changed: JSONRPCNotification | None = None

    @property
    def metadata(self) -> ClientMessageMetadata:
        """The headers of its messages."""
        version = self.revision if isinstance(self.revision, str) else ""
        return ClientMessageMetadata(headers={MCP_PROTOCOL_VERSION_HEADER: version} if version else {})


class RenewingTransport:
    """An async context manager that gives a read and a write stream, as every transport does."""

    def __init__(self, ways: Ways, patience: float = SILENCE_SECONDS) -> None:
        """`patience` is for how long the server may send no message while it owes an answer, in seconds."""
        self._ways = ways
        self._patience = patience
        self._heard_at = 0.0
        self._open_way = ways.streamable
        self._open: dict[RequestId, _Request] = {}
        self._asked: dict[RequestId, tuple[_Connection, RequestId]] = {}
        self._session: _Session | None = None
        self._current: _Connection | None = None
        self._held: set[_Connection] = set()
        self._number = 0
        self._renewing = False
        self._closing = False
        self._heard = anyio.Event()
        self._wanted = anyio.Event()
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> TransportStreams:
        """Opens the first connection."""
        async with AsyncExitStack() as stack:
            self._to_host, host_reads = anyio.create_memory_object_stream[Incoming]()
            host_writes, from_host = anyio.create_memory_object_stream[SessionMessage]()
            for stream in (self._to_host, host_reads, host_writes, from_host):
                stack.callback(stream.close)
            self._ends = (host_reads, host_writes)
            self._connections: TaskGroup = await stack.enter_async_context(anyio.create_task_group())
            stack.callback(self._let_go)
            self._tasks: TaskGroup = await stack.enter_async_context(anyio.create_task_group())
            stack.callback(self._tasks.cancel_scope.cancel)
            self._current = await self._connect()
            self._tasks.start_soon(self._from_host, from_host)
            self._tasks.start_soon(self._watch)
            self._stack = stack.pop_all()
        return host_reads, host_writes

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Closes every connection, once what was sent is passed on: each ends its own session."""
        self._closing = True
        for stream in self._ends:
            stream.close()
        with anyio.move_on_after(STOP_GRACE_SECONDS):
            await self._heard.wait()
        await self._stack.__aexit__(kind, error, trace)

    def _let_go(self) -> None:
        for connection in self._held:
            connection.scope.cancel()
        self._connections.cancel_scope.deadline = anyio.current_time() + STOP_GRACE_SECONDS

    # --- connections ----------------------------------------------------------------------------------

    async def _connect(self) -> _Connection:
        """Raises `NoEventStream`."""
        connection = _Connection(self._number)
        self._number += 1
        fault = await self._connections.start(self._hold, connection)
        if fault is not None:
            raise fault
        return connection

    async def _hold(
        self, connection: _Connection, *, task_status: TaskStatus[NoEventStream | None] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        """A connection, from its opening to its end."""
        opened = self._open_way(lambda: self._lost(connection))
        connection.http = opened.http
        fault: NoEventStream | None = None
        self._held.add(connection)
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
            self._held.discard(connection)
        if fault is not None:
            task_status.started(fault)
        elif not connection.scope.cancel_called:
            await self._ended(connection)

    async def _ended(self, connection: _Connection) -> None:
        """Its stream is over: so is its session."""
        for request in [each for each in self._open.values() if each.to is connection]:
            await self._fail(request, ErrorData(code=UPSTREAM_ERROR, message=UNAVAILABLE, data=_CUT_OFF))
        self._lost(connection)

    def _lost(self, connection: _Connection) -> None:
        """The session of a connection is gone."""
        if connection is self._current and self._session is not None and not (self._renewing or self._closing):
            self._renewing = True
            self._tasks.start_soon(self._renew, connection)

    async def _watch(self) -> None:
        """Rule 6."""
        while True:
            await anyio.sleep(self._patience * _LOOKS)
            now = anyio.current_time()
            if self._asked:
                self._heard_at = now
            for request in [each for each in self._open.values() if self._is_late(each, now)]:
                await self._give_up(request)

    def _is_late(self, request: _Request, now: float) -> bool:
        is_owed = request.to is not None and request.message.method != LISTEN
        return is_owed and now - max(request.since, self._heard_at) > self._patience

    async def _give_up(self, request: _Request) -> None:
        _log.warning("the gateway sent no message in time: a request is given up")
        await self._fail(request, ErrorData(code=UPSTREAM_ERROR, message=UNAVAILABLE, data=_TOO_LATE))
        if request.to is not None and request.message.method != "initialize":
            params: Params = {"requestId": request.message.id, "reason": "no message in time"}
            cancelled = JSONRPCNotification(jsonrpc="2.0", method="notifications/cancelled", params=params)
            metadata = self._session.metadata if self._session is not None else None
            await request.to.peer.send(SessionMessage(cancelled, metadata))

    def _is_idle(self, connection: _Connection) -> bool:
        return connection is not self._current and all(each.to is not connection for each in self._open.values())

    # --- from the host ----------------------------------------------------------------------------------

    async def _from_host(self, sent: MemoryObjectReceiveStream[SessionMessage]) -> None:
        async for item in sent:
            match item.message:
                case JSONRPCRequest() as message:
                    request = self._open[message.id] = _Request(item, message)
                    await self._send(request)
                case JSONRPCNotification() as message:
                    await self._notify(item, message)
                case JSONRPCResponse() | JSONRPCError() as answer:
                    await self._answer(item, answer)
        self._heard.set()

    async def _send(self, request: _Request) -> None:
        self._wanted.set()
        if self._renewing or self._current is None:
            return  # it goes out, or fails, when that is over
        request.to, request.tries, request.since = self._current, request.tries + 1, anyio.current_time()
        await self._current.peer.send(request.sent)

    async def _notify(self, item: SessionMessage, message: JSONRPCNotification) -> None:
        if message.method == "notifications/cancelled":
            cancelled = self._open.pop(cast("RequestId", (message.params or {}).get("requestId")), None)
            if cancelled is not None and cancelled.to is not None:
                await cancelled.to.peer.send(item)
                self._retire(cancelled.to)
            return
        if self._session is not None and message.method == "notifications/initialized":
            self._session.initialized = message
        if self._session is not None and message.method == _ROOTS_CHANGED:
            self._session.roots_changed = message
        if not self._renewing and self._current is not None:
            await self._current.peer.send(item)

    async def _answer(self, item: SessionMessage, answer: Answer) -> None:
        """Rule 3."""
        found = self._asked.pop(answer.id, None) if answer.id is not None else None
        if found is not None:
            connection, id = found
            await connection.peer.send(SessionMessage(answer.model_copy(update={"id": id}), item.metadata))

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
                    await self._to_host.send(self._as_taken_back(connection, message))
                case JSONRPCNotification(method=method) if method == _ACKNOWLEDGED and self._acknowledged(message):
                    pass
                case _:
                    await self._to_host.send(item)

    async def _ask_host(self, connection: _Connection, message: JSONRPCRequest) -> None:
        """Rule 3."""
        if len(self._asked) >= MAX_OPEN_REQUESTS:
            error = ErrorData(code=INTERNAL_ERROR, message="The client owes too many answers")
            await connection.peer.send(SessionMessage(JSONRPCError(jsonrpc="2.0", id=message.id, error=error)))
            return
        id = _host_s_id(connection, message.id)
        self._asked[id] = (connection, message.id)
        await self._to_host.send(SessionMessage(message.model_copy(update={"id": id})))

    def _as_taken_back(self, connection: _Connection, message: JSONRPCNotification) -> SessionMessage:
        """The server waits no more for what it asked: a host that is told so answers nothing."""
        params = message.params or {}
        id = params.get("requestId")
        if not isinstance(id, str | int):
            return SessionMessage(message)
        known = _host_s_id(connection, id)
        self._asked.pop(known, None)
        return SessionMessage(message.model_copy(update={"params": {**params, "requestId": known}}))

    def _acknowledged(self, message: JSONRPCNotification) -> bool:
        """Whether the host knows already that its stream is open."""
        meta = (message.params or {}).get("_meta")
        id = cast("dict[str, Any]", meta).get(META_SUBSCRIPTION) if isinstance(meta, dict) else None
        request = self._open.get(id) if isinstance(id, str | int) else None
        if request is None:
            return False
        known, request.acknowledged, request.delay = request.acknowledged, True, BACKOFF_FIRST_SECONDS
        return known

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
        if error.code == SESSION_LOST and self._session is not None:  # rule 2
            if request.tries >= MAX_TRIES:
                await self._fail(request, ErrorData(code=UPSTREAM_ERROR, message=UNAVAILABLE, data=_NO_SESSION))
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
        """Takes in what a new session would have to be told."""
        if request.method == "initialize":
            found = result.get("capabilities")
            capabilities = cast("dict[str, Any]", found) if isinstance(found, dict) else {}
            subscribed = RecentlyUsed[object, JSONRPCRequest](MAX_RENEWED_SUBSCRIPTIONS)
            self._session = _Session(request, result.get("protocolVersion"), capabilities, subscribed)
        session, uri = self._session, (request.params or {}).get("uri")
        if session is None:
            return
        if request.method == "logging/setLevel":
            session.level = request
        if request.method == "resources/subscribe":
            session.subscribed.put(uri, request)
        if request.method == "resources/unsubscribe":
            session.subscribed.forget(uri)

    async def _tell(self, message: JSONRPCMessage) -> None:
        with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
            await self._to_host.send(SessionMessage(message))

    async def _fail(self, request: _Request, error: ErrorData) -> None:
        if self._open.get(request.message.id) is request:
            del self._open[request.message.id]
            await self._tell(JSONRPCError(jsonrpc="2.0", id=request.message.id, error=error))

    # --- anew -------------------------------------------------------------------------------------------

    async def _renew(self, lost: _Connection) -> None:
        """Rule 1, until it has succeeded."""
        _log.warning("the gateway does not know this session any more; a new one is begun")
        delay = BACKOFF_FIRST_SECONDS
        while True:
            # What comes while a session is tried for may come after the server is back: it gets another try.
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
        """A new session in place of the one that is lost; or why there is none."""
        session = cast("_Session", self._session)
        try:
            connection = await self._connect()
        except NoEventStream:
            text = "the gateway's event stream can't be had: is it running, and is the URL right?"
            return ErrorData(code=UPSTREAM_ERROR, message=UNAVAILABLE, data=text)
        fault = await self._initialize(connection, session)
        if fault is not None:
            connection.scope.cancel()
            return fault
        self._current = connection
        for id, (asked_by, _) in list(self._asked.items()):
            if asked_by is lost:
                del self._asked[id]
                params: Params = {"requestId": id, "reason": "the session is gone"}
                await self._tell(JSONRPCNotification(jsonrpc="2.0", method="notifications/cancelled", params=params))
        self._retire(lost)
        await self._restore(connection, session)
        return None

    async def _initialize(self, connection: _Connection, session: _Session) -> ErrorData | None:
        asking = connection.peer.request("initialize", session.begun.params or {})
        try:
            with anyio.fail_after(RENEW_SECONDS):
                result = await connection.peer.ask(asking)
        except MCPError as error:
            return error.error
        except TimeoutError:
            return ErrorData(code=UPSTREAM_ERROR, message=UNAVAILABLE, data="the gateway begins no new session")
        if result.get("protocolVersion") != session.revision:
            now = excerpt(str(result.get("protocolVersion")))
            text = f"the server speaks {now} now, and not {excerpt(str(session.revision))}: start this connection anew"
            return ErrorData(code=UPSTREAM_ERROR, message=UNAVAILABLE, data=text)
        return None

    async def _restore(self, connection: _Connection, session: _Session) -> None:
        """Tells a new session what the last one knew, and the host what may have changed."""
        begun = session.initialized or JSONRPCNotification(jsonrpc="2.0", method="notifications/initialized")
        for told in (begun, session.roots_changed):
            if told is not None:
                await connection.peer.send(SessionMessage(told, session.metadata))
        for request in (session.level, *session.subscribed.values()):
            if request is None:
                continue
            again = connection.peer.request(request.method, request.params or {})
            try:
                with anyio.fail_after(RENEW_SECONDS):
                    await connection.peer.ask(again, session.metadata.headers)
            except (MCPError, TimeoutError):
                _log.warning("%s could not be done again in the new session", request.method)
        for kind in ("tools", "resources", "prompts"):
            offered = session.capabilities.get(kind)
            if isinstance(offered, dict) and cast("dict[str, Any]", offered).get("listChanged") is True:
                await self._tell(JSONRPCNotification(jsonrpc="2.0", method=f"notifications/{kind}/list_changed"))

    def _retire(self, connection: _Connection) -> None:
        """Closes a connection that nobody uses any more."""
        if self._is_idle(connection) and connection.http.lost:
            connection.scope.cancel()

    async def _listen_again(self, request: _Request) -> None:
        """Rule 4."""
        await anyio.sleep(request.delay)
        request.delay = min(2 * request.delay, BACKOFF_MAX_SECONDS)
        if self._open.get(request.message.id) is request:
            await self._send(request)

    def _may_fall_back(self, connection: _Connection) -> bool:
        return self._open_way is self._ways.streamable and connection.http.has_no_endpoint

    async def _fall_back(self, request: _Request, error: ErrorData) -> None:
        """Rule 5."""
        first, self._open_way = self._current, self._ways.sse
        try:
            self._current = await self._connect()
        except NoEventStream:
            self._open_way = self._ways.streamable
            await self._fail(request, error)
            return
        if first is not None:
            first.scope.cancel()
        if self._open.get(request.message.id) is request:
            await self._send(request)


def _host_s_id(connection: _Connection, id: RequestId) -> RequestId:
    """An id of the server's, as one that no other session's has."""
    return id if connection.number == 0 else f"accredit-{connection.number}-{id}"


def _plainly(error: ErrorData) -> ErrorData:
    """An error in words for whoever made the call."""
    if broken_off(error):
        return ErrorData(code=UPSTREAM_ERROR, message=UNAVAILABLE, data=_CUT_OFF)
    if error.code == SESSION_LOST:  # before any session was begun: the server's own words
        return ErrorData.model_validate(error.data or {"code": UPSTREAM_ERROR, "message": error.message})
    return error

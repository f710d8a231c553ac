"""Connects a legacy-era host to a modern-era server. A transport that wraps another one; no further I/O.

The legacy era is MCP up to 2025-11-25, the modern era is MCP from 2026-07-28 on.

- [initialize] A host's `initialize` is forwarded. If the server refuses it, but answers `server/discover`, the bridge
  answers `initialize` itself. With `modern`, `server/discover` is tried first. Until then all other messages pass
  unchanged. A modern host never sends `initialize`, so most connections are never bridged.
- [request-meta] Each request gets the `_meta` members that the modern era requires: the revision, and the host's
  identity and capabilities.
- [input-requests] When a server asks for input (`input_required`), the host gets a request for each entry, of the kinds
  that it declared. The bridge then repeats the call with the answers. If the host cancels its call, the requests to it
  that are still open are cancelled, too.
- [local-answers] `ping` is answered here, and the level of `logging/setLevel` is added to each request. Subscriptions
  and list changes are not bridged, and are not offered. The server's notifications pass on to the host; those of the
  host are not forwarded.

Not checked: the content of results and answers, except for what `accredit.rounds` checks.
"""

import math
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, cast

import anyio
from anyio.abc import TaskGroup
from anyio.streams.memory import MemoryObjectSendStream
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from mcp_types import (
    SERVER_INFO_META_KEY,
    ErrorData,
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
)

from accredit.base.values import items_of, members_of
from accredit.client.headers import RoutingHeaders
from accredit.client.peers import Answer, HostSide, Peer
from accredit.client.proving import Params, with_meta
from accredit.client.rounds import run_rounds
from accredit.client.sdk import Incoming, ReadStream, Transport, TransportStreams
from accredit.errors import RoundsError
from accredit.jsonrpc.encode import METHOD_NOT_FOUND, UPSTREAM_ERROR
from accredit.jsonrpc.methods import (
    LEGACY_REVISIONS,
    META_CAPABILITIES,
    META_CLIENT_INFO,
    META_LOG_LEVEL,
    META_VERSION,
    MODERN_REVISIONS,
)
from accredit.rounds import InputContext, LegOptions, RoundsOptions
from accredit.rounds.results import check_result_type

_Reply = Callable[[JSONRPCRequest], Awaitable[Params]]

_KINDS = {"elicitation": "elicitation/create", "sampling": "sampling/createMessage", "roots": "roots/list"}
_OFFERED = ("tools", "resources", "prompts", "completions", "logging")
_NOT_BRIDGED = frozenset({"resources/subscribe", "resources/unsubscribe"})
_MODERN_MEMBERS = frozenset({"resultType", "ttlMs", "cacheScope"})


class Bridge:
    """A bridge over the transport `inner`. `open` gives the host a stream to read and one to write, as every transport
    does."""

    def __init__(self, inner: Transport, *, modern: bool = False) -> None:
        self._inner = inner
        self._modern = modern
        self._headers = RoutingHeaders()
        self._meta: Params = {}
        self._declared: dict[str, Any] = {}
        self._calls: dict[RequestId, anyio.CancelScope] = {}
        self._tasks: TaskGroup

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[TransportStreams]:
        """Open the wrapped transport. Close it once everything that was sent has been forwarded."""
        host = HostSide()
        async with self._inner as (read, write), host.serve(self._take) as self._tasks:
            self._server, self._host = Peer("leg", write), Peer("ask", host.to_host)
            self._tasks.start_soon(self._from_server, read, host.to_host)
            yield host.reads, host.writes

    async def _from_server(self, read: ReadStream[Incoming], to_host: MemoryObjectSendStream[Incoming]) -> None:
        with to_host, suppress(anyio.BrokenResourceError):
            async for item in read:
                if not self._server.settles(item.message if isinstance(item, SessionMessage) else None):
                    await to_host.send(item)
            self._server.lost()

    async def _take(self, item: SessionMessage) -> None:
        """Handle a message of the host."""
        match item.message:
            case JSONRPCRequest(method="initialize") as request:
                self._begin(request, self._initialize)
            case _ if not self._meta:
                await self._server.send(item)
            case JSONRPCRequest() as request:
                self._begin(request, self._result)
            case JSONRPCNotification(method="notifications/cancelled") as cancelled:
                scope = self._calls.get(cast("RequestId", (cancelled.params or {}).get("requestId")))
                if scope is not None:
                    scope.cancel()
            case message:
                self._host.settles(message)

    def _begin(self, request: JSONRPCRequest, reply: _Reply) -> None:
        scope = self._calls[request.id] = anyio.CancelScope()
        self._tasks.start_soon(self._answer, request, reply, scope)

    async def _answer(self, request: JSONRPCRequest, reply: _Reply, scope: anyio.CancelScope) -> None:
        with scope:
            answer: Answer
            try:
                answer = JSONRPCResponse(jsonrpc="2.0", id=request.id, result=await reply(request))
            except MCPError as error:
                answer = JSONRPCError(jsonrpc="2.0", id=request.id, error=error.error)
            except RoundsError as error:
                data = ErrorData(code=UPSTREAM_ERROR, message=str(error))
                answer = JSONRPCError(jsonrpc="2.0", id=request.id, error=data)
            await self._host.send(SessionMessage(answer))
        if self._calls.get(request.id) is scope:  # the host may have reused the id after it cancelled
            del self._calls[request.id]

    async def _initialize(self, request: JSONRPCRequest) -> Params:
        """Answer `initialize`: with the server's answer or, for a modern server, with one made here ([initialize])."""
        if self._modern:
            return await self._discover(request) or await self._server.ask(request)
        try:
            return await self._server.ask(request)
        except MCPError:
            offered = await self._discover(request)
            if offered is None:
                raise
            return offered

    async def _discover(self, request: JSONRPCRequest) -> Params | None:
        """Discover a modern server, and return the answer to the host's `initialize`. Return None if the server is
        legacy: then nothing is bridged.

        Raises `RoundsError`.
        """
        begun = request.params or {}
        declared = members_of(begun.get("capabilities"))
        # Drops `listChanged` of roots: it announces a notification that the modern era does not have.
        known = {kind: {} if kind == "roots" else members_of(declared[kind]) for kind in _KINDS if kind in declared}
        meta: Params = {
            META_VERSION: MODERN_REVISIONS[-1],
            META_CLIENT_INFO: begun.get("clientInfo") or {"name": "unknown", "version": ""},
            META_CAPABILITIES: known,
        }
        asking = self._server.request("server/discover", {"_meta": meta})
        try:
            discovered = await self._server.ask(asking, self._headers.of(asking))
        except MCPError:
            return None
        check_result_type(discovered)
        if MODERN_REVISIONS[-1] not in items_of(discovered.get("supportedVersions")):
            return None
        self._meta, self._declared = meta, known
        offered = members_of(discovered.get("capabilities"))
        wanted = begun.get("protocolVersion")
        answer: Params = {
            "protocolVersion": wanted if wanted in LEGACY_REVISIONS else LEGACY_REVISIONS[-1],
            "capabilities": {name: {} for name in _OFFERED if name in offered},
            "serverInfo": discovered.get("serverInfo")
            or members_of(discovered.get("_meta")).get(SERVER_INFO_META_KEY)
            or {"name": "unknown", "version": ""},
        }
        return {**answer, **{name: discovered[name] for name in ("instructions",) if name in discovered}}

    async def _result(self, request: JSONRPCRequest) -> Params:
        """Return the result of a request to the modern server ([request-meta] to [local-answers]). Raises `MCPError`
        and `RoundsError`."""
        params = request.params or {}
        if request.method == "ping":
            return {}
        if request.method == "logging/setLevel":
            self._meta = {**self._meta, META_LOG_LEVEL: params.get("level")}
            return {}
        if request.method in _NOT_BRIDGED:
            raise MCPError(METHOD_NOT_FOUND, "Method not found", "this server has no subscriptions for older hosts")

        async def send_leg(leg: Params, _: LegOptions) -> Params:
            sent = self._server.request(request.method, leg)
            return await self._server.ask(sent, self._headers.of(sent))

        handlers = {method: self._ask for kind, method in _KINDS.items() if kind in self._declared}
        # No timeout: the host waits, and its own decides.
        result = await run_rounds(
            send_leg, handlers, with_meta(params, self._meta), request.method, RoundsOptions(), timeout=math.inf
        )
        self._headers.learn(request.method, result)
        return {name: value for name, value in result.items() if name not in _MODERN_MEMBERS}

    async def _ask(self, context: InputContext, _: object) -> Params:
        """Return the host's answer to one entry of a request for input. Raises `MCPError` if the host refuses, and
        `ValueError` if the host can't be asked this."""
        params = context.params.model_dump(by_alias=True, mode="json", exclude_none=True) if context.params else {}
        if params.pop("mode", None) == "url":
            if "url" not in self._declared["elicitation"]:
                raise ValueError("the host can't show pages")
            params |= {"mode": "url", "elicitationId": str(uuid.uuid4())}
        return await self._host.ask(self._host.request(context.method, params))

"""The official SDK's internals that are used here: no other file imports or reads them. I/O: streams.

The SDK has no public names for the types of its streams, for an in-memory transport, or for the parts of its HTTP
transport. It has no public hook between the wire and its models. Each internal that is used instead is named once,
here. So if a release of the SDK changes one, only this file and its test are affected, and the test says which is
missing.
"""

import re
import sys
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, suppress
from typing import TYPE_CHECKING, Any, cast

import anyio
import httpx2
from mcp.client._transport import ReadStream, Transport, TransportStreams, WriteStream
from mcp.client.streamable_http import (
    DEFAULT_RECONNECTION_DELAY_MS,
    MAX_RECONNECTION_ATTEMPTS,
    RequestContext,
    StreamableHTTPTransport,
)
from mcp.shared._context_streams import ContextReceiveStream, ContextSendStream, create_context_streams
from mcp.shared._httpx_utils import MCP_DEFAULT_SSE_READ_TIMEOUT, MCP_DEFAULT_TIMEOUT, stream_within_origin
from mcp.shared.dispatcher import Dispatcher
from mcp.shared.jsonrpc_dispatcher import cancelled_request_id_from_params
from mcp.shared.message import SessionMessage
from mcp_types import (
    CONNECTION_CLOSED,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
)

from accredit.base.deferred import Deferred
from accredit.base.text import excerpt
from accredit.client.messages import events_of, is_message, read_message
from accredit.errors import FrameError, UnsupportedRevision
from accredit.jsonrpc.sse import Event
from accredit.limits import BACKOFF_FIRST_SECONDS, BACKOFF_MAX_SECONDS

if TYPE_CHECKING:
    from anyio.abc import Process
    from mcp import StdioServerParameters
    from mcp.client import ClientSession, _memory
    from mcp.client import stdio as _stdio
    from mcp.os.win32.utilities import FallbackProcess
    from mcp.server import Server
    from mcp.server.mcpserver import MCPServer
else:
    _memory = Deferred("mcp.client._memory")
    _stdio = Deferred("mcp.client.stdio")

MIN_RESUME_SECONDS = 0.1
"""The shortest wait, in seconds, before a client resumes a stream of events, whatever `retry` the server names. With a
`retry` of 0, the client would send thirty requests a second while a call is open. Servers that want to be polled name
about a second."""


__all__ = [
    "BROKEN",
    "EVENTS",
    "MCP_DEFAULT_SSE_READ_TIMEOUT",
    "MCP_DEFAULT_TIMEOUT",
    "Incoming",
    "ReadStream",
    "Streamable",
    "Transport",
    "TransportStreams",
    "WriteStream",
    "create_context_streams",
    "drain_child",
    "in_memory",
    "open_child",
    "open_to_the_end",
    "read_results_with",
    "replace_revision_error",
    "send_unless_gone",
    "stop_child",
    "stream_within_origin",
]

Incoming = SessionMessage | Exception
"""What a transport yields: a message, or an error."""

BROKEN = (httpx2.HTTPError, httpx2.StreamError, httpx2.SSEError)
"""The errors of a stream that can't be opened, or breaks off."""

EVENTS = {"accept": "text/event-stream", "cache-control": "no-store"}
"""The headers of a request for a stream."""

_NO_REVISION = ("Unsupported protocol version ", "No mutually supported modern protocol version ")
"""How the SDK's `RuntimeError` begins if it speaks none of the server's revisions."""

_RETRY = re.compile(rb"^retry: ?([0-9]{1,6})$", re.MULTILINE)


class _Place:
    """Where a stream is to be resumed: after which event, and in how many seconds."""

    def __init__(self) -> None:
        self.last = ""
        self.wait = DEFAULT_RECONNECTION_DELAY_MS / 1000

    def note(self, event: Event) -> None:
        """Note an event's id and `retry`."""
        if event.id:
            self.last = event.id.decode("utf-8", "replace")
        found = _RETRY.search(event.raw)
        if found is not None:
            self.wait = max(int(found[1]) / 1000, MIN_RESUME_SECONDS)


class Streamable(StreamableHTTPTransport):
    """The SDK's transport, with three differences. `messages` reads the messages. The long-lived stream is reopened for
    as long as the session lives; the SDK gives up after two failures. A request's own stream is resumed only while its
    answer is awaited."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self._resuming: set[RequestId] = set()

    def _consume_modern_cancellation(self, session_message: SessionMessage) -> bool:
        """Do as the SDK does. In the legacy era, where a stream outlives its request, also stop resuming the stream."""
        if super()._consume_modern_cancellation(session_message):
            return True
        message = session_message.message
        if isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
            id = cancelled_request_id_from_params(message.params)
            post = None if id is None else self._in_flight_posts.pop(id, None)
            if post is not None and id in self._resuming:
                post.scope.cancel()
        return False

    async def _handle_json_response(
        self,
        response: httpx2.Response,
        read_stream_writer: ContextSendStream[Incoming],
        *,
        request_id: RequestId,
    ) -> None:
        try:
            message = await read_message(await response.aread())
        except (FrameError, httpx2.StreamError) as error:
            message = error
        if not isinstance(message, SessionMessage):
            message = _error_message(request_id, f"Failed to parse JSON response: {message}")
        await send_unless_gone(read_stream_writer, message)

    async def _handle_sse_response(self, response: httpx2.Response, ctx: RequestContext) -> None:
        asked, writer = cast("JSONRPCRequest", ctx.session_message.message).id, ctx.read_stream_writer
        place, failures = _Place(), 0
        answered = await self._pass_on(response, writer, place, asked)
        self._resuming.add(asked)
        try:
            while not answered and place.last and failures < MAX_RECONNECTION_ATTEMPTS:
                if asked not in self._in_flight_posts:
                    return  # it was cancelled
                await anyio.sleep(place.wait)
                failures += 1
                with suppress(*BROKEN):
                    async with self._get(ctx.client, place) as resumed:
                        if resumed.status_code == 200:
                            failures = 0
                            answered = await self._pass_on(resumed, writer, place, asked)
        finally:
            self._resuming.discard(asked)
        if not answered:
            await send_unless_gone(
                writer, _error_message(asked, "SSE stream ended without a response", CONNECTION_CLOSED)
            )

    async def handle_get_stream(
        self, client: httpx2.AsyncClient, read_stream_writer: ContextSendStream[Incoming]
    ) -> None:
        """Keep the long-lived stream open, until the server offers none."""
        delay, place = BACKOFF_FIRST_SECONDS, _Place()
        while self.session_id:
            with suppress(*BROKEN):
                async with self._get(client, place) as response:
                    if 400 <= response.status_code < 500:
                        return  # it offers none, or the session is gone, as `GatewayHttp` has noticed
                    if response.status_code == 200:
                        delay = BACKOFF_FIRST_SECONDS
                        await self._pass_on(response, read_stream_writer, place)
            await anyio.sleep(delay)
            delay = min(2 * delay, BACKOFF_MAX_SECONDS)

    def _get(self, client: httpx2.AsyncClient, place: _Place) -> AbstractAsyncContextManager[httpx2.Response]:
        headers = {**self._prepare_headers(), **EVENTS, **({"last-event-id": place.last} if place.last else {})}
        return stream_within_origin(client, "GET", self.url, headers=headers)

    async def _pass_on(
        self,
        response: httpx2.Response,
        writer: ContextSendStream[Incoming],
        place: _Place,
        asked: RequestId | None = None,
    ) -> bool:
        """Pass on a stream's messages, to its end or to the answer to `asked`. Return whether that answer came."""
        try:
            async for event in events_of(response):
                place.note(event)
                if is_message(event):
                    item = await read_message(event.data or b"")
                    if asked is not None and _answers(item, asked):
                        await send_unless_gone(writer, item)
                        return True
                    await send_unless_gone(writer, item)
        except FrameError as error:
            await send_unless_gone(
                writer, error if asked is None else _error_message(asked, f"SSE stream failed: {error}")
            )
            return asked is not None
        except BROKEN:
            pass  # it may be resumed
        return False


class _OpenToTheEnd(ContextSendStream[Incoming]):
    async def aclose(self) -> None:
        """Do nothing. The SDK's `post_writer` calls this after the last message is sent, while answers are still to
        come."""


def open_to_the_end() -> tuple[ContextSendStream[Incoming], ContextReceiveStream[Incoming]]:
    """Return two streams as `create_context_streams` does, except that only `close` ends the sending one."""
    sending, receiving = anyio.create_memory_object_stream[Any](0)
    return _OpenToTheEnd(sending), ContextReceiveStream(receiving)


def in_memory(server: "Server[Any] | MCPServer") -> Transport:
    """Return a transport to a server in this process."""
    return _memory.InMemoryTransport(server)


async def replace_revision_error(connecting: Awaitable[None]) -> None:
    """Await `connecting`. Raises `UnsupportedRevision` in place of the SDK's error, which quotes all that the server
    says."""
    try:
        await connecting
    except RuntimeError as error:
        told = str(error)
        if not told.startswith(_NO_REVISION):
            raise
        told = excerpt(told)
    else:
        return
    raise UnsupportedRevision(told)  # raised here, it does not keep the other alive


async def open_child(server: "StdioServerParameters") -> "Process | FallbackProcess":
    """Start a stdio server, with pipes. Raises `OSError`."""
    environment = _stdio.get_default_environment() | (server.env or {})
    start = _stdio._create_platform_compatible_process  # pyright: ignore[reportPrivateUsage]
    return await start(server.command, server.args, environment, sys.stderr, server.cwd)


async def drain_child(child: "Process | FallbackProcess") -> None:
    """Read and drop a stdio server's output, until it ends."""
    await _stdio._drain_stdout(child)  # pyright: ignore[reportPrivateUsage]


async def stop_child(child: "Process | FallbackProcess") -> None:
    """End a stdio server, as the specification requires."""
    await _stdio._stop_server_process(child)  # pyright: ignore[reportPrivateUsage]


def read_results_with(session: "ClientSession", reading: Callable[[Dispatcher[Any]], Dispatcher[Any]]) -> None:
    """Wrap a session's dispatcher, to read messages before the SDK's models validate them."""
    inner = session._dispatcher  # pyright: ignore[reportPrivateUsage]
    session._dispatcher = reading(inner)  # pyright: ignore[reportPrivateUsage]


def _error_message(id: RequestId, message: str, code: int = PARSE_ERROR) -> SessionMessage:
    return SessionMessage(JSONRPCError(jsonrpc="2.0", id=id, error=ErrorData(code=code, message=message)))


def _answers(item: Incoming, asked: RequestId) -> bool:
    """Return whether a message answers, by its id, the request on whose stream it came. Raises `FrameError` for an
    invalid message, as it might be that answer."""
    if isinstance(item, FrameError):
        raise item
    message = item.message if isinstance(item, SessionMessage) else None
    if not isinstance(message, JSONRPCResponse | JSONRPCError):
        return False
    message.id = asked
    return True


async def send_unless_gone(stream: WriteStream[Any], item: Incoming) -> None:
    """Send a message, unless the stream is closed, at this end or at the other."""
    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
        await stream.send(item)

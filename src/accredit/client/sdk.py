"""The official SDK's internals that are used here: no other file imports or reads them. I/O: streams.

The SDK has no public name for the types of its streams, for an in-memory transport, or for the parts of its HTTP
transport; and no public place between the wire and its models. Each of these is named here once, so that a release of
the SDK that changes one affects only this file, and its test, which says what is missing.
"""

import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel
import httpx2
from mcp.client._transport import ReadStream, Transport, TransportStreams, WriteStream
from mcp.client.streamable_http import StreamableHTTPTransport
from mcp.shared._context_streams import ContextReceiveStream, ContextSendStream, create_context_streams
from mcp.shared._httpx_utils import MCP_DEFAULT_SSE_READ_TIMEOUT, MCP_DEFAULT_TIMEOUT, sse_within_origin
from mcp.shared.dispatcher import Dispatcher
from mcp.shared.message import SessionMessage
from mcp_types import PARSE_ERROR, ErrorData, JSONRPCError, RequestId

from accredit.base.deferred import Deferred
from accredit.errors import FrameError
from accredit.jsonrpc.arrays import check_values
from accredit.limits import BACKOFF_FIRST_SECONDS, BACKOFF_MAX_SECONDS, MAX_ANSWER_BYTES, MAX_ANSWER_VALUES

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

__all__ = [
    "BROKEN",
    "MCP_DEFAULT_SSE_READ_TIMEOUT",
    "MCP_DEFAULT_TIMEOUT",
    "Incoming",
    "ReadStream",
    "Streamable",
    "Transport",
    "TransportStreams",
    "WriteStream",
    "check_message",
    "create_context_streams",
    "drain_child",
    "in_memory",
    "open_child",
    "open_to_the_end",
    "read_results_with",
    "sse_within_origin",
    "stop_child",
]

Incoming = SessionMessage | Exception
"""What a transport yields."""

BROKEN = (httpx2.HTTPError, httpx2.StreamError, httpx2.SSEError)
"""What is raised by a stream that can't be opened, or breaks off."""


async def check_message(text: str | bytes) -> None:
    """Count a server's message before the SDK reads it. Raises `FrameError` for one that is too long, or has too many
    values.

    The SDK makes an object of each value, more than once and at one go: 3 bytes of a message become 100 of memory.
    """
    if len(text) > MAX_ANSWER_BYTES:
        raise FrameError(f"a message of more than {MAX_ANSWER_BYTES} bytes", bound=True)
    for _ in check_values(text.encode() if isinstance(text, str) else text, "a message", MAX_ANSWER_VALUES):
        await anyio.lowlevel.checkpoint()  # others have their turn


class Streamable(StreamableHTTPTransport):
    """The SDK's transport, except that messages are counted first (`check_message`), and that its long-lived
    stream is reopened for as long as the session lives: the SDK gives up after two failures."""

    async def _handle_json_response(
        self,
        response: httpx2.Response,
        read_stream_writer: ContextSendStream[Incoming],
        *,
        request_id: RequestId,
    ) -> None:
        try:
            await check_message(await response.aread())
        except (FrameError, httpx2.StreamError) as error:
            await read_stream_writer.send(_failed(request_id, f"Failed to parse JSON response: {error}"))
        else:
            await super()._handle_json_response(response, read_stream_writer, request_id=request_id)

    async def _handle_sse_event(
        self,
        sse: httpx2.ServerSentEvent,
        read_stream_writer: ContextSendStream[Incoming],
        original_request_id: RequestId | None = None,
        resumption_callback: Callable[[str], Awaitable[None]] | None = None,
    ) -> bool:
        try:
            await check_message(sse.data)
        except FrameError as error:
            if original_request_id is None:
                await read_stream_writer.send(error)
                return False
            await read_stream_writer.send(_failed(original_request_id, f"Failed to parse SSE message: {error}"))
            return True
        return await super()._handle_sse_event(sse, read_stream_writer, original_request_id, resumption_callback)

    async def handle_get_stream(
        self, client: httpx2.AsyncClient, read_stream_writer: ContextSendStream[Incoming]
    ) -> None:
        """Keep the long-lived stream open, until there is none to be had."""
        delay, last = BACKOFF_FIRST_SECONDS, ""
        while self.session_id:
            headers = {**self._prepare_headers(), **({"last-event-id": last} if last else {})}
            with suppress(*BROKEN):
                async with sse_within_origin(
                    client, self.url, headers=headers, max_event_size=self.max_sse_event_size
                ) as source:
                    status = source.response.status_code
                    if 400 <= status < 500:
                        return  # it offers none, or the session is gone, which `GatewayHttp` has noticed
                    if status == 200:
                        delay = BACKOFF_FIRST_SECONDS
                    async for event in source if status == 200 else _nothing():
                        last = event.id or last
                        await self._handle_sse_event(event, read_stream_writer)
            await anyio.sleep(delay)
            delay = min(2 * delay, BACKOFF_MAX_SECONDS)


class _OpenToTheEnd(ContextSendStream[Incoming]):
    async def aclose(self) -> None:
        """Do nothing: `post_writer` closes this after the last message is sent, while answers are still to come."""


def open_to_the_end() -> tuple[ContextSendStream[Incoming], ContextReceiveStream[Incoming]]:
    """Return streams as from `create_context_streams`, except that the sending one is ended only by `close`."""
    sending, receiving = anyio.create_memory_object_stream[Any](0)
    return _OpenToTheEnd(sending), ContextReceiveStream(receiving)


def in_memory(server: "Server[Any] | MCPServer") -> Transport:
    """Return a transport to a server of this process."""
    return _memory.InMemoryTransport(server)


async def open_child(server: "StdioServerParameters") -> "Process | FallbackProcess":
    """Start a stdio server, with pipes. Raises `OSError`."""
    environment = _stdio.get_default_environment() | (server.env or {})
    start = _stdio._create_platform_compatible_process  # pyright: ignore[reportPrivateUsage]
    return await start(server.command, server.args, environment, sys.stderr, server.cwd)


async def drain_child(child: "Process | FallbackProcess") -> None:
    """Read what a stdio server writes, and drop it, until it ends."""
    await _stdio._drain_stdout(child)  # pyright: ignore[reportPrivateUsage]


async def stop_child(child: "Process | FallbackProcess") -> None:
    """End a stdio server, as the specification has it."""
    await _stdio._stop_server_process(child)  # pyright: ignore[reportPrivateUsage]


def read_results_with(session: "ClientSession", reading: Callable[[Dispatcher[Any]], Dispatcher[Any]]) -> None:
    """Put a dispatcher around a session's own, to read what came on the wire before the SDK's models judge it."""
    inner = session._dispatcher  # pyright: ignore[reportPrivateUsage]
    session._dispatcher = reading(inner)  # pyright: ignore[reportPrivateUsage]


def _failed(id: RequestId, message: str) -> SessionMessage:
    return SessionMessage(JSONRPCError(jsonrpc="2.0", id=id, error=ErrorData(code=PARSE_ERROR, message=message)))


async def _nothing() -> AsyncIterator[Any]:
    for nothing in ():
        yield nothing

"""The two ways over HTTP to a gateway, as transports: streamable HTTP, and HTTP+SSE of 2024-11-05. Opens sockets.

Streamable HTTP is the official SDK's transport, but for the stream that stands open for what the server says by
itself: the SDK gives that up after two failures, and here it is opened again for as long as the session lives.

HTTP+SSE: one stream for all that the server says, which is the session, and a POST for each message. A POST that is
refused is the answer to its request. The stream's end is the transport's. Its endpoint has to be of the same origin.
"""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any
from urllib.parse import urljoin

import anyio
import httpx2
from httpx2 import EventSource
from mcp.client._transport import TransportStreams
from mcp.client.streamable_http import StreamableHTTPTransport
from mcp.shared._context_streams import ContextSendStream, create_context_streams
from mcp.shared._httpx_utils import sse_within_origin
from mcp.shared.message import SessionMessage
from mcp_types import ErrorData, JSONRPCError, JSONRPCRequest, jsonrpc_message_adapter
from pydantic import ValidationError

from accredit.client.http import BROKEN_OFF, GatewayHttp
from accredit.jsonrpc.encode import UNAVAILABLE, UPSTREAM_ERROR
from accredit.limits import BACKOFF_FIRST_SECONDS, BACKOFF_MAX_SECONDS, CONNECT_SECONDS, MAX_ANSWER_EVENT_BYTES

Incoming = SessionMessage | Exception
_BROKEN = (httpx2.HTTPError, httpx2.StreamError, httpx2.SSEError)


class NoEventStream(Exception):
    """There is no HTTP+SSE at this URL."""


class _Streamable(StreamableHTTPTransport):
    """The SDK's transport, whose standing stream is opened again and again."""

    async def handle_get_stream(
        self, client: httpx2.AsyncClient, read_stream_writer: ContextSendStream[Incoming]
    ) -> None:
        delay, last = BACKOFF_FIRST_SECONDS, ""
        while self.session_id:
            headers = {**self._prepare_headers(), **({"last-event-id": last} if last else {})}
            with suppress(*_BROKEN):
                async with sse_within_origin(
                    client, self.url, headers=headers, max_event_size=self.max_sse_event_size
                ) as source:
                    status = source.response.status_code
                    if 400 <= status < 500:
                        return  # it offers none, or the session is gone, which `GatewayHttp` has told
                    if status == 200:
                        delay = BACKOFF_FIRST_SECONDS
                    async for event in source if status == 200 else _nothing():
                        last = event.id or last
                        await self._handle_sse_event(event, read_stream_writer)
            await anyio.sleep(delay)
            delay = min(2 * delay, BACKOFF_MAX_SECONDS)


@asynccontextmanager
async def over_http(url: str, http: GatewayHttp) -> AsyncGenerator[TransportStreams]:
    """Streamable HTTP over this connection, which it closes at its end."""
    transport = _Streamable(url, max_sse_event_size=MAX_ANSWER_EVENT_BYTES)
    to_reader, read = create_context_streams[Incoming](0)
    write, to_write = create_context_streams[SessionMessage](0)
    async with http, to_reader, read, write, to_write, anyio.create_task_group() as tasks:

        def stand() -> None:
            tasks.start_soon(transport.handle_get_stream, http, to_reader)

        tasks.start_soon(transport.post_writer, http, to_write, to_reader, write, stand, tasks)
        try:
            yield read, write
        finally:
            if transport.session_id and not http.lost:
                await transport.terminate_session(http)
            tasks.cancel_scope.cancel()


@asynccontextmanager
async def over_sse(url: str, http: GatewayHttp) -> AsyncGenerator[TransportStreams]:
    """HTTP+SSE over this connection, which it closes at its end. Raises `NoEventStream`."""
    to_reader, read = create_context_streams[Incoming](0)
    write, to_write = create_context_streams[SessionMessage](0)
    async with http, sse_within_origin(http, url, max_event_size=MAX_ANSWER_EVENT_BYTES) as source:
        events = aiter(source)
        endpoint = await _endpoint(url, source, events)
        http.is_session = True

        async def hear() -> None:
            async with to_reader:
                with suppress(*_BROKEN, anyio.BrokenResourceError, anyio.ClosedResourceError):
                    async for event in events:
                        if event.event == "message" and event.data:
                            await to_reader.send(_read(event.data))

        async def say(item: SessionMessage) -> None:
            body = item.message.model_dump(by_alias=True, mode="json", exclude_unset=True)
            request = http.build_request("POST", endpoint, json=body, headers={"accept": "application/json"})
            response = await http.send(request)
            if response.status_code >= 300 and isinstance(item.message, JSONRPCRequest):
                with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                    await to_reader.send(SessionMessage(_refused(item.message, response)))

        async def say_all() -> None:
            async for item in to_write:
                if isinstance(item.message, JSONRPCRequest):
                    tasks.start_soon(say, item)
                else:
                    await say(item)

        async with read, write, to_write, anyio.create_task_group() as tasks:
            tasks.start_soon(hear)
            tasks.start_soon(say_all)
            try:
                yield read, write
            finally:
                tasks.cancel_scope.cancel()


async def _endpoint(url: str, source: EventSource, events: AsyncIterator[Any]) -> str:
    """Where messages go, as the stream's first event says it."""
    try:
        with anyio.fail_after(CONNECT_SECONDS):
            if source.response.status_code != 200:
                raise NoEventStream
            first = await anext(events)
        found = httpx2.URL(urljoin(url, first.data))
    except (*_BROKEN, httpx2.InvalidURL, ValueError, StopAsyncIteration, TimeoutError):
        raise NoEventStream from None
    here = httpx2.URL(url)
    if first.event != "endpoint" or (found.scheme, found.host, found.port) != (here.scheme, here.host, here.port):
        raise NoEventStream
    return str(found)


def _read(data: str) -> Incoming:
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(data, by_name=False))
    except ValidationError as error:
        return error


def _refused(request: JSONRPCRequest, response: httpx2.Response) -> JSONRPCError:
    try:
        told = jsonrpc_message_adapter.validate_json(response.content, by_name=False)
    except ValidationError:
        told = None
    error = told.error if isinstance(told, JSONRPCError) else ErrorData(code=UPSTREAM_ERROR, message=UNAVAILABLE)
    return JSONRPCError(jsonrpc="2.0", id=request.id, error=error)


async def _nothing() -> AsyncIterator[Any]:
    for nothing in ():
        yield nothing


def broken_off(error: ErrorData) -> bool:
    """Whether an error is what the SDK's transport makes of a connection that broke before an answer came."""
    return error.message.startswith("SSE stream") or error.message.endswith(BROKEN_OFF)

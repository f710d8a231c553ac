"""The two HTTP transports to a gateway: streamable HTTP, and HTTP+SSE of 2024-11-05. Opens sockets.

Streamable HTTP is the official SDK's transport, as changed in `sdk`.

HTTP+SSE has one stream for all messages from the server, and a POST for each message to it. The stream is the session:
when it ends, so does the transport. If a POST is refused, its request is answered with that refusal. The URL for these
messages must have the same origin as the stream's.
"""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress
from urllib.parse import urljoin

import anyio
import httpx2
from mcp.shared.message import SessionMessage
from mcp_types import ErrorData, JSONRPCError, JSONRPCRequest

from accredit.client.http import BROKEN_OFF, GatewayHttp
from accredit.client.messages import events_of, is_message, read_message, unavailable
from accredit.client.sdk import (
    BROKEN,
    EVENTS,
    Incoming,
    Streamable,
    TransportStreams,
    WriteStream,
    create_context_streams,
    open_to_the_end,
    stream_within_origin,
)
from accredit.errors import FrameError
from accredit.jsonrpc.sse import Event
from accredit.limits import CONNECT_SECONDS, STOP_GRACE_SECONDS


class NoEventStream(Exception):
    """There is no HTTP+SSE at this URL."""


@asynccontextmanager
async def over_http(url: str, http: GatewayHttp) -> AsyncGenerator[TransportStreams]:
    """Open streamable HTTP over this client, which is closed at the end."""
    transport = Streamable(url)
    to_reader, read = open_to_the_end()
    write, to_write = create_context_streams[SessionMessage](0)
    posted, ending = anyio.Event(), anyio.Event()
    async with http, read, write, to_write, anyio.create_task_group() as tasks:

        def stand() -> None:
            tasks.start_soon(transport.handle_get_stream, http, to_reader)

        async def post() -> None:
            await transport.post_writer(http, to_write, to_reader, write, stand, tasks)
            posted.set()
            if not ending.is_set():
                to_reader.close()

        tasks.start_soon(post)
        try:
            yield read, write
        finally:
            ending.set()
            try:
                await _send_the_last(write, posted)
                if transport.session_id and not http.lost:
                    await transport.terminate_session(http)
            finally:  # a cancelled task ends no session
                tasks.cancel_scope.cancel()
                to_reader.close()


@asynccontextmanager
async def over_sse(url: str, http: GatewayHttp) -> AsyncGenerator[TransportStreams]:
    """Open HTTP+SSE over this client, which is closed at the end. Raises `NoEventStream`."""
    async with http, stream_within_origin(http, "GET", url, headers=EVENTS) as response:
        events = events_of(response)
        endpoint = await _endpoint(url, response, events)
        http.is_session = True
        to_reader, read = create_context_streams[Incoming](0)  # now that there is somebody who closes them
        write, to_write = create_context_streams[SessionMessage](0)
        posted = anyio.Event()

        async def hear() -> None:
            async with to_reader:
                # An event beyond a bound ends the stream: otherwise nobody would learn that an answer is lost.
                with suppress(*BROKEN, FrameError, anyio.BrokenResourceError, anyio.ClosedResourceError):
                    async for event in events:
                        if is_message(event):
                            await to_reader.send(await read_message(event.data or b""))

        async def say(item: SessionMessage) -> None:
            body = item.message.model_dump(by_alias=True, mode="json", exclude_unset=True)
            request = http.build_request("POST", endpoint, json=body, headers={"accept": "application/json"})
            response = await http.send(request, stream=True)
            try:
                if response.status_code >= 300 and isinstance(item.message, JSONRPCRequest):
                    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                        await to_reader.send(SessionMessage(await _read_refusal(item.message, response)))
            finally:
                await response.aclose()  # the body of a success is not needed, and may never end

        async def say_all() -> None:
            async for item in to_write:
                if isinstance(item.message, JSONRPCRequest):
                    tasks.start_soon(say, item)
                else:
                    await say(item)
            posted.set()

        async with read, write, to_write, anyio.create_task_group() as tasks:
            tasks.start_soon(hear)
            tasks.start_soon(say_all)
            try:
                yield read, write
            finally:
                try:
                    await _send_the_last(write, posted)
                finally:
                    tasks.cancel_scope.cancel()
                    to_reader.close()


async def _send_the_last(write: WriteStream[SessionMessage], posted: anyio.Event) -> None:
    """Stop accepting messages, and wait until the accepted ones are sent."""
    await write.aclose()
    with anyio.move_on_after(STOP_GRACE_SECONDS):
        await posted.wait()


async def _endpoint(url: str, response: httpx2.Response, events: AsyncIterator[Event]) -> str:
    """Return the URL for messages, from the stream's first event."""
    try:
        with anyio.fail_after(CONNECT_SECONDS):
            if response.status_code != 200:
                raise NoEventStream
            first = await anext(events)
        endpoint = httpx2.URL(urljoin(url, (first.data or b"").decode()))
    except (*BROKEN, FrameError, httpx2.InvalidURL, ValueError, StopAsyncIteration, TimeoutError):
        raise NoEventStream from None
    here = httpx2.URL(url)
    if first.name != b"endpoint" or (endpoint.scheme, endpoint.host, endpoint.port) != (
        here.scheme,
        here.host,
        here.port,
    ):
        raise NoEventStream
    return str(endpoint)


async def _read_refusal(request: JSONRPCRequest, response: httpx2.Response) -> JSONRPCError:
    answer = None
    with suppress(FrameError):
        said = await read_message(response.content if response.status_code >= 400 else b"")  # `GatewayHttp` has read it
        answer = said.message if isinstance(said, SessionMessage) else None
    error = (
        answer.error
        if isinstance(answer, JSONRPCError)
        else unavailable(f"it answers with HTTP status {response.status_code}")
    )
    return JSONRPCError(jsonrpc="2.0", id=request.id, error=error)


def is_broken_connection(error: ErrorData) -> bool:
    """Return whether an error comes from the SDK's transport because a connection broke before the answer came."""
    return error.message.startswith("SSE stream") or error.message.endswith(BROKEN_OFF)

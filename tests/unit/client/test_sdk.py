"""What the official SDK does not offer, and is used all the same, is there: a release that takes it away fails here.

Where one of these fails, `accredit/client/sdk.py` is the file to change, and no other.
"""

import importlib
import inspect
from collections.abc import AsyncIterator, Callable
from typing import Any

import anyio
import httpx2
import pytest
from mcp.client import ClientSession
from mcp.client.streamable_http import StreamableHTTPTransport
from mcp.shared.memory import create_client_server_memory_streams
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCNotification, JSONRPCRequest
from tests.world.calls import compact, event
from tests.world.virtual_time import run_virtually

from accredit.client import sdk
from accredit.client.http import GatewayHttp
from accredit.client.sdk import MIN_RESUME_SECONDS
from accredit.client.ways import over_http

PRIVATE = {
    "mcp.client._memory": ("InMemoryTransport",),
    "mcp.client.stdio": (
        "_create_platform_compatible_process",
        "_drain_stdout",
        "_stop_server_process",
        "get_default_environment",
    ),
    "mcp.client._transport": ("ReadStream", "Transport", "TransportStreams", "WriteStream"),
    "mcp.shared._context_streams": ("ContextReceiveStream", "ContextSendStream", "create_context_streams"),
    "mcp.shared.jsonrpc_dispatcher": ("cancelled_request_id_from_params",),
    "mcp.shared._httpx_utils": ("MCP_DEFAULT_SSE_READ_TIMEOUT", "MCP_DEFAULT_TIMEOUT", "stream_within_origin"),
}
METHODS = {
    "handle_get_stream": ["self", "client", "read_stream_writer"],
    "post_writer": [
        "self", "client", "write_stream_reader", "read_stream_writer", "write_stream", "start_get_stream", "tg",
    ],
    "terminate_session": ["self", "client"],
    "_prepare_headers": ["self"],
    "_consume_modern_cancellation": ["self", "session_message"],
    "_handle_json_response": ["self", "response", "read_stream_writer", "request_id"],
    "_handle_sse_response": ["self", "response", "ctx"],
}  # fmt: skip


@pytest.mark.parametrize(("module", "names"), PRIVATE.items(), ids=PRIVATE)
def test_each_name_is_where_it_was(module: str, names: tuple[str, ...]) -> None:
    found = importlib.import_module(module)
    assert [name for name in names if not hasattr(found, name)] == [], f"the SDK's {module} has no such name any more"


@pytest.mark.parametrize("method", METHODS)
def test_the_sdk_s_transport_has_the_methods_that_are_changed_or_called(method: str) -> None:
    told = f"StreamableHTTPTransport.{method} of the SDK is not what `Streamable` was written for"
    found = getattr(StreamableHTTPTransport, method, None)
    assert found is not None, told
    assert list(inspect.signature(found).parameters) == METHODS[method], told


async def test_a_session_s_dispatcher_is_the_one_that_was_put_there() -> None:
    async with create_client_server_memory_streams() as (streams, _):
        session = ClientSession(*streams)
        seen: list[object] = []

        def reading(inner: Any) -> Any:
            seen.append(inner)
            return inner

        sdk.read_results_with(session, reading)
        assert len(seen) == 1
        assert hasattr(seen[0], "send_raw_request"), "the SDK's session has no dispatcher to read through any more"


def test_what_is_asked_for_is_found_by_its_id_until_its_answer_is_there() -> None:
    sdk_s = StreamableHTTPTransport("http://localhost/mcp")
    assert sdk_s._in_flight_posts == {}, "the SDK's transport keeps its requests elsewhere"  # pyright: ignore[reportPrivateUsage]


CALL = JSONRPCRequest(jsonrpc="2.0", id=7, method="tools/call", params={"name": "t"})
GIVEN_UP = JSONRPCNotification(jsonrpc="2.0", method="notifications/cancelled", params={"requestId": 7})
ANSWER = event(compact({"jsonrpc": "2.0", "id": 7, "result": {}}), id="2")
BEGUN = b"retry: 0\n" + event(b"", id="1")
TRIES = 20


class Events(httpx2.AsyncByteStream):
    """A stream that ends at once."""

    def __init__(self, said: bytes) -> None:
        self._said = said

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._said


class Resumable(httpx2.AsyncBaseTransport):
    """A server whose streams end at once, with a place to go on from; the one of `TRIES` has the answer."""

    def __init__(self) -> None:
        self.tries: list[float] = []
        self.cancelled, self.begins = anyio.Event(), anyio.Event()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        events = {"content-type": "text/event-stream"}
        if request.method == "GET":
            self.tries.append(anyio.current_time())
            return httpx2.Response(200, headers=events, stream=Events(ANSWER if len(self.tries) == TRIES else BEGUN))
        if b"notifications/cancelled" in await request.aread():
            self.cancelled.set()
            return httpx2.Response(202)
        await self.begins.wait()
        return httpx2.Response(200, headers=events, stream=Events(BEGUN))


def resuming(case: Callable[[Resumable, Any, Any], Any]) -> None:
    async def main() -> None:
        server = Resumable()
        async with over_http("http://localhost/mcp", GatewayHttp(transport=server)) as (read, write):
            await write.send(SessionMessage(CALL))
            await case(server, read, write)

    run_virtually(main())


def test_a_stream_is_resumed_after_a_shortest_wait__or_a_server_that_says_retry_0_is_asked_without_a_pause() -> None:
    async def case(server: Resumable, read: Any, _: Any) -> None:
        server.begins.set()
        assert (await read.receive()).message.id == 7
        gaps = [after - before for before, after in zip(server.tries, server.tries[1:], strict=False)]
        assert len(gaps) == TRIES - 1
        assert min(gaps) >= MIN_RESUME_SECONDS - 1e-6

    resuming(case)


@pytest.mark.parametrize("begun", ["before", "after"])
def test_what_was_given_up_is_not_resumed__whether_its_stream_had_begun_or_begins_later(begun: str) -> None:
    async def case(server: Resumable, read: Any, write: Any) -> None:
        if begun == "before":
            server.begins.set()
            while len(server.tries) < 2:
                await anyio.sleep(MIN_RESUME_SECONDS)
        await write.send(SessionMessage(GIVEN_UP))
        await server.cancelled.wait()
        tries = len(server.tries)
        server.begins.set()
        await anyio.sleep(2 * TRIES)
        assert len(server.tries) == tries

    resuming(case)

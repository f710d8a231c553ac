"""What the official SDK does not offer, and is used all the same, is there: a release that takes it away fails here.

Where one of these fails, `accredit/client/sdk.py` is the file to change, and no other.
"""

import importlib
import inspect
from typing import Any

import pytest
from mcp.client import ClientSession
from mcp.client.streamable_http import StreamableHTTPTransport
from mcp.shared.memory import create_client_server_memory_streams
from tests.world.running import run

from accredit.client import sdk

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
    "mcp.shared._httpx_utils": ("MCP_DEFAULT_SSE_READ_TIMEOUT", "MCP_DEFAULT_TIMEOUT", "stream_within_origin"),
}
METHODS = {
    "handle_get_stream": ["self", "client", "read_stream_writer"],
    "post_writer": [
        "self", "client", "write_stream_reader", "read_stream_writer", "write_stream", "start_get_stream", "tg",
    ],
    "terminate_session": ["self", "client"],
    "_prepare_headers": ["self"],
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


def test_a_session_s_dispatcher_is_the_one_that_was_put_there() -> None:
    async def main() -> None:
        async with create_client_server_memory_streams() as (streams, _):
            session = ClientSession(*streams)
            seen: list[object] = []

            def reading(inner: Any) -> Any:
                seen.append(inner)
                return inner

            sdk.read_results_with(session, reading)
            assert len(seen) == 1
            assert hasattr(seen[0], "send_raw_request"), "the SDK's session has no dispatcher to read through any more"

    run(main())

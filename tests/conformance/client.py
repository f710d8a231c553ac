"""The client under test for the official suite: `python tests/conformance/client.py URL`.

It does I/O: it connects to the suite's server with `AccreditedClient`, in the era of
`MCP_CONFORMANCE_PROTOCOL_VERSION`, and does what `MCP_CONFORMANCE_SCENARIO` is about. Exit code 0 when it went well.
"""

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from typing import Any

from mcp_types import CallToolResult, ElicitRequestFormParams, ElicitRequestParams, ElicitResult

from accredit.client import AccreditedClient
from accredit.jsonrpc.methods import MODERN_REVISIONS
from accredit.rounds import InputContext

Scenario = Callable[[AccreditedClient], Awaitable[None]]


async def on_elicit(_context: InputContext, params: ElicitRequestParams) -> ElicitResult:
    """A person who leaves each field as it is offered, and says yes where nothing is."""
    fields = params.requested_schema.get("properties", {}) if isinstance(params, ElicitRequestFormParams) else {}
    content = {name: field.get("default", True) for name, field in fields.items()}
    return ElicitResult(action="accept", content=content)


async def called(client: AccreditedClient, name: str, arguments: dict[str, Any] | None = None) -> CallToolResult:
    """The result of a call that has to go well."""
    result = await client.call_tool(name, arguments, timeout=20)
    if result.is_error:
        raise SystemExit(f"{name} failed: {result}")
    return result


async def call_all_tools(client: AccreditedClient) -> None:
    """Calls each tool that is listed with the numbers that the suite's calculator wants, or with nothing."""
    for tool in (await client.list_tools()).tools:
        wanted = tool.input_schema.get("properties", {})
        await called(client, tool.name, {name: 2 + position for position, name in enumerate(wanted)})


async def list_only(client: AccreditedClient) -> None:
    """A schema is looked at, and nothing that it refers to is fetched."""
    await client.list_tools()


async def standard_headers(client: AccreditedClient) -> None:
    """Every kind of request that has a header of its own."""
    await call_all_tools(client)
    for resource in (await client.list_resources()).resources:
        await client.read_resource(str(resource.uri))
    for prompt in (await client.list_prompts()).prompts:
        await client.get_prompt(prompt.name)


async def custom_headers(client: AccreditedClient) -> None:
    """The calls that the suite names, with arguments that are hard to write into headers."""
    await client.list_tools()
    for call in json.loads(os.environ["MCP_CONFORMANCE_CONTEXT"])["toolCalls"]:
        await called(client, call["name"], call["arguments"])


async def rounds(client: AccreditedClient) -> None:
    """Two flows with another call between them, and a result that does not say that it is complete."""
    for name in ("test_mrtr_echo_state", "test_mrtr_unrelated", "test_mrtr_no_state", "test_mrtr_no_result_type"):
        await called(client, name)


SCENARIOS: dict[str, Scenario] = {
    "initialize": list_only,
    "tools_call": call_all_tools,
    "elicitation-sep1034-client-defaults": call_all_tools,
    "sse-retry": call_all_tools,
    "request-metadata": call_all_tools,
    "http-standard-headers": standard_headers,
    "http-custom-headers": custom_headers,
    "http-invalid-tool-headers": call_all_tools,
    "json-schema-ref-no-deref": list_only,
    "sep-2322-client-request-state": rounds,
}


async def main(url: str, scenario: Scenario) -> None:
    revision = os.environ.get("MCP_CONFORMANCE_PROTOCOL_VERSION", "")
    mode = "auto" if revision in MODERN_REVISIONS else "legacy"
    async with AccreditedClient(url, elicitation=on_elicit, mode=mode) as client:
        await scenario(client)


if __name__ == "__main__":
    asked = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
    if len(sys.argv) != 2 or asked not in SCENARIOS:
        sys.exit(f"usage: MCP_CONFORMANCE_SCENARIO={'|'.join(SCENARIOS)} {sys.argv[0]} URL")
    asyncio.run(main(sys.argv[1], SCENARIOS[asked]))

"""An MCP server that has everything the official conformance suite asks a server for, in both eras.

It does I/O: streamable HTTP (`--port N`, 0 picks a free one; the endpoint's URL is the only line on stdout)
or a stdio server (`--stdio`). The transports, sessions, version negotiation and header checks are the
official SDK's. With `--requests FILE` a line is appended for each request that reached a handler: seconds
since the epoch, and the method.
"""

import argparse
import socket
import sys
import time
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import uvicorn
from everything_tools import (
    BUS,
    PNG,
    TOOLS,
    Call,
    Content,
    Context,
    Reply,
    ask,
    elicitation,
    embedded,
    image,
    strings,
    text,
)
from mcp.server.caching import CacheHint
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http import EventCallback, EventMessage, EventStore
from mcp.server.subscriptions import ListenHandler
from mcp.shared.exceptions import MCPError

NAME = "everything"
RETRY_MILLISECONDS = 200  # what a client is told to wait before it resumes a closed stream
TEXT_RESOURCE = "This is the content of the static text resource."


async def list_tools(_: Context, __: types.PaginatedRequestParams | None) -> types.ListToolsResult:
    return types.ListToolsResult(tools=[listed for listed, _ in TOOLS.values()])


async def call_tool(context: Context, params: types.CallToolRequestParams) -> Reply:
    if params.name not in TOOLS:
        raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {params.name}")
    run = TOOLS[params.name][1]
    answers = dict(params.input_responses or {})
    return await run(Call(context, params.arguments or {}, answers, params.request_state))


RESOURCES = [
    types.Resource(uri=uri, name=name, description=f"{name} for the suite", mime_type=mime_type)
    for uri, name, mime_type in (
        ("test://static-text", "A text", "text/plain"),
        ("test://static-binary", "An image", "image/png"),
        ("test://watched-resource", "A text to watch", "text/plain"),
    )
]
TEMPLATE = types.ResourceTemplate(
    uri_template="test://template/{id}/data",
    name="Data by id",
    description="What is known of an id",
    mime_type="application/json",
)


async def list_resources(_: Context, __: types.PaginatedRequestParams | None) -> types.ListResourcesResult:
    return types.ListResourcesResult(resources=RESOURCES)


async def list_templates(_: Context, __: types.PaginatedRequestParams | None) -> types.ListResourceTemplatesResult:
    return types.ListResourceTemplatesResult(resource_templates=[TEMPLATE])


async def read_resource(_: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
    uri = str(params.uri)
    content: types.TextResourceContents | types.BlobResourceContents
    if uri in ("test://static-text", "test://watched-resource"):
        content = types.TextResourceContents(uri=uri, mime_type="text/plain", text=TEXT_RESOURCE)
    elif uri == "test://static-binary":
        content = types.BlobResourceContents(uri=uri, mime_type="image/png", blob=PNG)
    elif uri.startswith("test://template/") and uri.endswith("/data"):
        known = uri.removeprefix("test://template/").removesuffix("/data")
        value = f'{{"id":"{known}","templateTest":true,"data":"Data for ID: {known}"}}'
        content = types.TextResourceContents(uri=uri, mime_type="application/json", text=value)
    else:
        raise MCPError(types.INVALID_PARAMS, "Resource not found", {"uri": uri})
    return types.ReadResourceResult(contents=[content])


async def accept(_: Context, __: types.SubscribeRequestParams | types.UnsubscribeRequestParams) -> types.EmptyResult:
    return types.EmptyResult()


async def set_level(_: Context, __: types.SetLevelRequestParams) -> types.EmptyResult:
    return types.EmptyResult()


def prompt(name: str, description: str, *arguments: str) -> types.Prompt:
    wanted = [types.PromptArgument(name=argument, description=argument, required=True) for argument in arguments]
    return types.Prompt(name=name, description=description, arguments=wanted)


PROMPTS = [
    prompt("test_simple_prompt", "One text"),
    prompt("test_prompt_with_arguments", "A text with two arguments in it", "arg1", "arg2"),
    prompt("test_prompt_with_embedded_resource", "A resource and a question", "resourceUri"),
    prompt("test_prompt_with_image", "An image and a question"),
    prompt("test_input_required_result_prompt", "Needs the user's context first (modern era)"),
]


async def list_prompts(_: Context, __: types.PaginatedRequestParams | None) -> types.ListPromptsResult:
    return types.ListPromptsResult(prompts=PROMPTS)


async def get_prompt(
    _: Context, params: types.GetPromptRequestParams
) -> types.GetPromptResult | types.InputRequiredResult:
    given = params.arguments or {}
    match params.name:
        case "test_simple_prompt":
            said: list[Content] = [text("This is a simple prompt for testing.")]
        case "test_prompt_with_arguments":
            said = [text(f"Prompt with arguments: arg1='{given.get('arg1')}', arg2='{given.get('arg2')}'")]
        case "test_prompt_with_embedded_resource":
            uri = given.get("resourceUri", "test://embedded-resource")
            said = [
                embedded(uri, "text/plain", "Embedded resource content for testing."),
                text("Please process the embedded resource above."),
            ]
        case "test_prompt_with_image":
            said = [image(), text("Please analyze the image above.")]
        case "test_input_required_result_prompt":
            if "user_context" not in (params.input_responses or {}):
                question = elicitation("What context should the prompt use?", strings("context"))
                return ask({"user_context": question})
            said = [text("A prompt in the user's context.")]
        case _:
            raise MCPError(types.INVALID_PARAMS, f"Unknown prompt: {params.name}")
    messages = [types.PromptMessage(role="user", content=content) for content in said]
    return types.GetPromptResult(messages=messages)


async def complete(_: Context, params: types.CompleteRequestParams) -> types.CompleteResult:
    values = [value for value in ("paris", "park", "party", "testing") if value.startswith(params.argument.value)]
    return types.CompleteResult(completion=types.Completion(values=values, total=len(values), has_more=False))


class MemoryEvents(EventStore):
    """Every event since the start, so that a client can resume any stream from any event.

    The SDK names a stream by its request's id alone, so two sessions that use the same ids at the same time
    could see each other's events: fit for one client at a time, which is what the suite is.
    """

    def __init__(self) -> None:
        self._events: list[tuple[str, types.JSONRPCMessage | None]] = []

    async def store_event(self, stream_id: str, message: types.JSONRPCMessage | None) -> str:
        self._events.append((stream_id, message))
        return str(len(self._events))

    async def replay_events_after(self, last_event_id: str, send_callback: EventCallback) -> str | None:
        if not last_event_id.isdecimal() or not 0 < int(last_event_id) <= len(self._events):
            return None
        seen = int(last_event_id)
        stream = self._events[seen - 1][0]
        for number, (stream_id, message) in enumerate(self._events[seen:], seen + 1):
            if stream_id == stream and message is not None:
                await send_callback(EventMessage(message, str(number)))
        return stream


def build_server(requests: Path | None, *, protected: bool = True) -> Server[Any]:
    """The server with its handlers; `requests` is the file that gets a line per request.

    Not `protected`, it gives its `requestState` away as it is, and believes what comes back.
    """
    list_hint = CacheHint(ttl_ms=60_000, scope="public")
    server: Server[Any] = Server(
        NAME,
        version="1.0.0",
        instructions="A server for the conformance suite",
        cache_hints={
            "tools/list": list_hint,
            "prompts/list": list_hint,
            "resources/list": list_hint,
            "resources/templates/list": list_hint,
            "resources/read": CacheHint(ttl_ms=1_000, scope="private"),
        },
        get_tool_input_schema=lambda name: TOOLS[name][0].input_schema if name in TOOLS else None,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_list_resource_templates=list_templates,
        on_read_resource=read_resource,
        on_subscribe_resource=accept,
        on_unsubscribe_resource=accept,
        on_subscriptions_listen=ListenHandler(BUS),
        on_list_prompts=list_prompts,
        on_get_prompt=get_prompt,
        on_completion=complete,
    )
    # Not through the constructor: it warns, since the capability is deprecated (legacy clients still use it).
    server.add_request_handler("logging/setLevel", types.SetLevelRequestParams, set_level)
    if protected:
        server.middleware.append(RequestStateBoundary(RequestStateSecurity.ephemeral(), default_audience=NAME))
    if requests is not None:
        log_file = requests

        async def count(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
            if ctx.request_id is not None:
                with log_file.open("a", encoding="utf-8") as lines:
                    lines.write(f"{time.time():.6f} {ctx.method}\n")
            return await call_next(ctx)

        server.middleware.append(count)
    return server


async def serve_stdio(server: Server[Any]) -> None:
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


async def serve_http(server: Server[Any], port: int) -> None:
    """Binds first and prints the endpoint's URL then, so that a reader of that line can connect at once."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        listener.listen(128)
        app = server.streamable_http_app(event_store=MemoryEvents(), retry_interval=RETRY_MILLISECONDS)
        # h11, because httptools leaves the whitespace after a header's value in it (RFC 9110 section 5.5).
        config = uvicorn.Config(app, http="h11", log_level="warning", timeout_graceful_shutdown=1)
        print(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp", flush=True)
        await uvicorn.Server(config).serve(sockets=[listener])


def main() -> int:
    parser = argparse.ArgumentParser(description="The server under test for the MCP conformance suite")
    transport = parser.add_mutually_exclusive_group(required=True)
    transport.add_argument("--port", type=int, help="serve streamable HTTP on 127.0.0.1 (0: a free port)")
    transport.add_argument("--stdio", action="store_true", help="serve stdin and stdout")
    parser.add_argument("--requests", type=Path, help="append a line per request to this file")
    parser.add_argument("--believe-state", action="store_true", help="do not protect requestState")
    options = parser.parse_args()
    server = build_server(options.requests, protected=not options.believe_state)
    anyio.run(serve_stdio, server) if options.stdio else anyio.run(serve_http, server, options.port)
    return 0


if __name__ == "__main__":
    sys.exit(main())

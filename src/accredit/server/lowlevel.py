"""Guards a low-level server of the official SDK, which has one handler for all tools that knows their names. No I/O.

A gate (`gate`) stands in front of the server's other middleware. Behind that, where the SDK looks up a message's
handler, is a final check. The handlers of tools, resources and prompts run only what the gate has allowed, with the
arguments that the gate has judged. This holds regardless of when they were registered, of changes by other middleware,
and of other code that requests them from the server.

Not checked here: what else a handler does, and for whom.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import msgspec
from mcp.server.context import HandlerResult
from mcp.server.lowlevel import Server
from mcp.server.lowlevel.server import HandlerEntry

from accredit.errors import ConfigurationError
from accredit.jsonrpc.methods import TARGET_MEMBER
from accredit.policy.catalog import Entry
from accredit.server.gate import Find, undecided_error
from accredit.server.judge import Judge, TargetInfo, find_plain
from accredit.server.requirements import Requirement
from accredit.server.tokens import Context
from accredit.tokens.carried import declares_token


def finder(server: Server[Any], tools: Mapping[str, Requirement], otherwise: Entry | None) -> Find:
    """Return the function that finds a tool's requirement for a gate. `otherwise` is the requirement of tools that
    `tools` does not name.

    Raises `ConfigurationError`.
    """
    for name, requirement in tools.items():
        if not isinstance(requirement, Requirement):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"tools: {name!r} has no requirement", f'write {{{name!r}: require("mail:send")}}')
        requirement.name_scopes()

    async def find(_: Context, method: str, name: str) -> TargetInfo:
        if method != "tools/call":
            return find_plain("prompts/get" if method == "prompts/get" else "resources/read", name)
        named = tools.get(name)
        schema = server.get_tool_input_schema(name) if server.get_tool_input_schema is not None else None
        declares = schema is not None and declares_token(msgspec.json.encode(schema))
        # Only the server's handler knows which tools exist.
        return TargetInfo(name, named.entry if named is not None else otherwise, declares, written=named is not None)

    return find


def look_at_start(server: Server[Any], check: Callable[[], Awaitable[None]]) -> None:
    """Let a server start only after this check, which raises `ConfigurationError`. The check runs in the server's
    lifespan, which every transport enters first."""
    lifespan = server.lifespan

    @asynccontextmanager
    async def checked(of: Server[Any]) -> AsyncGenerator[Any]:
        async with lifespan(of) as state:
            await check()
            yield state

    server.lifespan = checked


def look_last(server: Server[Any], judge: Judge) -> None:
    """Let the handlers of guarded methods run only what this judge has allowed, from now on."""
    lookup = server.get_request_handler

    def get_request_handler(method: str) -> HandlerEntry[Any] | None:
        entry = lookup(method)
        if entry is None or method not in TARGET_MEMBER:
            return entry
        return replace(entry, handler=_require_decision(method, entry, judge))

    # The SDK calls this for every request, and offers no other hook behind all middleware.
    vars(server)["get_request_handler"] = get_request_handler


def _require_decision(method: str, entry: HandlerEntry[Any], judge: Judge) -> Any:
    async def handler(ctx: Context, params: Any) -> HandlerResult:
        allowed = judge.decided()
        target = str(getattr(params, TARGET_MEMBER[method], ""))
        if allowed is None or not allowed.is_for(method, target, getattr(params, "arguments", None)):
            raise undecided_error()
        return await entry.handler(ctx, params)

    return handler

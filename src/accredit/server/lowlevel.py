"""A low-level server of the official SDK, whose tools are names that one handler knows. No I/O.

A gate (`gate`) stands before its other middleware. Behind it, where the SDK looks for the handler of a message:

1. The handlers of tools, resources and prompts run only what the gate has allowed, whenever they were registered and
   whatever other middleware has made of the message, and they run nothing once the gate is gone.
2. A method is found only if it is one of those below, or was named: a handler for one more could do what a tool does,
   and nobody would have been asked. The same is true of notifications.

Not checked here: what a handler does besides, or for whom else.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import msgspec
from mcp.server.context import HandlerResult
from mcp.server.lowlevel import Server
from mcp.server.lowlevel.server import HandlerEntry

from accredit.errors import ConfigurationError
from accredit.jsonrpc.methods import TARGET_MEMBER
from accredit.policy import GUARDED, LISTS, TASKS, Entry
from accredit.server.gate import Find, Found, undecided
from accredit.server.judge import Judge
from accredit.server.requirements import Requirement
from accredit.server.tokens import Context
from accredit.tokens import declares_token

UNGUARDED = frozenset(
    {
        "initialize",
        "ping",
        "server/discover",
        "completion/complete",
        "logging/setLevel",
        "resources/subscribe",
        "resources/unsubscribe",
        "subscriptions/listen",
        "notifications/cancelled",
        "notifications/initialized",
        "notifications/progress",
        "notifications/roots/list_changed",
        "notifications/tasks/status",
    }
)
"""Methods that need no proof: they run no tool, read no resource and get no prompt."""


def finder(server: Server[Any], tools: Mapping[str, Requirement], otherwise: Entry | None) -> Find:
    """What tells a gate which tool asks for what; `otherwise` is for tools that nobody has named.

    Raises `ConfigurationError`.
    """
    for name, requirement in tools.items():
        if not isinstance(requirement, Requirement):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"tools: {name!r} has no requirement", f'write {{{name!r}: require("mail:send")}}')
        requirement.name_scopes()

    async def find(_: Context, name: str) -> Found:
        named = tools.get(name)
        schema = server.get_tool_input_schema(name) if server.get_tool_input_schema is not None else None
        declares = schema is not None and declares_token(msgspec.json.encode(schema))
        return Found(named.entry if named is not None else otherwise, declares)

    return find


def look_last(server: Server[Any], judge: Judge, methods: Collection[str]) -> None:
    """Rules 1 and 2, from now on. `methods` are the others that are named. Raises `ConfigurationError`."""
    for method in methods:
        if method in GUARDED | LISTS | UNGUARDED:
            raise ConfigurationError(f"methods: {method!r} is known", "name methods that MCP does not define")
    known = (GUARDED - TASKS) | LISTS | UNGUARDED | frozenset(methods)  # whose a task is, nobody here remembers
    request_handler, notification_handler = server.get_request_handler, server.get_notification_handler

    def request(method: str) -> HandlerEntry[Any] | None:
        found = request_handler(method) if method in known else None
        if found is None or method not in GUARDED:
            return found
        return replace(found, handler=_checked(method, found, judge))

    def notification(method: str) -> HandlerEntry[Any] | None:
        return notification_handler(method) if method in known - GUARDED - LISTS else None

    # The SDK asks these for every message, and offers no other place behind all middleware.
    vars(server).update(get_request_handler=request, get_notification_handler=notification)


def _checked(method: str, found: HandlerEntry[Any], judge: Judge) -> Any:
    async def handler(ctx: Context, params: Any) -> HandlerResult:
        allowed = judge.decided()
        target = getattr(params, TARGET_MEMBER[method], None)
        if allowed is None or (allowed.asked.method, allowed.asked.target) != (method, target):
            raise undecided()
        return await found.handler(ctx, params)

    return handler

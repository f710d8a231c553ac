"""`ProofGuard` for FastMCP: `guard.protect(mcp)`. Awaits decisions; reads key files when it is made.

FastMCP's middleware runs after sealed request states are opened, when messages are no longer what the client sent. So
the guard puts a gate (`gate`) in front of the protected server. It puts itself before all other middleware: a cache,
for example, that answers before the guard would answer everybody. A FastMCP middleware learns its server only when a
message comes, which can be too late. So a guard that is only in the list of middleware lets nothing through.

The guard ensures that nothing runs undecided. For a request to a tool, a resource, a prompt or a list, the first of
these rules that applies decides:

- [same-call] The call that the gate has decided passes, unless its target was replaced by one that requires other
  things: then it is judged anew, as an inner call is.
- [inner-call] A request that a running call makes, even for the same name, is judged anew: on the same authority, with
  its own arguments (`policy.within`). A tool that calls others by name must bypass neither their requirements nor
  constraints.
- [undecided] Any other request is undecided, and refused: the gate was removed, or is another server's.

A tool is found as FastMCP finds it: by version, and by the names `<hash>_<name>` that tools of an app have as well. The
tool that is found is judged; so are resources and prompts. Only tools made of a function can be called. A proxy (of a
mounted or remote server, or transformed) could hide what its target requires. So it is refused where proofs are judged,
even with `default_tool_scope`.

Not checked: what the server's own code does outside of any request, and what middleware behind the guard does to a
message.
"""

import logging
from contextlib import AbstractContextManager, nullcontext
from typing import Any, cast

from accredit.base.deferred import install_extra
from accredit.errors import ProofRefused, TokenError
from accredit.policy.guarded_call import GUARDED
from accredit.server.arguments import reading_of
from accredit.server.assemble import Guard, check_requirements, check_scoped
from accredit.server.gate import (
    Gate,
    check_first,
    current_dropped_keys,
    is_judged,
    put_first,
    to_mcp_error,
    undecided_error,
)
from accredit.server.judge import Allowed, TargetInfo, current_authority, current_token, find_plain
from accredit.server.lowlevel import look_at_start
from accredit.server.requirements import require
from accredit.server.tokens import Context, TokenRules, TrustedIssuer

try:
    from fastmcp import FastMCP
    from fastmcp.prompts import Prompt
    from fastmcp.prompts.function_prompt import FunctionPrompt
    from fastmcp.resources import Resource, ResourceTemplate
    from fastmcp.resources.function_resource import FunctionResource
    from fastmcp.resources.template import FunctionResourceTemplate
    from fastmcp.server.context import Context as FastMCPContext
    from fastmcp.server.dependencies import bind_request_context, extract_version_spec, without_injected_parameters
    from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext
    from fastmcp.server.providers.addressing import parse_hashed_backend_name
    from fastmcp.tools import FunctionTool, Tool
    from fastmcp.utilities.versions import VersionSpec
except ImportError as error:
    raise ImportError(f"accredit.server.fastmcp needs FastMCP 4: {install_extra('fastmcp')}") from error

_log = logging.getLogger("accredit.server")

__all__ = [
    "ProofGuard",
    "TokenRules",
    "TrustedIssuer",
    "current_authority",
    "current_dropped_keys",
    "current_token",
    "require",
]


class ProofGuard(Guard, Middleware):
    """Guards a server: lets through only the calls that come with the required proof and token."""

    def protect(self, server: FastMCP[Any]) -> None:
        """Put the gate in front of a server, and this guard before its other middleware."""
        put_first(self, server.middleware)
        there = self.gate_in(_below(server))
        if there is not None:
            put_first(there, _below(server))
            return

        async def find(ctx: Context, method: str, target: str) -> TargetInfo:
            check_first(self, server.middleware)
            # The tools may depend on the session and on the user.
            async with FastMCPContext(fastmcp=server, session=ctx.session):
                with bind_request_context(ctx) as request:
                    return await self._find(server, method, target, request.meta)

        async def check() -> None:
            gate.check_place()
            check_first(self, server.middleware)
            check_requirements(functions := await _functions(server))
            self.warn_of_open_tools(functions)
            found = [(await self._find_tool(server, name, None)).name for name in self.scoped_tools]
            check_scoped(self.scoped_tools.difference(found))

        gate = Gate(self._judge, find, lambda: _below(server))
        put_first(gate, _below(server))
        look_at_start(server._mcp_server, check)  # pyright: ignore[reportPrivateUsage]

    async def __call__(self, context: MiddlewareContext[Any], call_next: CallNext[Any, Any]) -> Any:
        """Check one message, and pass it on. Raises `MCPError` for a refusal."""
        here = context.fastmcp_context
        request = here.request_context if here is not None else None
        if here is None or request is None:
            return await call_next(context)
        allowed = self._judge.decided()
        if allowed is not None:
            with await self._within(allowed, here.fastmcp, context):
                return await call_next(context)
        placed = self.gate_in(_below(here.fastmcp)) is not None
        if not placed:
            _log.error("nothing runs: the guard is among the middleware, and not in its place; call guard.protect(mcp)")
        if not placed or context.method in GUARDED or is_judged(request._srctx):  # pyright: ignore[reportPrivateUsage]
            raise undecided_error()
        return await call_next(context)

    async def _within(
        self, allowed: Allowed, server: FastMCP[Any], context: MiddlewareContext[Any]
    ) -> AbstractContextManager[None]:
        """Check a message ([same-call] to [undecided]), and return the context to run it in."""
        method, message = context.method, context.message
        if method not in GUARDED:
            return nullcontext()
        target = str(message.uri if method == "resources/read" else message.name)
        arguments = getattr(message, "arguments", None)
        found = await self._find(server, method, target, message.meta)
        # The target may have been replaced since the decision.
        if self._judge.enters(method, target, arguments) and found.entry == allowed.found.entry:
            return nullcontext()
        try:
            return self._judge.within(allowed, method, target, arguments, found)
        except (ProofRefused, TokenError) as error:
            raise to_mcp_error(error) from None

    async def _find(self, server: FastMCP[Any], method: str, target: str, meta: Any) -> TargetInfo:
        text = extract_version_spec(meta)
        version = VersionSpec(eq=text) if text else None
        if method == "tools/call":
            return await self._find_tool(server, target, version)
        if method == "prompts/get":
            other = await server.get_prompt(target, version)
        elif method == "resources/read":
            other = await server.get_resource(target, version) or await server.get_resource_template(target, version)
        else:
            templates = await server.list_resource_templates(run_middleware=False)
            other = next((each for each in templates if each.uri_template == target), None)
        method = method if method == "prompts/get" else "resources/read"
        return self.found_other(method, target, _function(other)) if other is not None else find_plain(method, target)

    async def _find_tool(self, server: FastMCP[Any], name: str, version: VersionSpec | None) -> TargetInfo:
        tool = await server.get_tool(name, version)
        hashed = parse_hashed_backend_name(name) if tool is None else None
        if hashed is not None:
            tool = await server.get_tool_by_hash(*hashed)
        if tool is None:
            return TargetInfo()
        read = reading_of(tool.fn, without_injected_parameters) if isinstance(tool, FunctionTool) else None
        return self.found(tool.name, _function(tool), tool.parameters, read)


def _function(item: Tool | Resource | ResourceTemplate | Prompt) -> object:
    """Return the function of an item, or the one that reads it; None for a proxy."""
    match item:
        case FunctionTool() | FunctionResource() | FunctionResourceTemplate() | FunctionPrompt():
            return item.fn
        case Resource() if not any(each.__module__.startswith("fastmcp.server.") for each in type(item).__mro__):
            return item.read  # text, a file, or a kind of the author's own
        case _:
            return None


async def _functions(server: FastMCP[Any]) -> list[tuple[str, object, dict[str, Any] | None]]:
    """Return the functions registered at a server itself, with their names and tools' schemas."""
    own = server.local_provider
    tools = [(each.name, _function(each), each.parameters) for each in await own.list_tools()]
    others: list[tuple[str, Any]] = [(each.name, each) for each in await own.list_prompts()]
    others += [(str(each.uri), each) for each in await own.list_resources()]
    others += [(each.uri_template, each) for each in await own.list_resource_templates()]
    return [*tools, *((name, _function(each), None) for name, each in others)]


def _below(server: FastMCP[Any]) -> list[Any]:
    # FastMCP has no public way to the SDK's server underneath.
    return cast("list[Any]", server._mcp_server.middleware)  # pyright: ignore[reportPrivateUsage]

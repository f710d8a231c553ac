"""`ProofGuard` for FastMCP: `FastMCP("mail", middleware=[guard])`. Awaits decisions; reads key files when it is made.

FastMCP's middleware runs inside of what opens sealed request states, where messages are no longer what the client sent.
So at the first message it sees, the guard puts a gate (`gate`) in front of the server; from then on it only ensures
that nothing runs undecided. In this order, for a request that reaches a tool, a resource, a prompt or a list:

1. What was decided at the gate passes.
2. What a running call requests itself runs on the same authority: the delegation must cover it, and a target that needs
   a challenge of its own is refused. A tool that calls others by name must not bypass their requirements.
3. What came before the gate was there (the first message of a process may be a call) is decided here.

Only tools that are made of a function can be called. One that stands for another (of a mounted or remote server, or
transformed) could hide what that one requires, so it is refused where proofs are judged, even with
`default_tool_scope`. Not checked: what the server's own code does outside of any request.
"""

from collections.abc import Sequence
from typing import Any, cast

from accredit.base.deferred import install_extra
from accredit.errors import ProofRefused, TokenError
from accredit.policy import GUARDED, GuardedCall
from accredit.policy.lists import KINDS, Kind, ListView
from accredit.server.answers import current_dropped_keys
from accredit.server.assemble import Guard
from accredit.server.gate import Found, Gate, annotated, is_judged, refused, undecided, unnamed
from accredit.server.judge import Allowed, current_authority, current_token
from accredit.server.requirements import require
from accredit.server.tokens import Context, TokenRules, TrustedIssuer

try:
    from fastmcp import FastMCP
    from fastmcp.prompts import Prompt
    from fastmcp.resources import Resource, ResourceTemplate
    from fastmcp.server.context import Context as FastMCPContext
    from fastmcp.server.dependencies import FastMCPRequestContext, bind_request_context, extract_version_spec
    from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext
    from fastmcp.tools import FunctionTool, Tool
    from fastmcp.utilities.versions import VersionSpec
except ImportError as error:
    raise ImportError(f"accredit.server.fastmcp needs FastMCP 4: {install_extra('fastmcp')}") from error

_Listable = Tool | Resource | ResourceTemplate | Prompt

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
    """Lets only calls through that carry what is required: `FastMCP("mail", middleware=[guard])`."""

    async def __call__(self, context: MiddlewareContext[Any], call_next: CallNext[Any, Any]) -> Any:
        """Pass one message on. Raises `MCPError` for a refusal."""
        here = context.fastmcp_context
        request = here.request_context if here is not None else None
        if here is None or request is None:
            return await call_next(context)
        gate = self._gate(here.fastmcp)
        allowed = self._judge.decided()
        if allowed is None:
            return await self._undecided(gate, request, context, call_next)
        await self._check(allowed, context)
        return await call_next(context)

    def _gate(self, server: FastMCP[Any]) -> Gate:
        """Return the gate in front of a server, putting it there at the first message."""
        # FastMCP has no public way to the SDK's server underneath.
        middleware = cast("list[Any]", server._mcp_server.middleware)  # pyright: ignore[reportPrivateUsage]
        for each in middleware:
            if isinstance(each, Gate) and each.judge is self._judge:
                return each

        async def find(ctx: Context, name: str) -> Found:
            # Which tools there are may depend on the session and on the user.
            async with FastMCPContext(fastmcp=server, session=ctx.session):
                with bind_request_context(ctx) as request:
                    version = extract_version_spec(request.meta)
                    tool = await server.get_tool(name, VersionSpec(eq=version) if version else None)
            return self._found(tool)

        gate = Gate(self._judge, find)
        middleware.insert(0, gate)
        return gate

    async def _check(self, allowed: Allowed, context: MiddlewareContext[Any]) -> None:
        """Check rules 1 and 2."""
        method, here = context.method, context.fastmcp_context
        if method not in GUARDED or here is None:
            return
        target = str(context.message.uri if method == "resources/read" else context.message.name)
        tool = await here.fastmcp.get_tool(target) if method == "tools/call" else None
        try:
            self._judge.check_within(allowed, GuardedCall(method, target, "", b"", None, None), self._found(tool).entry)
        except (ProofRefused, TokenError) as error:
            raise refused(error) from None

    async def _undecided(
        self,
        gate: Gate,
        request: FastMCPRequestContext,
        context: MiddlewareContext[Any],
        call_next: CallNext[Any, Any],
    ) -> Any:
        """Decide by rule 3."""
        ctx = request._srctx  # pyright: ignore[reportPrivateUsage]
        if not self._judge.names(ctx.method, ctx.protocol_version):
            return unnamed(ctx)
        if not is_judged(ctx):
            if context.method in GUARDED:  # requested by another request, so without a proof
                raise undecided()
            return await call_next(context)
        allowed, admitted = await gate.admit(ctx)
        if context.method == "tools/call" and (admitted.params or {}).get("arguments") != context.message.arguments:
            bare = context.message.model_copy(update={"arguments": (admitted.params or {}).get("arguments")})
            context = context.copy(message=bare)  # it carried a token
        with self._judge.standing(allowed), bind_request_context(admitted):
            await self._check(allowed, context)
            result = await call_next(context)
        kind = KINDS.get(context.method or "")
        return result if kind is None else self._shown(result, self._judge.view(allowed), kind)

    def _shown(self, items: Sequence[_Listable], view: ListView, kind: Kind) -> Sequence[_Listable]:
        if kind.method != "tools/call" and not view.edits(kind):
            return items
        shown: list[_Listable] = []
        for item in items:
            named = _named(item)
            entry = self._found(item).entry if isinstance(item, Tool) else view.entry(kind, named)
            if view.shown(kind, named, entry):
                shown.append(item.model_copy(update={"meta": annotated(item.meta, entry, view)}))
        return shown

    def _found(self, tool: Tool | None) -> Found:
        if tool is None:
            return Found()
        return self.found(tool.fn if isinstance(tool, FunctionTool) else None, tool.parameters)


def _named(item: _Listable) -> str:
    match item:
        case Resource():
            return str(item.uri)
        case ResourceTemplate():
            return item.uri_template
        case _:
            return item.name

"""`ProofGuard` for servers of the official SDK, `MCPServer` and the low-level one. Awaits decisions.

It reads key files when it is made.

The SDK does not tell an extension its server. It calls an extension only for `tools/call`, not for resources, prompts
and lists, and does not tell it the function behind a name. So the guard finds out which server applies it (when that
calls `settings`), and puts a gate (`gate`) in front of that server's other middleware.

A tool call that has not passed the gate, for whatever reason, is refused by the extension. A low-level server has no
extensions: there it is refused when its handler is looked up (`lowlevel`). If a running call makes the server do
something else (`mcp.call_tool`, `ctx.read_resource`), that is judged anew: on the same authority, with its own
arguments (`policy.within`).

Not checked: what the server's own code does outside of any request, and functions that call each other directly.
"""

import inspect
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from types import FrameType
from typing import Any, cast

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.extension import Extension
from mcp.server.lowlevel import Server
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.resources import FunctionResource, Resource, ResourceTemplate
from mcp.server.mcpserver.resources.templates import ResourceSecurityError
from mcp.server.mcpserver.tools import Tool
from mcp_types import CallToolRequestParams

from accredit.errors import ConfigurationError, ProofRefused, TokenError
from accredit.server.arguments import Read, read_arguments
from accredit.server.assemble import Guard, check_requirements, check_scoped
from accredit.server.gate import Find, Gate, put_first, to_mcp_error, undecided_error
from accredit.server.judge import TargetInfo, find_plain
from accredit.server.lowlevel import finder, look_at_start, look_last
from accredit.server.requirements import Requirement
from accredit.server.tokens import Context


class ProofGuard(Guard, Extension):
    """Guards a server: `MCPServer("mail", extensions=[guard])` or, for a low-level server, `guard.protect(server,
    tools={"send_email": require("email:send")})`."""

    identifier = "dev.accredit/proofs"

    def settings(self) -> dict[str, Any]:
        """Put the gate in front of the server that applies this extension. Raises `ConfigurationError`."""
        self.protect(_applying(inspect.currentframe()))
        return {}

    def protect(
        self,
        server: MCPServer[Any] | Server[Any],
        *,
        tools: Mapping[str, Requirement] | None = None,
    ) -> None:
        """Put the gate in front of a server; for an `MCPServer` `extensions=[guard]` does the same.

        `tools` is for a low-level server: what its tools require, by name. Tools that it does not name get
        `default_tool_scope`, or are refused. Raises `ConfigurationError`.
        """
        there = self.gate_in(server.middleware)
        if isinstance(server, Server):
            if there is not None:
                raise ConfigurationError("this server is protected already", "call guard.protect(server) once")
            find = finder(server, dict(tools or {}), self._default_tool)
            look_last(server, self._judge)
            server.extensions.setdefault(self.identifier, {})
        elif tools is not None:
            raise ConfigurationError(
                "an MCPServer knows its tools by itself", "put @require beside each tool, and leave out tools"
            )
        else:
            find = self._finder(server)
        if there is not None:
            put_first(there, server.middleware)
            return
        gate = Gate(self._judge, find, lambda: server.middleware)

        async def check() -> None:
            gate.check_place()
            if isinstance(server, MCPServer):
                check_requirements(_functions(server))
                self.warn_of_open_tools(_functions(server))
                check_scoped(self.scoped_tools.difference(each.name for each in await server.list_tools()))

        if isinstance(server, MCPServer):
            self._look_inside(server)
        look_at_start(server if isinstance(server, Server) else server._lowlevel_server, check)  # pyright: ignore[reportPrivateUsage]
        put_first(gate, server.middleware)

    def _finder(self, server: MCPServer[Any]) -> Find:
        async def find(_: Context, method: str, target: str) -> TargetInfo:
            return self._find(server, method, target)

        return find

    def _find(self, server: MCPServer[Any], method: str, target: str) -> TargetInfo:
        if method == "tools/call":
            # The SDK has no public way from a name to a function.
            tool = server._tool_manager.get_tool(target)  # pyright: ignore[reportPrivateUsage]
            return self.found(tool.name, tool.fn, tool.parameters, _reading(tool)) if tool is not None else TargetInfo()
        if method == "prompts/get":
            prompt = server._prompt_manager.get_prompt(target)  # pyright: ignore[reportPrivateUsage]
            return self.found_other(method, target, prompt.fn) if prompt is not None else find_plain(method, target)
        resource = _resource(server, target, by_text=method != "resources/read")
        if resource is None:
            return find_plain("resources/read", target)
        return self.found_other("resources/read", target, _function(resource))

    def _look_inside(self, server: MCPServer[Any]) -> None:
        """From now on, judge calls of the server's own methods while a request runs.

        A tool calls others by these methods. The SDK offers no hook there, and its own handlers call the same methods.
        """
        call_tool, read_resource, get_prompt = server.call_tool, server.read_resource, server.get_prompt

        async def judged_tool(name: str, arguments: dict[str, Any], context: Any = None) -> Any:
            with self._within(server, "tools/call", name, arguments):
                return await call_tool(name, arguments, context)

        async def judged_resource(uri: Any, context: Any = None) -> Any:
            with self._within(server, "resources/read", str(uri), None):
                return await read_resource(uri, context)

        async def judged_prompt(name: str, arguments: dict[str, Any] | None = None, context: Any = None) -> Any:
            with self._within(server, "prompts/get", name, arguments):
                return await get_prompt(name, arguments, context)

        vars(server).update(call_tool=judged_tool, read_resource=judged_resource, get_prompt=judged_prompt)

    def _within(
        self, server: MCPServer[Any], method: str, target: str, arguments: object
    ) -> AbstractContextManager[None]:
        """Judge a call that comes by the server's own methods, and return the context to run it in. Raises `ToolError`,
        which the calling tool may handle."""
        judge, allowed = self._judge, self._judge.decided()
        if not judge.asked():
            return nullcontext()
        if allowed is None:
            raise undecided_error()
        found = self._find(server, method, target)
        # The target may have been replaced since the decision.
        if judge.enters(method, target, arguments) and found.entry == allowed.found.entry:
            return nullcontext()
        try:
            return judge.within(allowed, method, target, arguments, found)
        except (ProofRefused, TokenError) as error:
            raise ToolError(to_mcp_error(error).error.message) from None

    async def intercept_tool_call(
        self, params: CallToolRequestParams, ctx: ServerRequestContext[Any, Any], call_next: CallNext
    ) -> HandlerResult:
        """Refuse a tool call that was not decided: the final check before the tool. Raises `MCPError`."""
        allowed = self._judge.decided()
        if allowed is None or allowed.call.target != params.name:
            raise undecided_error()
        return await call_next(ctx)


def _resource(server: MCPServer[Any], uri: str, *, by_text: bool) -> Resource | ResourceTemplate | None:
    """Return what the SDK would read for a URI or, with `by_text`, the template with this text."""
    manager = server._resource_manager  # pyright: ignore[reportPrivateUsage]
    if by_text:
        return next((each for each in manager.list_templates() if each.uri_template == uri), None)
    for resource in manager.list_resources():
        if str(resource.uri) == uri:
            return resource
    for template in manager.list_templates():
        try:
            if template.matches(uri) is not None:
                return template
        except ResourceSecurityError:  # which ends the SDK's search, too
            return None
    return None


def _reading(tool: Tool) -> Read:
    """Return a function that reads a tool's arguments as the SDK does: it parses some texts as JSON, and validates all
    arguments with a model."""
    by = tool.fn_metadata
    return lambda written: read_arguments(
        written, lambda: by.arg_model.model_validate(by.pre_parse_json(dict(written)))
    )


def _function(resource: Resource | ResourceTemplate) -> object:
    return resource.fn if isinstance(resource, FunctionResource | ResourceTemplate) else resource.read


def _functions(server: MCPServer[Any]) -> Iterator[tuple[str, object, dict[str, Any] | None]]:
    """Yield the functions of a server, with their names and tools' schemas."""
    tools, prompts = server._tool_manager, server._prompt_manager  # pyright: ignore[reportPrivateUsage]
    manager = server._resource_manager  # pyright: ignore[reportPrivateUsage]
    yield from ((tool.name, tool.fn, tool.parameters) for tool in tools.list_tools())
    yield from ((prompt.name, prompt.fn, None) for prompt in prompts.list_prompts())
    yield from ((str(each.uri), _function(each), None) for each in manager.list_resources())
    yield from ((each.uri_template, _function(each), None) for each in manager.list_templates())


def _applying(frame: FrameType | None) -> MCPServer[Any]:
    """Return the server that is applying the guard: the one whose method is now running."""
    while frame is not None:
        owner = frame.f_locals.get("self")
        if isinstance(owner, MCPServer):
            return cast("MCPServer[Any]", owner)
        frame = frame.f_back
    raise ConfigurationError("the guard can't see which server it is for", "call guard.protect(server)")

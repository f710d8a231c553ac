"""Lists a server's tools, resources, templates and prompts, in a session of the official SDK.

The list of tools must be complete, as each tool needs a scope. All resources and templates share a scope, and so do all
prompts, so a few examples of each kind suffice.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple

from mcp import MCPError
from mcp.client import ClientSession
from mcp.types import (
    METHOD_NOT_FOUND,
    PaginatedRequestParams,
    Prompt,
    Resource,
    ResourceTemplate,
    ServerCapabilities,
    Tool,
)

from accredit.base.text import excerpt
from accredit.errors import ConfigurationError
from accredit.limits import MAX_KNOWN_TOOLS, MAX_LIST_PAGES
from accredit.pins.definitions import Definition, Definitions


class ServerListing(NamedTuple):
    """What a server offers, and its own name ("" for none).

    `only_some` names tools that are shown only to hosts with some capabilities. `two_faced` names tools whose
    definitions differ between hosts. `definitions` holds the tools exactly as the server sent them, if known, and its
    instructions.
    """

    server: str
    tools: tuple[Tool, ...] = ()
    resources: tuple[Resource, ...] = ()
    templates: tuple[ResourceTemplate, ...] = ()
    prompts: tuple[Prompt, ...] = ()
    only_some: frozenset[str] = frozenset()
    two_faced: frozenset[str] = frozenset()
    definitions: Definitions | None = None


class Connected(NamedTuple):
    """A session with a server, and the server's own name. `tools` collects the tools exactly as the server sends them,
    or is None if that is impossible."""

    server: str
    session: ClientSession
    tools: Mapping[str, Definition] | None = None


_Listing = Callable[..., Awaitable[Any]]


async def offer_of(connected: Connected) -> ServerListing:
    """Return everything that one session is offered. Raises `ConfigurationError` for ambiguous tools."""
    session, seen = connected.session, connected.tools
    said = session.server_capabilities or ServerCapabilities()
    offer = ServerListing(
        connected.server,
        tools=await _tools(session, said=said.tools is not None),
        resources=await _some(session.list_resources, "resources", said=said.resources is not None),
        templates=await _some(session.list_resource_templates, "resource_templates", said=said.resources is not None),
        prompts=await _some(session.list_prompts, "prompts", said=said.prompts is not None),
    )
    return offer._replace(definitions=Definitions(dict(seen), session.instructions)) if seen is not None else offer


def together(offers: Sequence[ServerListing]) -> ServerListing:
    """Merge the offers that different hosts got from a server."""
    tools = {tool.name: tool for offer in reversed(offers) for tool in offer.tools}
    everywhere = frozenset(tools).intersection(*({tool.name for tool in offer.tools} for offer in offers))
    ordered = dict.fromkeys(tool.name for offer in offers for tool in offer.tools)
    offer = offers[0]._replace(tools=tuple(tools[name] for name in ordered), only_some=frozenset(tools) - everywhere)
    said = [each.definitions for each in offers if each.definitions is not None]
    if not said:
        return offer
    first = {name: tool for each in reversed(said) for name, tool in each.tools.items()}
    differ = {tool.name for each in said for tool in each.tools.values() if tool.sha256 != first[tool.name].sha256}
    return offer._replace(definitions=Definitions(first, said[0].instructions), two_faced=frozenset(differ))


async def _tools(session: ClientSession, *, said: bool) -> tuple[Tool, ...]:
    tools: dict[str, Tool] = {}
    cursor: str | None = None
    for _ in range(MAX_LIST_PAGES):
        try:
            page = await session.list_tools(params=PaginatedRequestParams(cursor=cursor))
        except MCPError as error:
            if said or error.code != METHOD_NOT_FOUND:
                raise
            return ()  # it has none, and did not say that it has
        for tool in page.tools:
            if tool.name in tools:
                raise _unfit(f"lists the tool {excerpt(tool.name)} twice")
            tools[tool.name] = tool
        if len(tools) > MAX_KNOWN_TOOLS:
            raise _unfit(f"lists more than {MAX_KNOWN_TOOLS} tools")
        cursor = page.next_cursor
        if cursor is None:
            return tuple(tools.values())
    raise _unfit(f"lists its tools on more than {MAX_LIST_PAGES} pages")


async def _some(ask: _Listing, member: str, *, said: bool) -> tuple[Any, ...]:
    """Return the first pages of a list. It is empty if the server does not declare this kind (`said` is false), or
    declares it but has no such method."""
    found: list[Any] = []
    cursor: str | None = None
    for _ in range(MAX_LIST_PAGES if said else 0):
        try:
            page = await ask(params=PaginatedRequestParams(cursor=cursor))
        except MCPError as error:
            if error.code != METHOD_NOT_FOUND:
                raise
            break
        found += getattr(page, member)
        cursor = page.next_cursor
        if cursor is None or len(found) >= MAX_KNOWN_TOOLS:
            break
    return tuple(found)


def _unfit(what: str) -> ConfigurationError:
    return ConfigurationError(f"the server {what}", "correct the server: a gateway could not judge calls to it")

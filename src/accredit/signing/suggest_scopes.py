"""Suggests a scope for each tool, from its description. No I/O.

The first of these rules that applies decides:

- [advertised-scope] If the tool advertises a scope that a catalog can require, it is that one.
- [read-only] If the tool is annotated as read-only, it is `mcp:tool`, shared by all such tools.
- [own-scope] Otherwise it is a scope of the tool's own, `custom:SERVER:TOOL`, which can be granted alone. It is
  sensitive unless the tool is annotated as non-destructive: MCP's default is destructive (2025-11-25, schema,
  `ToolAnnotations`).

A tool's own scope names the server, so that a grant for one server does not hold for others of the same owner. If one
gateway has several servers, the name is the one that the owner gave: a server may call itself by another's name. Not
checked: whether a tool's description is true; the operator decides.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from mcp.types import Prompt, Resource, ResourceTemplate, Tool

from accredit.asking.listing import ServerListing
from accredit.policy.catalog import own_scope, scope_fault
from accredit.policy.lists import SCOPE, SENSITIVE
from accredit.signing.vocabulary import impossible_scope

READING = "mcp:tool"
"""The scope of read-only tools."""
RESOURCE, PROMPT = "mcp:resource", "mcp:prompt"
"""The scopes of all resources, and of all prompts."""


class Suggestion(NamedTuple):
    """A tool's proposed entry in the catalog, and the reason for it."""

    tool: str
    scope: str
    sensitive: bool
    reason: str
    description: str
    only_some: bool = False


def suggestions(offer: ServerListing, name: str = "") -> list[Suggestion]:
    """Return the proposed entries for all tools of a server. `name` is the server's name in `[servers]`, or "" if it is
    the only server."""
    server = name or offer.server
    return [suggestion(tool, server)._replace(only_some=tool.name in offer.only_some) for tool in offer.tools]


def suggestion(tool: Tool, server: str) -> Suggestion:
    """Return a tool's proposed entry. `server` is its server's name ("" for none)."""
    meta: Mapping[str, Any] = tool.meta or {}
    reads, destroys = _hints(tool)
    own = advertised_scope(tool)
    if own is not None and fault_of(own) is None:
        scope, sensitive, reason = own, meta.get(SENSITIVE) is True, "the scope that it asks for itself"
    elif reads:
        scope, sensitive, reason = READING, False, "it says that it only reads"
    else:
        scope, sensitive, reason = own_scope(tool.name, server), destroys is not False, _SAYS[destroys]
    return Suggestion(tool.name, scope, sensitive, reason, tool.description or tool.title or "")


_SAYS = {
    True: "it says that it can destroy or change what is there",
    False: "it says that it changes things, and destroys nothing",
    None: "it does not say what it changes, which MCP takes for everything",
}


def advertised_scope(offered: Tool | Resource | ResourceTemplate | Prompt) -> str | None:
    """Return the scope that an item advertises, or None."""
    scope = (offered.meta or {}).get(SCOPE)
    return scope if isinstance(scope, str) else None


def resource_scopes(offer: ServerListing) -> dict[str, str]:
    """Return the scopes that resources advertise, each by a URI prefix that a configuration can hold.

    A template's prefix is what precedes its first variable. Scopes and prefixes that can't be written, asked for or
    granted are left out.
    """
    scopes: dict[str, str] = {}
    for each in (*offer.resources, *offer.templates):
        uri = each.uri_template.partition("{")[0] if isinstance(each, ResourceTemplate) else str(each.uri)
        scope = advertised_scope(each)
        if scope is not None and scope != RESOURCE and fault_of(scope) is None and ":" in uri:
            scopes.setdefault(uri, scope)
    return scopes


def fault_of(scope: str) -> str | None:
    """Return why a scope can't be asked for or granted, or None."""
    fault = scope_fault(scope)
    if fault is None and impossible_scope([scope]) is not None:
        return "is in no vocabulary: it is neither canonical, nor custom:NAME, nor of the form group:name"
    return fault


def _hints(tool: Tool) -> tuple[bool, bool | None]:
    """Return two annotations of a tool: whether it is read-only, and whether it is destructive (None: not said)."""
    hints = tool.annotations
    if hints is None:
        return False, None
    return hints.read_only_hint is True and hints.destructive_hint is not True, hints.destructive_hint

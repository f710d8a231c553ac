"""What scope a tool should need, going by what it says of itself. No I/O.

For each tool, the first that applies:

1. it advertises a scope that a catalog can ask for: that one;
2. it says that it only reads: `mcp:tool`, which all such tools share;
3. else a scope of its own, `custom:SERVER:TOOL`, so that a human can grant it alone. It is sensitive, unless it says
   that it destroys nothing: MCP takes a tool that says nothing for a destructive one (2025-11-25, schema,
   `ToolAnnotations`).

A scope of its own names the server: the same owner may have several, and what is granted for one is not for all. Not
checked: whether what a tool says is true. That is for the operator, who gets to read it.
"""

import hashlib
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from mcp.types import Prompt, Resource, ResourceTemplate, Tool

from accredit.cli.actions.vocabulary import impossible_scope
from accredit.cli.asking.listing import Offer
from accredit.limits import MAX_SCOPE_WORD_CHARS
from accredit.policy import scope_fault
from accredit.policy.lists import SCOPE, SENSITIVE

READING = "mcp:tool"
"""The scope of tools that only read."""
RESOURCE, PROMPT = "mcp:resource", "mcp:prompt"
"""The scopes of all resources, and of all prompts."""

_UNFIT = re.compile(r"[^A-Za-z0-9._-]+")


class Suggestion(NamedTuple):
    """A tool's entry in the catalog, and why."""

    tool: str
    scope: str
    sensitive: bool
    reason: str
    description: str
    only_some: bool = False


def suggestions(offer: Offer) -> list[Suggestion]:
    """The entries for all tools of a server."""
    return [suggestion(tool, offer.server)._replace(only_some=tool.name in offer.only_some) for tool in offer.tools]


def suggestion(tool: Tool, server: str) -> Suggestion:
    """The entry for one tool of a server of that name ("" if it has none)."""
    meta: Mapping[str, Any] = tool.meta or {}
    reads, destroys = _hints(tool)
    own = advertised_scope(tool)
    if own is not None and fault_of(own) is None:
        scope, sensitive, reason = own, meta.get(SENSITIVE) is True, "the scope that it asks for itself"
    elif reads:
        scope, sensitive, reason = READING, False, "it says that it only reads"
    else:
        scope, sensitive, reason = _own_scope(tool.name, server), destroys is not False, _SAYS[destroys]
    return Suggestion(tool.name, scope, sensitive, reason, tool.description or tool.title or "")


_SAYS = {
    True: "it says that it can destroy or change what is there",
    False: "it says that it changes things, and destroys nothing",
    None: "it does not say what it changes, which MCP takes for everything",
}


def advertised_scope(offered: Tool | Resource | ResourceTemplate | Prompt) -> str | None:
    """The scope that something says that it needs, or None."""
    scope = (offered.meta or {}).get(SCOPE)
    return scope if isinstance(scope, str) else None


def resource_scopes(offer: Offer) -> dict[str, str]:
    """The scopes that resources ask for themselves, by the prefix of a URI that a configuration can hold.

    That of a template is what is before its first variable. What cannot be written, asked for or granted is left out.
    """
    found: dict[str, str] = {}
    for each in (*offer.resources, *offer.templates):
        uri = each.uri_template.partition("{")[0] if isinstance(each, ResourceTemplate) else str(each.uri)
        scope = advertised_scope(each)
        if scope is not None and scope != RESOURCE and fault_of(scope) is None and ":" in uri:
            found.setdefault(uri, scope)
    return found


def fault_of(scope: str) -> str | None:
    """Why nobody could ask for a scope, or grant it, or None."""
    fault = scope_fault(scope)
    if fault is None and impossible_scope([scope]) is not None:
        return "is in no vocabulary: it is neither canonical, nor custom:NAME, nor of the form group:name"
    return fault


def _hints(tool: Tool) -> tuple[bool, bool | None]:
    """Whether it says that it only reads, and whether it says that it destroys."""
    hints = tool.annotations
    if hints is None:
        return False, None
    return hints.read_only_hint is True and hints.destructive_hint is not True, hints.destructive_hint


def _own_scope(tool: str, server: str) -> str:
    words = [_word(server), _word(tool)] if server else [_word(tool)]
    return "custom:" + ":".join(words)


def _word(name: str) -> str:
    """A part of a scope. Other names have other words: what is lost in one is made up for by a digest."""
    word = _UNFIT.sub("-", name)[:MAX_SCOPE_WORD_CHARS]
    if word and word == name:
        return word
    return f"{word}~{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"

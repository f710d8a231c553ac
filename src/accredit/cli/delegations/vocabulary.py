"""Which scopes there can be where no catalog is at hand. No I/O.

A gateway's vocabulary is the canonical one, the scopes of MCP itself, and those that its catalog names. A command has
no catalog, so a scope is let through when some catalog could name it, and whoever runs the command is told.
"""

import re
from collections.abc import Iterable
from difflib import get_close_matches

from accredit.ratify.scopes import CANONICAL_SCOPES, WILDCARDS, unknown_scope

GATEWAY_SCOPES = frozenset({"mcp:tool", "mcp:resource", "mcp:prompt"})
"""The defaults of every gateway's catalog (contract, section 4)."""

_CATALOG_SCOPE = re.compile(r"(?!(?:x-[^:]*|urn):)[A-Za-z][A-Za-z0-9._/+-]*(?::[A-Za-z0-9._/+-]+)+")


def catalog_scopes(scopes: Iterable[str]) -> frozenset[str]:
    """Those among `scopes` that hold only where a catalog names them.

    A deployment's scopes are concrete, so none has an asterisk; `x-...:` and `urn:` are reserved.
    """
    return frozenset(
        scope
        for scope in scopes
        if unknown_scope((scope,), GATEWAY_SCOPES) is not None and _CATALOG_SCOPE.fullmatch(scope)
    )


def impossible_scope(scopes: Iterable[str]) -> str | None:
    """The first scope that no vocabulary can hold, or None."""
    scopes = tuple(scopes)
    return unknown_scope(scopes, GATEWAY_SCOPES | catalog_scopes(scopes))


def canonical_neighbour(scope: str) -> str | None:
    """A scope that may have been meant: of the same last words, or spelt nearly so."""
    known = sorted(CANONICAL_SCOPES | WILDCARDS.keys())
    ending = [each for each in known if each.endswith(f":{scope}")]
    return next(iter(ending or get_close_matches(scope, known, n=1, cutoff=0.8)), None)

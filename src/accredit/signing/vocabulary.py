"""Judges scopes without a catalog. No I/O.

A gateway accepts the scopes of its vocabulary: the canonical ones, MCP's own, and those in its catalog. A command has
no catalog, so it accepts any scope that a catalog could name, with a warning.
"""

from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches

from accredit.base.text import one_line
from accredit.policy.catalog import MCP_SCOPES, OWN_SCOPE
from accredit.ratify.scopes import CANONICAL_SCOPES, WILDCARDS, unknown_scope

_CLOSE = 0.85


def catalog_scopes(scopes: Iterable[str]) -> frozenset[str]:
    """Return those among `scopes` that are valid only if a catalog names them.

    They are concrete scopes, without asterisks. Scopes with the reserved prefixes `x-...:` and `urn:` are not among
    them.
    """
    return frozenset(
        scope for scope in scopes if unknown_scope((scope,), MCP_SCOPES) is not None and OWN_SCOPE.fullmatch(scope)
    )


def impossible_scope(scopes: Iterable[str]) -> str | None:
    """Return the first scope that can't be part of any vocabulary, or None."""
    scopes = tuple(scopes)
    return unknown_scope(scopes, MCP_SCOPES | catalog_scopes(scopes))


def canonical_neighbour(scope: str) -> str | None:
    """Return a known scope that is similar (same last words, or similar spelling), or None."""
    known = sorted(CANONICAL_SCOPES | MCP_SCOPES | WILDCARDS.keys())
    ending = [each for each in known if each.endswith(f":{scope}")]
    return next(iter(ending or get_close_matches(scope, known, n=1, cutoff=0.8)), None)


def scope_slips(scope_of: Mapping[str, str]) -> Iterator[str]:
    """Yield a note for each tool whose scope looks like a misspelt known one. `scope_of` maps a server's tools to
    scopes. A scope is known if it is Ratify's or MCP's, or several tools have it."""
    scopes = list(scope_of.values())
    known = CANONICAL_SCOPES | MCP_SCOPES
    shared = {each for each in scopes if scopes.count(each) > 1}
    for tool, scope in scope_of.items():
        near = [] if scope in known | shared else get_close_matches(scope, sorted(known | shared), n=1, cutoff=_CLOSE)
        if near:
            yield one_line(f"{tool}: the scope {scope} is no known one; did you mean {near[0]}?")

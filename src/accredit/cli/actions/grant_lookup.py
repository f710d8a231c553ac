"""Which scopes `accredit grant` signs: those that are named, and those that tools need, looked up in a catalog.

The catalog is a configuration's, or what a gateway's list says at its URL. I/O: the configuration; with a URL, or for
what only reads, also the server.

1. A tool that the catalog does not have is refused: which scope it needs, nobody here knows.
2. What only reads is what says so of itself, and whose scope lets nobody do anything else. What a server says may be
   false.
3. A named scope that nothing in the catalog asks for is refused, but for those about identity, or where it is meant.
4. A constraint on what the gateway does not know of a call would refuse every call: whoever signs is told.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from mcp.types import Tool

from accredit.cli.actions.config_text import key
from accredit.cli.actions.suggest_scopes import advertised_scope
from accredit.cli.asking.server import ask_upstream
from accredit.cli.reaching import Reach, reached
from accredit.config import build_catalog, build_upstream, load
from accredit.errors import ConfigurationError
from accredit.gateway import HttpUpstream
from accredit.policy import Catalog, Entry
from accredit.policy.constraint_words import facts_needed, facts_table
from accredit.ratify import Constraint
from accredit.ratify.scopes import expand

_IDENTITY = "identity:"
"""Scopes about delegating and proving, which no tool asks for."""


class Place(NamedTuple):
    """Where scopes are looked up; at most one of the two is named. `reach` is how the URL is reached."""

    config: Path | None
    url: str | None
    reach: Reach


class Asked(NamedTuple):
    """What the command line names: scopes, tools, and whether all that only reads is meant; `force` is rule 3's."""

    scopes: tuple[str, ...]
    tools: tuple[str, ...]
    all_read_only: bool
    force: bool


class _Known(NamedTuple):
    """The catalog and its name. `listed` are the server's tools, where it was asked; `has_facts` says whether it is
    known which facts the gateway takes from calls."""

    name: str
    catalog: Catalog
    listed: Sequence[Tool]
    has_facts: bool


class Found(NamedTuple):
    """The scopes that are to be signed, and what whoever signs them should know."""

    scopes: tuple[str, ...]
    notes: tuple[str, ...]


def look_up(asked: Asked, constraints: Sequence[Constraint], place: Place) -> Found:
    """What is to be signed. Raises `ConfigurationError`."""
    if place.config is not None and place.url is not None:
        raise ConfigurationError("--config and --url are given", "name one: scopes are looked up there")
    if not (asked.scopes or asked.tools or asked.all_read_only):
        raise ConfigurationError(
            "no --scope, no --tool and no --all-read-only: nothing is granted", "name what is meant"
        )
    if place.config is None and place.url is None:
        if asked.tools or asked.all_read_only:
            raise ConfigurationError(
                "which scopes tools need is not known here", "say where to look: --config FILE or --url URL"
            )
        return Found(asked.scopes, _what_is_needed(constraints))
    known = _known(place, ask=asked.all_read_only)
    if not asked.force:
        for scope in asked.scopes:
            _check_asked_for(scope, known)
    reading = _reading(known) if asked.all_read_only else Found((), ())
    scopes = tuple(dict.fromkeys((*asked.scopes, *(_scope_of(tool, known) for tool in asked.tools), *reading.scopes)))
    notes = (*reading.notes, *_what_else(asked, scopes, known), *_missing_facts(scopes, constraints, known))
    return Found(scopes, notes)


def _known(place: Place, *, ask: bool) -> _Known:
    if place.url is not None:
        if not place.url.startswith(("http://", "https://")):
            raise ConfigurationError("--url is not an http or https URL", "name the gateway's endpoint")
        offer, _ = ask_upstream(reached(HttpUpstream(place.url), place.reach), seconds=place.reach.timeout)
        tools = {tool.name: Entry(scope=scope) for tool in offer.tools if (scope := advertised_scope(tool))}
        return _Known(f"the list at {urlsplit(place.url).netloc}", Catalog(tools=tools), offer.tools, has_facts=False)
    loaded = load(place.config, os.environ, {})
    listed: Sequence[Tool] = ()
    if ask:
        offer, _ = ask_upstream(reached(build_upstream(loaded, os.environ), place.reach), seconds=place.reach.timeout)
        listed = offer.tools
    return _Known(str(place.config), build_catalog(loaded.config), listed, has_facts=True)


def _scope_of(tool: str, known: _Known) -> str:
    entry = known.catalog.tool(tool)
    if entry is not None:
        return entry.scope
    near = get_close_matches(tool, known.catalog.tools, n=1)
    hint = f"is {near[0]} meant? " if near else ""
    add = "`accredit check --fix` adds what the server has" if known.has_facts else "its catalog may lack it"
    raise ConfigurationError(f"--tool {tool}: {known.name} has no scope for it", f"{hint}see its name; {add}")


def _check_asked_for(scope: str, known: _Known) -> None:
    granted = {scope, *expand((scope,))}
    if scope.startswith(_IDENTITY) or any(entry.allows(granted) for _, entry in _entries(known.catalog)):
        return
    asked_for = sorted({entry.scope for _, entry in _entries(known.catalog)})
    near = get_close_matches(scope, asked_for, n=1)
    hint = f"is {near[0]} meant? " if near else ""
    raise ConfigurationError(
        f"not signed: nothing in {known.name} asks for {scope}",
        f"{hint}name a tool with --tool; if it is for another gateway, say --force",
    )


def _entries(catalog: Catalog) -> Iterable[tuple[str, Entry]]:
    """Everything that asks for a scope; "" for what is no tool of its own name."""
    yield from catalog.tools.items()
    others = (catalog.default_tool, catalog.resource, catalog.prompt, *catalog.resource_prefixes.values())
    yield from (("", each) for each in others if each is not None)


def _reading(known: _Known) -> Found:
    """Rule 2."""
    reading = {tool.name for tool in known.listed if _only_reads(tool)}
    scopes = list(dict.fromkeys(entry.scope for name in sorted(reading) if (entry := known.catalog.tool(name))))
    found: list[str] = []
    notes: list[str] = []
    for scope in scopes:
        more = sorted(name for name in _let(scope, known) if name not in reading)
        if more:
            notes.append(f"note: {scope} is left out: it lets the agent use more than reads: {', '.join(more)}")
        else:
            found.append(scope)
    if not found:
        raise ConfigurationError(
            f"not signed: no tool of {known.name} says that it only reads, under a scope of such tools alone",
            "name what is meant with --tool",
        )
    return Found(tuple(found), tuple(notes))


def _only_reads(tool: Tool) -> bool:
    hints = tool.annotations
    return hints is not None and hints.read_only_hint is True and hints.destructive_hint is not True


def _let(scope: str, known: _Known) -> set[str]:
    """The tools that a scope lets an agent use, as far as they are known by name."""
    granted = {scope, *expand((scope,))}
    names = {*known.catalog.tools, *(tool.name for tool in known.listed)}
    return {name for name in names if (entry := known.catalog.tool(name)) is not None and entry.allows(granted)}


def _what_else(asked: Asked, scopes: Iterable[str], known: _Known) -> Iterator[str]:
    """What tools that were named are granted along with."""
    reading = {tool.name for tool in known.listed if asked.all_read_only and _only_reads(tool)}
    for scope in scopes:
        more = sorted(_let(scope, known) - {*asked.tools} - reading)
        if more and scope not in asked.scopes:
            yield f"note: {scope} lets the agent use {', '.join(more)} as well"


def _needed(constraints: Iterable[Constraint]) -> dict[str, str]:
    """The facts that constraints need, each with the constraint's type."""
    return {fact: each.type for each in constraints for fact in facts_needed(each)}


def _what_is_needed(constraints: Iterable[Constraint]) -> tuple[str, ...]:
    needed = _needed(constraints)
    if not needed:
        return ()
    return (f"note: {_why(needed)}: its [tools.NAME] has to say {_table(needed)}; with --config FILE that is checked",)


def _missing_facts(scopes: Sequence[str], constraints: Sequence[Constraint], known: _Known) -> Iterator[str]:
    """Rule 4."""
    if not known.has_facts:
        yield from _what_is_needed(constraints)
        return
    needed = _needed(constraints)
    for name in sorted({name for scope in scopes for name in _let(scope, known)}):
        entry = known.catalog.tool(name)
        missing = {fact: kind for fact, kind in needed.items() if entry is None or fact not in entry.facts.sources}
        if missing:
            yield f"warning: every call of {name} will be refused: {_why(missing)}"
            yield f"  add to [tools.{key(name)}] in {known.name}: {_table(missing)}"


def _why(needed: Mapping[str, str]) -> str:
    kinds = ", ".join(dict.fromkeys(needed.values()))
    return f"{kinds} counts where the gateway knows the {' and '.join(needed)} of a call"


def _table(needed: Iterable[str]) -> str:
    return f"{facts_table(tuple(needed))} (each the JSON Pointer of an argument, or a constant)"

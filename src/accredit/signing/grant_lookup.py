"""Finds the scopes that `accredit grant` signs: those that are named, and those that a catalog says tools need. A
catalog has the scope that each tool requires.

The catalog is that of a configuration, or comes from the list of tools of the gateway at a URL. I/O: reads the
configuration; asks the server with `--url` and for `--all-read-only`.

- [unknown-tool] A tool that the catalog lacks is refused: its scope is unknown.
- [read-only] `--all-read-only` takes the tools that are annotated as read-only, if their scope covers no other tools. A
  server's annotations may be false.
- [unneeded-scope] A named scope that nothing in the catalog needs is refused, except for identity scopes, and except
  with `--force`.
- [constraint-facts] If a constraint is on a fact that the gateway does not take from the calls of a tool, each such
  call would be refused. A warning says so.
- [several-servers] If there are several servers and none is named, the catalogs of all are used, and a tool is written
  as SERVER__TOOL (`policy.merging`).
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from mcp.types import Tool

from accredit.asking.reaching import Reach, add_headers, endpoint_of
from accredit.asking.server import ask_configured, ask_upstream
from accredit.client.gateways import check_url
from accredit.config.apis import api_catalog
from accredit.config.load import DEFAULT_FILE, load
from accredit.config.proofs import build_catalog
from accredit.config.servers import every_view, view
from accredit.errors import ConfigurationError
from accredit.gateway import HttpUpstream
from accredit.hosts.toml_text import key
from accredit.keys.own_files import known_files
from accredit.keys.places import DELEGATION, agent_folders, config_folder
from accredit.policy.catalog import Catalog, Entry
from accredit.policy.constraint_words import facts_needed, facts_table
from accredit.policy.merging import MergedCatalog, member_of_name, merged_name
from accredit.ratify import Constraint
from accredit.ratify.scopes import CANONICAL_SCOPES, IDENTITY, expand
from accredit.signing.documents import read_delegations
from accredit.signing.suggest_scopes import advertised_scope
from accredit.signing.vocabulary import catalog_scopes

_NEAR = 0.85
SLIP = "warning: nothing known here asks for {}"
"""How the warning about a scope that is nearly a known one begins."""
"""How alike a scope and a known one are (`difflib`, 0 to 1) if one is taken for a slip of the other. One wrong letter
in ten gives 0.9."""


MAX_SEARCHED_FILES = 10
"""How many of the person's own configurations are searched for scopes, the latest: each takes some 10 ms."""


class NothingReadOnly(ConfigurationError):
    """No tool that is annotated as read-only has a scope that covers only such tools."""


class ScopeSelection(NamedTuple):
    """The scopes and tools that the command line names, and whether it asks for all read-only tools. They are looked up
    in a configuration, at a URL, or nowhere. `server` names one of several servers there, and `reach` holds connection
    options."""

    scope: Sequence[str] = ()
    tool: Sequence[str] = ()
    all_read_only: bool = False
    config: Path | None = None
    url: str | None = None
    server: str | None = None
    reach: Reach = Reach()


class _Known(NamedTuple):
    """A catalog and its name. `listed` are the server's tools, if it was asked. `has_facts` says whether the catalog
    declares facts of calls. `server` is the name of the catalog's server, if there are several."""

    name: str
    catalog: Catalog
    listed: Sequence[Tool]
    has_facts: bool
    server: str = ""


class _Scopes(NamedTuple):
    """The scopes to sign, and notes for the signer."""

    scopes: tuple[str, ...]
    notes: tuple[str, ...]


def look_up(wanted: ScopeSelection, constraints: Sequence[Constraint] = (), *, force: bool = False) -> _Scopes:
    """Return the scopes to sign. `force` turns off [unneeded-scope]. Raises `ConfigurationError`."""
    if wanted.config is not None and wanted.url is not None:
        raise ConfigurationError("--config and --url are given", "name one: scopes are looked up there")
    if not (wanted.scope or wanted.tool or wanted.all_read_only):
        raise ConfigurationError(
            "no --scope, no --tool and no --all-read-only: nothing is granted", "name what is meant"
        )
    if wanted.config is None and wanted.url is None:
        if wanted.tool or wanted.all_read_only:
            raise ConfigurationError(
                "which scopes tools need is not known here", "say where to look: --config FILE or --url URL"
            )
        slips = dict(_slips(wanted.scope))
        unsure = [each for each in wanted.scope if each not in slips]
        notes = (*slips.values(), *_unknown_note(unsure), *_needs_note(constraints))
        return _Scopes(tuple(dict.fromkeys(wanted.scope)), notes)
    known = _look_up(wanted, ask=wanted.all_read_only)
    if not force:
        for scope in wanted.scope:
            _check_wanted(scope, known)
    read_only = _read_only(known) if wanted.all_read_only else _Scopes((), ())
    scopes = tuple(dict.fromkeys((*wanted.scope, *(_scope_of(tool, known) for tool in wanted.tool), *read_only.scopes)))
    notes = (*read_only.notes, *_note_extra_tools(wanted, scopes, known), *_missing_facts(scopes, constraints, known))
    return _Scopes(scopes, notes)


def _slips(scopes: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield each scope that looks like a misspelling of a scope known on this machine, with a warning. It is no error:
    the delegation may be for another gateway."""
    known = _known_scopes(os.environ)
    for scope in scopes:
        granted = {scope, *expand((scope,))}
        if scope.startswith(IDENTITY) or scope in CANONICAL_SCOPES or not granted.isdisjoint(known):
            continue
        for near in get_close_matches(scope, sorted(known), n=1, cutoff=_NEAR):
            meant = f"did you mean {near}, as in {known[near]}?"
            yield scope, f"{SLIP.format(scope)}: {meant} Then sign it again, with --scope {near} --force"


def _known_scopes(environ: Mapping[str, str]) -> dict[str, Path]:
    """Return the scopes in configurations and delegations, each with the file that has it: the configuration in the
    current folder, the person's own, and the agents' delegations. What can't be read is left out."""
    files, known = [Path(DEFAULT_FILE)], dict[str, Path]()
    with suppress(ConfigurationError):
        files = [*map(Path, known_files(environ)[-MAX_SEARCHED_FILES:]), *files]
    with suppress(ConfigurationError):
        for file in (each / DELEGATION for each in agent_folders(config_folder(environ))):
            with suppress(ConfigurationError):
                known |= dict.fromkeys((scope for cert in read_delegations(file) for scope in cert.scope), file)
    for file in filter(os.path.lexists, files):
        with suppress(ConfigurationError):
            found = _look_up(ScopeSelection(config=file), ask=False)
            known |= dict.fromkeys((each for _, entry in _entries(found.catalog) for each in entry.scopes), file)
    return known


def _unknown_note(scopes: Iterable[str]) -> Iterator[str]:
    """If no catalog was looked at, yield a note on the scopes that only a catalog defines."""
    unknown = ", ".join(sorted(catalog_scopes(scopes)))
    if unknown:
        yield f"note: it was not checked whether a gateway knows {unknown}: name one with --config FILE or --url URL"


def _look_up(place: ScopeSelection, *, ask: bool) -> _Known:
    if place.url is not None:
        check_url(place.url)
        url = endpoint_of(place.url, place.server)
        offer, _ = ask_upstream(add_headers(HttpUpstream(url), place.reach), seconds=place.reach.timeout)
        tools = {tool.name: Entry(scope=scope) for tool in offer.tools if (scope := advertised_scope(tool))}
        return _Known(f"the list at {urlsplit(place.url).netloc}", Catalog(tools=tools), offer.tools, has_facts=False)
    loaded = load(place.config, os.environ, {})
    if place.server is not None:
        loaded = view(loaded, place.server)
    several = bool(loaded.config.servers.by_name)
    if several and ask and place.reach.all_headers:
        raise ConfigurationError("--header and --token-env are for one server", "name it with --server")
    name, known = str(place.config), dict[str, _Known]()
    for each in every_view(loaded):
        if each.api is not None:
            known[each.server] = _Known(name, api_catalog(each.api), (), has_facts=True, server=each.server)
            continue
        listed = ask_configured(each, place.reach).tools if ask else ()
        known[each.server] = _Known(name, build_catalog(each.config), listed, has_facts=True, server=each.server)
    return _merge_known(known, name) if several else next(iter(known.values()))


def _merge_known(known: Mapping[str, _Known], name: str) -> _Known:
    """Merge the catalogs of several servers ([several-servers])."""
    tools = {
        merged_name(server, tool): entry for server, each in known.items() for tool, entry in each.catalog.tools.items()
    }
    listed = [
        tool.model_copy(update={"name": merged_name(server, tool.name)})
        for server, each in known.items()
        for tool in each.listed
    ]
    by_server = {server: each.catalog for server, each in known.items()}
    return _Known(name, MergedCatalog(tools=tools, by_server=by_server), listed, has_facts=True)


def _scope_of(tool: str, known: _Known) -> str:
    entry = known.catalog.tool(tool)
    if entry is not None:
        return entry.scope
    near = get_close_matches(tool, known.catalog.tools, n=1)
    hint = f"is {near[0]} meant? " if near else ""
    add = "`accredit check --fix` adds what the server has" if known.has_facts else "its catalog may lack it"
    raise ConfigurationError(f"--tool {tool}: {known.name} has no scope for it", f"{hint}{add}")


def _check_wanted(scope: str, known: _Known) -> None:
    granted = {scope, *expand((scope,))}
    if scope.startswith(IDENTITY) or any(not granted.isdisjoint(entry.scopes) for _, entry in _entries(known.catalog)):
        return
    named = sorted({scope for _, entry in _entries(known.catalog) for scope in entry.scopes})
    near = get_close_matches(scope, named, n=1)
    hint = f"did you mean --scope {near[0]}? or " if near else ""
    raise ConfigurationError(
        f"not signed: nothing in {known.name} asks for {scope}",
        f"{hint}name a tool with --tool; if it is for another gateway, say --force",
    )


def _entries(catalog: Catalog) -> Iterable[tuple[str, Entry]]:
    """Yield every entry with its tool; the tool is "" for entries that are not about one tool."""
    if isinstance(catalog, MergedCatalog):
        for each in catalog.by_server.values():
            yield from _entries(each)
        return
    yield from catalog.tools.items()
    yield from (("", each) for each in catalog.routes.values())
    others = (catalog.default_tool, catalog.resource, catalog.prompt, *catalog.resource_prefixes.values())
    yield from (("", each) for each in others if each is not None)


def _read_only(known: _Known) -> _Scopes:
    """Return the scopes of read-only tools ([read-only]). Raises `ConfigurationError` if there are none."""
    read_only = {tool.name for tool in known.listed if _only_reads(tool)}
    scopes = list(dict.fromkeys(entry.scope for name in sorted(read_only) if (entry := known.catalog.tool(name))))
    alone: list[str] = []
    notes: list[str] = []
    for scope in scopes:
        more = sorted(name for name in _tools_under(scope, known) if name not in read_only)
        if more:
            notes.append(f"note: {scope} is left out: it lets the agent use more than reads: {', '.join(more)}")
        else:
            alone.append(scope)
    if not alone:
        raise NothingReadOnly(
            f"not signed: no tool of {known.name} says that it only reads, under a scope of such tools alone",
            "name what is meant with --tool",
        )
    return _Scopes(tuple(alone), tuple(notes))


def _only_reads(tool: Tool) -> bool:
    hints = tool.annotations
    return hints is not None and hints.read_only_hint is True and hints.destructive_hint is not True


def _tools_under(scope: str, known: _Known) -> set[str]:
    """Return the known tools that a scope allows."""
    granted = {scope, *expand((scope,))}
    names = {*known.catalog.tools, *(tool.name for tool in known.listed)}
    return {name for name in names if (entry := known.catalog.tool(name)) is not None and entry.allows(granted)}


def _note_extra_tools(wanted: ScopeSelection, scopes: Iterable[str], known: _Known) -> Iterator[str]:
    """Yield notes on tools that the scopes allow although they were not asked for."""
    read_only = {tool.name for tool in known.listed if wanted.all_read_only and _only_reads(tool)}
    for scope in scopes:
        more = sorted(_tools_under(scope, known) - {*wanted.tool} - read_only)
        if more and scope not in wanted.scope:
            yield f"note: {scope} lets the agent use {', '.join(more)} as well"


def _needed_facts(constraints: Iterable[Constraint]) -> dict[str, str]:
    """Return the facts that constraints need, each with the type of a constraint that needs it."""
    return {fact: each.type for each in constraints for fact in facts_needed(each)}


def _needs_note(constraints: Iterable[Constraint]) -> tuple[str, ...]:
    needed = _needed_facts(constraints)
    if not needed:
        return ()
    return (f"note: {_why(needed)}: its [tools.NAME] has to say {_table(needed)}; with --config FILE that is checked",)


def _missing_facts(scopes: Sequence[str], constraints: Sequence[Constraint], known: _Known) -> Iterator[str]:
    """Yield warnings about tools whose every call a constraint would refuse ([constraint-facts])."""
    if not known.has_facts:
        yield from _needs_note(constraints)
        return
    needed = _needed_facts(constraints)
    for name in sorted({name for scope in scopes for name in _tools_under(scope, known)}):
        entry = known.catalog.tool(name)
        missing = {fact: kind for fact, kind in needed.items() if entry is None or fact not in entry.facts.sources}
        if missing:
            yield f"warning: every call of {name} will be refused: {_why(missing)}"
            yield f"  add to [{_table_of(name, known)}] in {known.name}: {_table(missing)}"


def _table_of(tool: str, known: _Known) -> str:
    """Return the header of a tool's table in the configuration."""
    merged = member_of_name(tool) if isinstance(known.catalog, MergedCatalog) else None
    server, own = merged if merged is not None else (known.server, tool)
    return f"{f'servers.{server}.' if server else ''}tools.{key(own)}"


def _why(needed: Mapping[str, str]) -> str:
    kinds = ", ".join(dict.fromkeys(needed.values()))
    return f"{kinds} counts where the gateway knows the {' and '.join(needed)} of a call"


def _table(needed: Iterable[str]) -> str:
    return f"{facts_table(tuple(needed))} (each the JSON Pointer of an argument, or a constant)"

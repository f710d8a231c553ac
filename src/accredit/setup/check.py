"""Implements `accredit check`: compares a server's tools with a catalog, or checks what they advertise.

A tool passes if a call to it can be allowed, and if everybody who reads the list of tools sees the same scope:

- with a catalog, the tool has an entry (or the default), and advertises that entry's scope or none;
- without a catalog, it advertises a scope that can be requested and granted.

A definition that differs from the lock's pin is a finding, and so is a catalog entry without a tool. Notes name tools
that only some clients see, arguments that the catalog could use for constraints but doesn't, and gateways that don't
refuse any call. Not checked: whether a scope suits what the tool does.
"""

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Literal, NamedTuple

import click
from mcp.types import Tool

from accredit.asking.listing import ServerListing
from accredit.asking.reaching import Reach, upstream_of
from accredit.asking.server import ask_each, ask_object, ask_upstream
from accredit.base.standard import STDIN
from accredit.base.terminal import two_lines
from accredit.config.load import Loaded, load
from accredit.config.pins import read_pinned, stale_pins
from accredit.config.proofs import build_catalog
from accredit.config.servers import view, views
from accredit.errors import ConfigurationError
from accredit.pins.compare import Change, changes
from accredit.pins.definitions import Definitions
from accredit.pins.lock import LOCK_FILE
from accredit.policy.catalog import Catalog
from accredit.policy.constraint_words import facts_table
from accredit.policy.drill import DRILLS
from accredit.policy.facts import CONTEXT_NAMES
from accredit.setup.check_documents import check_document
from accredit.setup.check_fix import add_tables
from accredit.setup.documents import named_document
from accredit.signing.suggest_scopes import advertised_scope, fault_of
from accredit.signing.vocabulary import scope_slips
from accredit.terminal.output import print_result, say

_OBSERVED = "note: proofs are only observed: the gateway refuses no call for want of authority"


class Finding(NamedTuple):
    """A problem with a tool. `scope` is what the catalog says, `advertised` what the server says. `expected` is the
    digest of the pinned definition, `found` that of the server's. Each is None if there is none."""

    problem: Literal[
        "no_scope",
        "invalid_scope",
        "other_scope",
        "reserved_name",
        "no_such_tool",
        "definition_changed",
        "new_definition",
        "missing_definition",
    ]
    tool: str
    scope: str | None
    advertised: str | None
    text: str
    expected: str | None = None
    found: str | None = None


_PYTHON = re.compile(r"[^\W\d][\w.]*:[^\W\d][\w.]*")
_NAME = re.compile(r"[a-z0-9-]+")


def run_check(
    *,
    target: str | None,
    command: list[str] | None,
    config: Path | None,
    fix: bool,
    openapi: Path | str | None,
    agent_card: Path | str | None,
    reach: Reach,
) -> int:
    """Run `accredit check`; return the exit code. Raises `ConfigurationError`."""
    if fix and config == STDIN:
        raise ConfigurationError("--fix can't write to stdin", "name the file that it has to change")
    name = target if command is None and target is not None and _NAME.fullmatch(target) else None
    document = named_document(openapi, agent_card)
    if document is not None:
        if (target is not None and name is None) or command is not None or reach.all_headers:
            raise ConfigurationError(
                f"{document.option} is compared with tables of a configuration, and no server is asked",
                "name one of [servers], or nothing, and no headers",
            )
        return check_document(config, name, document, fix=fix, timeout=reach.timeout)
    if name is not None or (target is None and command is None):
        return check_configured(load(config, os.environ, {}), name, reach, fix=fix)
    if config is not None:
        raise ConfigurationError(
            "--config and a server are given", "name one: a configuration has its own, in [upstream] or [servers]"
        )
    if fix:
        raise ConfigurationError("--fix has no configuration to write to", "name one with --config, without a server")
    if target is not None and command is None and _PYTHON.fullmatch(target):
        return check_offer(ask_object(target), None)
    offer, _ = ask_upstream(upstream_of(target, command, reach), seconds=reach.timeout)
    return check_offer(offer, None)


def check_configured(loaded: Loaded, name: str | None, reach: Reach, *, fix: bool) -> int:
    """Check a configuration's servers, or only the server `name`. Print the findings and return the exit code. If
    `fix`, missing tables are written first. Raises `ConfigurationError`.

    If one of several servers can't be asked, that is reported and the others are still checked.
    """
    servers = views(loaded) if name is None else [view(loaded, name)]
    several = name is None and bool(loaded.config.servers.by_name)
    if several and reach.all_headers:
        raise ConfigurationError(
            "--header and --token-env are for one server, and [servers] names several",
            f"name it: accredit check NAME, of {', '.join(loaded.config.servers.by_name)}",
        )
    stale = sorted(stale_pins(loaded)) if name is None else []
    notes = [f"note: {each} of {LOCK_FILE} is no server: accredit pin {each} --yes takes it out" for each in stale]
    offers, silent = _ask_servers(servers, reach, several=several)
    if fix:
        loaded = add_tables(loaded, offers)
    now = {each.server: each for each in views(loaded)}
    checked = {
        each: _check_offer(offer, build_catalog(now[each].config), read_pinned(now[each]))
        for each, offer in offers.items()
    }
    observes = loaded.config.proofs.mode == "observe"
    if not several:
        only = next(iter(checked.values()))
        members = only.members | ({"stale_pins": stale} if stale else {})
        only = only._replace(members=members, lines=[*only.lines, *notes])
        return _print_result(_mark_observed(only) if observes else only)
    good = not silent and all(found.ok for found in checked.values())
    told = {each: {"ok": False, "error": error.what} for each, error in silent.items()}
    more: dict[str, object] = {"proofs": "observe"} if observes else {}
    more |= {"stale_pins": stale} if stale else {}
    print_result({"ok": good, **more, "servers": {**{each: found.members for each, found in checked.items()}, **told}})
    for each, found in checked.items():
        for line in found.lines:
            say(f"{each}: {line}")
    for note in (*notes, *([_OBSERVED] if observes else [])):
        say(note)
    for error in silent.values():
        click.echo(two_lines(error.what, error.remedy), err=True)
    return 0 if good else 2 if silent else 1


def check_offer(offer: ServerListing, catalog: Catalog | None, pinned: Definitions | None = None) -> int:
    """Print how a server's tools differ from a catalog and from pins; return the exit code."""
    return _print_result(_check_offer(offer, catalog, pinned))


def _ask_servers(
    servers: Iterable[Loaded], reach: Reach, *, several: bool
) -> tuple[dict[str, ServerListing], dict[str, ConfigurationError]]:
    """Return each server's offer by name; if there are several, also the errors of those that didn't answer."""
    offers: dict[str, ServerListing] = {}
    silent: dict[str, ConfigurationError] = {}
    for name, asked in ask_each(servers, reach).items():
        if isinstance(asked, ServerListing):
            offers[name] = asked
        elif several:
            silent[name] = asked
        else:
            raise asked
    return offers, silent


def _print_result(checked: "_Checked") -> int:
    print_result(checked.members)
    for line in checked.lines:
        say(line)
    return 0 if checked.ok else 1


class _Checked(NamedTuple):
    """The result for one server: as members of a JSON object, and as lines for people."""

    ok: bool
    members: dict[str, object]
    lines: list[str]


def _mark_observed(checked: _Checked) -> _Checked:
    return checked._replace(members={**checked.members, "proofs": "observe"}, lines=[*checked.lines, _OBSERVED])


def _check_offer(offer: ServerListing, catalog: Catalog | None, pinned: Definitions | None) -> _Checked:
    findings = list(_with(catalog, offer.tools) if catalog is not None else _alone(offer.tools))
    different = changes(pinned, offer.definitions) if pinned is not None and offer.definitions is not None else []
    findings += _pin_findings(different)
    instructions = [change for change in different if change.problem == "instructions_changed"]
    some = sorted(offer.only_some)
    members: dict[str, object] = {
        "ok": not findings,
        "tools": len(offer.tools),
        "findings": [finding._asdict() for finding in findings],
        "only_some": some,
        **({"instructions_changed": bool(instructions)} if pinned is not None else {}),
    }
    lines = [finding.text for finding in findings]
    if not findings:
        lines.append(f"ok: {len(offer.tools)} tools, each with a scope")
    if some:
        lines.append(f"note: only some clients see these tools, by what they can do: {', '.join(some)}")
    lines += [f"note: {change.text}" for change in instructions]
    if different:
        lines.append("note: accredit pin shows what is different from accredit.lock")
    if catalog is not None:
        slips = scope_slips({tool: entry.scope for tool, entry in catalog.tools.items()})
        lines += [*_unsaid_facts(catalog, offer.tools), *(f"note: {slip}" for slip in slips)]
    return _Checked(not findings, members, lines)


def _pin_findings(different: Iterable[Change]) -> Iterable[Finding]:
    for each in different:
        if each.problem != "instructions_changed":
            text = "; ".join([each.text, *each.notes])
            yield Finding(each.problem, each.tool, None, None, text, each.expected, each.found)


def _unsaid_facts(catalog: Catalog, tools: Iterable[Tool]) -> Iterable[str]:
    """Yield notes on arguments that have a name like a fact's, but that the catalog does not declare as facts."""
    for tool in tools:
        entry, properties = catalog.tools.get(tool.name), tool.input_schema.get("properties")
        if entry is None or not isinstance(properties, dict):
            continue
        missing = [fact for fact in CONTEXT_NAMES if fact in properties and fact not in entry.facts.sources]
        if missing:
            what = " and ".join(missing)
            yield f"note: {tool.name}: a constraint on its {what} would refuse every call, until its table says"
            yield f"  {facts_table(missing)}"


def _with(catalog: Catalog, tools: Iterable[Tool]) -> Iterable[Finding]:
    names: set[str] = set()
    for tool in tools:
        names.add(tool.name)
        entry, advertised = catalog.tool(tool.name), advertised_scope(tool)
        if tool.name in DRILLS:
            text = f"{tool.name}: a tool of the gateway's own is called so: nobody is shown this one, or can call it"
            yield Finding("reserved_name", tool.name, None, advertised, text)
        elif entry is None:
            yield Finding(
                "no_scope",
                tool.name,
                None,
                advertised,
                f"{tool.name}: the catalog has no scope for it: accredit check --fix writes one",
            )
        elif (fault := fault_of(entry.scope)) is not None:
            text = f"{tool.name}: the catalog's scope {entry.scope} {fault}"
            yield Finding("invalid_scope", tool.name, entry.scope, advertised, text)
        elif advertised is not None and advertised != entry.scope:
            text = f"{tool.name}: the server says that it needs {advertised}, and the catalog {entry.scope}"
            yield Finding("other_scope", tool.name, entry.scope, advertised, text)
    for name in sorted(catalog.tools.keys() - names):
        scope = catalog.tools[name].scope
        yield Finding("no_such_tool", name, scope, None, f"{name}: in the catalog, and the server has no such tool")


def _alone(tools: Iterable[Tool]) -> Iterable[Finding]:
    for tool in tools:
        advertised = advertised_scope(tool)
        if advertised is None:
            yield Finding("no_scope", tool.name, None, None, f"{tool.name}: it does not say which scope it needs")
        elif (fault := fault_of(advertised)) is not None:
            text = f"{tool.name}: the scope that it asks for, {advertised}, {fault}"
            yield Finding("invalid_scope", tool.name, None, advertised, text)

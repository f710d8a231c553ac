"""Implements `accredit check NAME` with `--openapi` or `--agent-card`: compares an API's routes, or an agent's skills,
with its document.

A finding is

- an operation without a route. It is refused; or its requests count as another route (`GET /a/{x}` for `GET /a/b`), and
  need that one's scope, which is worse;
- a route without an operation: there is none any more, or its path has other methods now;
- a skill of the card without a table: messages that name it are refused; or a table without a skill;
- a URL of an agent that the card does not name.

A note is an operation that no table of routes can take, or a skill that can have no table. Scopes are not compared:
the operator decides which one each needs. `--fix` appends tables for routes and skills that have none, and changes
nothing else.
"""

import os
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple
from urllib.parse import urlsplit

from accredit.a2a.shapes import Card
from accredit.a2a.skills import ProposedSkills, agent_url, propose_skills
from accredit.base.standard import STDIN
from accredit.base.text import one_line
from accredit.base.toml import append_text
from accredit.config.apis import api_catalog
from accredit.config.load import Loaded, load
from accredit.config.schema import Server
from accredit.config.servers import every_view
from accredit.errors import ConfigurationError
from accredit.http_api.openapi import ApiDocument
from accredit.http_api.proposals import Proposals, propose
from accredit.http_api.routes import read_route
from accredit.policy.catalog import Entry
from accredit.setup.check_fix import replace_checked, table_meaning
from accredit.setup.config_text import Agent, Api, more_tables
from accredit.setup.documents import Document, read_agent_card, read_openapi
from accredit.terminal.output import print_result, say, tell

_Routes = dict[str, Entry]


class ApiFinding(NamedTuple):
    """A difference between the routes and the document. `counts_as` are the other routes that match the operation's
    requests."""

    problem: Literal["no_route", "no_operation"]
    route: str
    text: str
    counts_as: list[str]


class AgentFinding(NamedTuple):
    """A difference between an agent's tables and its card. `skill` is "" if it is about the URL."""

    problem: Literal["no_table", "no_skill", "other_url"]
    skill: str
    text: str


def check_document(
    config: Path | None,
    name: str | None,
    document: Document,
    *,
    fix: bool,
    timeout: float | None,
) -> int:
    """Compare an API's routes or an agent's skills with a document, print the findings, and return the exit code. If
    `fix`, missing tables are written first. Raises `ConfigurationError`."""
    if config == STDIN == document.where:
        raise ConfigurationError("stdin can't be the configuration and the document", "name a file for one of them")
    loaded = load(config, os.environ, {})
    if document.option == "--openapi":
        return _check_api(loaded, name, read_openapi(document.where, timeout), fix=fix)
    return _check_agent(loaded, name, read_agent_card(document.where, timeout), fix=fix)


def _check_api(loaded: Loaded, name: str | None, document: ApiDocument, *, fix: bool) -> int:
    name, routes = _routes(loaded, name)
    found = _compare(loaded, name, document, routes)
    if fix and found.routes:
        proxy = loaded.config.servers.by_name[name].proxy
        tables = {each.route.text: table_meaning(each.scope, each.sensitive) for each in found.routes}
        _add(loaded, Api(name, "", "", proxy, {}, found._replace(left_out=[])), "routes", tables)
        name, routes = _routes(load(loaded.file, os.environ, {}), name)
        found = _compare(loaded, name, document, routes)
    findings = [*_without_route(found), *_without_operation(found, routes)]
    findings.sort(key=lambda each: each.route.split(" ")[::-1])
    notes = [(one.route.text, why) for one, why in found.left_out if one.route.text not in found.counted]
    number = len(document.operations)
    left_out = [{"route": route, "why": why} for route, why in notes]
    _print_result(name, {"operations": number}, findings, left_out)
    good = f"{name} has a route for each of {number - len(notes)} operations, and no other"
    return _say(findings, good, [f"{route}: it has no route, as {why}" for route, why in notes])


def _check_agent(loaded: Loaded, name: str | None, card: Card, *, fix: bool) -> int:
    name, agent = _agent(loaded, name)
    found = _compare_skills(name, card, agent)
    if fix and found.skills:
        tables = {each.skill.id: table_meaning(each.scope, each.sensitive) for each in found.skills}
        _add(loaded, Agent(name, "", "", "", {}, found._replace(left_out=[])), "skills", tables)
        name, agent = _agent(load(loaded.file, os.environ, {}), name)
        found = _compare_skills(name, card, agent)
    findings = [*_other_url(card, agent), *_without_table(found), *_without_skill(found)]
    number = len(card.skills or [])
    left_out = [{"skill": skill, "why": why} for skill, why in found.left_out]
    _print_result(name, {"skills": number}, findings, left_out)
    good = f"{name} has a table for each of {number - len(found.left_out)} skills, and no other"
    return _say(findings, good, [f"{skill}: it has no table, as {why}" for skill, why in found.left_out])


def _print_result(
    name: str,
    number: Mapping[str, int],
    findings: Sequence[ApiFinding | AgentFinding],
    left_out: Sequence[Mapping[str, str]],
) -> None:
    told = [each._asdict() for each in findings]
    print_result({"ok": not findings, "server": name, **number, "findings": told, "left_out": left_out})


def _say(findings: Sequence[ApiFinding | AgentFinding], good: str, notes: Iterable[str]) -> int:
    for each in findings:
        say(one_line(each.text))
    if not findings:
        say(f"ok: {good}")
    for note in notes:
        say(one_line(f"note: {note}"))
    return 1 if findings else 0


def _agent(loaded: Loaded, name: str | None) -> tuple[str, Server]:
    agents = {each.server: each.api for each in every_view(loaded) if each.api and each.api.protocol == "a2a"}
    return _choose(agents, name, "agent", "--agent-card")


def _compare_skills(name: str, card: Card, agent: Server) -> ProposedSkills:
    there = agent.skills.by_id
    return propose_skills(card, name, there, {agent.scope, *(each.scope for each in there.values())})


def _other_url(card: Card, agent: Server) -> Iterator[AgentFinding]:
    at = agent_url(card)
    if at is None:
        yield AgentFinding("other_url", "", "the card names no JSON-RPC interface of A2A 1.0")
    elif at.rstrip("/") not in {(each or "").rstrip("/") for each in (agent.url, agent.public_url)}:
        yield AgentFinding("other_url", "", f"the card says that the agent is at {at}: correct its url if that is so")


def _without_table(found: ProposedSkills) -> Iterator[AgentFinding]:
    for each in found.skills:
        skill = each.skill.id
        then = "messages that name it are refused: accredit check --fix writes one"
        yield AgentFinding("no_table", skill, f"{skill}: it has no table, and {then}")


def _without_skill(found: ProposedSkills) -> Iterator[AgentFinding]:
    for skill in found.gone:
        yield AgentFinding("no_skill", skill, f"{skill}: the card has no such skill: take its table out if that is so")


def _routes(loaded: Loaded, name: str | None) -> tuple[str, _Routes]:
    apis = {each.server: each.api for each in every_view(loaded) if each.api and each.api.protocol != "a2a"}
    name, api = _choose(apis, name, "HTTP API", "--openapi")
    return name, {**api_catalog(api).routes}


def _choose(found: Mapping[str, Server], name: str | None, kind: str, option: str) -> tuple[str, Server]:
    named = name if name is not None else next(iter(found), "") if len(found) == 1 else ""
    if named not in found:
        known = ", ".join(found)
        what = f"no {kind} is called {name!a}" if name is not None else f"{option} is for one {kind}"
        raise ConfigurationError(
            what, f"name one of {known}" if known else f"`accredit add NAME {option} DOCUMENT` adds one"
        )
    return named, found[named]


def _compare(loaded: Loaded, name: str, document: ApiDocument, routes: _Routes) -> Proposals:
    at_proxy = loaded.config.servers.by_name[name].protocol == "authorize"
    there = {text: (entry.scope, entry.sensitive) for text, entry in routes.items()}
    return propose(document.operations, name, _prefix(document, routes) if at_proxy else "", there)


def _prefix(document: ApiDocument, routes: Iterable[str]) -> str:
    """Return the prefix that most routes put before the document's paths. If no route has such a path, return the path
    of the document's server."""
    paths = {f"{each.method} {each.path}" for each in document.operations}
    found: Counter[str] = Counter()
    for route in routes:
        method, _, path = route.partition(" ")
        starts = [at for at, char in enumerate(path) if char == "/"]
        found.update(path[:at] for at in starts if f"{method} {path[at:]}" in paths)
    most = found.most_common(1)
    return most[0][0] if most else urlsplit(document.server).path.rstrip("/")


def _without_route(found: Proposals) -> Iterator[ApiFinding]:
    why = {one.route.text: reason for one, reason in found.left_out}
    for one in (*found.routes, *(left for left, _ in found.left_out)):
        text = one.route.text
        counts_as = found.counted.get(text, [])
        if text in why and not counts_as:
            continue
        then = f"its requests count as {', '.join(counts_as)}" if counts_as else "it is refused"
        remedy = f"it can have none, as {why[text]}" if text in why else "accredit check --fix writes one"
        yield ApiFinding("no_route", text, f"{text}: it has no route, and {then}: {remedy}", counts_as)


def _without_operation(found: Proposals, routes: _Routes) -> Iterator[ApiFinding]:
    methods: dict[object, list[str]] = {}
    for one in (*found.routes, *(left for left, _ in found.left_out)):
        methods.setdefault(one.route.segments, []).append(one.route.method)
    for text in found.same:
        methods.setdefault(read_route(text).segments, []).append(text.partition(" ")[0])
    for text in routes:
        if text not in found.same:
            others = methods.get(read_route(text).segments)
            there = f", which has {', '.join(sorted(others))} there" if others else ""
            yield ApiFinding("no_operation", text, f"{text}: no operation of the document{there}", [])


def _add(loaded: Loaded, found: Api | Agent, kind: Literal["routes", "skills"], tables: Mapping[str, Any]) -> None:
    """Append the proposed tables. Raises `ConfigurationError`."""
    expected: dict[str, Any] = tomllib.loads(loaded.content.decode())
    expected["servers"][found.name].setdefault(kind, {}).update(tables)
    remedy = f'write [servers.{found.name}.{kind}."..."] tables in place of one value'
    replace_checked(loaded, append_text(loaded.content, more_tables(found)), expected, (f"its {kind}", remedy))
    tell(f"wrote {loaded.file}: {len(tables)} {kind} of {found.name}. Read them before you go on.")

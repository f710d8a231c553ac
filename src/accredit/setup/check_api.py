"""Implements `accredit check NAME --openapi DOCUMENT`: compares the routes of an HTTP API with an OpenAPI document.

A finding is

- an operation without a route. It is refused; or its requests count as another route (`GET /a/{x}` for `GET /a/b`), and
  need that one's scope, which is worse;
- a route without an operation: there is none any more, or its path has other methods now.

A note is an operation that no table of routes can take. Scopes are not compared: what each route needs is the
operator's to say. `--fix` appends routes for operations that have none, and changes nothing else.
"""

import os
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple
from urllib.parse import urlsplit

from accredit.base.standard import STDIN
from accredit.base.text import one_line
from accredit.config import Loaded, load
from accredit.config.apis import api_catalog
from accredit.config.servers import every_view
from accredit.errors import ConfigurationError
from accredit.http_api.openapi import ApiDocument
from accredit.http_api.proposals import Proposals, propose
from accredit.http_api.routes import read_route
from accredit.keys import replace_file
from accredit.policy import Entry
from accredit.setup.check_fix import append_text
from accredit.setup.config_text import more_routes
from accredit.setup.openapi import read_openapi
from accredit.terminal.output import print_json, say, tell

_Routes = dict[str, Entry]


class ApiFinding(NamedTuple):
    """A difference between the routes and the document. `counts_as` are the routes as which an operation's requests
    count."""

    problem: Literal["no_route", "no_operation"]
    route: str
    text: str
    counts_as: list[str]


def check_api(
    config: Path | None,
    name: str | None,
    openapi: Path | str,
    *,
    fix: bool,
    timeout: float | None,
    as_json: bool,
) -> int:
    """Compare an API's routes with a document, print the findings, and return the exit code. If `fix`, missing routes
    are written first. Raises `ConfigurationError`."""
    if config == STDIN == openapi:
        raise ConfigurationError("stdin can't be the configuration and the document", "name a file for one of them")
    loaded = load(config, os.environ, {})
    name, routes = _routes(loaded, name)
    document = read_openapi(openapi, timeout)
    found = _compare(loaded, name, document, routes)
    if fix and found.routes:
        _add_routes(loaded, name, found)
        name, routes = _routes(load(loaded.file, os.environ, {}), name)
        found = _compare(loaded, name, document, routes)
    findings = [*_without_route(found), *_without_operation(found, routes)]
    findings.sort(key=lambda each: each.route.split(" ")[::-1])
    notes = [(one.route.text, why) for one, why in found.left_out if one.route.text not in found.counted]
    if as_json:
        print_json(
            {
                "ok": not findings,
                "server": name,
                "operations": len(document.operations),
                "findings": [each._asdict() for each in findings],
                "left_out": [{"route": route, "why": why} for route, why in notes],
            }
        )
        return 1 if findings else 0
    for each in findings:
        say(one_line(each.text))
    if not findings:
        say(f"ok: {name} has a route for each of {len(document.operations) - len(notes)} operations, and no other")
    for route, why in notes:
        say(one_line(f"note: {route}: it has no route, as {why}"))
    return 1 if findings else 0


def _routes(loaded: Loaded, name: str | None) -> tuple[str, _Routes]:
    apis = {each.server: each.api for each in every_view(loaded) if each.api is not None}
    named = name if name is not None else next(iter(apis), "") if len(apis) == 1 else ""
    if named not in apis:
        known = ", ".join(apis)
        what = f"no HTTP API is called {name!a}" if name is not None else "--openapi is for one HTTP API"
        raise ConfigurationError(
            what, f"name one of {known}" if known else "`accredit add NAME --openapi DOCUMENT` adds one"
        )
    return named, {**api_catalog(apis[named]).routes}


def _compare(loaded: Loaded, name: str, document: ApiDocument, routes: _Routes) -> Proposals:
    at_proxy = loaded.config.servers.by_name[name].protocol == "authorize"
    there = {text: (entry.scope, entry.sensitive) for text, entry in routes.items()}
    return propose(document.operations, name, _prefix(document, routes) if at_proxy else "", there)


def _prefix(document: ApiDocument, routes: Iterable[str]) -> str:
    """Return what precedes the document's paths in most routes; else the path of the document's server."""
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


def _add_routes(loaded: Loaded, name: str, found: Proposals) -> None:
    """Append the proposed routes. Raises `ConfigurationError`."""
    if loaded.file is None:
        raise ConfigurationError("--fix has no configuration to write to", "name one with --config")
    content = append_text(loaded.content, more_routes(name, found))
    expected: dict[str, Any] = tomllib.loads(loaded.content.decode())
    expected["servers"][name]["routes"] |= {
        each.route.text: {"scope": each.scope, **({"sensitive": True} if each.sensitive else {})}
        for each in found.routes
    }
    try:
        same = tomllib.loads(content.decode()) == expected
    except tomllib.TOMLDecodeError:
        same = False
    if not same:
        raise ConfigurationError(
            f"{loaded.file} has its routes in a form that --fix can't add to",
            f'write [servers.{name}.routes."METHOD /path"] tables in place of one value',
        )
    replace_file(loaded.file, content, old=loaded.content)
    tell(f"wrote {loaded.file}: {len(found.routes)} routes of {name}. Read them before you go on.")

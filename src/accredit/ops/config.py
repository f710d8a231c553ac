"""Implements `accredit config check`, `show` and `schema`."""

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeVar, cast

import click

from accredit.app.assemble import assemble
from accredit.asking.reaching import values_of
from accredit.base.terminal import two_lines
from accredit.config.attest import build_records, gateway_id, own_key_file
from accredit.config.build import build_all_settings
from accredit.config.conversion import json_schema
from accredit.config.listen import check_exposure, check_no_loop, tls_context
from accredit.config.load import Loaded, load
from accredit.config.monitoring import build_monitoring
from accredit.config.proofs import build_catalog, build_proofs, vocabulary_of
from accredit.config.schema import SECTIONS, Server
from accredit.config.servers import every_view
from accredit.config.show import SettingRow, list_settings
from accredit.config.store import build_rounds
from accredit.config.tokens import build_tokens
from accredit.errors import ConfigurationError
from accredit.ops.config_missing import all_faults, differing_tools
from accredit.refusals import oauth_hosts
from accredit.signing.vocabulary import scope_slips
from accredit.terminal.output import print_json, print_result, say

_T = TypeVar("_T")


def check_configuration(*, config: Path | None) -> None:
    """Run `accredit config check`. Raises `ConfigurationError`."""

    loaded = load(config, os.environ, {})
    if loaded.file is None:
        raise ConfigurationError(
            "no configuration: there is no accredit.toml here", "name a file with --config or ACCREDIT_CONFIG"
        )
    parts = _check_everything(loaded)  # only now something is printed: nothing that raises comes after it
    scopes = {each.place("tools"): build_catalog(each.config).tools for each in every_view(loaded)}
    slips = [
        f"{place}.{slip}"
        for place, tools in scopes.items()
        for slip in scope_slips({tool: entry.scope for tool, entry in tools.items()})
    ]
    differences = [*slips, *differing_tools(loaded)]
    print_result({**parts, **({"notes": differences} if differences else {})})
    upstream = parts["upstream"]
    say(f"ok: {loaded.file} is valid")
    if "servers" in parts:
        for name, each in cast("dict[str, str]", parts["servers"]).items():
            say(f"ok: the server {name} is {_KINDS.get(each, 'a command')}")
    elif upstream is not None:
        say(f"ok: the upstream is a {'URL' if upstream == 'url' else 'command'}")
    else:
        say("ok: it names no upstream, so `accredit serve --config` needs a URL or a command")
    for name in ("tokens", "proofs", "records"):
        say(f"ok: {name} are {parts[name]}")
    if parts["signer"]:
        say("ok: attest.signer has signed a trial, and its public key verifies that")
    say(f"ok: TLS is {'on' if parts['tls'] else 'off'}")
    for note in (*_notes(parts, loaded), *differences):
        say(f"note: {note}")


_KINDS = {
    "url": "a URL",
    "http": "an HTTP API",
    "authorize": "an HTTP API that another proxy asks about",
    "a2a": "an agent",
}


def _kind(server: Server) -> str:
    if server.protocol != "mcp":
        return server.protocol
    return "url" if server.addresses else "command"


def _notes(parts: dict[str, object], loaded: Loaded) -> Iterator[str]:
    if parts["exposed"]:
        yield f"{parts['exposed']}; `accredit serve` needs --insecure"
    if parts["proofs"] == "required":
        yield oauth_hosts(loaded.config.oauth.open_at)
    if parts["proofs"] == "observe":
        yield "proofs are only observed: no call is refused for want of authority"
        if parts["records"] == "off":
            yield 'attest.mode is "off": nothing is recorded of what agents do'
    if parts["proofs"] != "off" and loaded.config.store.url == "memory:":
        what = "which proofs and certificates were used, so that what allows one call could allow a second one"
        yield f"store.url is memory:; a restart forgets {what}"


def _check_everything(loaded: Loaded) -> dict[str, object]:
    """Make all checks that `serve` makes before it starts, and return the findings. Raises `ConfigurationError` for the
    last fault (perhaps a missing file or variable), and prints all others."""

    config, exposed = loaded.config, None
    behind = config.upstream
    upstream = "url" if behind.addresses else "command" if behind.command else None
    servers = {name: _kind(each) for name, each in config.servers.by_name.items()}
    tls = _build_everything(loaded, has_upstream=bool(upstream or servers))
    try:
        check_exposure(config.gateway, config.admin)
    except ConfigurationError as error:
        exposed = error.what
    modes = {"tokens": config.tokens.mode, "proofs": config.proofs.mode, "records": config.attest.mode}
    signer = config.attest.mode != "off" and config.attest.signer is not None
    return {
        "ok": True,
        "file": str(loaded.file),
        "upstream": upstream,
        **({"servers": servers} if servers else {}),
        **modes,
        "signer": signer,
        "tls": tls,
        "exposed": exposed,
    }


def _build_everything(loaded: Loaded, *, has_upstream: bool) -> bool:
    """Build all parts of a gateway; return whether it has TLS. Raises `ConfigurationError` for the last fault, after
    printing the others."""
    faults: list[ConfigurationError] = []

    def attempt(build: Callable[[], _T]) -> _T | None:
        try:
            return build()
        except ConfigurationError as error:
            faults.append(error)
            return None

    built = attempt(lambda: build_all_settings(loaded, os.environ)) if has_upstream else None
    attempt(lambda: check_no_loop(loaded.config.gateway, built or ()))
    proofs = built[0].proofs if built else attempt(lambda: build_proofs(loaded, vocabulary=vocabulary_of(loaded)))
    for build in (build_records, build_rounds, partial(build_tokens, environ=os.environ)):
        attempt(partial(build, loaded))
    if not faults:
        attempt(lambda: assemble(loaded, proofs))
    attempt(lambda: build_monitoring(loaded))
    tls = attempt(lambda: tls_context(loaded.config.gateway))
    if faults:
        *others, last = all_faults(faults, loaded)
        for each in others:
            click.echo(two_lines(each.what, each.remedy), err=True)
        raise last
    return tls is not None


def show_configuration(
    *,
    url: str | None,
    command: list[str] | None,
    config: Path | None,
    host: str | None,
    port: int | None,
) -> None:
    """Run `accredit config show`. Raises `ConfigurationError`."""

    loaded = load(config, os.environ, values_of(url, command, host, port))
    rows = [_fill_in_id(row, loaded) for row in list_settings(loaded)]
    tables: dict[str, dict[str, object]] = {}
    for row in rows:
        members = {"value": row.value, "origin": row.origin, "source": row.source}
        tables.setdefault(row.section, {})[row.key] = members
    print_result(tables)
    for row in rows:
        for key, value, origin in _lines(row):
            say(f"{key} = {json.dumps(value)}  # {origin}")


def _lines(row: SettingRow) -> Iterator[tuple[str, object, str]]:
    """Yield a row's name, value and origin. A row of a server is split into one line for each key and each catalog
    entry."""

    place, origin = f"{row.section}.{row.key}", f"{row.origin} {row.source}" if row.source else row.origin
    if row.section != "servers":
        yield place, row.value, origin
        return
    defaults = Server().members()
    for key, value in cast("dict[str, object]", row.value).items():
        here = "default" if value == defaults[key] else origin
        if key in SECTIONS:
            entries = cast("dict[str, object]", value).items()
            yield from ((f"{place}.{key}.{name}", entry, here) for name, entry in entries)
        else:
            yield f"{place}.{key}", value, here


def _fill_in_id(row: SettingRow, loaded: Loaded) -> SettingRow:
    """Fill in the gateway's id from its key, if it has a key: people need to see it, since proofs are made for that
    id."""

    key = own_key_file(loaded)
    if (row.section, row.key) != ("gateway", "id") or row.value is not None or key is None or not key.exists():
        return row
    try:
        return replace(row, value=gateway_id(loaded), source=str(key))
    except ConfigurationError:  # `config check` says what is wrong with the key
        return row


def print_schema() -> None:
    """Run `accredit config schema`."""

    dialect = "https://json-schema.org/draft/2020-12/schema"  # without it an editor has to guess
    print_json({"$schema": dialect, **json_schema()})

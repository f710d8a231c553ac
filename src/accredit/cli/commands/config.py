"""`accredit config check|show|schema`: examines the configuration without starting anything."""

# ruff: noqa: PLC0415 - the schema is loaded when it is asked for: `accredit --help` is quick without it

import json
import os
from dataclasses import replace
from typing import TYPE_CHECKING, cast

import typer

from accredit.cli.dashes import CommandAfterDashes, command_of
from accredit.cli.options import (
    CheckedConfigOption,
    ConfigOption,
    HostOption,
    JsonAnywayOption,
    JsonOption,
    PortOption,
    UrlArgument,
)
from accredit.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from accredit.config import Loaded, SettingRow

config_app = typer.Typer(help="Checks and prints the configuration.", epilog="Example:  accredit config show")


@config_app.command()
def check(config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Validates the configuration and the files that it names; starts nothing. attest.signer signs a trial.

    Example:

    accredit config check --config accredit.toml
    """
    from accredit.cli.actions.output import print_json, say
    from accredit.config import load

    loaded = load(config, os.environ, {})
    if loaded.file is None:
        raise ConfigurationError(
            "no configuration: there is no accredit.toml here", "name a file with --config or ACCREDIT_CONFIG"
        )
    parts = _check_everything(loaded)  # only now something is printed: nothing that raises comes after it
    if as_json:
        print_json(parts)
        return
    upstream = parts["upstream"]
    say(f"ok: {loaded.file} is valid")
    if "servers" in parts:
        for name, each in cast("dict[str, str]", parts["servers"]).items():
            say(f"ok: the server {name} is a {'URL' if each == 'url' else 'command'}")
    elif upstream is not None:
        typer.echo(f"ok: the upstream is a {'URL' if upstream == 'url' else 'command'}")
    else:
        typer.echo("ok: it names no upstream, so `accredit serve --config` needs a URL or a command")
    for name in ("tokens", "proofs", "records"):
        typer.echo(f"ok: {name} are {parts[name]}")
    if parts["signer"]:
        typer.echo("ok: attest.signer has signed a trial, and its public key verifies that")
    typer.echo(f"ok: TLS is {'on' if parts['tls'] else 'off'}")
    for note in _notes(parts, loaded):
        say(f"note: {note}")


def _notes(parts: dict[str, object], loaded: "Loaded") -> "Iterator[str]":
    if parts["exposed"]:
        yield f"{parts['exposed']}; `accredit serve` needs --insecure"
    if parts["proofs"] == "observe":
        yield "proofs are only observed: no call is refused for want of authority"
        if parts["records"] == "off":
            yield 'attest.mode is "off": nothing is recorded of what agents do'
    if parts["proofs"] != "off" and loaded.config.store.url == "memory:":
        what = "which proofs and certificates were used, so that what allows one call could allow a second one"
        yield f"store.url is memory:; a restart forgets {what}"


def _check_everything(loaded: "Loaded") -> dict[str, object]:
    """Check all that `serve` would check before it starts, and return the findings. Raises `ConfigurationError`."""
    from accredit.app import assemble
    from accredit.config import (
        build_all_settings,
        build_proofs,
        build_records,
        build_rounds,
        build_tokens,
        build_watching,
        check_exposure,
        tls_context,
    )

    config, exposed = loaded.config, None
    behind = config.upstream
    upstream = "url" if behind.url or behind.urls else "command" if behind.command else None
    servers = {name: "url" if each.url or each.urls else "command" for name, each in config.servers.by_name.items()}
    built = build_all_settings(loaded, os.environ) if upstream or servers else []
    proofs = built[0].proofs if built else build_proofs(loaded)
    build_records(loaded)
    build_tokens(loaded)
    build_rounds(loaded)
    assemble(loaded, proofs)
    build_watching(loaded)
    tls = tls_context(config.gateway) is not None
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


@config_app.command(cls=CommandAfterDashes)
def show(
    ctx: typer.Context,
    url: UrlArgument = None,
    config: CheckedConfigOption = None,
    host: HostOption = None,
    port: PortOption = None,
    as_json: JsonOption = False,
) -> None:
    """Prints the values that `accredit serve` would use with the same arguments, and their origin.

    Secrets are masked.

    Examples:

    accredit config show

    accredit config show --json --port 9000 -- python server.py
    """
    from accredit.cli.actions.output import print_json, say
    from accredit.cli.command_line import values_of
    from accredit.config import list_settings, load

    loaded = load(config, os.environ, values_of(url, command_of(ctx), host, port))
    rows = [_fill_in_id(row, loaded) for row in list_settings(loaded)]
    if as_json:
        tables: dict[str, dict[str, object]] = {}
        for row in rows:
            members = {"value": row.value, "origin": row.origin, "source": row.source}
            tables.setdefault(row.section, {})[row.key] = members
        print_json(tables)
        return
    for row in rows:
        for key, value, origin in _lines(row):
            say(f"{key} = {json.dumps(value)}  # {origin}")


def _lines(row: "SettingRow") -> "Iterator[tuple[str, object, str]]":
    """Yield a row's name, value and origin; for a server, one for each key and each catalog entry."""
    from accredit.config.schema import SECTIONS, Server

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


def _fill_in_id(row: "SettingRow", loaded: "Loaded") -> "SettingRow":
    """Fill in the gateway's id from its key, if it has one: proofs are made for that id."""
    from accredit.config import gateway_id, own_key_file

    key = own_key_file(loaded)
    if (row.section, row.key) != ("gateway", "id") or row.value is not None or key is None or not key.exists():
        return row
    try:
        return replace(row, value=gateway_id(loaded), source=str(key))
    except ConfigurationError:  # `config check` says what is wrong with the key
        return row


@config_app.command()
def schema(_json: JsonAnywayOption = False) -> None:
    """Prints the JSON Schema of accredit.toml, for editors and other tools.

    Example:

    accredit config schema > accredit.schema.json
    """
    from accredit.cli.actions.output import print_json
    from accredit.config import json_schema

    dialect = "https://json-schema.org/draft/2020-12/schema"  # without it an editor has to guess
    print_json({"$schema": dialect, **json_schema()})

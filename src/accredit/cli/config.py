"""`accredit config check|show|schema`: what the configuration is, without starting anything."""

# ruff: noqa: PLC0415 - the schema is loaded when it is asked for: `accredit --help` is quick without it

import json
import os

import typer

from accredit.cli.dashes import CommandAfterDashes, command_of
from accredit.cli.options import ConfigOption, HostOption, JsonOption, PortOption, UrlArgument
from accredit.errors import ConfigurationError

config_app = typer.Typer(help="Checks and prints the configuration.")


@config_app.command()
def check(config: ConfigOption = None) -> None:
    """Validates the configuration and what it names on this machine; starts nothing. attest.signer signs a trial.

    Example:

    accredit config check --config accredit.toml
    """
    from accredit.app import assemble
    from accredit.config import (
        build_proofs,
        build_records,
        build_rounds,
        build_settings,
        build_tokens,
        check_exposure,
        load,
        tls_context,
    )

    loaded = load(config, os.environ, {})
    if loaded.file is None:
        raise ConfigurationError(
            "no configuration: there is no accredit.toml here", "name a file with --config or ACCREDIT_CONFIG"
        )
    upstream = loaded.config.upstream
    named = bool(upstream.url or upstream.command)
    proofs = build_settings(loaded, os.environ).proofs if named else build_proofs(loaded)
    build_records(loaded)
    build_tokens(loaded)
    build_rounds(loaded)
    assemble(loaded, proofs)
    tls = tls_context(loaded.config.gateway)
    typer.echo(f"ok: {loaded.file} is valid")  # only now: nothing that raises comes after it
    if named:
        typer.echo(f"ok: the upstream is a {'URL' if upstream.url else 'command'}")
    else:
        typer.echo("ok: it names no upstream, so `accredit serve` needs a URL or a command")
    typer.echo(f"ok: tokens are {loaded.config.tokens.mode}")
    typer.echo(f"ok: proofs are {loaded.config.proofs.mode}")
    typer.echo(f"ok: records are {loaded.config.attest.mode}")
    if loaded.config.attest.mode != "off" and loaded.config.attest.signer is not None:
        typer.echo("ok: attest.signer has signed a trial, and its public key verifies that")
    typer.echo("ok: TLS is on" if tls else "ok: TLS is off")
    try:
        check_exposure(loaded.config.gateway)
    except ConfigurationError as error:
        typer.echo(f"note: {error.what}; `accredit serve` needs --insecure")


@config_app.command(cls=CommandAfterDashes)
def show(
    ctx: typer.Context,
    url: UrlArgument = None,
    config: ConfigOption = None,
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
    from accredit.cli.command_line import values_of
    from accredit.config import load, shown

    rows = shown(load(config, os.environ, values_of(url, command_of(ctx), host, port)))
    if as_json:
        tables: dict[str, dict[str, object]] = {}
        for row in rows:
            told = {"value": row.value, "origin": row.origin, "source": row.source}
            tables.setdefault(row.section, {})[row.key] = told
        typer.echo(json.dumps(tables, indent=2))
        return
    for row in rows:
        source = f" {row.source}" if row.source else ""
        typer.echo(f"{row.section}.{row.key} = {json.dumps(row.value)}  # {row.origin}{source}")


@config_app.command()
def schema() -> None:
    """Prints the JSON Schema of accredit.toml, for editors and other tools.

    Example:

    accredit config schema > accredit.schema.json
    """
    from accredit.config import Config

    typer.echo(json.dumps(Config.model_json_schema(), indent=2))

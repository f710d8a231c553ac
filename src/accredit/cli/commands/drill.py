"""`accredit drill`: tests that your own gateway refuses what it must."""

# ruff: noqa: PLC0415 - what calls is loaded when it runs: `accredit --help` is quick without it

from pathlib import Path
from typing import Annotated

import typer

from accredit.cli.options import (
    ConfigOption,
    HeaderOption,
    JsonOption,
    NamedServerOption,
    TimeoutOption,
    TokenEnvOption,
)
from accredit.cli.passphrases import PassphraseFileOption, passphrase_source
from accredit.cli.reaching import read_reach
from accredit.cli.standard import reads_secret


def drill(
    issuer: Annotated[
        Path,
        typer.Option("--issuer", metavar="KEY", callback=reads_secret, help="The private key of one of proofs.roots."),
    ],
    config: ConfigOption = None,
    url: Annotated[
        str | None, typer.Option("--url", metavar="URL", help="The gateway's endpoint, where it is not that of FILE.")
    ] = None,
    server: NamedServerOption = None,
    token_key: Annotated[
        Path | None,
        typer.Option(
            "--token-key",
            metavar="KEY",
            callback=reads_secret,
            help="Where the gateway asks for tokens: the private key of one of its issuers, which signs some.",
        ),
    ] = None,
    token_env: TokenEnvOption = None,
    header: HeaderOption = None,
    timeout: TimeoutOption = None,
    passphrase_file: PassphraseFileOption = None,
    as_json: JsonOption = False,
) -> int:
    """Makes the calls that your running gateway must refuse, and some that it must allow. Exit code 1: one was wrong.

    All call the tool accredit.drill, which the gateway answers itself: no server is called. The issuer signs
    delegations for that tool, which expire within minutes, to keys that are never stored. The log records each call.
    All servers are tried, or the one that --server names.

    Examples:

    accredit drill --issuer owner.key --config accredit.toml

    accredit drill --issuer owner.key --config accredit.toml --token-key issuer.key --json
    """
    from accredit.cli.actions.drill import DrillOptions
    from accredit.cli.actions.drill import drill as run

    request = DrillOptions(
        issuer=issuer,
        config=config,
        url=url,
        server=server,
        token_key=token_key,
        reach=read_reach(header, token_env, timeout),
        passphrase=passphrase_source(passphrase_file),
    )
    return run(request, as_json=as_json)

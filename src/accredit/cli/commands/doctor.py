"""`accredit doctor`: what is wrong, and the command that mends it."""

# ruff: noqa: PLC0415 - what looks is loaded when it runs: `accredit --help` is quick without it

from pathlib import Path
from typing import Annotated

import typer

from accredit.cli.options import JsonOption
from accredit.cli.standard import only_file


def doctor(
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            metavar="FILE",
            callback=only_file("what is beside it is looked at, too"),
            help="The configuration; else $ACCREDIT_CONFIG, else ./accredit.toml.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> int:
    """Says what is wrong with keys, configuration, store, gateway, clock, desk, hosts and versions, and what mends it.

    It looks at all of it at one time, within some seconds, and changes nothing. Where a command mends something, that
    is printed to be copied. The exit code is 1 if something is bad; a desk that does not run is not.

    Examples:

    accredit doctor

    accredit doctor --config accredit.toml --json
    """
    from accredit.cli.actions.doctor.examine import diagnose

    return diagnose(config, as_json=as_json)

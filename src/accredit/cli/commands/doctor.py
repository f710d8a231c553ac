"""`accredit doctor`: finds problems, and the commands that fix them."""

# ruff: noqa: PLC0415 - what looks is loaded when it runs: `accredit --help` is quick without it

from pathlib import Path
from typing import Annotated

import typer

from accredit.cli.options import JsonOption
from accredit.cli.standard import only_file
from accredit.errors import ConfigurationError


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
    production: Annotated[
        bool, typer.Option("--production", help="Go through the checklist for production instead, line by line.")
    ] = False,
    left_out: Annotated[
        list[str] | None,
        typer.Option("--except", metavar="ID", help="A line of it that does not count, on your word; may be repeated."),
    ] = None,
    as_json: JsonOption = False,
) -> int:
    """Finds problems of keys, configuration, store, gateway, clock, desk, hosts and versions, and says what fixes
    them.

    It takes some seconds, and changes nothing. If a command fixes a problem, it is printed for copying. The exit code
    is 1 if something is bad; a desk that does not run is not.

    With --production it goes through the checklist of docs/how-to/run-in-production.md, for one configuration. Each
    line is ok; or not, with the setting or command that fixes it; or unknown, which does not count as passed.

    Examples:

    accredit doctor

    accredit doctor --config accredit.toml --json

    accredit doctor --production --config accredit.toml --except production.quotas
    """
    if production:
        from accredit.cli.actions.doctor.production.checklist import go_through

        return go_through(config, left_out or (), as_json=as_json)
    if left_out:
        raise ConfigurationError("--except is of the checklist for production", "give --production, too")
    from accredit.cli.actions.doctor.examine import diagnose

    return diagnose(config, as_json=as_json)

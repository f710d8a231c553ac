"""`accredit grants list|show` and `accredit names set`: what you have signed at the desk, and your names for keys."""

# ruff: noqa: PLC0415 - what reads is loaded when it runs: `accredit --help` is quick without it

from typing import Annotated

import typer

from accredit.cli.options import JsonOption

grants_app = typer.Typer(help="Shows what you have allowed at the desk.", epilog="Example:  accredit grants list")
names_app = typer.Typer(
    help="Gives agents and gateways names of yours.", epilog="Example:  accredit names set b4a4c717 Assistant"
)


@grants_app.command("list")
def list_(as_json: JsonOption = False) -> int:
    """Lists the certificates that you have signed at the desk, newest first. The desk need not run.

    Example:

    accredit grants list
    """
    from accredit.cli.actions.grants import list_grants

    return list_grants(as_json=as_json)


@grants_app.command()
def show(
    cert_id: Annotated[str, typer.Argument(metavar="ID", help="The certificate's id, or its beginning.")],
    as_json: JsonOption = False,
) -> int:
    """Shows one certificate that you have signed at the desk.

    Example:

    accredit grants show 3f9d959c
    """
    from accredit.cli.actions.grants import show_grant

    return show_grant(cert_id, as_json=as_json)


@names_app.command("set")
def set_(
    holder_id: Annotated[str, typer.Argument(metavar="ID", help="The id of a key or of a gateway.")],
    name: Annotated[str, typer.Argument(metavar="NAME", help="What you call it; an empty one takes the name away.")],
    as_json: JsonOption = False,
) -> int:
    """Gives a key or a gateway your own name for it, which the desk then shows.

    Example:

    accredit names set 9f0c2d11 mail
    """
    from accredit.cli.actions.grants import name_holder

    return name_holder(holder_id, name, as_json=as_json)

"""`accredit keys new|show`: key files."""

# ruff: noqa: PLC0415 - cryptography is loaded when it runs: `accredit --help` is quick without it

from pathlib import Path
from typing import Annotated, Literal

import typer

from accredit.cli.options import JsonOption, ReplaceKeyOption
from accredit.cli.standard import TWO_FILES, only_file, reads, reads_secret

keys_app = typer.Typer(
    help="Makes and shows keys.", epilog="Example:  accredit keys new owner.key --kind human --name Owner"
)


@keys_app.command()
def new(
    path: Annotated[
        Path,
        typer.Argument(
            metavar="PATH", callback=only_file(TWO_FILES), help="The private key; the public one is PATH.pub."
        ),
    ],
    kind: Annotated[Literal["human", "agent", "gateway"], typer.Option("--kind", help="Whose key it is.")],
    name: Annotated[
        str | None, typer.Option("--name", metavar="N", help="For people to know it by; else PATH's own.")
    ] = None,
    passphrase_file: Annotated[
        Path | None,
        typer.Option(
            "--passphrase-file",
            metavar="F",
            callback=reads_secret,
            help="Encrypt a human's key with the passphrase in F; - for stdin.",
        ),
    ] = None,
    no_passphrase: Annotated[bool, typer.Option("--no-passphrase", help="Do not encrypt a human's key.")] = False,
    force: ReplaceKeyOption = False,
    as_json: JsonOption = False,
) -> None:
    """Makes a key: PATH, the secret half, which only you can read, and PATH.pub, which is for everybody.

    A human's key is encrypted with a passphrase, typed in the terminal or read from --passphrase-file. Without both it
    is not encrypted, and a warning says so.

    Example:

    accredit keys new owner.key --kind human --name Owner
    """
    from accredit.cli.actions.keys import Protection, make

    known_as = path.name.removesuffix(".key") if name is None else name
    make(path, kind, known_as, Protection(passphrase_file, no_passphrase), replace=force, as_json=as_json)


@keys_app.command()
def show(
    path: Annotated[Path, typer.Argument(metavar="PATH", callback=reads, help="A private or a public key.")],
    public: Annotated[bool, typer.Option("--public", help="Print the public half, as its file has it.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Shows whose key it is, and its id; never its secret.

    Examples:

    accredit keys show owner.key.pub

    accredit keys show owner.key --public > owner.key.pub
    """
    from accredit.cli.actions.keys import show_file

    show_file(path, public=public, as_json=as_json)

"""`accredit inspect`: describes a file."""

# ruff: noqa: PLC0415 - cryptography is loaded when it runs: `accredit --help` is quick without it

from pathlib import Path
from typing import Annotated

import typer

from accredit.cli.options import JsonOption
from accredit.cli.standard import reads


def inspect(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", callback=reads, help="A delegation, proof, token, revocation list, attestation or key."
        ),
    ],
    key: Annotated[
        list[Path] | None,
        typer.Option(
            "--key",
            metavar="PUB",
            callback=reads,
            help="To know ids by, and to check lists, attestations and tokens with; of a person, to say who allowed a"
            " call; repeatable.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> int:
    """Describes what a file holds, and verifies its signatures (exit code 1 if one is bad).

    Use `accredit verify` to check that the root is trusted, and that nothing was revoked.

    Examples:

    accredit inspect delegation.json

    accredit inspect revoked.json --key owner.key.pub

    accredit inspect call.json --key gateway.key.pub --key owner.key.pub

    accredit inspect token.jwt --key token.pem.pub
    """
    from accredit.cli.actions.inspect import inspect_file

    return inspect_file(file, key or (), as_json=as_json)

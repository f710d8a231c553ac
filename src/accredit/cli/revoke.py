"""`accredit revoke`: an issuer takes a certificate back."""

# ruff: noqa: PLC0415 - what signs is loaded when it runs: `accredit --help` is quick without it

from pathlib import Path
from typing import Annotated

import typer

from accredit.cli.options import JsonOption


def revoke(
    cert_id: Annotated[
        str, typer.Argument(metavar="CERT_ID", help="The certificate; `accredit inspect` shows its id.")
    ],
    issuer: Annotated[Path, typer.Option("--issuer", metavar="KEY", help="The private key that signs the list.")],
    list_file: Annotated[
        Path, typer.Option("--list", metavar="FILE", help="The issuer's revocation list; made where there is none.")
    ],
    as_json: JsonOption = False,
) -> int:
    """Adds a certificate to its issuer's signed revocation list.

    It counts where a gateway reads the list: its configuration names it in proofs.revocation.files.

    Example:

    accredit revoke 0123456789abcdef0123456789abcdef --issuer owner.key --list revoked.json
    """
    from accredit.cli.delegations.revoking import revoke_certificate

    return revoke_certificate(cert_id, issuer, list_file, as_json=as_json)

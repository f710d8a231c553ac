"""`accredit revoke`: an issuer revokes a certificate."""

# ruff: noqa: PLC0415 - what signs is loaded when it runs: `accredit --help` is quick without it

from pathlib import Path
from typing import Annotated

import typer

from accredit.cli.options import JsonOption
from accredit.cli.passphrases import PassphraseFileOption, passphrase_source
from accredit.cli.standard import reads, reads_secret
from accredit.errors import ConfigurationError


def revoke(
    issuer: Annotated[
        Path,
        typer.Option("--issuer", metavar="KEY", callback=reads_secret, help="The private key that signs the list."),
    ],
    cert_id: Annotated[
        str | None,
        typer.Argument(
            metavar="CERT_ID", show_default=False, help="The certificate's id, which `accredit inspect` shows."
        ),
    ] = None,
    list_file: Annotated[
        Path | None,
        typer.Option(
            "--list",
            metavar="FILE",
            callback=reads,
            help="The issuer's revocation list; made where there is none. -: read from stdin, written to stdout.",
        ),
    ] = None,
    store: Annotated[
        str | None,
        typer.Option("--store", metavar="URL", help="The gateway's store, in place of a file: sqlite:///FILE."),
    ] = None,
    empty: Annotated[
        bool,
        typer.Option("--empty", help="Name no certificate: make a signed list without entries, if there is none."),
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", help="Revoke without asking where only the beginning of the id is given.")
    ] = False,
    passphrase_file: PassphraseFileOption = None,
    as_json: JsonOption = False,
) -> int:
    """Adds a certificate to its issuer's signed revocation list.

    It takes effect where a gateway reads the list: in its store, or in a file that its configuration names in
    proofs.revocation.files. With --store, the first 8 characters of the id are enough if a call has used the
    certificate: it is shown, and you are asked.

    A gateway does not start if a list that it names is missing: --empty makes a first one.

    Example:

    accredit revoke 0123456789abcdef0123456789abcdef --issuer owner.key --list revoked.json

    accredit revoke 0123456789abcdef0123456789abcdef --issuer owner.key --store sqlite:///accredit.db

    accredit revoke --list revoked.json --empty --issuer owner.key
    """
    from accredit.cli.actions.revoke import ListLocation, begin_list, revoke_certificate

    if empty and cert_id is not None:
        raise ConfigurationError("CERT_ID and --empty are given", "name a certificate, or make a list without entries")
    if not empty and cert_id is None:
        raise ConfigurationError("CERT_ID is missing", "name a certificate; --empty makes a list without entries")
    ask, place = passphrase_source(passphrase_file), ListLocation(list_file, store)
    if cert_id is None:
        return begin_list(issuer, place, ask=ask, as_json=as_json)
    return revoke_certificate(cert_id, issuer, place, ask=ask, agreed=yes, as_json=as_json)

"""`accredit asked`, `approve` and `deny`: answer agents' asks in a terminal."""

# ruff: noqa: PLC0415 - what signs is loaded when it runs: `accredit --help` is quick without it

from typing import Annotated

import typer

from accredit.cli.options import JsonOption
from accredit.cli.passphrases import PassphraseFileOption
from accredit.errors import ConfigurationError

_Code = Annotated[str, typer.Argument(metavar="CODE", help="The code of the ask, such as 7KQ4-M2.")]


def asked(as_json: JsonOption = False) -> int:
    """Lists what agents ask you for, oldest first.

    Example:

    accredit asked
    """
    from accredit.cli.actions.asks import list_asks

    return list_asks(as_json=as_json)


def approve(
    code: _Code,
    once: Annotated[bool, typer.Option("--once", help="Allow only this call: no menu.")] = False,
    like: Annotated[bool, typer.Option("--like", help="Allow calls like it, as the page proposes: no menu.")] = False,
    passphrase_file: PassphraseFileOption = None,
    as_json: JsonOption = False,
) -> int:
    """Shows what an agent asks you for, and signs it if you say so. Needs a terminal.

    It shows what the desk's page shows. The key is unlocked in this process, so it always asks for the passphrase; the
    desk only passes the certificate on.

    Example:

    accredit approve 7KQ4-M2
    """
    if once and like:
        raise ConfigurationError("--once and --like are two choices", "name one of them")
    from accredit.cli.actions.approve import approve_ask

    choice = "once" if once else "like" if like else None
    return approve_ask(code, choice, passphrase_file, as_json=as_json)


def deny(code: _Code, as_json: JsonOption = False) -> int:
    """Says no to what an agent asks you for; the same call is denied for an hour.

    Example:

    accredit deny 7KQ4-M2
    """
    from accredit.cli.actions.asks import deny_ask

    return deny_ask(code, as_json=as_json)

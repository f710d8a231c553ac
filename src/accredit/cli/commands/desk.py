"""`accredit desk`: the process that holds the person's key; and `accredit desk open|unlock|lock`."""

# ruff: noqa: PLC0415 - what serves is loaded when it runs: `accredit --help` is quick without it

from typing import Annotated

import typer

from accredit.cli.options import ConfigOption, JsonOption
from accredit.cli.passphrases import PassphraseFileOption
from accredit.errors import ConfigurationError

desk_app = typer.Typer(
    help="Holds your key, shows what agents ask you for, and signs what you allow.",
    epilog="Example:  accredit desk",
    invoke_without_command=True,
)


@desk_app.callback()
def desk(
    ctx: typer.Context,
    port: Annotated[
        int,
        typer.Option(
            "--port", metavar="P", min=0, max=65_535, help="The page's port, or the next free one; 0 picks any."
        ),
    ] = 8686,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Open no browser, only print the link.")] = False,
    passphrase_file: PassphraseFileOption = None,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Only show a gateway's log, of --store or --config: no key, no asks.")
    ] = False,
    store: Annotated[
        str | None, typer.Option("--store", metavar="URL", help="The log to show, with --read-only.")
    ] = None,
    config: ConfigOption = None,
) -> int:
    """Holds your key, shows what agents ask you for, and signs what you allow.

    It prints one line: a link to its page on 127.0.0.1, which works once, within a minute. Your key stays in this
    process; it asks for the passphrase in this terminal, or by pinentry. With --passphrase-file it unlocks the key
    without asking, until `accredit desk lock`.

    Examples:

    accredit desk

    accredit desk --port 8700 --no-browser

    accredit desk --read-only --config accredit.toml
    """
    if ctx.invoked_subcommand is not None:
        return 0
    if read_only:
        from accredit.cli.actions.desk import run_read_only_desk

        return run_read_only_desk(port, store, config, wants_browser=not no_browser)
    if store is not None or config is not None:
        raise ConfigurationError(
            "--store and --config are for --read-only", "the desk's own log is `store` in desk.toml"
        )
    from accredit.cli.actions.desk import run_desk

    return run_desk(port, wants_browser=not no_browser, passphrase_file=passphrase_file)


@desk_app.command("open")
def open_(as_json: JsonOption = False) -> int:
    """Opens the running desk's page in the browser; else its link appears in the desk's terminal.

    Example:

    accredit desk open
    """
    from accredit.cli.actions.desk import open_desk

    return open_desk(as_json=as_json)


@desk_app.command()
def unlock(passphrase_file: PassphraseFileOption = None, as_json: JsonOption = False) -> int:
    """Unlocks the running desk's key for a while; asks for its passphrase here.

    Example:

    accredit desk unlock
    """
    from accredit.cli.actions.desk import unlock_desk

    return unlock_desk(passphrase_file, as_json=as_json)


@desk_app.command()
def lock(as_json: JsonOption = False) -> int:
    """Makes the running desk forget the unlocked key and the passphrase.

    Example:

    accredit desk lock
    """
    from accredit.cli.actions.desk import lock_desk

    return lock_desk(as_json=as_json)

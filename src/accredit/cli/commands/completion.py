"""`accredit completion`: completion scripts for shells."""

# ruff: noqa: PLC0415 - what completes is loaded when it runs: `accredit --help` is quick without it

from typing import Annotated, Literal

import typer

from accredit.cli.dashes import command_of


def completion(
    ctx: typer.Context,
    shell: Annotated[Literal["bash", "zsh", "fish"], typer.Argument(metavar="SHELL", help="bash, zsh or fish.")],
) -> int:
    """Prints a shell's script for completing accredit's command lines with the tab key.

    It completes commands, options, files, hosts, and the configuration's servers. With words after --, it prints
    candidates for the last one, which is how the script asks.

    Examples:

    accredit completion bash >> ~/.bash_completion

    accredit completion zsh > ~/.zfunc/_accredit

    accredit completion fish > ~/.config/fish/completions/accredit.fish
    """
    from accredit.cli.actions.completion import start_completion

    return start_completion(command_of(ctx), shell=shell)

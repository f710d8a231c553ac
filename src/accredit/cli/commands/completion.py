"""`accredit completion`: what a shell needs to complete command lines."""

# ruff: noqa: PLC0415 - what completes is loaded when it runs: `accredit --help` is quick without it

from typing import Annotated, Literal

import typer

from accredit.cli.dashes import command_of


def completion(
    ctx: typer.Context,
    shell: Annotated[Literal["bash", "zsh", "fish"], typer.Argument(metavar="SHELL", help="bash, zsh or fish.")],
) -> int:
    """Prints what a shell needs to complete command lines of accredit with the tab key.

    Commands, options, files, hosts, and the servers of the configuration that is found. With words behind -- it prints
    what may stand in the place of the last, as the shell asks for it.

    Examples:

    accredit completion bash >> ~/.bash_completion

    accredit completion zsh > ~/.zfunc/_accredit

    accredit completion fish > ~/.config/fish/completions/accredit.fish
    """
    from accredit.cli.actions.completion import start_completion

    return start_completion(command_of(ctx), shell=shell)

"""The commands as they are declared, with the words that call them."""

from collections.abc import Iterator
from pathlib import Path

import click

import accredit
from accredit.cli import app

ROOMS = ("cli", "ops", "setup", "signing", "asking", "terminal")
"""The packages whose code runs for nobody but a person at a command line."""


def sources() -> Iterator[Path]:
    """Their files."""
    for room in ROOMS:
        yield from (Path(accredit.__file__).parent / room).rglob("*.py")


def below(command: click.Command) -> dict[str, click.Command]:
    """The commands of a group by name; none of another command."""
    if not isinstance(command, click.Group):
        return {}
    context = click.Context(command)
    found = {name: command.get_command(context, name) for name in command.list_commands(context)}
    return {name: each for name, each in found.items() if each is not None}


def commands(command: click.Command = app, *words: str) -> dict[tuple[str, ...], click.Command]:
    """A command and all that are below it, by their words."""
    inner = [commands(each, *words, name) for name, each in below(command).items()]
    return {words: command} | {path: each for some in inner for path, each in some.items()}

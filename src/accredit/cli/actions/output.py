"""Prints results of commands: words and tables for people, JSON for programs. I/O: stdout, and stderr for notes.

In a terminal tables have rules and colours; elsewhere they are plain columns, as wide as they need to be. Whatever
is printed may come from a file that somebody else wrote: nothing in it is markup, and it can't steer the terminal.
"""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import typer
from rich import box
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from accredit.base.standard import STDOUT
from accredit.base.text import one_line
from accredit.cli.progress import clear
from accredit.errors import ConfigurationError
from accredit.keys.files import write_file
from accredit.limits import MAX_TOLD_CANDIDATES, MIN_ID_CHARS

_UNBOUNDED = 100_000
"""Columns of a line that no terminal folds."""

GOOD, BAD, QUIET = "green", "bold red", "dim"


class Words(NamedTuple):
    """A text with a style of `rich`, such as "green"."""

    text: str
    style: str = ""


def print_json(value: Mapping[str, object]) -> None:
    """Print one JSON object, for programs."""
    typer.echo(json.dumps(value, indent=2))


def say(text: str, style: str = "") -> None:
    """Print one line."""
    _show(_visible(Words(text, style)))


def tell(line: str) -> None:
    """Print one line on stderr: a note or a warning."""
    clear()
    typer.echo(one_line(line), err=True)


def check_out(out: Path | None, *, as_json: bool) -> None:
    """Check that not two things are to be printed on stdout. Raises `ConfigurationError`."""
    if out == STDOUT and as_json:
        raise ConfigurationError("--out - and --json both want stdout", "keep one of them, or name a file for --out")


def write_out(out: Path, data: bytes, *, private: bool = False, replace: bool = False) -> None:
    """Write what a command makes to a file (`keys.write_file`), or to stdout. Raises `ConfigurationError`."""
    if out != STDOUT:
        write_file(out, data, private=private, replace=replace)
        return
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def print_facts(facts: Iterable[tuple[str, Words | str]], *, err: bool = False) -> None:
    """Print names, each with its value; on stderr where stdout is for something else."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in facts:
        table.add_row(name, _visible(value))
    _show(table, err=err)


def print_table(headings: Sequence[str], rows: Iterable[Sequence[Words | str]]) -> None:
    """Print a table with headings. What does not fit is folded, and nothing is cut off."""
    table = Table(box=box.SIMPLE_HEAD if sys.stdout.isatty() else None, pad_edge=False)
    for heading in headings:
        table.add_column(heading, overflow="fold")
    for row in rows:
        table.add_row(*map(_visible, row))
    _show(table)


def find_by_prefix(
    prefix: str, candidates: Mapping[str, str], what: str, remedy: str, *, at_least: int = MIN_ID_CHARS
) -> str | None:
    """Return the candidate that equals `prefix`, else the only one that begins with it.

    `candidates` maps ids to descriptions. If there is none, or more than one, says so on stderr and returns None; the
    command then ends with exit code 1. `what` is the kind of id, such as "call"; `remedy` is the help if there is none.
    Nothing in an id stands for other characters, and capital letters are none of its. Raises `ConfigurationError` for
    less than `at_least` characters.
    """
    if prefix in candidates:
        return prefix
    if len(prefix) < at_least:
        raise ConfigurationError(
            f"{prefix!a} is too little of the id of a {what}", f"write at least {at_least} characters of it"
        )
    matches = sorted(each for each in candidates if each.startswith(prefix))
    if len(matches) == 1:
        return matches[0]
    if not matches:
        tell(f"error: no record of {what} {prefix}")
        tell(f"help: {remedy}")
        return None
    many = f"more than {MAX_TOLD_CANDIDATES}" if len(matches) > MAX_TOLD_CANDIDATES else str(len(matches))
    tell(f"error: the ids of {many} {what}s begin with {prefix}")
    tell("help: write more of the one that is meant")
    for each in matches[:MAX_TOLD_CANDIDATES]:
        tell(f"  {each}  {candidates[each]}".rstrip())
    return None


def _visible(value: Words | str) -> Text:
    words = Words(value) if isinstance(value, str) else value
    return Text(one_line(words.text), words.style)


def _show(what: RenderableType, *, err: bool = False) -> None:
    if (sys.stderr if err else sys.stdout).isatty():
        Console(stderr=err).print(what)
        return
    console = Console(width=_UNBOUNDED)
    with console.capture() as captured:
        console.print(what)
    typer.echo("\n".join(line.rstrip() for line in captured.get().splitlines()), err=err)

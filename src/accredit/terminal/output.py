"""Prints results of commands: words and tables for people, JSON for programs. I/O: stdout, and stderr for notes.

A command calls the functions for both. With `--json` only the JSON is printed, without it only the words and tables.

On a terminal there are colours, and long lines are folded (`terminal.layout`). Otherwise rows are as wide as needed.
Text may come from others' files: it is never markup, can't control the terminal, and can't imitate the beginning of one
of our rows.
"""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import click

from accredit.base.standard import STDOUT, is_for_programs
from accredit.base.terminal import FURTHER, for_stderr, pieces, width_of
from accredit.errors import ConfigurationError
from accredit.keys.files import write_file
from accredit.terminal.layout import Row, Words, fact_rows, table_rows, text_rows
from accredit.terminal.progress import clear

MAX_TOLD_CANDIDATES = 20
"""The most ids that are listed on stderr if a given one is ambiguous: a screenful."""
MIN_ID_CHARS = 4
"""How many characters of an id must be given at least. A shorter text may be meant for something else, and could be the
beginning of thousands of ids in a log of a million calls."""


GOOD, BAD, QUIET = "green", "bold red", "dim"


def print_json(value: Mapping[str, object]) -> None:
    """Print one JSON object, for programs."""
    click.echo(json.dumps(value, indent=2))


def print_result(members: Mapping[str, object]) -> None:
    """Print a command's result as JSON, with `--json`. Without it, print nothing: the command's words are printed
    instead."""
    if is_for_programs():
        print_json(members)


def say(text: str, style: str = "") -> None:
    """Print one line, for people."""
    _show_words(text_rows(Words(text, style), width_of(sys.stdout)))


def say_whole(text: str, style: str = "") -> None:
    """Print one line with a path, a command or JSON in it, whose words are our own or the person's. It is not folded,
    so that it can be copied."""
    _show_words(text_rows(Words(text, style), None))


def say_script(line: str) -> None:
    """Print a line of a shell script. A comment is folded into comments; a command is not folded, so that it can be
    copied."""
    width = width_of(sys.stdout)
    if is_for_programs():
        return
    if width is None or not line.startswith("#"):
        click.echo(line)
    else:
        click.echo("\n".join(pieces(line, width, f"#{FURTHER}")))


def tell(line: str) -> None:
    """Print one line on stderr: a note or a warning."""
    clear()
    click.echo(for_stderr(line), err=True)


def check_out(out: Path | None) -> None:
    """Check that `--out -` and `--json` are not given together: both use stdout. Raises `ConfigurationError`."""
    if out == STDOUT and is_for_programs():
        raise ConfigurationError("--out - and --json both want stdout", "keep one of them, or name a file for --out")


def write_out(out: Path, data: bytes, *, private: bool = False, replace: bool = False) -> None:
    """Write the result of a command to a file (`keys.write_file`), or to stdout. Raises `ConfigurationError`."""
    if out != STDOUT:
        write_file(out, data, private=private, replace=replace)
        return
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def print_facts(facts: Iterable[tuple[str, Words | str]], *, err: bool = False) -> None:
    """Print names with their values. With `err`, print them on stderr, as stdout has another use."""
    if err:
        show(fact_rows(list(facts), width_of(sys.stderr)), err=True)
    else:
        _show_words(fact_rows(list(facts), width_of(sys.stdout)))


def print_table(headings: Sequence[str], rows: Iterable[Sequence[Words | str]]) -> None:
    """Print a table with headings. Long cells are folded, never cut off."""
    _show_words(table_rows(headings, list(rows), width_of(sys.stdout)))


def _show_words(rows: Iterable[Row]) -> None:
    if not is_for_programs():
        show(rows)


def show(rows: Iterable[Row], *, err: bool = False) -> None:
    """Print rows that are already folded."""
    if not (sys.stderr if err else sys.stdout).isatty():
        for row in rows:
            click.echo("".join(each.text for each in row).rstrip(), err=err)
        return
    from rich.console import Console  # noqa: PLC0415 - slow to load, and for terminals alone
    from rich.text import Text  # noqa: PLC0415

    console = Console(stderr=err)
    for row in rows:
        console.print(Text.assemble(*row), soft_wrap=True)


def find_by_prefix(
    prefix: str, candidates: Mapping[str, str], what: str, remedy: str, *, at_least: int = MIN_ID_CHARS
) -> str | None:
    """Return the candidate that equals `prefix`, else the only one that begins with it.

    `candidates` maps ids to descriptions. If no candidate begins with it, or several do, print that on stderr and
    return None; the command then ends with exit code 1. `what` is the kind of id, such as "call"; `remedy` is the help
    if there is no such candidate. Matching is literal and case-sensitive. Raises `ConfigurationError` for a prefix of
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

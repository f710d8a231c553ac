"""Every command line of the documentation is one that the commands take: names, options, and what they need."""

import re
import shlex
from pathlib import Path

import click
import pytest
from tests.world.command_tree import below

from accredit.cli import app

ROOT = Path(__file__).parents[3]
PAGES = [ROOT / "README.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(?:console|sh|bash)\n(.*?)^```", re.MULTILINE | re.DOTALL)
AFTER = {"&&", "||", ";", "|", "&", ">", ">>", "<", "2>"}
"""What ends a command in a shell."""


def command_lines(text: str) -> list[list[str]]:
    """The words of each `accredit` command of a page's examples."""
    found: list[list[str]] = []
    for block in BLOCK.findall(text):
        for line in block.replace("\\\n", " ").splitlines():
            lexer = shlex.shlex(line.removeprefix("$ "), posix=True, punctuation_chars=";|&><")
            lexer.commenters, lexer.whitespace_split = "#", True
            try:
                words = list(lexer)
            except ValueError:  # what a command prints, with one quotation mark
                continue
            starts = [at for at, word in enumerate(words) if word == "accredit" and (at == 0 or words[at - 1] in AFTER)]
            for at in starts:
                rest = words[at + 1 :]
                end = next((number for number, word in enumerate(rest) if word in AFTER), len(rest))
                found.append(rest[:end])
    return found


def parse(words: list[str]) -> None:
    """Parses a command line as `accredit` does, and runs nothing. Raises `click.ClickException`."""
    command: click.Command = app
    name = "accredit"
    while isinstance(command, click.Group):
        if words[:1] in (["--version"], ["--help"]):
            return
        if command.invoke_without_command and (not words or words[0].startswith("-")):
            break
        name, *words = words
        assert name in below(command), f"there is no command {name}"
        command = below(command)[name]
    command.make_context(name, [word for word in words if word != "--help"])


LINES = [
    pytest.param(words, id=f"{page.relative_to(ROOT)}: accredit {' '.join(words)}"[:120])
    for page in PAGES
    for words in command_lines(page.read_text("utf-8"))
]


def test_examples_are_found() -> None:
    assert len(LINES) > 60


@pytest.mark.parametrize("words", LINES)
def test_a_command_line_of_the_documentation_is_one(words: list[str]) -> None:
    parse(words)


@pytest.mark.parametrize("words", [["serve", "--no-such-option"], ["grant", "--issuer", "k"], ["log", "show"]])
def test_one_that_is_none_is_noticed(words: list[str]) -> None:
    with pytest.raises(click.ClickException):
        parse(words)

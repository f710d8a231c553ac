"""Command lines with another program's in them: with `--` and without."""

from typing import Any

import pytest
import typer
from typer.main import get_command

from accredit.cli.dashes import CommandAfterDashes, NameAndCommandAfterDashes, command_of
from accredit.errors import ConfigurationError

SEEN: list[Any] = []
app = typer.Typer()


@app.command(cls=CommandAfterDashes)
def wrap(ctx: typer.Context, config: str | None = None, quiet: bool = False) -> None:
    SEEN.append((config, quiet, command_of(ctx)))


@app.command(cls=CommandAfterDashes)
def serve(ctx: typer.Context, url: str | None = typer.Argument(None), config: str | None = None) -> None:
    SEEN.append((config, url, command_of(ctx)))


@app.command(cls=NameAndCommandAfterDashes)
def add(ctx: typer.Context, name: str, url: str | None = typer.Argument(None), config: str | None = None) -> None:
    SEEN.append((config, name, url, command_of(ctx)))


def parsed(*words: str) -> Any:
    SEEN.clear()
    command = get_command(app)
    command(list(words), prog_name="accredit", standalone_mode=False)
    return SEEN[0]


@pytest.mark.holds("cli/dashes", 1)
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("wrap -- node x --config y", (None, False, ["node", "x", "--config", "y"])),
        ("add mail -- node x --config y", (None, "mail", None, ["node", "x", "--config", "y"])),
        ("add mail node x -y", (None, "mail", None, ["node", "x", "-y"])),
        ("add --config c mail node x", ("c", "mail", None, ["node", "x"])),
        ("add mail --config c node x", ("c", "mail", None, ["node", "x"])),
        ("add mail http://x", (None, "mail", "http://x", None)),
        ("add mail http://x --config c", ("c", "mail", "http://x", None)),
        ("wrap node x", (None, False, ["node", "x"])),
        ("wrap node", (None, False, ["node"])),
        ("wrap --config c --quiet node x -y", ("c", True, ["node", "x", "-y"])),
        ("wrap --config=c node --port 1", ("c", False, ["node", "--port", "1"])),
        ("wrap", (None, False, None)),
        ("serve node x -v", (None, None, ["node", "x", "-v"])),
        ("serve --config c node x", ("c", None, ["node", "x"])),
        ("serve http://h/mcp", (None, "http://h/mcp", None)),
        ("serve http://h/mcp --config c", ("c", "http://h/mcp", None)),
        ("serve node", (None, "node", None)),  # one word is the URL, and told to be none
        ("serve module:server --config c", ("c", "module:server", None)),
    ],
)
def test_a_command_begins_after_the_dashes_or_with_the_first_word_that_is_no_option(words: str, expected: Any) -> None:
    assert parsed(*words.split()) == expected


@pytest.mark.holds("cli/dashes", 2)
@pytest.mark.parametrize(
    "words",
    ["wrap node x --config c", "wrap node --quiet", "wrap node --help", "wrap node -- x", "serve a b --config=c"],
)
def test_an_option_that_either_program_could_be_meant_by_is_refused_and_goes_to_neither(words: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        parsed(*words.split())
    assert "may be meant for either program" in refused.value.what
    assert f"accredit {words.split()[0]} [OPTIONS] -- COMMAND..." in refused.value.remedy

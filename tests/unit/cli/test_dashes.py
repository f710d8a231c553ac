"""Command lines with another program's in them: with `--` and without."""

from typing import Any

import click
import pytest

from accredit.cli.dashes import ProgramCommand
from accredit.cli.declare import argument, flag, option
from accredit.errors import ConfigurationError

NAME, URL, CONFIG = argument("name", required=True), argument("url"), option("--config")
app = click.Group(
    commands=[
        ProgramCommand("wrap", "", [CONFIG, flag("--quiet")], run=f"{__name__}:wrap"),
        ProgramCommand("serve", "", [URL, CONFIG], run=f"{__name__}:serve"),
        ProgramCommand("add", "", [NAME, URL, CONFIG], run=f"{__name__}:add", words_before=1),
    ]
)


def wrap(command: list[str] | None, config: str | None, quiet: bool) -> Any:
    return config, quiet, command


def serve(command: list[str] | None, url: str | None, config: str | None) -> Any:
    return config, url, command


def add(command: list[str] | None, name: str, url: str | None, config: str | None) -> Any:
    return config, name, url, command


def parsed(*words: str) -> Any:
    return app.main(list(words), prog_name="accredit", standalone_mode=False)


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


@pytest.mark.parametrize(
    "words",
    ["wrap node x --config c", "wrap node --quiet", "wrap node --help", "wrap node -- x", "serve a b --config=c"],
)
def test_an_option_that_either_program_could_be_meant_by_is_refused_and_goes_to_neither(words: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        parsed(*words.split())
    assert "may be meant for either program" in refused.value.what
    assert f"accredit {words.split()[0]} [OPTIONS] -- COMMAND..." in refused.value.remedy

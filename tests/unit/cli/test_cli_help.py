"""What holds for every command and every group of commands."""

import re

import pytest
from click.testing import CliRunner
from tests.world.command_tree import below, commands, sources

from accredit.cli import app, application

pytestmark = [pytest.mark.holds("cli"), pytest.mark.holds("cli/application")]

PRINTS_NO_DATA = {"demo", "serve", "wrap", "connect", "completion"}
"""What these write is a story, a log, a protocol or a script."""


ALL = list(commands())


@pytest.mark.parametrize("words", ALL, ids=" ".join)
def test_it_has_help_with_an_example(words: tuple[str, ...]) -> None:
    done = CliRunner().invoke(app, [*words, "--help"], env={"COLUMNS": "200"})
    assert done.exit_code == 0
    assert "Example" in done.output
    assert " ".join(("accredit", *words)) in done.output.partition("Example")[2]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("add", "its one server of [upstream] becomes [servers.NAME]"),
        ("check", "One of [servers]; or an MCP server"),
        ("pin", "else that of [upstream], `upstream`"),
        ("log list", "Calls of this server of [servers]."),
    ],
)
def test_tables_that_it_names_are_not_taken_for_markup(
    words: str, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["accredit", *words.split(), "--help"])
    monkeypatch.setenv("COLUMNS", "250")
    assert application.main() == 0
    assert said in " ".join(capsys.readouterr().out.split())


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [words for words, each in commands().items() if not below(each) and words[0] not in PRINTS_NO_DATA],
    ids=" ".join,
)
def test_what_prints_data_prints_json(words: tuple[str, ...]) -> None:
    done = CliRunner().invoke(app, [*words, "--help"], env={"COLUMNS": "200"})
    assert "--json" in done.output


def test_json_is_one_object_wherever_it_is_printed() -> None:
    """`print_json` takes nothing else, and nobody prints JSON by other means but for a log: an object a line."""
    found = {path.stem: path for path in sources() if re.search(r"echo\(json\.dumps", path.read_text("utf-8"))}
    assert {*found} == {"output", "log_list"}
    assert "def print_json(value: Mapping[str, object])" in found["output"].read_text("utf-8")


@pytest.mark.parametrize("words", ["approve", "deny"])
def test_without_the_code_of_an_ask_it_names_the_command_that_lists_them(
    words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["accredit", words])
    assert application.main() == 2
    assert capsys.readouterr().err.splitlines() == [
        "error: Missing argument 'CODE'.",
        "help: `accredit asked` lists what agents ask you for, each with its code",
    ]

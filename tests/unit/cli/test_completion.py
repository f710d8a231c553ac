"""What is offered when a person presses the tab key is what could stand there, and only words."""

import os
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from accredit.cli import app
from accredit.cli.actions.completion import candidates
from accredit.cli.options import MAX_COMPLETED_FILE_BYTES, PLAIN_WORD

pytestmark = pytest.mark.holds("cli/actions/completion")

SERVERS = '[servers.mail]\nurl = "http://127.0.0.1:1/mcp"\n[servers.notes]\nurl = "http://127.0.0.1:2/mcp"\n'


def offered(line: str, shell: str = "zsh") -> list[str] | None:
    """The words that are offered at the end of a line, without those before the cursor's."""
    found = candidates(line.split(" "), shell)  # pyright: ignore[reportArgumentType]
    return None if found is None else [each.word for each in found]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ACCREDIT_CONFIG", raising=False)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("ser", ["serve"]),
        ("unins", ["uninstall"]),
        ("log sh", ["show"]),
        ("keys new --ki", ["--kind"]),
        ("serve --log-level ", ["debug", "info", "warning", "error"]),
        ("serve --log-level=e", ["--log-level=error"]),
        ("serve --port 1 --log-format j", ["json"]),
        ("install cl", ["claude-desktop", "claude-code", "cline"]),
        ("completion ", ["bash", "zsh", "fish"]),
        ("grant --agent a.pub --ag", []),
        ("connect http://127.0.0.1:8484/mcp --key a --delegation b --deleg", ["--delegation"]),
        ("nosuch ", []),
        ("nosuch --", []),
        ("serve --nosuch ", []),
        ("serve --port ", []),
        ("serve --insecure --ins", []),
        ("keys -- ", []),
        ("", None),
    ],
)
def test_what_could_stand_there_is_offered(line: str, words: list[str] | None) -> None:
    if words is None:
        assert {"serve", "connect", "install", "completion"} < set(offered(line) or ())
    else:
        assert offered(line) == words


@pytest.mark.parametrize(
    "line",
    ["serve --config ", "grant --out a", "inspect ", "connect http://h/ --delegation a --delegation ",
     "serve --config=a", "wrap -- ", "wrap -- python ser", "revoke --issuer "],
)  # fmt: skip
def test_where_a_file_is_meant_the_shell_offers_its_own(line: str) -> None:
    assert offered(line) is None


def test_options_that_are_given_are_not_offered_again__those_that_may_be_repeated_are() -> None:
    left = offered("connect http://h/ --delegation a --modern --hold=3 --")
    assert left is not None
    assert "--delegation" in left
    assert not {"--modern", "--hold"} & {*left}


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["serve", "--log-level", "=", "de"], ["debug"]),
        (["serve", "--log-level", "="], ["debug", "info", "warning", "error"]),
        (["connect", "http", ":", "//127.0.0.1", ":", "8484/mcp", "--as"], ["--ask"]),
        (["connect", "http", ":", "//127.0.0.1", ":"], []),
    ],
)
def test_bash_breaks_words_and_gets_the_part_that_it_asked_for(words: list[str], expected: list[str]) -> None:
    assert [each.word for each in candidates(words, "bash") or ()] == expected


def test_servers_are_those_of_the_configuration_that_is_named__or_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "other.toml").write_text(SERVERS)
    assert offered("wrap --server ") == []
    assert offered("wrap --config other.toml --server ") == ["mail", "notes"]
    assert offered("wrap --config=other.toml --server n") == ["notes"]
    monkeypatch.setenv("ACCREDIT_CONFIG", "other.toml")
    assert offered("log list --server ma") == ["mail"]
    monkeypatch.delenv("ACCREDIT_CONFIG")
    (tmp_path / "accredit.toml").write_text(SERVERS.replace("notes", "files"))
    assert offered("connect http://h/ --server ") == ["mail", "files"]
    assert offered("check ") == ["mail", "files"]


@pytest.mark.parametrize("text", ["", "[servers", "servers = 1", "[servers]\nmail = 1\n", "\0", "a = [" * 500])
def test_a_configuration_that_is_none_does_no_harm(text: str, tmp_path: Path) -> None:
    (tmp_path / "accredit.toml").write_text(text)
    assert offered("wrap --server ") in ([], ["mail"])


def test_a_pipe_in_the_place_of_a_configuration_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "accredit.toml")
    assert offered("wrap --server ") == []


def test_a_long_configuration_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "accredit.toml").write_text(SERVERS + "#" * MAX_COMPLETED_FILE_BYTES)
    assert offered("wrap --server ") == []


HOSTILE = (
    "$(touch pwned)",
    "`touch pwned`",
    "a;touch pwned",
    "a b",
    "a\nb",
    "a\tb",
    "~root",
    "*",
    "a'b",
    "--config=evil.toml",
    "-x",
    "=ls",
    "%1",
    'a\\"b',
    "é",
    "",
)


def test_a_name_that_a_shell_could_run_is_not_offered(tmp_path: Path) -> None:
    tables = "".join(f"[servers.{quoted(name)}]\nx = 1\n" for name in (*HOSTILE, "mail"))
    (tmp_path / "accredit.toml").write_text(tables, "utf-8")
    assert offered("wrap --server ") == ["mail"]


def quoted(name: str) -> str:
    return '"' + name.replace('\\"', '\\\\\\"').replace("\n", "\\n").replace("\t", "\\t") + '"'


WORDS = st.sampled_from(["serve", "log", "list", "--config", "--", "-", "install", "--server", "=", ":", "--a=", "x"])


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(st.lists(WORDS | st.text(max_size=5), max_size=6), st.sampled_from(["bash", "zsh", "fish"]))
def test_whatever_is_typed_so_far_there_are_plain_words__or_none(words: list[str], shell: str) -> None:
    for each in candidates(words, shell) or ():  # pyright: ignore[reportArgumentType]
        assert PLAIN_WORD.fullmatch(each.word)
        assert each.meaning.isprintable()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_what_a_shell_is_answered_is_a_line_for_each(shell: str) -> None:
    done = CliRunner().invoke(app, ["completion", shell, "--", "instal"])
    assert done.output == ("words\ninstall\n" if shell == "bash" else done.output)
    kind, line = done.output.splitlines()
    assert (kind, line.partition("\t")[0]) == ("words", "install")
    assert shell == "bash" or "configuration" in line.partition("\t")[2]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_no_script_has_a_shell_evaluate_what_it_reads(shell: str) -> None:
    script = CliRunner().invoke(app, ["completion", shell]).output
    assert "accredit completion" in script
    assert not {"eval", "source", "compgen"} & set(script.split())

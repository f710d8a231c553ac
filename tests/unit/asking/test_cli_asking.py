"""Asking a server for its tools: one that does not answer is given up, and ended."""

import asyncio
import sys
from pathlib import Path

import pytest
from tests.world import listing_server

from accredit.asking import server as asking
from accredit.errors import ConfigurationError
from accredit.gateway import StdioUpstream

pytestmark = [pytest.mark.slow, pytest.mark.holds("asking/server"), pytest.mark.holds("asking/objects")]


def test_a_server_that_never_lists_is_waited_for_aloud_and_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(asking, "SERVER_LISTS_SECONDS", 1.0)
    monkeypatch.setattr(asking, "ASK_NOTICE_SECONDS", 0.0)
    upstream = StdioUpstream((sys.executable, listing_server.__file__, "--mute"), cwd=str(tmp_path))
    with pytest.raises(ConfigurationError, match="in 1 s") as caught:
        asyncio.run(asking._ask_upstream(upstream))
    assert "run the command by hand" in caught.value.remedy
    (notice,) = capsys.readouterr().err.splitlines()
    assert notice.startswith("waiting for the server to list its tools, for 1 s in all")


@pytest.mark.parametrize(
    ("printed", "quoted"),
    [
        ("loading model…", "loading model…"),
        ('{"level": "info"}', '{"level": "info"}'),
        ("\x1b[2J\x1b]0;title\x07 \u202e", "\\x1b[2J\\x1b]0;title\\x07 \\u202e"),
        ("x" * 5_000, "x" * 100),
    ],
)
def test_words_on_stdout_are_quoted_at_once__safely_and_once(
    printed: str,
    quoted: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(asking, "SERVER_LISTS_SECONDS", 2.0)
    monkeypatch.setattr(asking, "ASK_NOTICE_SECONDS", 1.0)
    (tmp_path / "words").write_text(f"{printed}\n" * 3, "utf-8")
    upstream = StdioUpstream(("sh", "-c", f"cat {tmp_path}/words; cat {tmp_path}/words; cat >/dev/null"))
    said = f"the server wrote to stdout what is not JSON-RPC: '{quoted}'"
    with pytest.raises(ConfigurationError, match="did not list its tools") as caught:
        asyncio.run(asking._ask_upstream(upstream))
    assert caught.value.what.endswith(f"; {said}")
    assert caught.value.remedy.startswith("have it print that to stderr, in Python by print(..., file=sys.stderr)")
    assert "run the command by hand" in caught.value.remedy, "the words may not be what is wrong"
    first, notice = capsys.readouterr().err.splitlines()
    assert first == f"warning: {said}; have it print to stderr"
    assert notice == "waiting for the server to list its tools, for 2 s in all"


def test_a_few_lines_of_stdout_are_quoted_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(asking, "SERVER_LISTS_SECONDS", 1.0)
    words = "for n in 1 2 3 4 5 6 7; do echo line $n; done; cat >/dev/null"
    with pytest.raises(ConfigurationError, match="'line 1'"):
        asyncio.run(asking._ask_upstream(StdioUpstream(("sh", "-c", words), cwd=str(tmp_path))))
    assert [each for each in capsys.readouterr().err.splitlines() if "stdout" in each] == [
        f"warning: the server wrote to stdout what is not JSON-RPC: 'line {n}'; have it print to stderr"
        for n in (1, 2, 3)
    ]


@pytest.mark.parametrize("silent", ["while read -r line; do :; done", "while read -r line; do echo hello; done"])
def test_a_command_that_speaks_no_mcp_is_told_how_to_find_out(silent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "SERVER_LISTS_SECONDS", 1.0)
    with pytest.raises(ConfigurationError, match="did not list its tools") as caught:
        asyncio.run(asking._ask_upstream(StdioUpstream(("sh", "-c", silent))))
    assert "run the command by hand" in caught.value.remedy


def test_the_folder_of_modules_is_looked_at_only_for_the_import(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    before = list(sys.path)
    with pytest.raises(ConfigurationError, match="no_such_module"):
        asking.ask_object("no_such_module:server")
    assert sys.path == before

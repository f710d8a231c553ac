"""What a terminal shows of what takes long, and that nobody else sees any of it."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.world.command import accredit
from tests.world.terminal import Terminal

pytestmark = [pytest.mark.slow, pytest.mark.holds("terminal/progress"), pytest.mark.holds("cli/options")]


@pytest.fixture
def silent() -> Iterator[str]:
    """The URL of a server that takes connections, and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}/mcp"


def test_a_terminal_shows_what_is_waited_for__and_nothing_of_it_stays(silent: str, tmp_path: Path) -> None:
    with Terminal("check", silent, "--timeout", "4", folder=tmp_path) as terminal:
        terminal.wait_for(r"\rasking the server what it offers: [2-9] s")
        assert terminal.end() == 2
    left = [line for line in left_on_screen(terminal.seen) if line and not line.startswith("  | ")]  # what is folded
    assert [line.partition(":")[0] for line in left] == ["error", "help"]


def left_on_screen(text: str) -> list[str]:
    """The lines that a terminal shows in the end."""
    lines: list[str] = []
    for each in text.split("\n"):
        line = ""
        for part in each.split("\r"):
            line = part + line[len(part) :]
        lines.append(line.rstrip())
    return lines


def test_a_pipe_and_json_show_nothing_of_it(silent: str, tmp_path: Path) -> None:
    done = accredit("check", silent, "--timeout", "3", folder=tmp_path)
    assert [line.partition(":")[0] for line in done.stderr.splitlines()] == ["error", "help"]
    with Terminal("check", silent, "--timeout", "3", "--json", folder=tmp_path) as terminal:
        assert terminal.end() == 2
    assert "asking" not in terminal.seen


def test_whoever_is_interrupted_is_left_with_a_clean_line(silent: str, tmp_path: Path) -> None:
    with Terminal("check", silent, folder=tmp_path) as terminal:
        terminal.wait_for("asking the server")
        terminal.types("\x03")
        assert terminal.end() == 130
    assert not any("asking" in line for line in left_on_screen(terminal.seen))

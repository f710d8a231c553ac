"""Long texts in a terminal: no part of one begins where a row of ours does, whatever the terminal's widths are."""

import io
import os
import pty
import termios
from collections.abc import Callable, Iterator

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.world.terminal import screen

from accredit.base.terminal import (
    FURTHER,
    GOES_ON,
    MIN_TERMINAL_COLUMNS,
    columns,
    for_stderr,
    rows,
    size_of,
    two_lines,
    width_of,
)

pytestmark = pytest.mark.holds("base/terminal")

TEXTS = st.text(st.sampled_from("a b|:!⟨⟩\u0430é漢\u0301😀"), max_size=200) | st.text(max_size=99)
WIDTHS = st.integers(MIN_TERMINAL_COLUMNS - 1, 130)


@given(TEXTS, WIDTHS, st.sampled_from(["", GOES_ON]), st.integers(0, 2))
@example("to: x" + " " * 74 + "cc: nobody", 79, "", 1)
@example("漢" * 60, 79, "", 2)
@example("\u0430" * 79, 79, "", 2)
def test_no_part_of_a_text_begins_a_row_of_its_own(text: str, width: int, goes_on: str, wide: int) -> None:
    text = f"name: {text}".translate({10: "?", 13: "?"})
    found = rows(text, width, goes_on)
    seen = screen("\n".join(found), width + 1, wide)
    assert len(seen) == len(found)
    assert seen[0].startswith("name:")
    assert all(row.startswith(FURTHER) for row in seen[1:])


@given(TEXTS, WIDTHS)
def test_what_was_cut_can_be_put_together_again__and_so_two_texts_never_have_the_same_rows(
    text: str, width: int
) -> None:
    text = "name: " + text.replace(GOES_ON, "")
    first, *more = rows(text, width, GOES_ON)
    assert "".join([first, *(row.removeprefix(FURTHER) for row in more)]).replace(GOES_ON, "") == text
    assert all(row.endswith(GOES_ON) for row in [first, *more][:-1])


def test_a_row_goes_on_after_its_margin() -> None:
    assert rows("    one two three", 21) == ["    one two three"]
    assert rows("    one two three four five", 20) == ["    one two three", "      | four five"]


def test_a_command_of_ours_is_not_cut__so_that_it_can_be_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    def narrow(_stream: object) -> int:
        return MIN_TERMINAL_COLUMNS

    monkeypatch.setattr("accredit.base.terminal.width_of", narrow)
    command = f"  accredit grant --constraint '{'x' * 200}'"
    assert for_stderr(command) == command
    assert "\n" not in for_stderr(f"{command}\nerror: of somebody else's")
    assert len(for_stderr(command.replace("accredit", "another")).splitlines()) > 1


def test_a_code_is_not_cut() -> None:
    found = rows("x" * 30 + "⟨U+202E⟩" + "x" * 30, 40)
    assert any("⟨U+202E⟩" in row for row in found)


def test_a_text_of_64_kib_is_cut_at_once() -> None:
    assert len(rows("⟨U+202E⟩" * 8_000, 19, GOES_ON)) > 8_000


@pytest.fixture
def terminal() -> Iterator[Callable[[int, int], io.TextIOWrapper]]:
    ours, theirs = pty.openpty()

    def sized(width: int, height: int) -> io.TextIOWrapper:
        termios.tcsetwinsize(theirs, (height, width))
        return os.fdopen(os.dup(theirs), "w")

    yield sized
    os.close(ours)
    os.close(theirs)


def test_the_environment_makes_no_terminal_wider_than_it_is(
    terminal: Callable[[int, int], io.TextIOWrapper], monkeypatch: pytest.MonkeyPatch
) -> None:
    for told, wide, expected in (
        ("", 80, 79), ("200", 80, 79), ("40", 80, 39), ("60", 0, 59), ("", 0, 79), ("x", 30, 29),
    ):  # fmt: skip
        monkeypatch.setenv("COLUMNS", told)
        with terminal(wide, 10) as stream:
            assert width_of(stream) == expected
    monkeypatch.setenv("COLUMNS", "1")
    with terminal(3, 0) as stream:
        assert size_of(stream) == (MIN_TERMINAL_COLUMNS - 1, 24)


def test_what_is_no_terminal_has_no_width() -> None:
    assert size_of(io.StringIO()) is None
    assert size_of(None) is None
    closed = io.StringIO()
    closed.close()
    assert size_of(closed) is None


def test_an_error_is_two_lines_whatever_it_quotes(
    terminal: Callable[[int, int], io.TextIOWrapper], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert two_lines("a\nb", "c\n") == "error: a\\nb\nhelp: c\\n"
    monkeypatch.delenv("COLUMNS", raising=False)
    with terminal(40, 24) as stream:
        monkeypatch.setattr("sys.stderr", stream)
        told = screen(two_lines("the server says: " + "x" * 22 + " ok: all is well", "ask it"), 40)
        assert [row for row in told if not row.startswith(FURTHER)] == [told[0], "help: ask it"]
        assert for_stderr("note: short") == "note: short"
    assert columns("é⟨") == 4

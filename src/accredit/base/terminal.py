"""Rows of a terminal. Whoever leaves it to a terminal to wrap a long text lets that text choose how rows begin, and a
row of the text could pass for a row of ours. No I/O but a look at a terminal's size.

1. A text is cut here into rows that fit. Every row but its first begins with the margin of the first, and `  | `: it
   goes on with the row above.
2. A character that is not ASCII counts as two columns, the most that any terminal gives it; so no terminal cuts a row
   once more, whatever its tables of widths say.
3. Where two texts must not have the same rows, a row that goes on ends with brackets that no shown text has.
"""

import os
import re
import sys
from collections.abc import Iterator
from typing import IO, Any

from accredit.base.text import one_line
from accredit.limits import DEFAULT_TERMINAL, MIN_TERMINAL_COLUMNS

FURTHER = "  | "
"""How a row begins that goes on with the row above, after the margin."""

GOES_ON = "⟨…⟩"
"""The end of a row that goes on, where two texts must not have the same rows."""

_UNITS = re.compile(r"⟨U\+[0-9A-F]{4,6}⟩|.", re.DOTALL)
"""What is not cut: the code of a character (`pins.shown`), and a character."""
_CODE_COLUMNS = 12
"""Columns of the longest code."""


def columns(text: str) -> int:
    """Return how many columns a text takes at most (rule 2)."""
    return sum(1 if " " <= char <= "~" else 2 for char in text)


def size_of(stream: IO[Any] | None) -> tuple[int, int] | None:
    """Return the columns of a row that no terminal wraps, and how many rows there are; None for what is no terminal.

    The environment may say less than the terminal has (`COLUMNS`), and never more.
    """
    try:
        if stream is None or not stream.isatty():
            return None
        size = os.get_terminal_size(stream.fileno())
    except (OSError, ValueError):
        return None
    told = os.environ.get("COLUMNS", "")
    wanted = int(told) if re.fullmatch("[1-9][0-9]{0,5}", told) else 0
    wide = min(size.columns or wanted or DEFAULT_TERMINAL[0], wanted or size.columns or DEFAULT_TERMINAL[0])
    # One less: some terminals begin the next row once the last column is written.
    return max(wide, MIN_TERMINAL_COLUMNS) - 1, size.lines or DEFAULT_TERMINAL[1]


def width_of(stream: IO[Any] | None) -> int | None:
    """Return the columns of `size_of`; None for what is no terminal."""
    size = size_of(stream)
    return None if size is None else size[0]


def rows(text: str, width: int | None, goes_on: str = "") -> list[str]:
    """Return the rows of one line of text, in so many columns (rule 1); for None, the text as it is."""
    if width is None:
        return [text]
    margin = min(len(text) - len(text.lstrip(" ")), width // 4)
    return list(pieces(text, width, " " * margin + FURTHER, goes_on))


def pieces(text: str, width: int, further: str, goes_on: str = "") -> Iterator[str]:
    """Yield a text in pieces of at most so many columns, each but the first after `further`, and each but the last
    before `goes_on`. Cut after a blank where there is one in the second half of a row. Linear in its length."""
    least = width - columns(further) - columns(goes_on)
    units: list[str] = _UNITS.findall(text) if least >= _CODE_COLUMNS else list(text)
    left, at, begin = columns(text), 0, ""
    while left > width - columns(begin):
        room = max(2, width - columns(begin) - columns(goes_on))
        end, used, blank, kept = at, 0, 0, 0
        while end < len(units) and used + (size := columns(units[end])) <= room:
            used, end = used + size, end + 1
            if units[end - 1] == " " and used > room // 2:
                blank, kept = end, used
        if blank:
            end, used = blank, kept
        piece = "".join(units[at:end])
        yield begin + (piece + goes_on if goes_on else piece.rstrip(" "))
        at, left, begin = end, left - used, further
    yield begin + "".join(units[at:])


def two_lines(what: str, remedy: str) -> str:
    """Return the two lines by which every command says on stderr what is wrong, and what to do."""
    return f"{for_stderr(f'error: {what}')}\n{for_stderr(f'help: {remedy}')}"


def for_stderr(line: str) -> str:
    """Return a line of any origin as it goes to stderr: in rows, where that is a terminal."""
    return "\n".join(rows(one_line(line), width_of(sys.stderr)))

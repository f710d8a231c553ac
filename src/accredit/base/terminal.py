"""Folds text into rows of a terminal. If the terminal itself wrapped a long text, the text could choose how rows begin,
and imitate our own rows. No I/O but a look at a terminal's size.

- A text is folded to the width. Each row but the first begins with the first one's margin and `  | `.
- A character that is not ASCII counts as two columns, the most that any terminal uses. So no terminal wraps a row
  again, whatever its width tables.
- Where different texts must have different rows, a row that is continued ends with brackets that no shown text
  contains.
"""

import os
import re
import sys
from collections.abc import Iterator
from typing import IO, Any

from accredit.base.text import one_line
from accredit.limits import DEFAULT_TERMINAL

MIN_TERMINAL_COLUMNS = 20
"""The smallest width to which texts are folded. A narrower row has no room for a margin, a mark and a word."""


FURTHER = "  | "
"""The start of a row that continues the one above, after the margin."""

GOES_ON = "⟨…⟩"
"""The end of a row that the next one continues, where different texts must have different rows."""

_UNITS = re.compile(r"⟨U\+[0-9A-F]{4,6}⟩|.", re.DOTALL)
"""Matches a unit that must not be split: a character's code (`pins.shown`), or a character."""
_CODE_COLUMNS = 12
"""How many columns the longest code of a character takes."""


def columns(text: str) -> int:
    """Return how many columns a text takes at most."""
    return sum(1 if " " <= char <= "~" else 2 for char in text)


def size_of(stream: IO[Any] | None) -> tuple[int, int] | None:
    """Return how many columns a row may have so that no terminal wraps it, and the number of rows; None if this is no
    terminal.

    `COLUMNS` in the environment may lower the width, but not raise it.
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
    # One less: some terminals wrap after writing the last column.
    return max(wide, MIN_TERMINAL_COLUMNS) - 1, size.lines or DEFAULT_TERMINAL[1]


def width_of(stream: IO[Any] | None) -> int | None:
    """Return the columns of `size_of`; None if the stream is no terminal."""
    size = size_of(stream)
    return None if size is None else size[0]


def rows(text: str, width: int | None, goes_on: str = "") -> list[str]:
    """Fold a line of text to a width; None leaves it unfolded. `goes_on` ends each row that is continued."""
    if width is None:
        return [text]
    margin = min(len(text) - len(text.lstrip(" ")), width // 4)
    return list(pieces(text, width, " " * margin + FURTHER, goes_on))


def pieces(text: str, width: int, further: str, goes_on: str = "") -> Iterator[str]:
    """Yield a text in pieces that fit the width. Each but the first begins with `further`; each but the last ends with
    `goes_on`. A text is split after a blank in the second half of a row, if there is one. Linear in the text's
    length."""
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
    """Return the two lines of every error on stderr: what is wrong, and what to do."""
    return f"{for_stderr(f'error: {what}')}\n{for_stderr(f'help: {remedy}')}"


def for_stderr(line: str) -> str:
    """Escape a line for stderr, and fold it for a terminal. A command of ours is not folded, so that it can be
    copied."""
    if line.startswith("  accredit "):
        return one_line(line)
    return "\n".join(rows(one_line(line), width_of(sys.stderr)))

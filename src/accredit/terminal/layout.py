"""Lays out the output of commands: texts, facts, tables. No I/O.

Text may come from others' files or peers: it is never markup, can't control the terminal, and can't imitate the
beginning of one of our rows (`base.terminal`). Within a given width:

- a line of text that is folded continues after its margin and `  | `;
- a fact is a name with a value. The value continues below itself, after `| `. If there is little room, it begins below
  its name, indented;
- a table's cell continues in its column, after `| `, and no cell begins with that or with a blank. If columns would be
  too narrow, each row of the table is printed as facts.

Without a width (None), rows are not folded, for programs and files.
"""

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, NamedTuple

from accredit.base.deferred import Deferred
from accredit.base.terminal import FURTHER, columns, pieces, rows
from accredit.base.text import one_line

if TYPE_CHECKING:
    from rich import cells
else:  # for text that is not ASCII
    cells = Deferred("rich.cells")

_GAP = "  "
_MARK = "| "
_SET_IN = "  "
_LEAST_VALUE = 20
"""The least width of a value that is printed beside its name."""
_LEAST_CELL = 10
"""The least width of a cell that is folded: a narrower one could not be read."""


class Words(NamedTuple):
    """A text with a style of `rich`, such as "green"."""

    text: str
    style: str = ""


Row = Sequence[Words]


def text_rows(value: Words | str, width: int | None) -> list[Row]:
    """Return the rows of one line."""
    words = _words(value)
    return [[Words(each, words.style)] for each in rows(words.text, width)]


def fact_rows(facts: Sequence[tuple[str, Words | str]], width: int | None) -> Iterator[Row]:
    """Yield the rows of facts: names, each with its value."""
    widest = max((_cell_len(one_line(name)) for name, _ in facts), default=0)
    for name, value in facts:
        label, words = _words(Words(name, "bold")), _words(value)
        begin = label.text + " " * (widest - _cell_len(label.text)) + _GAP
        if width is None:
            yield [label._replace(text=begin), words]
        elif columns(begin) + _LEAST_VALUE <= width:
            first, *more = pieces(words.text, width - columns(begin), _MARK)
            yield [label._replace(text=begin), words._replace(text=first)]
            yield from ([Words(" " * columns(begin)), words._replace(text=each)] for each in more)
        else:
            yield from text_rows(label, width)
            further = f"{_SET_IN}{FURTHER}"
            yield from ([words._replace(text=each)] for each in pieces(f"{_SET_IN}{words.text}", width, further))


def table_rows(headings: Sequence[str], lines: Sequence[Sequence[Words | str]], width: int | None) -> Iterator[Row]:
    """Yield the rows of a table."""
    heads = [Words(heading, "bold") for heading in headings]
    cells = [[_words(each) for each in line] for line in lines]
    if width is None:
        widths = [max(_cell_len(each.text) for each in column) for column in zip(heads, *cells, strict=True)]
        yield from (_join_cells(line, widths, None) for line in (heads, *cells))
        return
    cells = [[_cell(each) for each in line] for line in cells]
    found = _widths([max(columns(each.text) for each in column) for column in zip(heads, *cells, strict=True)], width)
    if found is None:
        for line in cells:
            yield from fact_rows(list(zip(headings, line, strict=True)), width)
            yield [Words("")]
        return
    yield _join_cells(heads, found, width)
    yield [Words("-" * (sum(found) + len(_GAP) * (len(found) - 1)), "dim")]
    for line in cells:
        folded = [list(pieces(each.text, size, _MARK)) for each, size in zip(line, found, strict=True)]
        for row in zip_longest(*folded, fillvalue=""):
            parts = [each._replace(text=text) for each, text in zip(line, row, strict=True)]
            yield _join_cells(parts, found, width)


def _words(value: Words | str) -> Words:
    words = Words(value) if isinstance(value, str) else value
    return words._replace(text=one_line(words.text))


def _cell(words: Words) -> Words:
    """Escape a cell's start, so that it can't pass for a continuation of the cell above."""
    text = words.text
    return words._replace(text=f"\\x{ord(text[0]):02x}{text[1:]}") if text.startswith((" ", "|")) else words


def _widths(natural: Sequence[int], width: int) -> list[int] | None:
    """Return the columns' widths, after narrowing the widest until all fit. Return None if they would be too narrow."""
    found, room = list(natural), width - len(_GAP) * (len(natural) - 1)
    while (over := sum(found) - room) > 0:
        widest = max(found)
        if widest <= _LEAST_CELL:
            return None
        at = found.index(widest)
        others = max((each for each in found if each < widest), default=0)
        found[at] = max(_LEAST_CELL, widest - over, min(others, widest - 1))
    return found


def _join_cells(cells: Row, widths: Sequence[int], width: int | None) -> Row:
    """Join cells, each padded to its column's width. If a terminal might show the row wider than `width`, pad less."""
    parts = [each._replace(text=_pad(each.text, size, _cell_len(each.text)) + _GAP)
             for each, size in zip(cells, widths, strict=True)]  # fmt: skip
    if width is not None and columns("".join(each.text for each in parts).rstrip()) > width:
        parts = [each._replace(text=_pad(each.text, size, columns(each.text)) + _GAP)
                 for each, size in zip(cells, widths, strict=True)]  # fmt: skip
    return parts


def _pad(text: str, size: int, takes: int) -> str:
    return text + " " * (size - takes)


def _cell_len(text: str) -> int:
    """Return how many columns a terminal uses for a printable text."""
    return len(text) if text.isascii() else cells.cell_len(text)

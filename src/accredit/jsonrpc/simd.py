"""Validates a text in one pass, by a parser that takes 64 bytes at a time. It can confirm a text, but never refuses
one. No I/O.

`simdjson` reads a text two to eight times faster than the passes of `text`. It accepts two kinds of text that the
passes of `text` refuse: with a byte order mark, and nested up to 1,024 deep. These are excluded separately. It also
rejects some good texts (with integers beyond 64 bits), so a text that it rejects is checked again by `text`, which
gives the reason. Where `simdjson` is not installed, nothing is confirmed here.
"""

from collections.abc import Callable, Iterator
from typing import Any, Protocol

try:
    from simdjson import Parser
except (ImportError, RuntimeError):  # wheels exist for common machines only
    Parser = None

ONE_PASS_BYTES = 262_144
"""The most bytes of a text that the fast parser reads in one pass (some 0.2 ms). Longer texts are read in slices. The
parser reserves up to 14 times as much memory, but uses only what the largest text so far needed."""


_BOM_BEGINS = 0xEF
_parse: Callable[[bytes], Any] | None = Parser(ONE_PASS_BYTES).parse if Parser is not None else None


class ParsedObject(Protocol):
    """A parsed object, duplicate members included. While it is in use, the parser can't parse anything else."""

    def __len__(self) -> int:
        """Return the number of members."""
        ...

    def __iter__(self) -> Iterator[str]:
        """Yield the name of each member."""
        ...

    def __getitem__(self, name: str) -> object:
        """Return the value of the first member of this name."""
        ...


def reads_well(data: bytes) -> bool:
    """Return whether a text is certain to be UTF-8 without a byte order mark, and valid JSON with finite numbers only.

    Depth and ambiguous names are not checked. False means undecided.
    """
    if _parse is None or not 0 < len(data) <= ONE_PASS_BYTES or data[0] == _BOM_BEGINS:
        return False
    try:
        _parse(data)
    except (ValueError, RuntimeError, MemoryError):
        return False
    return True


def parsed_object(data: bytes) -> ParsedObject | None:
    """Return the object in a text that begins with `{`, if it is certain to be valid (`reads_well`)."""
    if _parse is None or len(data) > ONE_PASS_BYTES:
        return None
    try:
        return _parse(data)
    except (ValueError, RuntimeError, MemoryError):
        return None

"""Counts the arrays and objects in a part of an answer before the part is split in one call. No I/O.

A bracket takes twice as long to skip as any other byte, and 16 MiB of text can hold sixteen million.
"""

from msgspec import Raw

from accredit.base.steps import Steps
from accredit.errors import FrameError
from accredit.jsonrpc.long_text import outside_strings
from accredit.jsonrpc.objects import parts_of
from accredit.jsonrpc.text import BRACKETS

MAX_SPLIT_BRACKETS = 1_048_576
"""The most arrays and objects in a part that is split in one call, at every depth. Skipping one takes as long as ten
other bytes. Tool definitions that consist only of schemas have one per 22 bytes."""


def check_brackets(value: bytes | Raw, what: str) -> Steps[None]:
    """Refuse a value that contains more than `MAX_SPLIT_BRACKETS` arrays and objects, in steps. Raises `FrameError`,
    which calls the value `what`."""
    if len(value) <= 2 * MAX_SPLIT_BRACKETS:  # each is two brackets
        return
    found = 0
    for part in parts_of(value):
        found += _count_opening(part)
        yield
    if found <= MAX_SPLIT_BRACKETS:
        return
    found = 0
    for part in outside_strings(memoryview(value), BRACKETS):
        found += _count_opening(part)
        if found > MAX_SPLIT_BRACKETS:
            raise FrameError(f"{what} has more than {MAX_SPLIT_BRACKETS} arrays and objects", bound=True)
        yield


def _count_opening(text: bytes) -> int:
    return text.count(b"[") + text.count(b"{")

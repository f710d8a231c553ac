"""Counts the elements of an upstream's arrays before splitting them, and rewrites an array element by element. No I/O.

Splitting costs some 80 bytes per element, whatever its size, and 16 MiB of text can hold eight million elements. So
commas are counted first: all of them, which is fast and usually shows that there are few enough elements. Only if there
are too many commas, those between the array's own elements are counted.

A rewritten array is written straight into the new text, whose length is bounded while it grows. Beside the text that
arrived, memory never holds more than that one copy.
"""

from collections.abc import Mapping
from io import BytesIO
from itertools import accumulate

import msgspec
from msgspec import Raw

from accredit.errors import FrameError, JsonError, MessageId
from accredit.jsonrpc.encode import around
from accredit.jsonrpc.frames import Success
from accredit.jsonrpc.objects import is_array, parts_of
from accredit.jsonrpc.text import LIST_STRUCTURE, STEPS, outside_strings

MAX_LISTED_ITEMS = 65_536
"""The most elements that a list (tools, tasks, blocks of content) may have to be split. Each takes some 80 bytes, and
some 25 microseconds on its way to a client. 16 MiB have room for eight million."""


_decode_list = msgspec.json.Decoder(list[Raw]).decode
_COMMA = b","
_LEVELS = bytes.maketrans(_COMMA, b"\0")
# Bytes that are 1 where a comma is, and where the level is that of the array's own elements.
_IS_COMMA = bytes(byte == ord(_COMMA) for byte in range(256))
_IS_OWN = bytes(byte == 1 for byte in range(256))


def elements(array: Raw | None, what: str, most: int = MAX_LISTED_ITEMS) -> list[Raw]:
    """Return the elements of an array that `text` has checked. Raises `FrameError` if the value is not an array or has
    more than `most` elements; the error calls the value `what`."""
    if array is None or not is_array(array):
        raise FrameError(f"{what} is not an array")
    check_count(array, what, most)
    try:
        return _decode_list(array)
    except (msgspec.MsgspecError, RecursionError):
        raise JsonError("not valid JSON") from None


def check_count(array: Raw, what: str, most: int = MAX_LISTED_ITEMS) -> None:
    """Refuse an array of more than `most` elements. Raises `FrameError`."""
    if sum(part.count(_COMMA) for part in parts_of(array)) >= most and _own_commas(array, most) >= most:
        raise FrameError(f"{what} has more than {most} elements", bound=True)


def check_values(text: bytes, what: str, most: int) -> None:
    """Refuse a text, valid JSON or not, with more than `most` values at all levels together. Raises `FrameError`."""
    if text.count(_COMMA) + text.count(b"[") + text.count(b"{") < most:
        return
    found = 1
    for part in outside_strings(text, LIST_STRUCTURE):
        # Every value but the first one of a text comes after a comma, or is the first in brackets.
        found += part.count(_COMMA) + part.count(b"[") + part.count(b"{")
        if found > most:
            raise FrameError(f"{what} has more than {most} values", bound=True)


class RewrittenArray:
    """Writes a response again, with a new array as the member `name` of its result, one element at a time. `message`
    holds the response's members, `result` those of its result. `most` bounds the bytes of the new response."""

    def __init__(
        self, name: str, message: Mapping[str, Raw], result: Mapping[str, object], id: MessageId, most: int
    ) -> None:
        self._id = id
        self._most = most
        self._before, self._after = around("result", message)
        before, self._result_after = around(name, result)
        self._begun = False
        self._text = BytesIO()  # grows in place, and returns its bytes without a copy
        self._text.write(self._before + before + b"[")

    def add(self, element: Raw) -> None:
        """Write one element. Raises `FrameError` if the response would become too long."""
        if self._text.tell() + len(element) > self._most:
            raise FrameError(f"an answer that becomes longer than {self._most} bytes", bound=True)
        if self._begun:
            self._text.write(_COMMA)
        self._begun = True
        self._text.write(element)

    def end(self) -> Success:
        """Return the whole response, with the elements written so far."""
        self._text.write(b"]" + self._result_after + self._after)
        text = self._text.getvalue()
        return Success(self._id, Raw(memoryview(text)[len(self._before) : len(text) - len(self._after)]), text)


def _own_commas(array: Raw, most: int) -> int:
    """Return the number of commas between an array's own elements; counting stops at `most`."""
    level = found = 0
    for part in outside_strings(array, LIST_STRUCTURE):
        steps = memoryview(part.translate(STEPS).translate(_LEVELS)).cast("b")
        levels = bytes(accumulate(steps, initial=level))[1:]
        if levels:
            level = levels[-1]
            own = int.from_bytes(levels.translate(_IS_OWN)) & int.from_bytes(part.translate(_IS_COMMA))
            found += own.bit_count()
        if found >= most:
            return most
    return found

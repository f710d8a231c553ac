"""Members whose names another reader takes for one: `amount` and `AMOUNT`. No I/O.

Binders of Go, .NET and others match names without regard to case, and act on the one of the two that no constraint saw.
Names are the same here, at any depth of a value, if they are equal

1. in lower case, as Unicode folds it (the Kelvin sign is a k) and as Java and .NET do (so are the Turkish letters i);
2. up to a NUL, where a reader in C stops.

What does not count: Unicode's normal forms. Names with accents that are the same only to who normalizes them (Swift)
are two. Unpaired surrogates are no names: `text` and `msgspec` refuse them.

Linear in the text, and passes of C code: the value is folded as a whole, and if it then has fewer members, two were the
same.
"""

import re

import msgspec
from msgspec import Raw

from accredit.errors import FrameError, JsonError
from accredit.jsonrpc.text import count_members

_NUL = b"\\u0000"
_FROM_NUL = re.compile(rb'\\u0000[^"]*')


def check_same_names(value: Raw) -> None:
    """Refuses a value with two members of one object that another reader takes for one. Raises `FrameError`."""
    text = bytes(value)
    if text.count(b":") < 2:  # no room for two members
        return
    try:
        if b"\\" in text or not text.isascii():
            text = msgspec.json.encode(msgspec.json.decode(text))  # escapes only where they must be
        folded = _folded(text)
        if folded == text:
            return
        kept = msgspec.json.encode(msgspec.json.decode(folded))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise JsonError("not valid JSON") from None
    if count_members(kept) != count_members(folded):
        raise FrameError("two members that differ only by case")


def _folded(text: bytes) -> bytes:
    """JSON text with all its strings as the most careless reader of names has them. It stays valid JSON."""
    if not text.isascii():
        # To Unicode the two Turkish letters i are none, but their capital and small letters are in Java.
        text = str(text, "utf-8").casefold().replace("\u0131", "i").replace("i\u0307", "i").encode()
    text = text.lower()
    if _NUL in text:
        # Without escaped backslashes and quotes, a string ends with the next quote.
        text = _FROM_NUL.sub(b"", text.replace(b"\\\\", b"/").replace(b'\\"', b"'"))
    return text

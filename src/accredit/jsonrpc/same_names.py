"""Finds members whose names another reader takes for the same: `amount` and `AMOUNT`. No I/O.

Decoders in Go, .NET and others match names without regard to case. Of two such members they may use the one that no
constraint checked. Two names at any depth of a value count as the same if they are equal

- [case] in lower case, both as Unicode folds it (the Kelvin sign is a k) and as Java and .NET do (the Turkish letters i
  are an i, too);
- [nul] up to a NUL, where a reader in C stops.

Unicode normalization is ignored: names with accents that are equal only after it (as in Swift) count as different.
Unpaired surrogates do not occur in names: `text` and `msgspec` refuse them.

The cost is linear in the text, in passes of C code. The whole value is folded; if it then has fewer members, two names
were the same.
"""

import re

import msgspec
from msgspec import Raw

from accredit.base.steps import Steps, at_one_go
from accredit.errors import FrameError, JsonError
from accredit.jsonrpc.text import count_members
from accredit.limits import SHORT_MESSAGE_BYTES

_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
_NUL = b"\\u0000"
_FROM_NUL = re.compile(rb'\\u0000[^"]*')


def check_same_names(value: Raw) -> None:
    """Refuse a value in which one object has two members that another reader takes for the same. Raises
    `FrameError`."""
    text = bytes(value)
    if text.count(b":") < 2:  # no room for two members
        return
    try:
        if b"\\" in text or not text.isascii():
            text = msgspec.json.encode(msgspec.json.decode(text))  # writes only the necessary escapes
        folded = at_one_go(_fold(text))
        if folded == text:
            return
        kept = msgspec.json.encode(msgspec.json.decode(folded))
    except _UNREADABLE:
        raise JsonError("not valid JSON") from None
    if count_members(kept) != count_members(folded):
        raise _same()


def check_same_names_in_steps(value: Raw) -> Steps[None]:
    """Like `check_same_names`, in steps for a long value. Raises `FrameError`."""
    text = bytes(value)
    if text.count(b":") < 2:
        return
    yield
    if b"\\" in text or not text.isascii():
        text = _reread(text)
    yield
    folded = yield from _fold(text)
    if folded == text:
        return
    del text
    yield
    kept = _reread(folded)
    yield
    left = count_members(kept)
    del kept
    yield
    if left != count_members(folded):
        raise _same()


def _same() -> FrameError:
    return FrameError("two members that differ only by case")


def _reread(text: bytes) -> bytes:
    """Return a text decoded and encoded again, which keeps the last of two members with one name."""
    try:
        return msgspec.json.encode(msgspec.json.decode(text))
    except _UNREADABLE:
        raise JsonError("not valid JSON") from None


def _fold(text: bytes) -> Steps[bytes]:
    """Return JSON text, still valid, in which names are equal if the most lenient reader takes them for the same. All
    strings are folded, in steps."""
    if not text.isascii():
        whole, parts = str(text, "utf-8"), list[str]()
        for start in range(0, len(whole), SHORT_MESSAGE_BYTES):
            parts.append(whole[start : start + SHORT_MESSAGE_BYTES].casefold())
            yield
        # Unicode's folding keeps the Turkish dotless and dotted i apart from i; Java's case mappings don't.
        text = "".join(parts).replace("\u0131", "i").replace("i\u0307", "i").encode()
        yield
    text = text.lower()
    if _NUL in text:
        # Without escaped backslashes and quotes, a string ends with the next quote.
        text = _FROM_NUL.sub(b"", text.replace(b"\\\\", b"/").replace(b'\\"', b"'"))
    return text

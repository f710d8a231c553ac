"""JSON objects and arrays, split into values that stay text, and scalars read from them. No I/O.

The text must have passed `text.check_text`. A scalar is never converted: asked for one type, the functions return None
for a value of another.

Readers disagree about a name that is spelled with escapes, occurs twice, or differs only by case from one that the
protocol defines. `pairs` returns every member; `check_names` refuses such names.

Decoders in Go, .NET and others match names without regard to case: `amount` and `AMOUNT` are the same to them. Of two
such members they may use the one that no constraint checked. So in a value that a proof binds (`check_same_names`), two
names at any depth count as the same if they are equal

- [case] in lower case, both as Unicode folds it (the Kelvin sign is a k) and as Java and .NET do (the Turkish letters i
  are an i, too);
- [nul] up to a NUL, where a reader in C stops.

Unicode normalization is ignored: names with accents that are equal only after it (as in Swift) count as different.
Unpaired surrogates do not occur in names: `text` and `msgspec` refuse them. The whole value is folded; if it then has
fewer members, two names were the same.
"""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator

import msgspec
from msgspec import Raw

from accredit.base.steps import Steps
from accredit.base.text import excerpt
from accredit.errors import FrameError, JsonError, MessageId
from accredit.jsonrpc.text import count_members
from accredit.limits import SHORT_MESSAGE_BYTES

MAX_BATCH_MEMBERS = 100
"""The most messages in one JSON-RPC batch (revision 2025-03-26 only). The revision sets no bound. Each message starts
an exchange, so this bounds how many exchanges one POST can start."""
MAX_NUMBER_LENGTH = 400
"""The most characters of a JSON number that is read as an integer. The largest number that is finite as a double has
309 digits."""
MAX_MEMBERS = 65_536
"""The most members of one JSON object whose names the gateway reads (a message, its params, its result). Real ones have
tens. A body of 100 MiB could hold 20 million, at some 300 bytes of memory each."""
SEARCHED_BYTES = 1_048_576
"""How many bytes of a long value are searched for a word at a time, so that no copy of the whole is made."""


_INTEGER = re.compile(rb"-?(?:0|[1-9][0-9]*)")
_decode_string: Callable[[Raw], str] = msgspec.json.Decoder(str).decode
_BRACE, _BRACKET = ord("{"), ord("[")
_SURELY_WITHIN_BYTES = 5 * MAX_MEMBERS
_NOT_JSON = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class _Name:
    """A member's name that is equal to no other, not even one with the same text. So a dict with such keys keeps two
    members of one name."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text


_decode_short: Callable[[bytes | Raw], dict[_Name, Raw]] = msgspec.json.Decoder(
    dict[_Name, Raw], dec_hook=lambda _, text: _Name(text)
).decode
_decode_members: Callable[[bytes | Raw], dict[str, Raw]] = msgspec.json.Decoder(dict[str, Raw]).decode


def _decode_long(text: bytes | Raw, most: int) -> dict[_Name, Raw]:
    left = most

    def count(_: type, name: str) -> _Name:
        nonlocal left
        left -= 1
        if left < 0:
            raise FrameError(f"an object with more than {MAX_MEMBERS} members", bound=True)
        return _Name(name)

    return msgspec.json.Decoder(dict[_Name, Raw], dec_hook=count).decode(text)


def _surely_within(text: bytes | Raw) -> bool:
    """Return whether a text is certain to have at most `MAX_MEMBERS` members: each takes a colon, and at least five
    bytes."""
    return len(text) < _SURELY_WITHIN_BYTES or sum(part.count(b":") for part in parts_of(text)) <= MAX_MEMBERS


def pairs(text: bytes | Raw, most: int = MAX_MEMBERS) -> list[tuple[str, Raw]]:
    """Return an object's members in order, duplicates included. Raises `FrameError`, also for more than `most`."""
    try:
        found = _decode_short(text) if most == MAX_MEMBERS and _surely_within(text) else _decode_long(text, most)
        return [(name.text, value) for name, value in found.items()]
    except msgspec.ValidationError:
        raise FrameError("not a JSON object") from None
    except _NOT_JSON:
        raise JsonError("not valid JSON") from None


def members(text: bytes | Raw) -> dict[str, Raw]:
    """Return an object's members by name. If a name is repeated, the last member counts. Raises `FrameError`."""
    if len(text) >= _SURELY_WITHIN_BYTES and not _surely_within(text):
        return dict(pairs(text))
    try:
        return _decode_members(text)
    except msgspec.ValidationError:
        raise FrameError("not a JSON object") from None
    except _NOT_JSON:
        raise JsonError("not valid JSON") from None


def meta_members(meta: Raw | None) -> dict[str, Raw]:
    """Return the members of a `_meta`, empty if there is none. Raises `FrameError` if it is not an object."""
    if meta is None:
        return {}
    if not is_object(meta):
        raise FrameError('"params._meta" is not an object')
    return members(meta)


class Names:
    """Names that the protocol defines for the members of one object."""

    __slots__ = ("defined", "folded")

    def __init__(self, *names: str) -> None:
        self.defined = frozenset(names)
        self.folded = frozenset(map(str.casefold, names))


def check_names(found: Collection[str], names: Names) -> None:
    """Raise `FrameError` for a name that occurs twice, or that differs only by case from a defined one.

    Some parsers (Go's among them) take `Name` for `name`, so two readers would see two messages. Case is folded as in
    Unicode, where the Kelvin sign equals k.
    """
    different = set(found)
    if not different <= names.defined:
        for name in found:
            if name not in names.defined and name.casefold() in names.folded:
                raise FrameError(f"a member differs only by case from a defined one: {excerpt(name)}")
    if len(different) < len(found):
        ((name, _),) = Counter(found).most_common(1)
        raise FrameError(f"a duplicate member: {excerpt(name)}")


def unambiguous_members(text: bytes | Raw, names: Names) -> dict[str, Raw]:
    """Return an object's members by name. Raises `FrameError` for names that readers could take differently."""
    if len(text) < _SURELY_WITHIN_BYTES or _surely_within(text):
        found = members(text)
        if _fill(found, text):
            check_names(found, names)
            return found
    listed = pairs(text)
    check_names([name for name, _ in listed], names)
    return dict(listed)


def _fill(found: dict[str, Raw], text: bytes | Raw) -> bool:
    """Return whether these members fill the text, so that it can't hold another one, such as a duplicate. Quick.

    Each member takes its value, its name without escapes, two quotes, a colon, and a comma or the last brace.
    """
    return len(text) == 1 + 4 * len(found) + sum(map(len, found)) + sum(map(len, found.values()))


def check_no_duplicates(text: bytes) -> None:
    """Raise `FrameError` if a name occurs twice in an object, at any depth.

    Use it only for requests, which are small: the whole text is decoded.
    """
    try:
        kept = msgspec.json.encode(msgspec.json.decode(text))
    except _NOT_JSON:
        raise JsonError("not valid JSON") from None
    # The decoder keeps the last of two members with one name.
    if kept != text and count_members(kept) != count_members(text):
        raise FrameError("a duplicate member")


_Elements = msgspec.defstruct(
    "_Elements",
    [(f"element_{index}", Raw, Raw()) for index in range(MAX_BATCH_MEMBERS)],
    array_like=True,
    forbid_unknown_fields=True,
)
_decode_elements: Callable[[bytes], msgspec.Struct] = msgspec.json.Decoder(_Elements).decode


def split_batch(text: bytes) -> list[bytes]:
    """Return the elements of an array, of which there must be 1 to `MAX_BATCH_MEMBERS`. Raises `FrameError`."""
    try:
        elements: tuple[Raw, ...] = msgspec.structs.astuple(_decode_elements(text))
    except msgspec.ValidationError:
        elements = ()
    except _NOT_JSON:
        raise JsonError("not valid JSON") from None
    parts = [bytes(element) for element in elements if element]
    if not parts:
        raise FrameError(f"a batch has 1 to {MAX_BATCH_MEMBERS} messages")
    return parts


def may_name(raw: Raw | None, name: bytes) -> bool:
    """Return whether an object may have a member of this name, at any depth. Quick; False is certain."""
    return raw is not None and may_hold(raw, name)


def may_hold(raw: Raw, *texts: bytes) -> bool:
    """Return whether some string in a value may contain any of these texts (ASCII letters and underscores). Quick;
    False is certain."""
    if len(raw) <= SEARCHED_BYTES:
        whole = bytes(raw)
        return b"\\u" in whole or any(text in whole for text in texts)  # letters may be escaped
    parts = parts_of(raw, max(map(len, texts)))
    return any(b"\\u" in part or any(text in part for text in texts) for part in parts)


def parts_of(value: bytes | Raw, overlap: int = 0) -> Iterator[bytes]:
    """Yield a value's text in parts of `SEARCHED_BYTES`. Each part also repeats the `overlap` bytes before it, so that
    a word across two parts is found."""
    whole = memoryview(value)
    for start in range(0, max(len(whole), 1), SEARCHED_BYTES):
        yield bytes(whole[max(start - overlap, 0) : start + SEARCHED_BYTES])


def is_object(raw: Raw | None) -> bool:
    """Return whether a value, known to be valid JSON, is an object."""
    return raw is not None and memoryview(raw)[0] == _BRACE


def is_array(raw: Raw) -> bool:
    """Return whether a value, known to be valid JSON, is an array."""
    return memoryview(raw)[0] == _BRACKET


def as_string(raw: Raw | None) -> str | None:
    """Return the value of a JSON string, or None for anything else."""
    if raw is None:
        return None
    try:
        return _decode_string(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def as_integer(raw: Raw | None) -> int | None:
    """Return the value of a JSON number written as an integer (not 1.0 or 1e3), or None."""
    if raw is None or len(raw) > MAX_NUMBER_LENGTH:
        return None
    text = bytes(raw)
    return int(text) if _INTEGER.fullmatch(text) else None


def as_id(raw: Raw | None) -> MessageId | None:
    """Return a request's id, a string or an integer, or None; 1.0, 1.5, true and null are not ids."""
    value = as_integer(raw)
    return value if value is not None else as_string(raw)


def message_id(raw: Raw) -> MessageId:
    """Return a request's id (`as_id`). Raises `FrameError` for what is not one."""
    id = as_id(raw)
    if id is None:
        raise FrameError('"id" is neither a string nor an integer')
    return id


_NUL = b"\\u0000"
_FROM_NUL = re.compile(rb'\\u0000[^"]*')


def check_same_names(value: Raw) -> None:
    """Refuse a value in which one object has two members that another reader takes for the same. Raises
    `FrameError`."""
    for _ in check_same_names_in_steps(value):
        pass


def check_same_names_in_steps(value: Raw) -> Steps[None]:
    """Like `check_same_names`, in steps for a long value. Raises `FrameError`."""
    text = bytes(value)
    if text.count(b":") < 2:  # no room for two members
        return
    yield
    if b"\\" in text or not text.isascii():
        text = _reread(text)  # writes only the necessary escapes
    yield
    folded = yield from _fold(text)
    if folded == text:
        return
    del text
    yield
    kept = _reread(folded)
    if kept == folded:
        return
    yield
    left = count_members(kept)
    del kept
    yield
    if left != count_members(folded):
        raise FrameError("two members that differ only by case")


def _reread(text: bytes) -> bytes:
    """Return a text decoded and encoded again, which keeps the last of two members with one name."""
    try:
        return msgspec.json.encode(msgspec.json.decode(text))
    except _NOT_JSON:
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

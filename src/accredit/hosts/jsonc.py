"""Changes one member of a JSON text with comments and trailing commas, and keeps every other byte. No I/O.

- Parsing is strict: no byte order mark, no duplicate names, nothing after the value, bounded depth. Text that a host
  might read differently is refused.
- A new member goes after the last one of its object, in the object's style: its indent, line ends and trailing comma,
  and on the same line if the object is on one line. In an empty text, an object is made first.
- An existing member's value is replaced in place.
- A member is removed with its comma; comments stay. Adding a member and removing it again restores the text, with two
  exceptions: objects made for the member stay, and blanks in objects that become empty may differ.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, cast

from accredit.base.text import excerpt
from accredit.errors import ConfigurationError
from accredit.limits import MAX_DEPTH

_BLANK = re.compile(r"(?:[ \t\r\n]+|//[^\r\n\u2028\u2029]*|/\*.*?\*/)*", re.DOTALL)
_STRING = re.compile(r'"[^"\\\x00-\x1f]*(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*)*"')
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_WORDS = {"true": True, "false": False, "null": None}
_WHITE = " \t\r\n"
_UNIT = "  "
"""The indent that is used if the text has no indented member."""


class Number(NamedTuple):
    """A number as it is spelled, so that different spellings count as different."""

    text: str


class _Member(NamedTuple):
    """The positions of a member: where its name begins, where its value begins and ends, and the comma after it, if
    any."""

    start: int
    value: int
    end: int
    comma: int | None


class _Object(NamedTuple):
    """An object's span, including both braces, and its members."""

    start: int
    end: int
    members: dict[str, _Member]


class _Edit(NamedTuple):
    start: int
    end: int
    text: str


def parse(text: str) -> object:
    """Parse a text; an empty one is an empty object. Raises `ConfigurationError`."""
    return _Reader(text, ()).meaning


def put(text: str, path: Sequence[str], value: object) -> str:
    """Return the text with the member at `path` set; missing objects are made. Raises `ConfigurationError`."""
    read = _Reader(text, path)
    if not read.objects:
        lines = text + ("" if not text or text[-1] in "\r\n" else read.newline)
        return lines + _dump(_nest(path, value), "", _UNIT, read.newline) + read.newline
    depth = len(read.objects) - 1
    inner, name = read.objects[depth], path[depth]
    if name not in inner.members:
        return _apply_edits(text, _insert_member(read, inner, name, _nest(path[depth + 1 :], value)))
    if depth + 1 < len(path):
        raise ConfigurationError(f"{'.'.join(path[: depth + 1])} is no object", "correct the file by hand first")
    member = inner.members[name]
    one_line = "\n" not in text[inner.start : member.start]
    new = _line(value) if one_line else _dump(value, _indent(text, member.start), read.unit, read.newline)
    return _apply_edits(text, [_Edit(member.value, member.end, new)])


def put_every(text: str, table: str, entries: Mapping[str, object]) -> str:
    """Return the text with new values for existing members of a top-level object. Raises `ConfigurationError`."""
    read = _Reader(text, (table, ""))
    edits: list[_Edit] = []
    for name, value in entries.items():
        member = _member(read, name)
        one_line = "\n" not in text[read.objects[1].start : member.start]
        new = _line(value) if one_line else _dump(value, _indent(text, member.start), read.unit, read.newline)
        edits.append(_Edit(member.value, member.end, new))
    return _apply_edits(text, edits)


def written(text: str, path: Sequence[str]) -> str:
    """Return an existing member's value as the text spells it. Raises `ConfigurationError`."""
    member = _member(_Reader(text, (path[0], "")), path[1])
    return text[member.value : member.end]


def put_written(text: str, path: Sequence[str], raw: str) -> str:
    """Return the text with a member's value replaced by `raw`, which `written` gave. Raises `ConfigurationError`."""
    member = _member(_Reader(text, (path[0], "")), path[1])
    return text[: member.value] + raw + text[member.end :]


def drop(text: str, path: Sequence[str]) -> str:
    """Return the text without the member at `path`; unchanged if it is not there. Raises `ConfigurationError`."""
    read = _Reader(text, path)
    if len(read.objects) < len(path) or path[-1] not in read.objects[-1].members:
        return text
    inner = read.objects[len(path) - 1]
    member = inner.members[path[-1]]
    start = member.start
    while text[start - 1] in _WHITE:
        start -= 1
    commas = [member.comma]
    if member.comma is None:
        before = [each for each in inner.members.values() if each.start < member.start]
        commas = [before[-1].comma] if before else []
    behind = text[member.end if member.comma is None else member.comma + 1 :].lstrip(" \t")
    lines = "\n" in text[start : member.start]
    if lines and not behind.startswith(("\r", "\n")) and "//" in text[text.rfind("\n", 0, start) + 1 : start]:
        start = member.start  # a line's comment would swallow what is behind
    edits = [_Edit(start, member.end, ""), *(_Edit(at, at + 1, "") for at in commas if at is not None)]
    left = _apply_edits(text, edits)
    end = inner.end - sum(each.end - each.start for each in edits) - 1
    if len(inner.members) == 1 and not left[inner.start + 1 : end].strip(_WHITE):
        left = left[: inner.start + 1] + left[end:]
    return left


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError
    return found


def _none(_constant: str) -> object:
    raise ValueError


_JSON = json.JSONDecoder(object_pairs_hook=_unique, parse_float=Number, parse_int=Number, parse_constant=_none)


def _is_deeper(value: object, levels: int) -> bool:
    """Return whether a value's arrays and objects are nested deeper than `levels`."""
    row = [value]
    for _ in range(levels + 1):
        row = [inner for each in row for inner in _inside(each) if isinstance(inner, dict | list)]
        if not row:
            return False
    return True


def _inside(value: object) -> Iterable[object]:
    if isinstance(value, dict):
        return cast("dict[str, object]", value).values()
    return cast("list[object]", value) if isinstance(value, list) else ()


class _Reader:
    """Reads a whole text, and notes the positions of the objects along `path` and of their members."""

    def __init__(self, text: str, path: Sequence[str]) -> None:
        self.text, self._path = text, path
        self.objects: list[_Object] = []
        self.newline = "\r\n" if "\r\n" in text else "\n"
        at = self._blank(0)
        if at == len(text):
            self.meaning: object = {}
            return
        self.meaning, end = self._value(at, 0, on_path=True)
        if self._blank(end) != len(text):
            raise self._wrong(self._blank(end), "the end")
        if not isinstance(self.meaning, dict):
            raise ConfigurationError("the file holds no object", "correct it by hand first")

    @property
    def unit(self) -> str:
        """The text's indent."""
        first = next(iter(self.objects[0].members.values()), None)
        found = "" if first is None else _indent(self.text, first.start)
        return found.removeprefix(_indent(self.text, self.objects[0].start)) or _UNIT

    def _blank(self, at: int) -> int:
        found = _BLANK.match(self.text, at)
        return at if found is None else found.end()

    def _value(self, at: int, depth: int, *, on_path: bool = False) -> tuple[object, int]:
        if not on_path and self.text[at : at + 1] in ("{", "["):
            quick = self._quick(at, depth)
            if quick is not None:
                return quick
        if depth > MAX_DEPTH:
            raise ConfigurationError(f"the file is nested deeper than {MAX_DEPTH} levels", "it is not edited")
        start = self.text[at : at + 1]
        if start == "{":
            return self._object(at, depth, on_path=on_path)
        if start == "[":
            return self._array(at, depth)
        if start == '"':
            return self._string(at)
        number = _NUMBER.match(self.text, at)
        if number is not None:
            return Number(number[0]), number.end()
        for word, value in _WORDS.items():
            if self.text.startswith(word, at):
                return value, at + len(word)
        raise self._wrong(at, "a value")

    def _quick(self, at: int, depth: int) -> tuple[object, int] | None:
        """Have the C parser, which is thirty times faster, parse an array or object outside the path. Return None if it
        is too deep, or not plain JSON: then this reader parses or refuses it."""
        try:
            value, end = _JSON.raw_decode(self.text, at)
        except (ValueError, RecursionError):
            return None
        return None if _is_deeper(value, MAX_DEPTH - depth) else (value, end)

    def _string(self, at: int) -> tuple[str, int]:
        found = _STRING.match(self.text, at)
        if found is None:
            raise self._wrong(at, "a string")
        return json.loads(found[0]), found.end()

    def _array(self, at: int, depth: int) -> tuple[list[object], int]:
        values: list[object] = []
        at = self._blank(at + 1)
        while self.text[at : at + 1] != "]":
            value, at = self._value(at, depth + 1)
            values.append(value)
            at = self._next(at, "]")[0]
        return values, at + 1

    def _object(self, at: int, depth: int, *, on_path: bool) -> tuple[dict[str, object], int]:
        values: dict[str, object] = {}
        members: dict[str, _Member] = {}
        start, place = at, len(self.objects)
        on_path = on_path and depth < len(self._path)
        if on_path:
            self.objects.append(_Object(start, start, members))
        at = self._blank(at + 1)
        while self.text[at : at + 1] != "}":
            name_at, (name, at) = at, self._string(at)
            if name in values:
                raise ConfigurationError(f'"{excerpt(name)}" is there twice in one object', "remove one of them first")
            at = self._blank(at)
            if self.text[at : at + 1] != ":":
                raise self._wrong(at, "a colon")
            value_at = self._blank(at + 1)
            values[name], end = self._value(value_at, depth + 1, on_path=on_path and name == self._path[depth])
            at, comma = self._next(end, "}")
            if on_path:
                members[name] = _Member(name_at, value_at, end, comma)
        if on_path:
            self.objects[place] = _Object(start, at + 1, members)
        return values, at + 1

    def _next(self, at: int, closing: str) -> tuple[int, int | None]:
        """Return two positions: that of the next value or closing bracket, and that of the comma before it, or None."""
        at = self._blank(at)
        if self.text[at : at + 1] == ",":
            return self._blank(at + 1), at
        if self.text[at : at + 1] != closing:
            raise self._wrong(at, f"a comma or {closing}")
        return at, None

    def _wrong(self, at: int, wanted: str) -> ConfigurationError:
        line = self.text.count("\n", 0, at) + 1
        return ConfigurationError(f"line {line} is no JSON: {wanted} is missing there", "correct the file first")


def _member(read: _Reader, name: str) -> _Member:
    """Return the position of a member of the second object on the path."""
    if len(read.objects) < 2 or name not in read.objects[1].members:
        raise ConfigurationError(f'"{excerpt(name)}" is not there', "look at the file")
    return read.objects[1].members[name]


def _insert_member(read: _Reader, inner: _Object, name: str, value: object) -> list[_Edit]:
    """Return the edits that add a member after an object's last one."""
    text = read.text
    last = next(reversed(inner.members.values()), None)
    key = json.dumps(name, ensure_ascii=False)
    brace = inner.end - 1
    end = len(text[:brace].rstrip(_WHITE))
    if last is not None and "\n" not in text[inner.start : last.start]:
        comma, at = ([], last.comma + 1) if last.comma is not None else ([_Edit(last.end, last.end, ",")], last.end)
        behind = "," if last.comma is not None else ""
        gap = "" if text[inner.start + 1] not in _WHITE and "\n" not in text and ": " not in text else " "
        return [*comma, _Edit(at, at, f"{gap}{key}:{gap}{_line(value)}{behind}")]
    outer = _indent(text, inner.start)
    indent = outer + read.unit if last is None else _indent(text, last.start)
    member = f"{read.newline}{indent}{key}: {_dump(value, indent, read.unit, read.newline)}"
    if last is None:
        closing = "" if "\n" in text[end:brace] else read.newline + outer
        return [_Edit(end, end, member + closing)]
    if last.comma is not None:
        return [_Edit(end, end, f"{member},")]
    return [_Edit(last.end, last.end, ","), _Edit(end, end, member)]


def _indent(text: str, at: int) -> str:
    """Return the indent of the line at a position."""
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _nest(path: Sequence[str], value: object) -> object:
    for name in reversed(path):
        value = {name: value}
    return value


def _line(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _dump(value: object, indent: str, unit: str, newline: str) -> str:
    return json.dumps(value, ensure_ascii=False, indent=unit).replace("\n", newline + indent)


def _apply_edits(text: str, edits: Sequence[_Edit]) -> str:
    parts: list[str] = []
    at = 0
    for each in sorted(edits, key=lambda edit: edit.start):  # of two at one place the first comes first
        parts += (text[at : each.start], each.text)
        at = max(at, each.end)
    return "".join((*parts, text[at:]))

"""Changes one table of a TOML text, and keeps every other byte. No I/O.

Comments above a table's header belong to that table. Libraries that keep comments attach them to the table before it
instead, so no library is used: tables are found line by line, by their headers.

This search overlooks inline tables, and takes a line within a string for a header. So callers compare the meaning of
the new text with the intended one, and refuse the change if they differ.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import cast

from accredit.base.toml import read_toml
from accredit.errors import ConfigurationError
from accredit.limits import MAX_HOST_TEXT_CHARS

_HEADER = re.compile(r"[ \t]*\[")
_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_SHORT = {'"': '\\"', "\\": "\\\\"}
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_IDLE = re.compile(r"[ \t]*(?:#.*)?")


def parse(text: str) -> object:
    """Parse a file's text. Raises `ConfigurationError`."""
    if len(text) > MAX_HOST_TEXT_CHARS:
        raise ConfigurationError(f"the file has more than {MAX_HOST_TEXT_CHARS} characters", "edit it by hand")
    try:
        return read_toml(text)
    except ValueError as error:
        raise ConfigurationError(f"the file is no TOML: {error}", "correct the file first") from None


def put(text: str, path: Sequence[str], value: Mapping[str, object]) -> str:
    """Return the text with the table at `path` replaced, or appended."""
    newline = "\r\n" if "\r\n" in text else "\n"
    header = f"[{'.'.join(map(key, path))}]"
    members = [f"{name} = {json.dumps(each, ensure_ascii=False)}" for name, each in value.items()]
    found = _lines(text, path)
    if found:
        (start, end), *others = found
        for begin, stop in reversed(others):
            text = text[:begin] + text[stop:]
        there = text[start:end].splitlines()[0]  # the name as it is spelled there, unless it is of a table below
        table, name = path
        header = there if parse(there) == {table: {name: {}}} else header
        return text[:start] + "".join(line + newline for line in (header, *members)) + text[end:]
    gap = "" if not text else newline if text.endswith("\n") else newline * 2
    return text + gap + "".join(line + newline for line in (header, *members))


def put_every(text: str, table: str, entries: Mapping[str, Mapping[str, object]]) -> str:
    """Return the text with existing tables replaced."""
    for name, value in entries.items():
        text = put(text, (table, name), value)
    return text


def written(text: str, path: Sequence[str]) -> str:
    """Return the lines of the table at `path` and its subtables."""
    return "".join(text[start:end] for start, end in _lines(text, path))


def put_written(text: str, path: Sequence[str], raw: str) -> str:
    """Return the text with the table replaced by `raw`, which `written` gave."""
    (start, end), *others = _lines(text, path) or [(len(text), len(text))]
    for begin, stop in reversed(others):
        text = text[:begin] + text[stop:]
    return text[:start] + raw + text[end:]


def drop(text: str, path: Sequence[str]) -> str:
    """Return the text without the table at `path` and its subtables; at the end of the text, also without the blank
    line before it."""
    for start, end in reversed(_lines(text, path)):
        before, behind = text[:start], text[end:]
        if not behind.strip():
            before = re.sub(r"(\n|\A)\r?\n\Z", r"\1", before)
        text = before + behind
    return text


def string(text: str) -> str:
    """Return a TOML string in printable ASCII. The text must not hold lone surrogates, which TOML can't express."""
    return f'"{"".join(map(_escape, text))}"'


def inline(value: object) -> str:
    """Return a value as TOML in one line: a table or a list of values, or a string as `string` writes it."""
    if isinstance(value, Mapping):
        members = cast("Mapping[str, object]", value)
        return f"{{ {', '.join(f'{key(name)} = {inline(each)}' for name, each in members.items())} }}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(inline, cast('Sequence[object]', value)))}]"
    return string(str(value))


def key(name: str) -> str:
    """Return a name as a key of a TOML table. The name must be one that `string` can write."""
    return name if _BARE.fullmatch(name) else string(name)


def _escape(char: str) -> str:
    if char in _SHORT:
        return _SHORT[char]
    if " " <= char <= "~":
        return char
    return f"\\u{ord(char):04x}" if ord(char) <= 0xFFFF else f"\\U{ord(char):08x}"


def _lines(text: str, path: Sequence[str]) -> list[tuple[int, int]]:
    """Return the spans of a table and its subtables. Comments and blank lines at their ends are not included."""
    names = r"[ \t]*\.[ \t]*".join(rf"(?:{name}|\"{name}\"|'{name}')" for name in map(re.escape, path))
    ours = re.compile(rf"[ \t]*\[[ \t]*{names}[ \t]*(?:\.[^\]]*)?\][ \t]*(?:#.*)?")
    found: list[tuple[int, int]] = []
    at, inside = 0, False
    for line in _LINE.findall(text):
        content = line.rstrip("\r\n")
        if _HEADER.match(content):
            inside = ours.fullmatch(content) is not None
            if inside:
                found.append((at, at + len(line)))
        elif inside and not _IDLE.fullmatch(content):
            found[-1] = (found[-1][0], at + len(line))
        at += len(line)
    return found

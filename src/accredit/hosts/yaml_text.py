"""Changes one entry of a YAML mapping or list, and keeps every other byte. No I/O.

The parser only finds positions; lines are inserted and removed. Callers compare the meaning of the new text with the
intended one. Anchors, aliases, tags, several documents, duplicate names, and entries that share a line are refused:
their meaning depends on more than their position. The parser is installed with the extra `accredit[hosts]`.
"""

# ruff: noqa: PLC0415 - an extra, loaded where a YAML text is edited

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from types import ModuleType
from typing import Any

from accredit.base.deferred import require_extra
from accredit.base.text import excerpt
from accredit.errors import ConfigurationError
from accredit.limits import MAX_DEPTH, MAX_HOST_TEXT_CHARS

_HAND = "add the entry by hand"
_PLAIN_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_WORDS = {"true", "false", "null", "yes", "no", "on", "off", "y", "n"}
"""Names that YAML does not read as strings unless they are in quotation marks."""


def parse(text: str) -> object:
    """Parse a text. Scalars that are not strings keep their tag. An empty text is an empty mapping. Raises
    `ConfigurationError`."""
    root = _compose(text)
    return {} if root is None else _meaning(root)


def put(text: str, path: Sequence[str], value: Mapping[str, object], *, listed: bool = False) -> str:
    """Return the text with the entry at `path` (container, name) replaced, or added as the container's first. If
    `listed`, the container is a list whose entries have a `name`. Raises `ConfigurationError`."""
    table, name = path
    newline = "\r\n" if "\r\n" in text else "\n"
    text = drop(text, path, listed=listed)
    root = _compose(text)
    found = None if root is None else _member(root, table)
    if found is None:
        lines = text if not text or text.endswith("\n") else text + newline
        return lines + newline.join([f"{table}:", *_entry(name, value, 2, listed=listed), ""])
    key, container = found
    column = _column(container, key.start_mark.column + 2)
    at = _behind_line(text, key.end_mark.index)
    if _is_empty(container):
        start = _behind_colon(text, key)
        text = text[:start] + text[start : container.start_mark.index].rstrip(" ") + text[container.end_mark.index :]
        at = _behind_line(text, key.end_mark.index)
    if not text[:at].endswith("\n"):
        text, at = text + newline, at + len(newline)
    entry = newline.join([*_entry(name, value, column, listed=listed), ""])
    return text[:at] + entry + text[at:]


def put_every(text: str, table: str, entries: Mapping[str, Mapping[str, object]], *, listed: bool = False) -> str:
    """Return the text with existing entries replaced. Raises `ConfigurationError`."""
    newline = "\r\n" if "\r\n" in text else "\n"
    spans = [(*_span(text, (table, name), listed=listed), name) for name in entries]
    for at, end, column, name in sorted(spans, reverse=True):
        text = text[:at] + newline.join([*_entry(name, entries[name], column, listed=listed), ""]) + text[end:]
    return text


def written(text: str, path: Sequence[str], *, listed: bool = False) -> str:
    """Return an existing entry's lines. Raises `ConfigurationError`."""
    at, end, _ = _span(text, path, listed=listed)
    return text[at:end]


def put_written(text: str, path: Sequence[str], raw: str, *, listed: bool = False) -> str:
    """Return the text with an entry replaced by `raw`, which `written` gave. Raises `ConfigurationError`."""
    at, end, _ = _span(text, path, listed=listed)
    return text[:at] + raw + text[end:]


def drop(text: str, path: Sequence[str], *, listed: bool = False) -> str:
    """Return the text without the entry at `path`; unchanged if it is not there. Raises `ConfigurationError`."""
    table, name = path
    root = _compose(text)
    found = None if root is None else _member(root, table)
    if found is None or _is_empty(found[1]):
        return text
    key, container = found
    entries = _entries(container, listed=listed)
    if name not in {each for each, _, _ in entries}:
        return text
    at, end, _ = _span(text, path, listed=listed)
    text = text[:at] + text[end:]
    if len(entries) == 1:
        colon = _behind_colon(text, key)
        text = text[:colon] + (" []" if listed else " {}") + text[colon:]
    return text


def _span(text: str, path: Sequence[str], *, listed: bool) -> tuple[int, int, int]:
    """Return the start and end of an entry's lines, and the column of its container's entries."""
    root = _compose(text)
    found = None if root is None else _member(root, path[0])
    for name, start, value in [] if found is None or _is_empty(found[1]) else _entries(found[1], listed=listed):
        if name == path[1] and found is not None:
            at = text.rfind("\n", 0, start.start_mark.index) + 1
            return at, _behind_line(text, max(_end(start), _end(value))), _column(found[1], 0)
    raise ConfigurationError(f'"{excerpt(path[1])}" is not there', "look at the file")


def scalar(value: tuple[str, str]) -> object:
    """Return the JSON value of a parsed scalar that is not a string. If JSON has no such value, return its text."""
    kind, text = value[0].rpartition(":")[2], value[1]
    if kind == "null":
        return None
    if kind == "bool":
        return text.lower() in ("true", "yes", "on")
    with suppress(ValueError):
        return int(text) if kind == "int" else float(text) if kind == "float" else text
    return text


def _library() -> ModuleType:
    require_extra("yaml", "hosts", "this host's file is YAML, and PyYAML is not installed")
    import yaml

    return yaml


@lru_cache(maxsize=4)  # an edit reads the old text and the new one several times
def _compose(text: str) -> Any:
    """Return the root node of a text; None if it is empty."""
    yaml = _library()
    if len(text) > MAX_HOST_TEXT_CHARS:
        raise ConfigurationError(f"the file has more than {MAX_HOST_TEXT_CHARS} characters", _HAND)
    try:
        check_events(yaml, text, yaml.SafeLoader, "the file", _HAND)
        return yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = "" if mark is None else f", in line {mark.line + 1}"
        raise ConfigurationError(f"the file is no YAML{where}", "correct the file first") from None
    except (ValueError, RecursionError):
        raise ConfigurationError("the file is no YAML", "correct the file first") from None


def check_events(yaml: ModuleType, text: str, loader: type, what: str, remedy: str) -> None:
    """Refuse a text that is nested too deeply, or that has anchors, aliases or tags: a few lines of them can stand for
    millions. `what` names it. Raises `ConfigurationError`, and the library's errors."""
    depth = 0
    for event in yaml.parse(text, Loader=loader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:
            raise ConfigurationError(f"{what} is nested deeper than {MAX_DEPTH} levels", remedy)
        if getattr(event, "anchor", None) is not None or getattr(event, "tag", None) is not None:
            raise ConfigurationError(f"{what} has anchors, aliases or tags", remedy)


def _meaning(node: Any) -> object:
    """Convert a node to a Python value. Scalars that are not strings become pairs of tag and text."""
    if node.id == "scalar":
        return node.value if node.tag.endswith(":str") else (node.tag, node.value)
    if node.id == "sequence":
        return [_meaning(each) for each in node.value]
    found: dict[object, object] = {}
    for key, value in node.value:
        if key.id != "scalar":
            raise ConfigurationError("the file has names that are no scalars", _HAND)
        name = _meaning(key)
        if name in found:
            raise ConfigurationError(f'"{excerpt(str(key.value))}" is there twice', "remove one of them first")
        found[name] = _meaning(value)
    return found


def _member(root: Any, name: str) -> tuple[Any, Any] | None:
    if root.id != "mapping" or root.flow_style:
        raise ConfigurationError("the file is not written with a name on each line", _HAND)
    return next(((key, value) for key, value in root.value if key.value == name), None)


def _is_empty(container: Any) -> bool:
    return container.value == [] or (container.id == "scalar" and container.value in ("", "~", "null"))


def _entries(container: Any, *, listed: bool) -> list[tuple[str, Any, Any]]:
    """Return each entry's name, where it begins, and its value."""
    if container.id != ("sequence" if listed else "mapping") or container.flow_style:
        raise ConfigurationError("the entries are not written with one on each line", _HAND)
    if not listed:
        return [(key.value, key, value) for key, value in container.value]
    items = [each for each in container.value if each.id == "mapping"]
    names = {id(each): next((value.value for key, value in each.value if key.value == "name"), "") for each in items}
    return [(names.get(id(each), ""), each, each) for each in container.value]


def _column(container: Any, otherwise: int) -> int:
    """Return the column of a container's entries; for a list, that of their dashes. For an empty container, return
    `otherwise`."""
    if _is_empty(container):
        return otherwise
    _entries(container, listed=container.id == "sequence")
    return container.start_mark.column


def _end(node: Any) -> int:
    """Return the position of a node's last character. The node's own end mark is of no use: it comes after comments and
    blanks."""
    if node.id == "scalar" or node.flow_style or not node.value:
        return max(node.start_mark.index, node.end_mark.index - 1)
    last = node.value[-1]
    return _end(last) if node.id == "sequence" else max(map(_end, last))


def _behind_colon(text: str, key: Any) -> int:
    at = text.find(":", key.end_mark.index)
    if at < 0:
        raise ConfigurationError(f"{key.value} has no value", _HAND)
    return at + 1


def _behind_line(text: str, at: int) -> int:
    found = text.find("\n", at)
    return len(text) if found < 0 else found + 1


def _entry(name: str, value: Mapping[str, object], column: int, *, listed: bool) -> list[str]:
    """Return the lines of an entry. Scalars and lists in it are written as JSON, which is valid YAML, too."""
    lines = [f"{key}: {json.dumps(each, ensure_ascii=False)}" for key, each in value.items()]
    if listed:
        return [f"{' ' * column}{'  ' if number else '- '}{line}" for number, line in enumerate(lines)]
    plain = _PLAIN_NAME.fullmatch(name) and name.lower() not in _WORDS
    return [f"{' ' * column}{name if plain else json.dumps(name)}:", *(f"{' ' * (column + 2)}{line}" for line in lines)]

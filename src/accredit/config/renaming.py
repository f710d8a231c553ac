"""Turns the text of a file with `[upstream]` into one with `[servers.NAME]`. No I/O.

- Only names change: `[upstream...]` becomes `[servers.NAME...]`, and `[tools...]`, `[resources...]` and `[prompts...]`
  become `[servers.NAME.tools...]` and so on, where they stand. `gateway.upstream_timeout_seconds` would be the timeout
  of all servers, so it becomes `timeout_seconds` of this one. Comments, order and line ends stay.
- The result is checked with two parsers: the one that keeps comments (tomlkit) and the one that the gateway reads with.
  Both must agree on the meaning of the old text, and of the new one. Apart from the names, the two texts must mean the
  same.
- Tables in a form that can't be renamed this way (such as keys with dots beside headers) are not touched. The error
  says so.
"""

import re
import tomllib
from typing import Any, cast

from tomlkit import parse
from tomlkit.container import Container
from tomlkit.exceptions import ParseError
from tomlkit.items import InlineTable, Item, Key, Table

from accredit.base.toml import says
from accredit.config.load import OF_ONE
from accredit.errors import ConfigurationError

_GATEWAY, _TIMEOUT, _OWN_TIMEOUT = "gateway", "upstream_timeout_seconds", "timeout_seconds"


def rename_upstream(text: str, name: str) -> str:
    """Rename the server of `[upstream]` to `name` in a file's text. Raises `ConfigurationError`."""
    try:
        document = parse(text)
    except (ParseError, RecursionError) as error:
        raise _not_touched(f"it can't be read with its comments ({type(error).__name__})") from None
    if document.as_string() != text:
        raise _not_touched("it can't be read with all its comments")
    end = "\r\n" if "\r\n" in text else "\n"
    body: _Body = document.body
    timeout = _take_timeout(body)
    goes_to = _place_of_timeout(body) if timeout is not None else None
    parts: list[str] = []
    for key, item in body:
        if key is None or key.key not in OF_ONE:
            parts.append(_text(key, item))
            continue
        new = f"servers.{name}" if key.key == "upstream" else f"servers.{name}.{key.key}"
        parts.append(_rename_entry(key, item, new, timeout if item is goes_to else None, end))
    found = "".join(parts)
    if found.count("#") != text.count("#") or not says(found.encode(), means_renamed(tomllib.loads(text), name)):
        raise _not_touched("its tables are in a form that can't be renamed")
    return found


def means_renamed(tables: dict[str, Any], name: str) -> dict[str, Any]:
    """Return what a parsed file means after the server of `[upstream]` was renamed to `name`."""
    kept = {section: table for section, table in tables.items() if section not in OF_ONE}
    server: dict[str, Any] = {
        **tables.get("upstream", {}),
        **{section: tables[section] for section in ("tools", "resources", "prompts") if section in tables},
    }
    gateway = dict(kept.get(_GATEWAY, {}))
    if _TIMEOUT in gateway:
        server[_OWN_TIMEOUT] = gateway.pop(_TIMEOUT)
        kept[_GATEWAY] = gateway
    return {**kept, "servers": {name: server}}


_Body = list[tuple[Key | None, Item]]


def _rename_entry(key: Key, item: Item, new: str, timeout: Item | None, end: str) -> str:
    """Return an entry's text under its new name. `timeout`, if given, is written into it; `end` is the line end."""
    line = "" if timeout is None else f"{_OWN_TIMEOUT} = {_value_and_comment(timeout)}{end}"
    if isinstance(item, Table) and not key.is_dotted():
        _rename_headers(item, new)
        if line and item.display_name is not None:
            item.trivia.trail += line
            return _text(key, item)
        return (f"[{new}]{end}{line}{end}" if line else "") + _text(key, item)
    before = ""
    if timeout is not None and isinstance(item, InlineTable):
        item.append(_OWN_TIMEOUT, timeout.unwrap())
        before, line = (f"{timeout.trivia.comment}{end}" if timeout.trivia.comment else ""), ""
    moved = re.sub(re.escape(key.as_string().strip()), lambda _: new, _text(key, item), count=1)
    return f"{before}{moved}" + (f"{new}.{line}" if line else "")


def _rename_headers(table: Table, new: str) -> None:
    if table.display_name is not None:
        table.display_name = new
    for key, item in table.value.body:
        if key is not None and isinstance(item, Table):
            _rename_headers(item, f"{new}.{key.as_string().strip()}")


def _take_timeout(body: _Body) -> Item | None:
    """Remove `upstream_timeout_seconds` from `[gateway]`, and return it; None if it is not set."""
    for at, (key, item) in enumerate(body):
        if key is None or key.key != _GATEWAY:
            continue
        if isinstance(item, InlineTable) and _TIMEOUT in item:
            return cast("Any", item).pop(_TIMEOUT)
        inner: _Body = item.value.body if isinstance(item, Table) else []
        for place, (name, value) in enumerate(inner):
            if name is not None and name.key == _TIMEOUT:
                del inner[place]
                if key.is_dotted():
                    del body[at]
                return value
    return None


def _place_of_timeout(body: _Body) -> Item | None:
    """Return the entry to put the timeout into: `[upstream]` itself, else its first subtable."""
    found = [item for key, item in body if key is not None and key.key == "upstream"]
    headers = (item for item in found if isinstance(item, Table) and item.display_name is not None)
    return next(headers, found[0] if found else None)


def _value_and_comment(item: Item) -> str:
    trivia = item.trivia
    return f"{item.as_string()}{trivia.comment_ws}{trivia.comment}"


def _text(key: Key | None, item: Item) -> str:
    """Return the text of one entry of a table."""
    alone = Container(True)
    alone.body.append((key, item))
    return alone.as_string()


def _not_touched(why: str) -> ConfigurationError:
    return ConfigurationError(
        f"[upstream] can't be renamed, and nothing was changed: {why}",
        "write the server and its catalog as tables with headers: [upstream], [tools.NAME], [resources], [prompts]",
    )

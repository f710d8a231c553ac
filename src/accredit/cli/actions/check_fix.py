"""`accredit check --fix`: appends tables to a configuration, for tools that have none.

1. Only tools without any scope get a table. Nothing that somebody wrote is changed, neither comments, order nor line
   ends: the file stays byte for byte what it was, with something appended.
2. The new text is parsed before it is written: it must mean what the old one meant plus the new tables, and nothing
   else. A file of another form (such as `tools` in one line) is left alone, and its owner is told.
3. The file is replaced in one step, and only if it is still what was read.
"""

import tomllib
from pathlib import Path
from typing import Any

from accredit.cli.actions.config_text import holds, tool_table
from accredit.cli.actions.output import tell
from accredit.cli.actions.suggest_scopes import Suggestion, suggestions
from accredit.cli.asking.listing import Offer
from accredit.config import Loaded, build_catalog
from accredit.errors import ConfigurationError
from accredit.keys import replace_file

_HEAD = "# Added by `accredit check --fix` from what the server says of its tools. Nobody has checked that.\n"


def add_tables(loaded: Loaded, offer: Offer) -> None:
    """Add the missing tables, and say so on stderr. Raises `ConfigurationError`."""
    catalog = build_catalog(loaded.config)
    missing = [
        each for each in suggestions(offer) if catalog.tool(each.tool) is None and each.tool and holds(each.tool)
    ]
    if not missing:
        return
    if loaded.file is None:
        raise ConfigurationError("--fix has no configuration to write to", "name one with --config")
    _write(loaded.file, loaded.content, _with(loaded.content, missing), missing)
    tell(f"wrote {loaded.file}: tables for {', '.join(each.tool for each in missing)}. Read them before you go on.")


def _with(content: bytes, missing: list[Suggestion]) -> bytes:
    text = "\n".join(["", _HEAD, *map(tool_table, missing)])
    if content and not content.endswith(b"\n"):
        text = "\n" + text
    return content + (text.replace("\n", "\r\n") if b"\r\n" in content else text).encode()


def _write(file: Path, old: bytes, new: bytes, missing: list[Suggestion]) -> None:
    expected: dict[str, Any] = tomllib.loads(old.decode())
    tables: dict[str, Any] = expected.setdefault("tools", {})
    for each in missing:
        tables[each.tool] = {"scope": each.scope, **({"sensitive": True} if each.sensitive else {})}
    try:
        same = tomllib.loads(new.decode()) == expected
    except tomllib.TOMLDecodeError:
        same = False
    if not same:
        raise ConfigurationError(
            f"{file} has its tools in a form that --fix can't add to", "write [tools.NAME] tables in place of one value"
        )
    replace_file(file, new, old=old)

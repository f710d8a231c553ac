"""Implements `accredit check --fix`: appends tables to a configuration for tools that have none.

- Only tools without any scope get a table. Existing text stays byte for byte, with comments, order and line ends: text
  is only appended.
- The new text is parsed before it is written: it must mean the old one plus the new tables, and nothing else. If it
  does not (for example because `tools` is on one line), the file is left alone, with an error.
- The file is replaced in one step, and only if unchanged since it was read.
"""

import os
import tomllib
from collections.abc import Mapping
from typing import Any

from accredit.asking.listing import ServerListing
from accredit.base.toml import append_text, says
from accredit.config.load import Loaded, load
from accredit.config.proofs import build_catalog
from accredit.config.servers import views
from accredit.errors import ConfigurationError
from accredit.keys import replace_file
from accredit.policy.catalog import Catalog
from accredit.setup.config_text import can_have_table, tool_table
from accredit.signing.suggest_scopes import Suggestion, suggestions
from accredit.terminal.output import tell

_HEAD = "# Added by `accredit check --fix` from what the server says of its tools. Nobody has checked that.\n"


def add_tables(loaded: Loaded, offers: Mapping[str, ServerListing]) -> Loaded:
    """Add the missing tables of the servers in `offers`, by name ("" for the only server). Report that on stderr, and
    return the new configuration. Raises `ConfigurationError`."""
    missing: dict[str, list[Suggestion]] = {}
    for each in views(loaded):
        if each.server in offers and (found := _missing(build_catalog(each.config), offers[each.server], each.server)):
            missing[each.server] = found
    if not missing:
        return loaded
    replace_checked(
        loaded,
        _with(loaded.content, missing),
        _meaning(loaded, missing),
        ("its tools", "write [tools.NAME] tables in place of one value"),
    )
    names = (each.tool + (f" of {server}" if server else "") for server, some in missing.items() for each in some)
    tell(f"wrote {loaded.file}: tables for {', '.join(names)}. Read them before you go on.")
    return load(loaded.file, os.environ, {})


def _missing(catalog: Catalog, offer: ServerListing, server: str) -> list[Suggestion]:
    return [
        each for each in suggestions(offer, server) if catalog.tool(each.tool) is None and can_have_table(each.tool)
    ]


def _with(content: bytes, missing: Mapping[str, list[Suggestion]]) -> bytes:
    tables = (tool_table(each, server) for server, some in missing.items() for each in some)
    return append_text(content, "\n".join(["", _HEAD, *tables]))


def _meaning(loaded: Loaded, missing: Mapping[str, list[Suggestion]]) -> dict[str, Any]:
    """Return what the new text must mean: the old one plus the tables."""
    expected: dict[str, Any] = tomllib.loads(loaded.content.decode())
    for server, some in missing.items():
        above = expected["servers"][server] if server else expected
        above.setdefault("tools", {}).update((each.tool, table_meaning(each.scope, each.sensitive)) for each in some)
    return expected


def table_meaning(scope: str, sensitive: bool) -> dict[str, object]:
    """Return what the table of a tool, a route or a skill means."""
    return {"scope": scope, **({"sensitive": True} if sensitive else {})}


def replace_checked(loaded: Loaded, content: bytes, expected: Mapping[str, Any], words: tuple[str, str]) -> None:
    """Replace a configuration's file by a text that means `expected`, and nothing else. `words` are for the error:
    which tables can't be added to, and the remedy. Raises `ConfigurationError`."""
    if loaded.file is None:
        raise ConfigurationError("--fix has no configuration to write to", "name one with --config")
    if not says(content, expected):
        raise ConfigurationError(f"{loaded.file} has {words[0]} in a form that --fix can't add to", words[1])
    replace_file(loaded.file, content, old=loaded.content)

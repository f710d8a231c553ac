"""What `accredit check --fix` does: writes the tables of tools that a configuration has none for, at its end.

1. Only tools that have no scope at all get a table; what somebody wrote is never changed, and neither are comments,
   order and line ends: the file is what it was, byte for byte, with something after it.
2. The new text is read again before it is written: it has to say what the old one said and the new tables, and no more.
   A file of another form (`tools` in one line, say) is left alone, and its owner told.
3. The file is replaced in one step, and only if it is still what was read.
"""

import contextlib
import os
import stat
import tomllib
from pathlib import Path
from typing import Any

from accredit.cli.actions.config_text import holds, tool_table
from accredit.cli.actions.output import tell
from accredit.cli.actions.suggest_scopes import Suggestion, suggestions
from accredit.cli.asking.listing import Offer
from accredit.config import Loaded, build_catalog
from accredit.errors import ConfigurationError
from accredit.keys import write_file

_HEAD = "# Added by `accredit check --fix` from what the server says of its tools. Nobody has checked that.\n"


def add_tables(loaded: Loaded, offer: Offer) -> None:
    """Adds what is missing; says so on stderr. Raises `ConfigurationError`."""
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
    try:
        unchanged, was = file.read_bytes() == old, file.stat()
    except OSError as error:
        raise ConfigurationError(f"can't read {file}: {error.strerror}", "name a file that can be read") from None
    if not unchanged:
        raise ConfigurationError(f"{file} was changed meanwhile", "run the command again")
    write_file(file, new, private=True, replace=True)
    file.chmod(stat.S_IMODE(was.st_mode))
    with contextlib.suppress(PermissionError):
        os.chown(file, was.st_uid, was.st_gid)

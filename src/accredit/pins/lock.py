"""`accredit.lock`: the approved definitions of each server, in a file that people can read and merge. No I/O.

    {
      "servers": {
        "upstream": {
          "instructions": {"sha256": "...", "text": "..."},
          "set": "...",
          "tools": {
            "send_email": {"definition": {...}, "sha256": "..."}
          }
        }
      },
      "version": 1
    }

- [form] The file is JSON with sorted members, and one line for each tool. Invisible characters (`shown.hides`) are
  escaped, so that the diffs of version control show them, too. `_meta` is left out, as it is not pinned.
- [server-name] Servers are identified by name. The server of `[upstream]`, which has no name, is called `upstream`.
  This can't be confused with another server: no configuration has both `[upstream]` and `[servers]`.
- [strict] The file is read strictly. It is refused as a whole for an unknown or repeated member, for a definition under
  another name than its own, or for a digest that does not fit its content. So a definition can't be approved by
  mistake, by an edit by hand or a merge of two definitions.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Raw, Struct

from accredit.errors import FrameError, LockError
from accredit.jsonrpc.objects import check_no_duplicates
from accredit.jsonrpc.text import check_text
from accredit.limits import MAX_DEFINITIONS, MAX_LOCK_BYTES
from accredit.pins.definitions import Definition, Definitions, digest_of_text, read_definition, without_meta
from accredit.pins.shown import hides

LOCK_FILE = "accredit.lock"
"""The file's name, in the folder of the configuration."""
UPSTREAM = "upstream"
"""The name of the one server of `[upstream]`."""

Lock = Mapping[str, Definitions]
"""The pinned definitions, by the servers' names."""

_Digest = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
_Name = Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9-]{0,31}\Z")]


class _Tool(Struct, forbid_unknown_fields=True):
    definition: Raw
    sha256: _Digest


class _Instructions(Struct, forbid_unknown_fields=True):
    sha256: _Digest
    text: str


class _Server(Struct, forbid_unknown_fields=True):
    instructions: _Instructions | None
    set: _Digest
    tools: Annotated[dict[str, _Tool], Meta(max_length=MAX_DEFINITIONS)]


class _Lock(Struct, forbid_unknown_fields=True):
    version: Literal[1]
    servers: dict[_Name, _Server]


_decode = msgspec.json.Decoder(_Lock).decode


def read_lock(text: bytes) -> dict[str, Definitions]:
    """Parse a lock. Raises `LockError`, whose text says what is wrong and where."""
    if len(text) > MAX_LOCK_BYTES:
        raise LockError(f"it has more than {MAX_LOCK_BYTES} bytes")
    try:
        check_text(text)
        check_no_duplicates(text)
        found = _decode(text)
        return {name: _definitions(name, server) for name, server in found.servers.items()}
    except FrameError as error:
        raise LockError(error.detail) from None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise LockError(f"not a lock of version 1: {error}") from None


def write_lock(lock: Lock) -> bytes:
    """Return the text of a lock. Raises `LockError` for a definition without a digest, which can't be approved."""
    return "".join(_lines(lock)).encode()


def _definitions(name: str, server: _Server) -> Definitions:
    tools = {named: _definition(f"{name}: {named}", named, tool) for named, tool in server.tools.items()}
    said = server.instructions
    if said is not None and digest_of_text(said.text) != said.sha256:
        raise LockError(f"{name}: the digest of the instructions is not theirs")
    found = Definitions(tools, said.text if said is not None else None)
    if found.set_sha256 != server.set:
        raise LockError(f"{name}: the digest of the set is not that of its tools")
    return found


def _definition(place: str, name: str, tool: _Tool) -> Definition:
    found = read_definition(tool.definition)
    if found.name != name:
        raise LockError(f"{place}: the definition is of another name")
    if found.sha256 != tool.sha256:
        raise LockError(f"{place}: the digest is not that of the definition")
    return found


def _lines(lock: Lock) -> Iterator[str]:
    yield '{\n  "servers": {'
    for number, name in enumerate(sorted(lock)):
        server = lock[name]
        said, digest = server.instructions, server.instructions_sha256
        if said is not None and digest is None:
            raise LockError("the server's instructions are no text that could be written")
        instructions = None if said is None else {"sha256": digest, "text": said}
        yield ",\n" if number else "\n"
        yield f"    {_text(name)}: {{\n"
        yield f'      "instructions": {_text(instructions)},\n'
        yield f'      "set": {_text(server.set_sha256)},\n'
        yield '      "tools": {'
        for index, tool in enumerate(sorted(server.tools.values(), key=lambda tool: tool.name)):
            yield ",\n" if index else "\n"
            yield f"        {_text(tool.name)}: {_text(_lock_entry(tool))}"
        yield "\n      }\n    }" if server.tools else "}\n    }"
    yield '\n  },\n  "version": 1\n}\n' if lock else '},\n  "version": 1\n}\n'


def _lock_entry(tool: Definition) -> dict[str, object]:
    if tool.sha256 is None:
        raise LockError(f"the server lists {tool.name!a} in a form that readers take differently")
    covered = {name: msgspec.json.decode(value) for name, value in without_meta(tool.text).items()}
    return {"definition": covered, "sha256": tool.sha256}


def _text(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, sort_keys=True)
    return (
        text
        if text.isascii() and text.isprintable()
        else "".join(_escape(char) if hides(char) else char for char in text)
    )


def _escape(char: str) -> str:
    return json.dumps(char)[1:-1]

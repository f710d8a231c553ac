"""Definitions of tools, as a lock pins them or a server lists them, and their digests. No I/O.

- [digest] The digest of a definition is the SHA-256 of the RFC 8785 form of all its members as they came, except for
  `_meta`. RFC 8785 has no form for integers beyond 2^53, so they keep their own digits.
- [ambiguous] Some definitions have no digest, and so never equal the pinned one: a definition with a repeated member,
  at any depth; one without a canonical form (it has a lone surrogate); and one of more than `MAX_DEFINITION_BYTES`.
- [two-definitions] If a name is listed twice with different digests, the tool has no digest either, as it is unknown
  which of the two a client uses.
- [bounds] A list is read to its end or not at all. There are bounds on its tools and its bytes.

Not covered: the content of `_meta`, and what a tool does. A server with the same definitions may behave differently.
"""

import hashlib
from collections.abc import Iterable, Mapping

import msgspec
from msgspec import Raw, Struct

from accredit.base.caching import RecentlyUsed
from accredit.base.steps import Steps
from accredit.canonical import canonical
from accredit.errors import FrameError
from accredit.jsonrpc.arrays import elements
from accredit.jsonrpc.objects import Names, as_string, check_no_duplicates, members, unambiguous_members
from accredit.jsonrpc.text import check_structures
from accredit.limits import MAX_DEFINITIONS, MAX_LISTED_BYTES

MAX_DEFINITION_BYTES = 1_048_576
"""The most bytes of one tool's definition. Real ones have some thousand. Computing the digest of this many takes 40 ms,
and nothing else runs meanwhile."""
MAX_REMEMBERED_DIGESTS = 8_192
"""How many definitions' digests are cached, by the SHA-256 of their text, at some 200 bytes each. Servers list the same
text again and again, and making the canonical form takes eight times as long as that SHA-256."""


_LIST = Names("tools", "nextCursor")
_TOOL = Names("name", "_meta")
_no_digest = ""
_remembered = RecentlyUsed[bytes, str](MAX_REMEMBERED_DIGESTS)


class Definition(Struct, frozen=True):
    """A tool as it was listed. `text` is its JSON. `sha256` is its digest in lower-case hex, or None ([ambiguous] and
    [two-definitions])."""

    name: str
    sha256: str | None
    text: bytes


class Definitions(Struct, frozen=True):
    """One server's tools by name, and its instructions or None."""

    tools: Mapping[str, Definition]
    instructions: str | None = None

    @property
    def set_sha256(self) -> str:
        """The digest of all tools together: that of the sorted array of their digests."""
        return _sha256(sorted(tool.sha256 or "" for tool in self.tools.values()))

    @property
    def instructions_sha256(self) -> str | None:
        """The digest of the instructions, or None if there are none."""
        return digest_of_text(self.instructions) if self.instructions is not None else None


class Pins(Struct, frozen=True, kw_only=True):
    """One gateway's pins for its server: the digests of tools by name, and of the instructions.

    If they are not `enforced`, differences are only reported. Once the server's list was compared, the result is valid
    for `fresh_seconds`. If clients get the tools under other names than those in the server's own list, `listed` has
    the digests of the definitions that clients get.
    """

    tools: Mapping[str, str]
    instructions: str | None = None
    enforced: bool = True
    fresh_seconds: int = 60
    listed: Mapping[str, str] | None = None

    def as_listed(self, name: str) -> str | None:
        """Return the digest that a tool of this name must have in a client's list, or None if no such tool is
        pinned."""
        return (self.tools if self.listed is None else self.listed).get(name)


class ListReader:
    """Reads one list of tools, page by page."""

    def __init__(self) -> None:
        self.tools: dict[str, Definition] = {}
        self._bytes = 0

    def add(self, result: bytes | Raw) -> Steps[None]:
        """Read the result of one `tools/list`, in steps.

        Raises `FrameError` for an invalid result, and for a list that exceeds its bounds ([bounds]).
        """
        self._bytes += len(result)
        if self._bytes > MAX_LISTED_BYTES:
            raise FrameError(f"a list of tools of more than {MAX_LISTED_BYTES} bytes", bound=True)
        check_structures(bytes(result))
        found = unambiguous_members(result, _LIST)
        if "tools" not in found:
            raise FrameError("a list without tools")
        for item in elements(found["tools"], '"tools"', MAX_DEFINITIONS):
            yield
            self._add(read_definition(item))

    def _add(self, tool: Definition) -> None:
        other = self.tools.get(tool.name)
        if other is not None and other.sha256 != tool.sha256:
            tool = Definition(tool.name, None, tool.text)
        self.tools[tool.name] = tool
        if len(self.tools) > MAX_DEFINITIONS:
            raise FrameError(f"a list of more than {MAX_DEFINITIONS} tools", bound=True)


def read_definition(item: bytes | Raw) -> Definition:
    """Read one tool of a list. Raises `FrameError` if it is invalid."""
    text = bytes(item)
    name = as_string(unambiguous_members(text, _TOOL).get("name"))
    if name is None:
        raise FrameError("tools with an item without a name")
    return Definition(name, digest_of(text), text)


def digest_of(text: bytes) -> str | None:
    """Return the digest of a definition ([digest]), or None if it has none ([ambiguous]). `text` is a JSON object that
    `jsonrpc` has accepted."""
    if len(text) > MAX_DEFINITION_BYTES:
        return None
    key = hashlib.sha256(text).digest()
    known = _remembered.get(key)
    if known is None:
        known = _digest(text)
        _remembered.put(key, known)
    return known or None


def digest_of_text(text: str) -> str | None:
    """Return the digest of a server's instructions, or None if they have no canonical form."""
    try:
        return _sha256(text)
    except ValueError:
        return None


def without_meta(text: bytes) -> dict[str, Raw]:
    """Return the members of a definition that its digest covers."""
    found = members(text)
    found.pop("_meta", None)
    return found


def same_but_for_name(tools: Iterable[Definition]) -> dict[str, list[str]]:
    """Group the names of tools whose definitions are equal except for the name. The keys are the digests of the
    definitions without the name."""
    found: dict[str, list[str]] = {}
    for tool in tools:
        rest = without_meta(tool.text)
        rest.pop("name", None)
        digest = digest_of(msgspec.json.encode(rest))
        if digest is not None and tool.sha256 is not None:
            found.setdefault(digest, []).append(tool.name)
    return found


def _digest(text: bytes) -> str:
    try:
        check_no_duplicates(text)
        tree = msgspec.json.decode(text, type=dict[str, object])
        tree.pop("_meta", None)
        return _sha256(tree)
    except (FrameError, ValueError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return _no_digest


def _sha256(value: object) -> str:
    return hashlib.sha256(canonical(value, wide_integers="as written")).hexdigest()

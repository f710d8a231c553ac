"""Merges the servers' answers to `initialize` into one. No I/O.

1. The revision is the oldest that any of them answers, which all understand. Each keeps its own, and gets that in its
   `MCP-Protocol-Version`. A server that answers with no legacy revision is left out.
2. Capabilities and instructions are merged as for `server/discover` (`hello`).
3. The servers left out are named. If some of these are still starting, lists of each kind and their changes are
   announced: that is how a client learns of late servers.
"""

from collections.abc import Mapping, Sequence

from msgspec import Raw

from accredit.errors import FrameError
from accredit.gateway.upstream.merged.hello import merged_capabilities, merged_instructions
from accredit.gateway.upstream.merged.lists import UNAVAILABLE
from accredit.gateway.upstream.merged.streams import LISTS
from accredit.jsonrpc.encode import to_json
from accredit.jsonrpc.methods import LEGACY_REVISIONS
from accredit.jsonrpc.objects import as_string, is_object, members

_VERSION = "protocolVersion"


def hello_in(result: Raw) -> dict[str, Raw] | None:
    """Return the members of a server's answer to `initialize`; None if it starts no session of a legacy revision."""
    try:
        found = members(result) if is_object(result) else {}
    except FrameError:
        return None
    return found if as_string(found.get(_VERSION)) in LEGACY_REVISIONS else None


def revision_of(hello: Mapping[str, Raw]) -> str:
    """Return the revision in the result of `hello_in`."""
    return as_string(hello.get(_VERSION)) or ""


def merge_initialize(
    hellos: Mapping[str, Mapping[str, Raw]], missing: Sequence[str], info: Mapping[str, str], *, more: bool = False
) -> tuple[str, bytes]:
    """Return the revision of a merged session, and the result of its `initialize`; `info` is the gateway's
    `serverInfo`, and `more` says that some of the `missing` are still starting. There is at least one answer."""
    revision = min(map(revision_of, hellos.values()), key=LEGACY_REVISIONS.index)
    capabilities = merged_capabilities(hellos)
    if more:
        for name in LISTS:
            capabilities.setdefault(name, {})["listChanged"] = True
    result: dict[str, object] = {
        _VERSION: revision,
        "capabilities": capabilities,
        "serverInfo": info,
    }
    instructions = merged_instructions(hellos)
    if instructions is not None:
        result["instructions"] = instructions
    if missing:
        result["_meta"] = {UNAVAILABLE: missing}
    return revision, to_json(result)

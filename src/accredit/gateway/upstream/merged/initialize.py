"""`initialize` of a merged session: each server is asked, and what they say is one answer. No I/O.

1. The revision is the oldest that any of them answers: what a client may expect of all. Each keeps its own, and hears
   that in its own `MCP-Protocol-Version`. One that answers none of the legacy revisions is left out.
2. Capabilities and instructions are put together as for `server/discover` (`hello`).
3. Who is left out is named. Where some of these are still to come, there may be lists of each kind, and changes of
   them: that is how a client learns of what has come.
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
    """Return the members of a server's answer to `initialize`; None if it begins no session of a legacy revision."""
    try:
        found = members(result) if is_object(result) else {}
    except FrameError:
        return None
    return found if as_string(found.get(_VERSION)) in LEGACY_REVISIONS else None


def revision_of(hello: Mapping[str, Raw]) -> str:
    """Return the revision in what `hello_in` has returned."""
    return as_string(hello.get(_VERSION)) or ""


def merge_initialize(
    hellos: Mapping[str, Mapping[str, Raw]], missing: Sequence[str], info: Mapping[str, str], *, more: bool = False
) -> tuple[str, bytes]:
    """Return the revision of a merged session, and the result of its `initialize`; `info` is what the gateway says of
    itself, and `more` that some of the `missing` are to come. There is one answer at least."""
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

"""What a client gets to see of a list of tools. No I/O.

1. A tool that no proof could allow is left out, where proofs are required.
2. A tool that the proof or the token which came with the list does not cover is left out; the result is then `private`.
3. What is left says which scope it needs, and how a proof is to be made; the catalog wins over the upstream's word.

To see a tool is not to be allowed to call it, nor the other way round: `decide` does not look here.
"""

from collections.abc import Collection

import msgspec
from msgspec import Raw, Struct

from accredit.errors import FrameError, JsonError
from accredit.jsonrpc.encode import with_members
from accredit.jsonrpc.frames import Success
from accredit.jsonrpc.objects import Names, is_object, members, unambiguous_members
from accredit.jsonrpc.scalars import as_string
from accredit.policy.catalog import Catalog, Entry
from accredit.tokens import VerifiedToken, may_use

SCOPE = "ratify_scope"
SENSITIVE = "ratify_sensitive"
VERIFIER = "ratify_verifier"
BINDING = "ratify_binding"

_RESULT = Names("tools", "nextCursor", "cacheScope", "ttlMs", "resultType", "_meta")
_TOOL = Names("name", "_meta")
_decode_list = msgspec.json.Decoder(list[Raw]).decode


class ToolView(Struct, frozen=True, kw_only=True):
    """How one client gets to see tools. `granted` is None where nothing is to be left out for want of a grant, and
    `token` where nothing is for want of a token that may use it.

    `verifier_id` and `binding` are empty where proofs are not judged here.
    """

    catalog: Catalog
    verifier_id: str = ""
    binding: str = ""
    granted: Collection[str] | None = None
    token: VerifiedToken | None = None

    @property
    def private(self) -> bool:
        """Whether others may get to see other tools."""
        token = self.token
        restricted = token is not None and (token.allowed_tools is not None or bool(token.denied_tools))
        return self.granted is not None or restricted

    @property
    def edits(self) -> bool:
        """Whether a list can look different from what the upstream says."""
        return self.private or bool(self.verifier_id or self.catalog.tools or self.catalog.default_tool)

    def shown(self, name: str, entry: Entry | None) -> bool:
        """Whether a tool is listed."""
        if self.token is not None and not may_use(self.token, name):
            return False
        if entry is None:
            return not self.verifier_id
        return self.granted is None or entry.allows(self.granted)

    def annotations(self, entry: Entry | None) -> dict[str, object]:
        """The members of a tool's `_meta` that are ours to say."""
        if entry is None:
            return {}
        found: dict[str, object] = {SCOPE: entry.scope}
        if entry.sensitive:
            found[SENSITIVE] = True
        if self.verifier_id:
            found |= {VERIFIER: self.verifier_id, BINDING: self.binding}
        return found


def listed(response: Success, view: ToolView) -> bytes:
    """The response to `tools/list`, as this client gets to see it. Raises `FrameError` for one that can't be read."""
    result = unambiguous_members(response.result, _RESULT) if is_object(response.result) else {}
    if "tools" not in result:
        raise FrameError("a list of tools without tools")
    try:
        tools = _decode_list(result["tools"])
    except msgspec.ValidationError:
        raise FrameError('"tools" is not an array') from None
    except (msgspec.MsgspecError, RecursionError):
        raise JsonError("not valid JSON") from None
    changes: dict[str, object] = {"tools": [shown for tool in tools if (shown := _tool(tool, view)) is not None]}
    if view.private:
        changes["cacheScope"] = "private"
    new_result = Raw(with_members(result, changes))
    return with_members(members(response.text), {"result": new_result})


def holds_tools(response: Success) -> bool:
    """Whether a response whose request is not known (a resumed stream's) has the shape of a list of tools."""
    try:
        return is_object(response.result) and "tools" in members(response.result)
    except FrameError:
        return False


def _tool(text: Raw, view: ToolView) -> Raw | None:
    if not is_object(text):
        raise FrameError("a tool that is not an object")
    tool = unambiguous_members(text, _TOOL)
    name = as_string(tool.get("name"))
    if name is None:
        raise FrameError("a tool without a name")
    entry = view.catalog.tool(name)
    if not view.shown(name, entry):
        return None
    annotations = view.annotations(entry)
    if not annotations:
        return text
    meta = members(tool["_meta"]) if is_object(tool.get("_meta")) else {}
    # What the upstream says of these is not taken for ours.
    kept = {member: value for member, value in meta.items() if member not in (SCOPE, SENSITIVE)}
    return Raw(with_members(tool, {"_meta": Raw(with_members(kept, annotations))}))

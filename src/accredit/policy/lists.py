"""What a client gets to see of a list of tools, resources, templates of resources, or prompts. No I/O.

1. An item that no proof could allow is left out, where proofs are required.
2. An item that the proof which came with the list does not cover is left out, and so is a tool that the token may not
   use; the result is then `private`.
3. What is left says which scope it needs, and how a proof is to be made; the catalog wins over the upstream's word.

A template is judged by its text before the first `{`: what it becomes is judged when it is read. To see an item is not
to be allowed to use it, nor the other way round: `decide` does not look here.
"""

from collections.abc import Collection

import msgspec
from msgspec import Raw, Struct

from accredit.errors import FrameError, JsonError
from accredit.jsonrpc.encode import with_members
from accredit.jsonrpc.frames import Success
from accredit.jsonrpc.objects import Names, is_object, members, pairs, unambiguous_members
from accredit.jsonrpc.scalars import as_string
from accredit.policy.catalog import Catalog, Entry
from accredit.tokens import VerifiedToken, may_use

SCOPE = "ratify_scope"
SENSITIVE = "ratify_sensitive"
VERIFIER = "ratify_verifier"
BINDING = "ratify_binding"

_decode_list = msgspec.json.Decoder(list[Raw]).decode


class Kind(Struct, frozen=True):
    """A kind of list. `items` is the member of the result that holds them, `key` the member of each that names it, and
    `method` the one that uses it."""

    items: str
    key: str
    method: str

    def target(self, named: str) -> str:
        """What a use of an item is judged by."""
        return named.partition("{")[0] if self.key == "uriTemplate" else named

    @property
    def result_names(self) -> Names:
        """The members of the result whose names all readers must take alike."""
        return _RESULT_NAMES[self.items]

    @property
    def item_names(self) -> Names:
        """And those of an item."""
        return _ITEM_NAMES[self.items]


KINDS = {
    "tools/list": Kind("tools", "name", "tools/call"),
    "resources/list": Kind("resources", "uri", "resources/read"),
    "resources/templates/list": Kind("resourceTemplates", "uriTemplate", "resources/read"),
    "prompts/list": Kind("prompts", "name", "prompts/get"),
}
"""Every kind of list, by the method that asks for it."""

_RESULT_NAMES = {
    kind.items: Names(kind.items, "nextCursor", "cacheScope", "ttlMs", "resultType", "_meta") for kind in KINDS.values()
}
_ITEM_NAMES = {kind.items: Names(kind.key, "_meta") for kind in KINDS.values()}


class ListView(Struct, frozen=True, kw_only=True):
    """How one client gets to see lists. `granted` is None where nothing is to be left out for want of a grant, and
    `token` where nothing is for want of a token that may use it.

    `verifier_id` and `binding` are empty where proofs are not judged here.
    """

    catalog: Catalog
    verifier_id: str = ""
    binding: str = ""
    granted: Collection[str] | None = None
    token: VerifiedToken | None = None

    def private(self, kind: Kind) -> bool:
        """Whether others may get to see other items."""
        token = self.token if kind.method == "tools/call" else None
        restricted = token is not None and (token.allowed_tools is not None or bool(token.denied_tools))
        return self.granted is not None or restricted

    def edits(self, kind: Kind) -> bool:
        """Whether a list can look different from what the upstream says."""
        return self.private(kind) or bool(self.verifier_id) or self.catalog.says_something

    def entry(self, kind: Kind, named: str) -> Entry | None:
        """What an item asks for; None where no proof could allow it."""
        return self.catalog.find(kind.method, kind.target(named))

    def shown(self, kind: Kind, named: str, entry: Entry | None) -> bool:
        """Whether an item is listed."""
        if self.token is not None and kind.method == "tools/call" and not may_use(self.token, named):
            return False
        if entry is None:
            return not self.verifier_id
        return self.granted is None or entry.allows(self.granted)

    def annotations(self, entry: Entry | None) -> dict[str, object]:
        """The members of an item's `_meta` that are ours to say."""
        if entry is None:
            return {}
        found: dict[str, object] = {SCOPE: entry.scope}
        if entry.sensitive:
            found[SENSITIVE] = True
        if self.verifier_id:
            found |= {VERIFIER: self.verifier_id, BINDING: self.binding}
        return found


def listed(response: Success, view: ListView, kind: Kind, *others: Kind) -> bytes:
    """The response to a list request, as this client gets to see it. Raises `FrameError` for one that can't be read.

    There are `others` only where nobody knows any more what was asked.
    """
    changes: dict[str, object] = {}
    result: dict[str, Raw] = {}
    for each in (kind, *others):
        result = unambiguous_members(response.result, each.result_names) if is_object(response.result) else {}
        changes[each.items] = _items(result, view, each)
        if view.private(each):
            changes["cacheScope"] = "private"
    new_result = Raw(with_members(result, changes))
    return with_members(members(response.text), {"result": new_result})


def kinds_in(response: Success) -> tuple[Kind, ...]:
    """The kinds of lists that a response could be whose request is not known (a resumed stream's), by its shape."""
    try:
        found = {name.casefold() for name, _ in pairs(response.result)} if is_object(response.result) else set[str]()
    except FrameError:
        return ()
    return tuple(kind for kind in KINDS.values() if kind.items.casefold() in found)


def _items(result: dict[str, Raw], view: ListView, kind: Kind) -> list[Raw]:
    if kind.items not in result:
        raise FrameError(f"a list without {kind.items}")
    try:
        items = _decode_list(result[kind.items])
    except msgspec.ValidationError:
        raise FrameError(f'"{kind.items}" is not an array') from None
    except (msgspec.MsgspecError, RecursionError):
        raise JsonError("not valid JSON") from None
    return [shown for item in items if (shown := _item(item, view, kind)) is not None]


def _item(text: Raw, view: ListView, kind: Kind) -> Raw | None:
    if not is_object(text):
        raise FrameError(f"{kind.items} with an item that is not an object")
    item = unambiguous_members(text, kind.item_names)
    named = as_string(item.get(kind.key))
    if named is None:
        raise FrameError(f"{kind.items} with an item without a {kind.key}")
    entry = view.entry(kind, named)
    if not view.shown(kind, named, entry):
        return None
    annotations = view.annotations(entry)
    if not annotations:
        return text
    meta = members(item["_meta"]) if is_object(item.get("_meta")) else {}
    # What the upstream says of these is not taken for ours.
    kept = {member: value for member, value in meta.items() if member not in (SCOPE, SENSITIVE)}
    return Raw(with_members(item, {"_meta": Raw(with_members(kept, annotations))}))

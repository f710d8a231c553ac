"""Filters and annotates lists of tools, resources, resource templates or prompts for a client. No I/O.

- [no-proof] Where proofs are required, an item that no proof could allow is left out. In every edited list, a server's
  tool that has the name of one of the gateway's own (`drill`) is left out as well.
- [coverage] An item that the list's own proof does not cover is left out, and so is a tool that the token may not use;
  the result is then `private`.
- [definition] Where definitions are enforced, a tool whose definition is not the pinned one is left out.
- [annotations] Each remaining item says which scope it needs and how to make a proof. The catalog's statements replace
  those of the upstream.
- [observe] Where proofs are only observed, [no-proof] and [coverage] leave out nothing for lack of a proof. Each item
  says so (`dev.accredit/observed`): then a client need not hide it, and signs its calls with a challenge that it makes
  itself.

A template is judged by its text before the first `{`; its expansion is judged when it is read. A listed item may still
be refused, and one that is not listed may be allowed: `decide` ignores lists.
"""

from collections.abc import Callable, Collection, Mapping

from msgspec import Raw, Struct

from accredit.base.steps import Steps
from accredit.errors import FrameError
from accredit.jsonrpc.arrays import RewrittenArray, elements
from accredit.jsonrpc.encode import with_members
from accredit.jsonrpc.frames import Success
from accredit.jsonrpc.objects import Names, as_string, is_object, members, unambiguous_members
from accredit.limits import ITEMS_AT_ONCE, MAX_SPLIT_BYTES, SHORT_MESSAGE_BYTES
from accredit.pins.definitions import Pins, digest_of
from accredit.policy.catalog import Catalog, Entry
from accredit.tokens.claims import VerifiedToken
from accredit.tokens.verify import may_use

SCOPE = "ratify_scope"
SENSITIVE = "ratify_sensitive"
VERIFIER = "ratify_verifier"
OBSERVED = "dev.accredit/observed"
"""The member of an item's `_meta` which says that uses of the item are decided, but not refused."""
_BINDING = "ratify_binding"
OWN_MEMBERS = frozenset({SCOPE, SENSITIVE, OBSERVED})
"""Members that only a gateway may set in an item. If a server sets them, they are removed."""


class Kind(Struct, frozen=True):
    """A kind of list. `items` is the member of the result that holds the items, `key` the member that names an item,
    and `method` the method of a request that uses an item."""

    items: str
    key: str
    method: str

    def target(self, named: str) -> str:
        """Return the target by which the use of an item of this name is judged."""
        return named.partition("{")[0] if self.key == "uriTemplate" else named

    @property
    def result_names(self) -> Names:
        """The members of the result that every reader must read alike."""
        return _RESULT_NAMES[self.items]

    @property
    def item_names(self) -> Names:
        """The members of an item that every reader must read alike."""
        return _ITEM_NAMES[self.items]


KINDS = {
    "tools/list": Kind("tools", "name", "tools/call"),
    "resources/list": Kind("resources", "uri", "resources/read"),
    "resources/templates/list": Kind("resourceTemplates", "uriTemplate", "resources/read"),
    "prompts/list": Kind("prompts", "name", "prompts/get"),
}
"""Every kind of list, by the method that asks for it."""

OF_TASKS = Kind("tasks", "taskId", "tasks/get")
"""The list of tasks, in which each owner sees only its own (`jsonrpc.tasks`)."""

_ALL = (*KINDS.values(), OF_TASKS)
_RESULT_NAMES = {
    kind.items: Names(kind.items, "nextCursor", "cacheScope", "ttlMs", "resultType", "_meta") for kind in _ALL
}
_ITEM_NAMES = {kind.items: Names(kind.key, "_meta") for kind in _ALL}


class ListView(Struct, frozen=True, kw_only=True):
    """One client's view of lists. If `granted` is None, no item is left out for lack of a grant. If `token` is None, no
    item is left out because of a token.

    `verifier_id` and `binding` are empty if proofs are not judged here. If proofs are only `observed`, nothing is left
    out for lack of one. `on_other` is called for each tool whose definition is not the pinned one. `most` is the most
    bytes that a list may have, before and after it is edited.
    """

    catalog: Catalog
    verifier_id: str = ""
    binding: str = ""
    granted: Collection[str] | None = None
    observed: bool = False
    token: VerifiedToken | None = None
    pins: Pins | None = None
    on_other: Callable[[], object] = lambda: None
    most: int = MAX_SPLIT_BYTES

    def private(self, kind: Kind) -> bool:
        """Return whether a list of this kind may show other items to other clients."""
        token = self.token if kind.method == "tools/call" else None
        restricted = token is not None and (token.allowed_tools is not None or bool(token.denied_tools))
        return (self.granted is not None and not self.observed) or restricted

    def edits(self, kind: Kind) -> bool:
        """Return whether a list of this kind may differ from the upstream's."""
        if self.private(kind) or self.verifier_id or self.catalog.says_something:
            return True
        return self.pins is not None and kind.method == "tools/call"

    def entry(self, kind: Kind, named: str) -> Entry | None:
        """Return an item's entry in the catalog, or None if no proof could allow it."""
        return self.catalog.find(kind.method, kind.target(named))

    def shown(self, kind: Kind, named: str, entry: Entry | None) -> bool:
        """Return whether an item is listed."""
        if kind.method == "tools/call" and named in self.catalog.own_tools:
            return False
        if self.token is not None and kind.method == "tools/call" and not may_use(self.token, named):
            return False
        if self.observed:
            return True
        if entry is None:
            return not self.verifier_id
        return self.granted is None or entry.allows(self.granted)

    def as_pinned(self, kind: Kind, named: str, item: Raw) -> bool:
        """Return whether a tool may be listed with its definition."""
        if self.pins is None or kind.method != "tools/call":
            return True
        if digest_of(bytes(item)) == (self.pins.as_listed(named) or ""):
            return True
        self.on_other()
        return not self.pins.enforced

    def annotations(self, entry: Entry | None) -> dict[str, object]:
        """Return the members that the gateway sets in an item's `_meta`."""
        ours: dict[str, object] = {SCOPE: entry.scope} if entry is not None else {}
        if entry is not None and entry.sensitive and not self.observed:
            ours[SENSITIVE] = True
        if self.verifier_id and (entry is not None or self.observed):
            ours |= {VERIFIER: self.verifier_id, _BINDING: self.binding}
        return ours | {OBSERVED: True} if self.observed else ours


def rewrite_list(response: Success, view: ListView, kind: Kind, *others: Kind) -> Steps[bytes]:
    """Return, in steps, the response to a list request as this client may see it.

    `others` are given only if the request is unknown, so that the response could be of several kinds. Raises
    `FrameError` for an unreadable list.
    """
    if len(response.text) > MAX_SPLIT_BYTES:
        raise FrameError(f"a list of more than {MAX_SPLIT_BYTES} bytes", bound=True)
    for each in (kind, *others):
        yield
        result = unambiguous_members(response.result, each.result_names) if is_object(response.result) else {}
        message = response.message()
        yield
        response = yield from _rewrite_items(response, message, result, view, each)
    return response.text


def kinds_in(response: Success) -> tuple[Kind, ...]:
    """Return the kinds of list that a response could be, by its shape. This is for a resumed stream, whose
    request is unknown."""
    try:
        names = set(map(str.casefold, response.members()))
    except FrameError:
        return ()
    return tuple(kind for kind in KINDS.values() if kind.items.casefold() in names)


def _rewrite_items(
    response: Success, message: Mapping[str, Raw], result: Mapping[str, Raw], view: ListView, kind: Kind
) -> Steps[Success]:
    if kind.items not in result:
        raise FrameError(f"a list without {kind.items}")
    private = {"cacheScope": "private"} if view.private(kind) else {}
    items = elements(result[kind.items], f'"{kind.items}"')
    edited = RewrittenArray(kind.items, message, {**result, **private}, response.id, view.most)
    for number, item in enumerate(items):
        if number % ITEMS_AT_ONCE == 0 or len(item) > SHORT_MESSAGE_BYTES:
            yield
        shown = _item(item, view, kind)
        if shown is not None:
            edited.add(shown)
    return edited.end()


def _item(text: Raw, view: ListView, kind: Kind) -> Raw | None:
    if not is_object(text):
        raise FrameError(f"{kind.items} with an item that is not an object")
    item = unambiguous_members(text, kind.item_names)
    named = as_string(item.get(kind.key))
    if named is None:
        raise FrameError(f"{kind.items} with an item without a {kind.key}")
    entry = view.entry(kind, named)
    if not view.shown(kind, named, entry) or not view.as_pinned(kind, named, text):
        return None
    annotations = view.annotations(entry)
    if not annotations:
        return text
    meta = members(item["_meta"]) if is_object(item.get("_meta")) else {}
    # The upstream's own values must not pass for the catalog's.
    kept = {member: value for member, value in meta.items() if member not in OWN_MEMBERS}
    return Raw(with_members(item, {"_meta": Raw(with_members(kept, annotations))}))

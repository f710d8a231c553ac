"""Merges what several servers answer into one answer: lists, `server/discover`, `initialize`. All are asked at once.

Of lists:

- [time] Each server has `MERGED_ASK_SECONDS` for its whole list. Its pages are followed, up to `MAX_LIST_PAGES`. The
  merged list has one page, so no server ever gets another's cursor.
- [left-out] A server that does not answer in time, or not with a readable list, is left out, and named in the result's
  `_meta`. A server that does not know the method (-32601) counts as having an empty list.
- [shares] Each server has an equal part of the bytes that an edited list may have, and at most `MAX_MERGED_ITEMS`
  items. So none takes the others' room.
- [cache] In 2026-07-28 the merged list may be cached for the shortest time that any server allows, and not at all while
  a server is left out. It is `public` only if all lists are.
- [many-tools] If there are more than `MANY_TOOLS`, that is logged, once: models choose badly among so many.
- [pages] A tool may name a page to show with it (`_meta.ui.resourceUri`). Its URI is mapped, so that a host can read
  the page here.

Of `server/discover` and `initialize`:

- [capabilities] A capability is stated if any server has it and the merged endpoint serves it. Experimental ones and
  unknown extensions are never stated: they may use names that would have to be mapped.
- [instructions] Each server's instructions appear under its name, up to an equal part of
  `MAX_MERGED_INSTRUCTIONS_CHARS`.
- [versions] A version is supported if all servers that answered support it. The request's own version always is.
- [revision] A session's revision is the oldest in any server's answer, since all understand that. Each server keeps its
  own revision, which is sent to it in `MCP-Protocol-Version`. A server whose answer has no legacy revision is left out.
- [starting] The servers left out are named. If some of these are still starting, the answer announces lists of each
  kind, and that they may change. So a client will learn of late servers.
"""

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

import msgspec
from msgspec import Raw

from accredit.base.log_events import log_event
from accredit.base.steps import Steps
from accredit.errors import AccreditError, FrameError
from accredit.gateway.turns import current_server, in_turns, turn
from accredit.jsonrpc.arrays import elements
from accredit.jsonrpc.encode import METHOD_NOT_FOUND, to_json, with_members
from accredit.jsonrpc.frames import Failure, Frame, Request, Success, decode_frame
from accredit.jsonrpc.methods import LEGACY_REVISIONS, TASK_MEMBER, Era
from accredit.jsonrpc.objects import as_integer, as_string, is_object, may_hold, members, unambiguous_members
from accredit.jsonrpc.responses import TASKS_EXTENSION
from accredit.limits import (
    ITEMS_AT_ONCE,
    MAX_LIST_PAGES,
    MAX_MERGED_ITEMS,
    MAX_SPLIT_BYTES,
    MERGED_ASK_SECONDS,
    SHORT_MESSAGE_BYTES,
)
from accredit.policy.lists import KINDS, OF_TASKS, Kind
from accredit.policy.merging import merged_name, merged_page, merged_uri

MANY_TOOLS = 128
"""If the merged endpoint has more tools than this, a warning is logged: many clients have such a limit, and models
choose badly among more."""
MAX_MERGED_INSTRUCTIONS_CHARS = 65_536
"""How many characters of the servers' instructions the merged endpoint gives in all, in equal parts. Clients put them
into a model's context."""

UNAVAILABLE = "dev.accredit/unavailable"
"""The member of a merged result's `_meta` that names the servers that were left out."""

LISTED = ("tools", "prompts", "resources")
"""The kinds of lists that a server offers, by capability."""

AskMember = Callable[[str, Request, int], Awaitable[bytes | None]]
"""Sends one of the gateway's own requests to the named server, as the current caller. Returns the response's text, or
None. The number is how many bytes the text may have."""

Results = Mapping[str, Mapping[str, Raw]]
"""The members of each server's result, by server name."""

Given = TypeVar("Given")
_OLDER_PAGE = "ui/resourceUri"
_VERSION = "protocolVersion"
_SERVER_INFO = "io.modelcontextprotocol/serverInfo"
_FLAGS = {
    "tools": ("listChanged",),
    "prompts": ("listChanged",),
    "resources": ("listChanged", "subscribe"),
    "logging": (),
    "completions": (),
}
"""The capabilities that the merged endpoint serves, each with its boolean members."""
_decode_texts = msgspec.json.Decoder(list[str]).decode
_log = logging.getLogger("accredit.gateway.merged")


class CacheTerms(NamedTuple):
    """How long an answer may be cached, in milliseconds, and whether for everybody."""

    ttl_ms: int
    public: bool

    def members(self) -> dict[str, object]:
        """Return the terms as members of a result of 2026-07-28."""
        scope = "public" if self.public else "private"
        return {"resultType": "complete", "ttlMs": self.ttl_ms, "cacheScope": scope}


def read_cache_terms(result: Mapping[str, Raw]) -> CacheTerms:
    """Return how long a server's answer may be cached. If the answer does not say so, it may not be cached."""
    return CacheTerms(max(as_integer(result.get("ttlMs")) or 0, 0), as_string(result.get("cacheScope")) == "public")


def strictest(all_kept: Collection[CacheTerms], *, complete: bool) -> CacheTerms:
    """Return how long an answer that is merged from others may be cached: not at all unless it is `complete`."""
    ttl_ms = min((each.ttl_ms for each in all_kept), default=0) if complete else 0
    return CacheTerms(ttl_ms, public=bool(all_kept) and all(each.public for each in all_kept))


ListOfOne = tuple[Sequence[Raw], Sequence[CacheTerms]]
"""The items of one server's list, under merged names, and how long its pages may be cached."""


async def answers_of_all(
    servers: Collection[str], ask: Callable[[str], Awaitable[Given | None]]
) -> tuple[dict[str, Given], list[str]]:
    """Ask several servers at once. Return their results, and the names of the servers that gave none within
    `MERGED_ASK_SECONDS`, or an error."""

    async def one(server: str) -> Given | None:
        current_server.set(server)
        try:
            async with asyncio.timeout(MERGED_ASK_SECONDS):
                return await ask(server)
        except (AccreditError, TimeoutError) as error:
            detail = str(error) or f"no answer for {MERGED_ASK_SECONDS:g} s"
            log_event(_log, logging.WARNING, "left_out", server=server, detail=detail)
            return None

    given = await asyncio.gather(*map(one, servers))
    found = {server: each for server, each in zip(servers, given, strict=True) if each is not None}
    return found, [server for server in servers if server not in found]


class MergedLists:
    """Lists of `servers`, by name."""

    def __init__(self, servers: Collection[str]) -> None:
        self._servers = servers
        self._bytes = MAX_SPLIT_BYTES // (len(servers) + 1)
        self._many = False

    async def result(self, request: Request, era: Era, ask: AskMember) -> tuple[bytes, int]:
        """Return the result of a list request, as JSON text, and the number of servers whose lists are in it."""
        kind = KINDS.get(request.method, OF_TASKS)

        async def one(server: str) -> ListOfOne | None:
            return await self._list_of(server, kind, request, ask)

        found, missing = await answers_of_all(self._servers, one)
        items = [item for each, _ in found.values() for item in each]
        self._warn(kind, len(items))
        kept = strictest([terms for _, each in found.values() for terms in each], complete=not missing)
        result: dict[str, object] = {kind.items: items}
        if era is Era.MODERN:
            result |= kept.members()
        if missing:
            result["_meta"] = {UNAVAILABLE: missing}
        return to_json(result), len(found)

    def _warn(self, kind: Kind, items: int) -> None:
        if kind.items == "tools" and items > MANY_TOOLS and not self._many:
            self._many = True
            remedy = "give clients the servers' own endpoints"
            log_event(_log, logging.WARNING, "many_tools", tools=items, remedy=remedy)

    async def _list_of(self, server: str, kind: Kind, request: Request, ask: AskMember) -> ListOfOne | None:
        """Return one server's list, or None if it is left out ([left-out]). Raises `FrameError`."""
        items: list[Raw] = []
        kept: list[CacheTerms] = []
        size, cursor = 0, None
        for _ in range(MAX_LIST_PAGES):
            text = await ask(server, _page_of(request, cursor), self._bytes - size)
            if text is None:
                return None
            size += len(text)
            if size > self._bytes:
                raise FrameError(f"a list of more than {self._bytes} bytes", bound=True)
            answer = await read_frame(text)
            if isinstance(answer, Failure) and answer.code == METHOD_NOT_FOUND:
                return (), ()
            if not isinstance(answer, Success) or not is_object(answer.result):
                return None
            result = unambiguous_members(answer.result, kind.result_names)
            items += await in_turns(_items(result, kind, server, MAX_MERGED_ITEMS - len(items)))
            if sum(map(len, items)) > self._bytes:  # merged names are longer
                raise FrameError(f"a list that becomes longer than {self._bytes} bytes", bound=True)
            kept.append(read_cache_terms(result))
            cursor = result.get("nextCursor")
            if as_string(cursor) is None:
                return items, kept
        return None


def _items(result: Mapping[str, Raw], kind: Kind, server: str, most: int) -> Steps[list[Raw]]:
    """Return the items of a server's list, at most so many, under merged names. Raises `FrameError`."""
    yield
    items = elements(result.get(kind.items), f'"{kind.items}"', most)
    merged = merged_uri if kind.method == "resources/read" else merged_name
    renamed: list[Raw] = []
    for number, item in enumerate(items):
        if number % ITEMS_AT_ONCE == 0 or len(item) > SHORT_MESSAGE_BYTES:
            yield
        if not is_object(item):
            raise FrameError(f"{kind.items} with an item that is not an object")
        found = unambiguous_members(item, kind.item_names)
        own = as_string(found.get(kind.key))
        if own is None or (not own and kind.key == TASK_MEMBER):
            raise FrameError(f"{kind.items} with an item without a {kind.key}")
        changes: dict[str, object] = {kind.key: merged(server, own)}
        if "_meta" in found and kind.method == "tools/call":
            changes["_meta"] = _with_page(found["_meta"], server)
        renamed.append(Raw(with_members(found, changes)))
    return renamed


def _with_page(meta: Raw, server: str) -> Raw:
    """Return a tool's `_meta` with the URI of its page (MCP Apps) mapped, under the current and the older member name
    ([pages]). Raises `FrameError`."""
    if not is_object(meta) or not may_hold(meta, b"resourceUri"):
        return meta
    found = members(meta)
    changes: dict[str, object] = {}
    older = as_string(found.get(_OLDER_PAGE))
    if older is not None:
        changes[_OLDER_PAGE] = merged_page(server, older)
    ui = members(found["ui"]) if is_object(found.get("ui")) else {}
    own = as_string(ui.get("resourceUri"))
    if own is not None:
        changes["ui"] = Raw(with_members(ui, {"resourceUri": merged_page(server, own)}))
    return Raw(with_members(found, changes)) if changes else meta


async def read_frame(text: bytes) -> Frame:
    """Decode a message, in a turn of its own if it is long. Raises `FrameError`."""
    await turn(len(text))
    return decode_frame(text)


def _page_of(request: Request, cursor: Raw | None) -> Request:
    """Return the request for one page. It has an id of its own, as several such requests may be open in one session."""
    page = request.with_id(secrets.token_hex(8))
    if cursor is not None:
        return page.with_params({"cursor": cursor})
    return page.with_params({}, without=("cursor",)) if "cursor" in request.parts else page  # drop a cursor of null


def merged_capabilities(results: Results) -> dict[str, dict[str, object]]:
    """Return the union of the capabilities ([capabilities])."""
    merged: dict[str, dict[str, object]] = {}
    for result in results.values():
        said = _object(result.get("capabilities"))
        for name, flags in _FLAGS.items():
            if not is_object(said.get(name)):
                continue
            own, known = _object(said[name]), merged.setdefault(name, {})
            known |= {flag: True for flag in flags if flag in own and bytes(own[flag]) == b"true"}
        _add_tasks(merged, said)
    return merged


def _add_tasks(merged: dict[str, dict[str, object]], said: Mapping[str, Raw]) -> None:
    """Add one server's statement about tasks: a capability in 2025-11-25, an extension in 2026-07-28."""
    tasks = said.get("tasks")
    if is_object(tasks):
        own, known = _object(tasks), merged.setdefault("tasks", {})
        known |= {name: {} for name in ("list", "cancel") if is_object(own.get(name))}
        if is_object(_object(_object(own.get("requests")).get("tools")).get("call")):
            known["requests"] = {"tools": {"call": {}}}
    if is_object(_object(said.get("extensions")).get(TASKS_EXTENSION)):
        merged.setdefault("extensions", {})[TASKS_EXTENSION] = {}


def merged_instructions(results: Results) -> str | None:
    """Return all instructions joined ([instructions]), or None if there are none."""
    said = {server: as_string(result.get("instructions")) for server, result in results.items()}
    most = MAX_MERGED_INSTRUCTIONS_CHARS // max(len(said), 1)
    parts = [
        f"{server} (its tools and prompts begin with {merged_name(server, '')}):\n{text[:most]}"
        for server, text in said.items()
        if text
    ]
    return "\n\n".join(parts) or None


def merged_versions(results: Results, asked: str | None) -> list[str]:
    """Return the versions that all servers support, in the first server's order ([versions])."""
    listed = [_texts(result.get("supportedVersions")) for result in results.values()]
    common = [each for each in listed[0] if all(each in others for others in listed)] if listed else []
    return common if asked is None or asked in common else [*common, asked]


def merge_discover(hellos: Results, missing: Sequence[str], info: Mapping[str, str], asked: str | None) -> bytes:
    """Return the result of `server/discover`; `asked` is the request's own version, `info` the gateway's
    `serverInfo`."""
    kept = strictest([read_cache_terms(each) for each in hellos.values()], complete=not missing)
    result: dict[str, object] = {
        **kept.members(),
        "supportedVersions": merged_versions(hellos, asked),
        "capabilities": merged_capabilities(hellos),
        "_meta": {_SERVER_INFO: info, **({UNAVAILABLE: missing} if missing else {})},
    }
    instructions = merged_instructions(hellos)
    if instructions is not None:
        result["instructions"] = instructions
    return to_json(result)


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
        for name in LISTED:
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


def own_answer(request: Request, result: bytes) -> Success:
    """Return the gateway's own answer to a request as a `Success`. The request's watcher gets this one, and not the
    servers' answers."""
    response = Success(request.id, Raw(result), to_json({"jsonrpc": "2.0", "id": request.id, "result": Raw(result)}))
    if request.watcher is not None:
        request.watcher.answered(response)
    return response


def _object(value: Raw | None) -> dict[str, Raw]:
    try:
        return members(value) if value is not None and is_object(value) else {}
    except FrameError:
        return {}


def _texts(value: Raw | None) -> Iterable[str]:
    try:
        return dict.fromkeys(_decode_texts(value)) if value is not None else ()
    except (msgspec.MsgspecError, RecursionError):
        return ()

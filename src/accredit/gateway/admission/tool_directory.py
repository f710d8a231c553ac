"""What the upstream's tools declare. This is learned from its tool lists, which the gateway requests itself if needed.

For each tool the directory knows whether `_token` is one of the tool's own arguments, and which `Mcp-Param-*` headers
mirror its arguments. The latest list is used, no matter who asked for it. The gateway asks on behalf of the current
caller, so that the list shows what this caller may see:

- [token-argument] Before a call with a `_token` for an unknown tool, the gateway asks for the list, if its backend can.
  If it still does not know the tool as one with such an argument, it takes `_token` for a credential and does not
  forward it.
- [headers] It also asks before a call with `Mcp-Param-*` headers, if it has no list. If a header disagrees with an
  older list, it is checked against a fresh one. If no list can be had, nothing is checked.
- [rate] The gateway asks at most once in `TOOL_LIST_FRESH_SECONDS` for admitted callers. Requests for callers who have
  not yet authenticated have an equal limit of their own, so that they can't keep the others from a fresh list.
"""

import asyncio
import contextlib
import secrets
from collections.abc import Awaitable, Callable

from msgspec import Raw, Struct

from accredit.base.caching import RecentlyUsed
from accredit.base.steps import Steps
from accredit.errors import FrameError, RequestError
from accredit.gateway.room import until_read
from accredit.gateway.turns import in_turns, turn
from accredit.jsonrpc.arrays import check_count
from accredit.jsonrpc.encode import to_json
from accredit.jsonrpc.frames import Request, Success, decode_frame
from accredit.jsonrpc.methods import META_CAPABILITIES, META_CLIENT_INFO, META_VERSION
from accredit.jsonrpc.objects import as_string, members
from accredit.jsonrpc.param_headers import (
    DeclaredHeader,
    Headers,
    check_param_headers,
    declared_headers,
    has_param_header,
    listed_schemas,
)
from accredit.jsonrpc.requests import decode_request
from accredit.limits import MAX_KNOWN_TOOLS, MAX_LIST_PAGES, MAX_TOOL_LIST_BYTES
from accredit.tokens.carried import declares_token

MAX_KNOWN_TOOL_NAME_CHARS = 1_024
"""The longest name, in characters, of a tool that is remembered because `_token` is its own argument. The specification
asks for names of at most 128. Without a bound, the names of a hostile server could fill gigabytes."""
TOOL_LIST_FRESH_SECONDS = 10.0
"""The shortest time, in seconds, between two requests for the tool list. Otherwise each call to an unknown tool could
cause one."""


Ask = Callable[[Request], Awaitable[bytes | None]]
"""Sends one of the gateway's own requests upstream on behalf of the caller. Returns the response's text, or None."""

CARRIED = (META_VERSION, META_CAPABILITIES, META_CLIENT_INFO)
"""The `_meta` members that the gateway's own list request copies from the caller's."""


class _Tool(Struct, frozen=True):
    takes_token: bool = False
    headers: tuple[DeclaredHeader, ...] = ()


class _Pace:
    """Limits how often the tool list is requested."""

    def __init__(self) -> None:
        self._asked_at = float("-inf")

    def admits(self) -> bool:
        """Return whether the list may be requested now. If so, the time counts as used, and the caller must request
        it."""
        now = asyncio.get_running_loop().time()
        if now - self._asked_at < TOOL_LIST_FRESH_SECONDS:
            return False
        self._asked_at = now
        return True


class ToolDirectory:
    """One per gateway. `on_list` is called with each list from which the directory learns."""

    def __init__(self, on_list: Callable[[Raw], Steps[None]] | None = None) -> None:
        self._on_list = on_list
        self._tools = RecentlyUsed[str, _Tool](MAX_KNOWN_TOOLS)
        self._for_admitted = _Pace()
        self._for_others = _Pace()

    def learn(self, result: Raw) -> Steps[None]:
        """Remember the tools in the result of a `tools/list`, in steps."""
        if self._on_list is not None:
            yield from self._on_list(result)
        if not _may_be_learned(result):
            return
        for name, schema in listed_schemas(result).items():
            yield
            if len(name) <= MAX_KNOWN_TOOL_NAME_CHARS:
                self._tools.put(name, _Tool(declares_token(schema), declared_headers(schema)))

    def takes_token(self, name: str) -> bool:
        """Return whether `_token` is known to be the tool's own argument."""
        tool = self._tools.peek(name)
        return tool is not None and tool.takes_token

    async def look_up(self, name: str, call: Request, ask: Ask) -> None:
        """Request the list if the tool is unknown ([token-argument]), on behalf of a caller who is not yet
        authenticated."""
        if self._tools.peek(name) is None and self._for_others.admits():
            await self._ask_for_list(call, ask)

    async def check_headers(self, call: Request, headers: Headers, ask: Ask) -> None:
        """Check that the headers of a `tools/call` agree with its arguments ([headers]). Raises `RequestError`."""
        name = call.target
        if name is None:
            return
        known = self._tools.peek(name)
        if known is None and has_param_header(headers) and self._for_admitted.admits():
            await self._ask_for_list(call, ask)
        try:
            check_param_headers(call, self._headers_of(name), headers)
        except RequestError:
            if not self._for_admitted.admits():
                raise
            await self._ask_for_list(call, ask)
            check_param_headers(call, self._headers_of(name), headers)

    def _headers_of(self, name: str) -> tuple[DeclaredHeader, ...]:
        tool = self._tools.peek(name)
        return tool.headers if tool is not None else ()

    async def _ask_for_list(self, call: Request, ask: Ask) -> None:
        """Request the list page by page, up to `MAX_LIST_PAGES`, with the metadata of `call`."""
        with contextlib.suppress(FrameError):
            await ask_for_list(call, ask, self.learn)


async def ask_for_list(call: Request, ask: Ask, read: Callable[[Raw], Steps[None]]) -> bool:
    """Request the tool list with the metadata of `call`. `read` gets each page's result. Return whether the list ended
    within `MAX_LIST_PAGES`. Raises `FrameError`, and what `read` raises."""
    cursor: Raw | None = None
    for _ in range(MAX_LIST_PAGES):
        # A new id each time: several looks may be open in one session, and a server need not tell equal ids apart.
        with until_read():
            answer = await ask(_list_request(call, secrets.token_hex(8), cursor))
            await turn(len(answer or b""))
            frame = decode_frame(answer) if answer is not None else None
            if not isinstance(frame, Success):
                return False
            await in_turns(read(frame.result))
            cursor = frame.members().get("nextCursor")
        if as_string(cursor) is None:
            return True
    return False


def _may_be_learned(result: Raw) -> bool:
    """Return whether the tools in a `tools/list` result are few and short enough to be read."""
    if len(result) > MAX_TOOL_LIST_BYTES:
        return False
    try:
        tools = members(result).get("tools")
        if tools is not None:
            check_count(tools, '"tools"')
    except FrameError:
        return False
    return True


def _list_request(call: Request, id: str, cursor: Raw | None) -> Request:
    """Return the request for one page of the list, as the caller of `call` would send it."""
    carried = {name: value for name in CARRIED if (value := call.in_meta(name)) is not None}
    params: dict[str, object] = {"_meta": carried}
    if cursor is not None:
        params["cursor"] = cursor
    listing = {"jsonrpc": "2.0", "id": id, "method": "tools/list", "params": params}
    made = decode_request(to_json(listing))
    assert isinstance(made, Request)  # noqa: S101 - it was built as one
    return made

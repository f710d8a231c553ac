"""Which tools declare `Mcp-Param-*` headers: learned from the upstream's tool lists, asked for where it matters.

A call is checked against what the tool declares (`jsonrpc.param_headers`). What is not known yet is asked for, on the
caller's behalf, so that a list shows what this caller may see, where the call carries such headers. A call that
disagrees with an older list is judged by a fresh one. A list that can't be had checks nothing.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable

from msgspec import Raw

from accredit.errors import FrameError, RequestError
from accredit.jsonrpc.encode import to_json
from accredit.jsonrpc.era import Headers
from accredit.jsonrpc.frames import Request, Success, decode_frame
from accredit.jsonrpc.methods import META_CAPABILITIES, META_CLIENT_INFO, META_VERSION
from accredit.jsonrpc.objects import members
from accredit.jsonrpc.param_headers import DeclaredHeader, check_param_headers, listed_headers
from accredit.jsonrpc.requests import decode_request, meta_of
from accredit.jsonrpc.scalars import as_string
from accredit.limits import MAX_KNOWN_TOOLS, MAX_LIST_PAGES, TOOL_LIST_FRESH_SECONDS

Ask = Callable[[Request], Awaitable[bytes | None]]
"""Sends a request of ours upstream, as the caller at hand; gives the response's text, or None."""

_PREFIX = b"mcp-param-"
_CARRIED = (META_VERSION, META_CAPABILITIES, META_CLIENT_INFO)


class ParamSchemas:
    """The headers that each tool declares, the latest list's word."""

    def __init__(self) -> None:
        self._tools: OrderedDict[str, tuple[DeclaredHeader, ...]] = OrderedDict()
        self._asked_at = float("-inf")

    def learn(self, result: Raw) -> None:
        """Takes in the result of a `tools/list` that passes by."""
        for name, declared in listed_headers(result).items():
            self._tools[name] = declared
            self._tools.move_to_end(name)
        while len(self._tools) > MAX_KNOWN_TOOLS:
            self._tools.popitem(last=False)

    async def check(self, request: Request, headers: Headers, ask: Ask) -> None:
        """Refuses a `tools/call` whose headers and arguments disagree. Raises `RequestError`."""
        params = members(request.params) if request.params is not None else {}
        name = as_string(params.get("name"))
        if name is None:
            return
        if name not in self._tools and any(header.startswith(_PREFIX) for header in headers):
            await self._refresh(request, ask)
        try:
            check_param_headers(request, self._tools.get(name, ()), headers)
        except RequestError:
            if not await self._refresh(request, ask):
                raise
            check_param_headers(request, self._tools.get(name, ()), headers)

    async def _refresh(self, request: Request, ask: Ask) -> bool:
        """Asks for the whole list, at most once in `TOOL_LIST_FRESH_SECONDS`; whether it did."""
        now = asyncio.get_running_loop().time()
        if now - self._asked_at < TOOL_LIST_FRESH_SECONDS:
            return False
        self._asked_at = now
        cursor: Raw | None = None
        for page in range(MAX_LIST_PAGES):
            answer = await ask(_list_request(request, page, cursor))
            try:
                frame = decode_frame(answer) if answer is not None else None
                if not isinstance(frame, Success):
                    break
                self.learn(frame.result)
                cursor = members(frame.result).get("nextCursor")
            except FrameError:
                break
            if as_string(cursor) is None:
                break
        return True


def _list_request(request: Request, page: int, cursor: Raw | None) -> Request:
    meta = meta_of(request.params)
    params: dict[str, object] = {"_meta": {name: meta[name] for name in _CARRIED if name in meta}}
    if cursor is not None:
        params["cursor"] = cursor
    call = {"jsonrpc": "2.0", "id": f"accredit-tools-list-{page}", "method": "tools/list", "params": params}
    made = decode_request(to_json(call))
    assert isinstance(made, Request)  # noqa: S101 - it was built as one
    return made

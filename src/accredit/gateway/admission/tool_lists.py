"""The upstream's list of tools, asked for by the gateway itself, on behalf of the caller at hand."""

import asyncio
from collections.abc import Awaitable, Callable

from msgspec import Raw

from accredit.errors import FrameError
from accredit.jsonrpc.encode import to_json
from accredit.jsonrpc.frames import Request, Success, decode_frame
from accredit.jsonrpc.methods import META_CAPABILITIES, META_CLIENT_INFO, META_VERSION
from accredit.jsonrpc.objects import members
from accredit.jsonrpc.requests import decode_request
from accredit.jsonrpc.scalars import as_string
from accredit.limits import MAX_LIST_PAGES, TOOL_LIST_FRESH_SECONDS

Ask = Callable[[Request], Awaitable[bytes | None]]
"""Sends a request of ours upstream, as the caller at hand; gives the response's text, or None."""

_CARRIED = (META_VERSION, META_CAPABILITIES, META_CLIENT_INFO)


class ToolLists:
    """Asks for the whole list, at most once in `TOOL_LIST_FRESH_SECONDS`. `learn` takes the result of each page."""

    def __init__(self, learn: Callable[[Raw], None]) -> None:
        self._learn = learn
        self._asked_at = float("-inf")

    async def refresh(self, request: Request, ask: Ask) -> bool:
        """Asks with the metadata that `request` carries; whether it did."""
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
                self._learn(frame.result)
                cursor = members(frame.result).get("nextCursor")
            except FrameError:
                break
            if as_string(cursor) is None:
                break
        return True


def _list_request(request: Request, page: int, cursor: Raw | None) -> Request:
    carried = {name: value for name in _CARRIED if (value := request.in_meta(name)) is not None}
    params: dict[str, object] = {"_meta": carried}
    if cursor is not None:
        params["cursor"] = cursor
    call = {"jsonrpc": "2.0", "id": f"accredit-tools-list-{page}", "method": "tools/list", "params": params}
    made = decode_request(to_json(call))
    assert isinstance(made, Request)  # noqa: S101 - it was built as one
    return made

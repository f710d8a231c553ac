"""Which tools declare `Mcp-Param-*` headers: learned from the upstream's tool lists, asked for where it matters.

A call is checked against what the tool declares (`jsonrpc.param_headers`). What is not known yet is asked for, on the
caller's behalf, so that a list shows what this caller may see, where the call carries such headers. A call that
disagrees with an older list is judged by a fresh one. A list that can't be had checks nothing.
"""

from msgspec import Raw

from accredit.base.caching import RecentlyUsed
from accredit.errors import RequestError
from accredit.gateway.admission.tool_lists import Ask, ToolLists
from accredit.jsonrpc.era import PARAM_HEADERS, Headers
from accredit.jsonrpc.frames import Request
from accredit.jsonrpc.param_headers import DeclaredHeader, check_param_headers, listed_headers
from accredit.limits import MAX_KNOWN_TOOL_NAME_CHARS, MAX_KNOWN_TOOLS


class ParamSchemas:
    """The headers that each tool declares, the latest list's word."""

    def __init__(self) -> None:
        self._tools = RecentlyUsed[str, tuple[DeclaredHeader, ...]](MAX_KNOWN_TOOLS)
        self._lists = ToolLists(self.learn)

    def learn(self, result: Raw) -> None:
        """Takes in the result of a `tools/list` that passes by."""
        for name, declared in listed_headers(result).items():
            if len(name) <= MAX_KNOWN_TOOL_NAME_CHARS:
                self._tools.put(name, declared)

    async def check(self, request: Request, headers: Headers, ask: Ask) -> None:
        """Refuses a `tools/call` whose headers and arguments disagree. Raises `RequestError`."""
        name = request.target
        if name is None:
            return
        if name not in self._tools and any(header.startswith(PARAM_HEADERS) for header in headers):
            await self._lists.refresh(request, ask)
        try:
            check_param_headers(request, self._tools.peek(name) or (), headers)
        except RequestError:
            if not await self._lists.refresh(request, ask):
                raise
            check_param_headers(request, self._tools.peek(name) or (), headers)

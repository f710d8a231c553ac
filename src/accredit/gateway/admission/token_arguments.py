"""Which tools declare an argument `_token` of their own: learned from the upstream's tool lists. No I/O of its own.

A call with a `_token` for a tool that is not known yet makes the gateway ask for the list first, where its backend can.
What can't be learned is taken for a credential: it is not forwarded.
"""

import msgspec
from msgspec import Raw, Struct

from accredit.base.caching import RecentlyUsed
from accredit.gateway.admission.tool_lists import Ask, ToolLists
from accredit.jsonrpc.frames import Request
from accredit.limits import MAX_KNOWN_TOOL_NAME_CHARS, MAX_KNOWN_TOOLS, MAX_TOOL_LIST_BYTES
from accredit.tokens import declares_token


class _Tool(Struct, rename="camel"):
    name: str
    input_schema: Raw = Raw(b"{}")


class _Page(Struct):
    tools: list[_Tool]


_decode_page = msgspec.json.Decoder(_Page).decode


class TokenArguments:
    """Whose `_token` it is, by the tool's name: the latest list's word."""

    def __init__(self) -> None:
        self._tools = RecentlyUsed[str, bool](MAX_KNOWN_TOOLS)
        self._lists = ToolLists(self.learn)

    def learn(self, result: Raw) -> None:
        """Takes in the result of a `tools/list`, whoever asked for it."""
        if len(result) > MAX_TOOL_LIST_BYTES:
            return
        try:
            page = _decode_page(result)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            return
        for tool in page.tools:
            if len(tool.name) <= MAX_KNOWN_TOOL_NAME_CHARS:
                self._tools.put(tool.name, declares_token(tool.input_schema))

    def declared(self, tool: str) -> bool:
        """Whether `_token` is the tool's own, as far as is known."""
        return self._tools.peek(tool) or False

    async def ask_for(self, tool: str, request: Request, ask: Ask) -> None:
        """Makes a tool known, if that can be had."""
        if tool not in self._tools:
            await self._lists.refresh(request, ask)

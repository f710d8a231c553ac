"""Sends our legs through the official SDK's session, as a client does."""

from collections.abc import Awaitable, Callable

from mcp import ClientSession
from mcp_types import CallToolRequestParams, CallToolResult, InputRequiredResult

from accredit.rounds import LegOptions

Send = Callable[[CallToolRequestParams, LegOptions], Awaitable[CallToolResult | InputRequiredResult]]


def sender(session: ClientSession) -> Send:
    """What `run_rounds` sends a leg with."""

    async def send(params: CallToolRequestParams, _: LegOptions) -> CallToolResult | InputRequiredResult:
        return await session.call_tool(
            params.name,
            params.arguments,
            input_responses=params.input_responses,
            request_state=params.request_state,
            allow_input_required=True,
        )

    return send

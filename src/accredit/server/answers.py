"""Drops unreadable answers to a server's input requests. No I/O.

If one entry of `inputResponses` is wrapped in `{method, result}`, or is not an object, the SDK refuses the whole
request (-32602), and the tool's handler never runs. Here such entries are dropped first
(`rounds.partition_input_responses`). The handler is told their keys, so that it can ask again.

Not checked: whether the other entries are valid answers. The SDK refuses a bare entry that is not a result of any kind.
"""

from contextvars import ContextVar
from dataclasses import replace
from typing import Any

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext

from accredit.rounds import partition_input_responses
from accredit.rounds.results import INPUT_REQUIRED_METHODS

_RESPONSES = "inputResponses"

_dropped: ContextVar[tuple[str, ...]] = ContextVar("accredit_dropped_keys", default=())


async def drop_unreadable_answers(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    """Drop unreadable answers, as a middleware of the SDK: `MCPServer("mail", middleware=[drop_unreadable_answers])`.

    For a server without a guard; a guard does this by itself.
    """
    params = ctx.params or {}
    asks = ctx.method in INPUT_REQUIRED_METHODS
    accepted, dropped = partition_input_responses(params.get(_RESPONSES) if asks else None)
    if dropped:
        ctx = replace(ctx, params={**params, _RESPONSES: accepted})
    # Set even if nothing was dropped: a request that a handler makes must not see its caller's keys.
    before = _dropped.set(tuple(dropped))
    try:
        return await call_next(ctx)
    finally:
        _dropped.reset(before)


def current_dropped_keys() -> tuple[str, ...]:
    """Return the keys of unreadable answers for the running tool, resource or prompt, so that it can ask again."""
    return _dropped.get()

"""Answers to what a server asked that came in no form in which they can be read. No I/O.

For one entry of `inputResponses` that is wrapped in `{method, result}`, or is no object, the SDK refuses the whole
request (-32602), and its handler never runs. Here such entries are dropped first (`rounds.partition_input_responses`),
and the handler sees which, so that it can ask again.

Not checked: whether the others are good answers; the SDK refuses what is bare, but no result of any kind.
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
    """A middleware of the SDK's, for a server without a guard, as in `MCPServer("mail", middleware=[...])`.

    A guard does it by itself.
    """
    params = ctx.params or {}
    asks = ctx.method in INPUT_REQUIRED_METHODS
    accepted, dropped = partition_input_responses(params.get(_RESPONSES) if asks else None)
    if dropped:
        ctx = replace(ctx, params={**params, _RESPONSES: accepted})
    # Also where there are none: a request that a handler makes must not see its caller's.
    before = _dropped.set(tuple(dropped))
    try:
        return await call_next(ctx)
    finally:
        _dropped.reset(before)


def current_dropped_keys() -> tuple[str, ...]:
    """The keys by which the running tool, resource or prompt was brought answers that nobody can read: ask again."""
    return _dropped.get()

"""Sends one leg of a call, a request and its answer, over the official SDK's session. Also has handlers in the SDK's
form. I/O: the session's own.

- [raw-answer] A server's answer is read from the wire before the SDK's models validate it. An invalid `input_required`
  is a typed error. So is a result of an unknown kind: no extension is negotiated that could add kinds. A modern
  server's result without a `resultType` is complete.
- [missing-header] If a modern server reports that a header for a tool's arguments is missing, the tools are listed, and
  the call is repeated once.
- [server-requests] In the legacy era the same handlers answer the server's own requests. If a handler fails, the server
  is not told why.
- [progress-order] A call's progress is reported one event at a time, in order. Up to `MAX_WAITING_PROGRESS` events wait
  for the callback; if there are more, the oldest are dropped. The SDK alone would call the callback for all events at
  once, and keep as many as a server sends. If the callback fails, that is logged, and it still gets the next event.
- [one-error] A malformed result is one short error. The SDK's error has a part for each fault, and can have hundreds of
  MiB.

The rest of a result is not checked here, as the SDK does that. Nor is structured content validated against the tool's
`outputSchema`: the server writes both, and a single regular expression in it (`^(a+)+$`) could block this process for
ever.
"""

import logging
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from types import CoroutineType
from typing import Any, TypedDict, TypeVar

import anyio
from mcp import Client, MCPError
from mcp.client import ClientRequestContext
from mcp.shared.dispatcher import CallOptions, Dispatcher, OnNotify, OnNotifyIntercept, OnRequest, ProgressFnT
from mcp_types import (
    HEADER_MISMATCH,
    INTERNAL_ERROR,
    CallToolRequest,
    CallToolRequestParams,
    CallToolResult,
    ErrorData,
    GetPromptRequest,
    GetPromptRequestParams,
    GetPromptResult,
    InputRequiredResult,
    InputResponseRequestParams,
    ReadResourceRequest,
    ReadResourceRequestParams,
    ReadResourceResult,
)
from pydantic import TypeAdapter, ValidationError

from accredit.client.budgets import Budgets
from accredit.client.rounds import InputHandler, call_handler
from accredit.client.sdk import read_results_with
from accredit.jsonrpc.encode import INVALID_ANSWER, UPSTREAM_ERROR
from accredit.jsonrpc.methods import MODERN_REVISIONS
from accredit.limits import MAX_LIST_PAGES
from accredit.rounds import InputContext, is_input_required_result, read_input_required
from accredit.rounds.results import Responses, check_result_type

MAX_WAITING_PROGRESS = 16
"""How many progress notifications of a call wait for the host's callback, which gets one at a time. If there are more,
the oldest are dropped: a server may send them as fast as it likes."""


_log = logging.getLogger("accredit.client")

_Result = TypeVar("_Result")

_KINDS: dict[type, tuple[Any, TypeAdapter[Any]]] = {
    CallToolRequestParams: (CallToolRequest, TypeAdapter(CallToolResult | InputRequiredResult)),
    GetPromptRequestParams: (GetPromptRequest, TypeAdapter(GetPromptResult | InputRequiredResult)),
    ReadResourceRequestParams: (ReadResourceRequest, TypeAdapter(ReadResourceResult | InputRequiredResult)),
}
"""The request and the results of a leg, by the type of its params."""


class RoundsCall(TypedDict, total=False):
    """Options of every call that may have rounds.

    `timeout` is how many seconds each leg may take (default: a minute), `max_total_timeout` how many the whole call may
    take. `progress` is called with (progress, total, message). `input_responses` and `request_state` continue a call
    whose request for input the caller answers by hand.
    """

    timeout: float | None
    max_total_timeout: float | None
    progress: ProgressFnT | None
    input_responses: Responses
    request_state: str | None


class Legs:
    """Sends single legs over a connected client."""

    def __init__(self, client: Client) -> None:
        """Raise `UnsupportedResultType` if the server's description of itself is a result of an unknown kind."""
        self._client = client
        self._session = client.session
        check_result_type(self._session.discover_result)
        is_modern = client.protocol_version in MODERN_REVISIONS
        read_results_with(self._session, lambda inner: _Reading(inner, is_modern))

    async def send(self, params: InputResponseRequestParams, progress: ProgressFnT | None) -> Any:
        """Send a leg, and return its result or its request for input. Raises `MCPError`."""
        request, results = _KINDS[type(params)]

        async def send() -> Any:
            sending = self._session.send_request(request(params=params), results, progress_callback=progress)
            return await read_result(sending)

        try:
            return await send()
        except MCPError as error:
            if error.code != HEADER_MISMATCH or not isinstance(params, CallToolRequestParams):
                raise
        await self._list_up_to(params.name)
        return await send()

    async def _list_up_to(self, name: str) -> None:
        """List tools until this one is found: its schema names the headers that a call of it requires (2026-07-28,
        basic/transports, "Custom Headers")."""
        cursor = None
        for _ in range(MAX_LIST_PAGES):
            page = await read_result(self._client.list_tools(cursor=cursor, cache_mode="refresh"))
            cursor = page.next_cursor
            if cursor is None or any(tool.name == name for tool in page.tools):
                return


class _Reading:
    """A dispatcher that reads each result before the SDK does ([raw-answer]). It passes everything else to the inner
    one."""

    def __init__(self, inner: Dispatcher[Any], is_modern: bool) -> None:
        self._inner = inner
        self._is_modern = is_modern

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        raw = await self._inner.send_raw_request(method, params, opts)
        if not self._is_modern:
            return raw
        check_result_type(raw)
        if is_input_required_result(raw):
            requested = read_input_required(method, raw)
            return requested.model_dump(by_alias=True, mode="json", exclude_none=True)
        return {"resultType": "complete", **raw}

    async def notify(self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None) -> None:
        await self._inner.notify(method, params, opts)

    async def run(
        self,
        on_request: OnRequest,
        on_notify: OnNotify,
        on_notify_intercept: OnNotifyIntercept | None = None,
        *,
        task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        await self._inner.run(on_request, on_notify, on_notify_intercept, task_status=task_status)


async def read_result(asking: Awaitable[_Result]) -> _Result:
    """Return a request's result, or raise `MCPError` if it can't be read ([one-error])."""
    try:
        return await asking
    except ValidationError:
        pass  # released, as it holds the answer
    raise MCPError(UPSTREAM_ERROR, INVALID_ANSWER, "a result that is not what MCP says")


def one_at_a_time(show: ProgressFnT) -> ProgressFnT:
    """Wrap `show` in a callback that may be called many times at once: it calls `show` for one event at a time
    ([progress-order])."""
    waiting = deque[tuple[float, float | None, str | None]](maxlen=MAX_WAITING_PROGRESS)
    is_telling = False

    async def tell(progress: float, total: float | None, message: str | None) -> None:
        nonlocal is_telling
        waiting.append((progress, total, message))
        if is_telling:
            return
        is_telling = True
        try:
            while waiting:
                try:
                    await show(*waiting.popleft())
                except Exception:  # the caller's code may raise anything
                    _log.exception("the callback for a call's progress failed")
        finally:
            is_telling = False

    return tell


def legacy_callback(
    handler: InputHandler | None, method: str, budgets: Budgets
) -> "Callable[..., CoroutineType[Any, Any, Any]] | None":
    """Return a handler in the form that the SDK's session calls for the server's own requests ([server-requests]).

    The context's key is the request's id. An `MCPError` raised by the handler is its answer to the server.
    """
    if handler is None:
        return None

    async def answer(context: ClientRequestContext, params: Any = None) -> Any:
        entry = InputContext(str(context.request_id), method, params)
        try:
            with budgets.dialog():
                return await call_handler(handler, entry)
        except MCPError:
            raise
        except Exception:  # a handler is the caller's code, and may raise anything
            _log.exception("the handler of %s failed", method)
            return ErrorData(code=INTERNAL_ERROR, message="The client could not answer")

    return answer

"""The steps from a client's message to the backend. They are the same, in the same order, whichever way a message comes
in. A message is refused at the first step whose condition it does not meet:

- [source] Over HTTP: `Host` and `Origin` are allowed, against DNS rebinding (else 403).
- [method] Over HTTP, the method is one that MCP uses (405), and the session's id is not too long (400). Where tokens
  are on, a token in the header is valid (401, 403, 503). The session of HTTP+SSE exists (404).
- [media-type] Over HTTP, a POST is JSON in UTF-8, without a content coding (415). It does not repeat a header by which
  it is routed (400).
- [message] The message is within its bounds (413, or the error of a line). It is one valid message, or a batch where
  its revision allows one (400).
- [era] Over HTTP in the modern era: the headers agree with the body (400, -32020). Required metadata is there (-32602).
  Routing headers that mirror nothing in the body are dropped.
- [token] Where tokens are on, each message has a valid token with the rights it needs, and the session belongs to the
  token's subject (404): see `authenticator`. Over stdio, only calls and lists must have a token (`bearer`).
- [gate] The gate lets the message through (`gate`). The gate itself answers what it refuses. A notification that it
  drops has no answer. The decision on a call is on record before the gate is left.
- [room] There is room for the message, and it goes to the backend.
- [settled] However this ends, each call is settled, unless another part has taken that over.

A call that is refused before the gate is recorded as well (`early_refusals`). Not checked: whether the upstream knows
the version or the session. The upstream checks that itself.
"""

from abc import ABC, abstractmethod
from time import perf_counter
from typing import ClassVar, Generic, TypeVar

from accredit.errors import AccreditError, RequestError
from accredit.gateway.admission.gate import Gate
from accredit.gateway.admission.identity import check_single
from accredit.gateway.admission.pinned_tools import UpstreamAccess
from accredit.gateway.call import Call
from accredit.gateway.recording.early_refusals import REFUSALS, Unread
from accredit.gateway.settings import GatewaySettings
from accredit.gateway.trace import set_current
from accredit.gateway.turns import in_turns, turn
from accredit.jsonrpc.frames import Frame
from accredit.jsonrpc.requests import Batch, decode_request, read_request
from accredit.limits import SHORT_MESSAGE_BYTES
from accredit.telemetry import Meter
from accredit.telemetry.labels import error_of

_C = TypeVar("_C")


class Intake(ABC, Generic[_C]):
    """A way for messages to come in; a gateway has one object for each. `_C` is the type of what brings a message and
    takes its answer: an exchange, or a line.

    `meter`, if given, measures each request, however it ends.
    """

    answers_later: ClassVar[bool] = False
    """Whether answers are sent elsewhere than in the exchange that brought the request."""

    def __init__(self, settings: GatewaySettings, gate: Gate, meter: Meter | None = None) -> None:
        self._settings = settings
        self._gate = gate
        self._meter = meter
        self._traces = meter is not None and meter.tracer is not None

    async def take(self, client: _C, unread: Unread | None = None) -> None:
        """Take a message through the steps from [method] on. Raises the `AccreditError` that becomes its answer.

        `unread` gives the message's text if the message is refused before it was read.
        """
        call = Call()
        if self._meter is not None:
            call.began = perf_counter()
            if self._traces:
                call.traceparent = self._traceparent(client)
        try:
            await self._arrive(client, call)
        except BaseException as error:
            if isinstance(error, REFUSALS):
                call.revision = call.revision or self._revision(client)
                await self._gate.early_refusals.of_request(unread, call, error)
                self._gate.refused_early(call.message, error)
            self._failed(call, error)
            raise
        if self._settings.pins is not None:
            call.way = self._way(client, call)
        try:
            try:
                await self._gate.admit(call)  # 7
                await self._go_on(client, call)
            except BaseException as error:
                await call.open_calls.close(error)  # 9
                raise
            await call.open_calls.close(None)
        except BaseException as error:
            self._failed(call, error)
            raise
        if call.measured is not None:
            if self._traces:
                call.measured.told(call.revision, call.session)
            call.measured.end(None, self.answers_later)

    def _failed(self, call: Call, problem: BaseException) -> None:
        """End the measurement of a failed message."""
        if call.measured is not None:
            call.measured.told(call.revision, call.session)
            if isinstance(problem, RequestError):
                call.measured.unsent()
            call.measured.end(error_of(problem))
        elif self._meter is not None and call.message is None and isinstance(problem, AccreditError):
            self._meter.unread(problem, call.began)

    async def _read(self, text: bytes, call: Call, *, batches: bool) -> Frame | Batch:
        """Decode a message's bytes ([message]). Raises `RequestError`."""
        if len(text) > SHORT_MESSAGE_BYTES:
            message = call.message = await in_turns(read_request(text, batch_allowed=batches))
        else:
            message = call.message = decode_request(text, batch_allowed=batches)
        if self._meter is not None:
            call.measured = self._meter.begin(message, call.began, call.traceparent)
        if self._settings.one_caller:
            check_single(message)
        set_current(message)
        if len(text) > SHORT_MESSAGE_BYTES:
            await turn(len(text))
        return message

    @abstractmethod
    def _revision(self, client: _C) -> str | None:
        """Return the message's revision, or None if nothing tells it before the message is read."""

    @abstractmethod
    async def _arrive(self, client: _C, call: Call) -> None:
        """Take the steps [method] to [token], and store what they find in `call`. Raises one of `REFUSALS`."""

    def _traceparent(self, client: _C) -> bytes | None:
        """Return the HTTP request's trace context, if it has one."""
        return None

    def _way(self, client: _C, call: Call) -> UpstreamAccess | None:
        """Return how the gateway sends its own requests to the server on behalf of this caller, or None if it can't."""
        return None

    @abstractmethod
    async def _go_on(self, client: _C, call: Call) -> None:
        """Send the gate's own answers to the client, and forward what it admitted ([room]). Raises `AccreditError`."""

"""The steps from a client's message to the backend, in one order for all ways in. First failure wins.

1. Over HTTP: `Host` and `Origin` are allowed (DNS rebinding): 403.
2. Over HTTP, the method is one that MCP uses (405), and the session's id is not too long (400). Where tokens are on, a
   token in the header is valid (401, 403, 503). The session of HTTP+SSE exists (404).
3. Over HTTP, a POST is JSON in UTF-8, without a coding (415), and repeats no header that routes it (400).
4. It is within bounds (413, or the error of a line), and one valid message, or a batch where its revision allows one
   (400).
5. Over HTTP in the modern era: the headers agree with the body (400, -32020; missing metadata -32602). Routing headers
   that mirror nothing in it are dropped.
6. Where tokens are on, each message has a valid one with the needed rights, and the session is its subject's (404): see
   `authenticator`; over stdio, calls and lists have one (`bearer`).
7. The gate lets it through (`gate`). The gate itself answers what it refuses; a notification that it drops has no
   answer. The decision on a call is on record before the gate is left.
8. There is room for it, and it goes to the backend.
9. However this ends, each call is settled, unless another part has taken that over.

A call that is refused before the gate is recorded as well (`early_refusals`). Not checked: whether the upstream knows
the version or the session, which it checks itself.
"""

from abc import ABC, abstractmethod
from time import perf_counter
from typing import ClassVar, Generic, TypeVar

from accredit.errors import AccreditError, RequestError
from accredit.gateway.admission.bearer import Caller
from accredit.gateway.admission.gate import Admission, Gate
from accredit.gateway.admission.identity import check_single
from accredit.gateway.admission.pinned_tools import UpstreamAccess
from accredit.gateway.recording.early_refusals import REFUSALS, InboundRequest, Unread
from accredit.gateway.recording.recorder import Client
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
    """A way in, one per gateway. `_C` is what brings a message and takes its answer: an exchange, or a line.

    `meter`, if given, measures each request, however it ends.
    """

    answers_later: ClassVar[bool] = False
    """Whether answers go another way than the request's own exchange."""

    def __init__(self, settings: GatewaySettings, gate: Gate, meter: Meter | None = None) -> None:
        self._settings = settings
        self._gate = gate
        self._meter = meter
        self._traces = meter is not None and meter.tracer is not None

    async def take(self, client: _C, unread: Unread | None = None) -> None:
        """Take a message from step 2 on. Raises the `AccreditError` that becomes its answer.

        `unread` holds the message's text if it is refused before it was read.
        """
        inbound = InboundRequest()
        if self._meter is not None:
            inbound.began = perf_counter()
            if self._traces:
                inbound.traceparent = self._traceparent(client)
        try:
            message = await self._arrive(client, inbound)
        except BaseException as error:
            if isinstance(error, REFUSALS):
                inbound.revision = inbound.revision or self._revision(client)
                await self._gate.early_refusals.of_request(unread, inbound, error)
                self._gate.refused_early(inbound.message, error)
            self._failed(inbound, error)
            raise
        callers = inbound.callers
        if callers is None and inbound.tokens:
            callers = [Caller(token) for token in inbound.tokens]
        way = self._way(client, inbound) if self._settings.pins is not None else None
        try:
            admission = await self._gate.admit(message, Client(inbound.session, inbound.revision), callers, way)  # 7
            try:
                await self._go_on(client, inbound, admission)
            except BaseException as error:
                await admission.calls.close(error)  # 9
                raise
            await admission.calls.close(None)
        except BaseException as error:
            self._failed(inbound, error)
            raise
        if inbound.measured is not None:
            if self._traces:
                inbound.measured.told(inbound.revision, inbound.session)
            inbound.measured.end(None, self.answers_later)

    def _failed(self, inbound: InboundRequest, problem: BaseException) -> None:
        """End the measurement of a failed message."""
        if inbound.measured is not None:
            inbound.measured.told(inbound.revision, inbound.session)
            if isinstance(problem, RequestError):
                inbound.measured.unsent()
            inbound.measured.end(error_of(problem))
        elif self._meter is not None and inbound.message is None and isinstance(problem, AccreditError):
            self._meter.unread(problem, inbound.began)

    async def _read(self, text: bytes, inbound: InboundRequest, *, batches: bool) -> Frame | Batch:
        """Decode a message's bytes (step 4). Raises `RequestError`."""
        if len(text) > SHORT_MESSAGE_BYTES:
            message = inbound.message = await in_turns(read_request(text, batch_allowed=batches))
        else:
            message = inbound.message = decode_request(text, batch_allowed=batches)
        if self._meter is not None:
            inbound.measured = self._meter.begin(message, inbound.began, inbound.traceparent)
        if self._settings.one_caller:
            check_single(message)
        set_current(message)
        if len(text) > SHORT_MESSAGE_BYTES:
            await turn(len(text))
        return message

    @abstractmethod
    def _revision(self, client: _C) -> str | None:
        """Return the message's revision, or None if the way in does not tell."""

    @abstractmethod
    async def _arrive(self, client: _C, inbound: InboundRequest) -> Frame | Batch:
        """Take steps 2 to 6 and return the message. Facts for the record are stored in `inbound`.

        Raises one of `REFUSALS`.
        """

    def _traceparent(self, client: _C) -> bytes | None:
        """Return the HTTP request's trace context, if it has one."""
        return None

    def _way(self, client: _C, inbound: InboundRequest) -> UpstreamAccess | None:
        """Return how the gateway asks the server on behalf of this caller, or None if it can't."""
        return None

    @abstractmethod
    async def _go_on(self, client: _C, inbound: InboundRequest, admission: Admission) -> None:
        """Send the gate's own answers, and forward the rest (step 8). Raises `AccreditError`."""

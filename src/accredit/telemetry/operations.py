"""What is measured of one request: at the way in, and at each server that it goes to. Reads clocks.

A request's `watcher` is the operation that it belongs to, so that whoever learns what comes of a request can tell, on
whatever way it is answered. At a server the first word counts. At the way in the last one does, and what ended the
exchange with the client counts before all others.
"""

from collections.abc import Iterable
from copy import copy
from hashlib import sha256
from time import perf_counter
from typing import NamedTuple

from msgspec import Raw, Struct

from accredit.base.clock import unix_ns
from accredit.errors import AccreditError, FrameError
from accredit.jsonrpc.encode import to_json
from accredit.jsonrpc.frames import Frame, Request, Response, Watcher
from accredit.jsonrpc.objects import as_string
from accredit.jsonrpc.requests import Batch
from accredit.limits import MAX_SAFE_INTEGER
from accredit.ports import ProofStore
from accredit.refusals import BY_WORD
from accredit.telemetry.board import OTHER
from accredit.telemetry.labels import (
    OTHER_ERROR,
    REVISIONS,
    Names,
    decision_of,
    error_of,
    error_of_response,
)
from accredit.telemetry.metrics import Metrics
from accredit.telemetry.timed_store import TimedStore
from accredit.telemetry.tracing import Span, TraceContext, Tracer, trace_context

_SESSION_DIGITS = 32


class _Traced:
    """What a span has beyond its operation. `request_id` is one that is a number, `epoch_ns` when `perf_counter` was 0:
    the same for all spans that a request has here, so that a clock that is set does not tear them apart."""

    __slots__ = ("context", "epoch_ns", "link", "parent_id", "request_id", "revision", "session", "verdict")

    def __init__(self, context: TraceContext, parent_id: str | None, request: Request, epoch_ns: int) -> None:
        self.context = context
        self.epoch_ns = epoch_ns
        self.parent_id = parent_id
        is_number = isinstance(request.id, int) and abs(request.id) <= MAX_SAFE_INTEGER
        self.request_id = str(request.id) if is_number else ""
        self.revision = self.session = self.verdict = ""
        self.link: TraceContext | None = None


class Operation(Struct):
    """One request, measured; `parent` is its operation at the way in, for one at a server. `error` is what is known of
    its end, None while nothing is. `later` says that the answer comes on another way than the request, and then ends
    this. `below`, at the way in, is what ends with it.
    """

    meter: "Meter"
    labels: tuple[str, str]
    began: float
    at_server: bool = False
    parent: "Operation | None" = None
    error: str | None = None
    later: bool = False
    is_over: bool = False
    trace_id: str | None = None
    traced: _Traced | None = None
    below: "Operation | None" = None

    def trace(self, context: TraceContext, parent_id: str | None, request: Request, epoch_ns: int) -> None:
        """Have a span made of it."""
        self.traced, self.trace_id = _Traced(context, parent_id, request, epoch_ns), context.trace_id

    def answered(self, response: Response) -> None:
        """Hear a good response."""
        self._hear(error_of_response(response, of_tool=self.labels[1] != ""))

    def failed(self, error: BaseException) -> None:
        """Hear why there is none."""
        self._hear(error_of(error))

    def end(self, error: str) -> None:
        """Count it, once."""
        if self.is_over:
            return
        self.is_over = True
        below, self.below = self.below, None  # each knows the other: so both can go at once
        if below is not None:
            below.end(error)
        seconds, meter = perf_counter() - self.began, self.meter
        method, tool = self.labels
        histogram = meter.client_seconds if self.at_server else meter.server_seconds
        histogram.observe((method, tool, error, meter.server), seconds)
        if self.traced is not None and meter.tracer is not None:
            meter.tracer.queue.put(self._span(self.traced, error, seconds))

    def _hear(self, error: str) -> None:
        self.error = error
        if self.at_server or self.later:
            self.end(error)
        if self.parent is not None:
            self.parent._hear(error)

    def _span(self, traced: _Traced, error: str, seconds: float) -> Span:
        start_ns = traced.epoch_ns + int(self.began * 1e9)
        method, tool = self.labels
        transports = self.meter.transports
        code = error if error.lstrip("-").isdigit() else str(BY_WORD[error].code) if error in BY_WORD else ""
        attributes = {
            "mcp.method.name": method,
            "gen_ai.tool.name": tool,
            "gen_ai.operation.name": "execute_tool" if tool else "",
            "mcp.protocol.version": traced.revision if traced.revision in REVISIONS else "",
            "mcp.session.id": _session_name(traced.session),
            "network.transport": transports.to_server if self.at_server else transports.from_client,
            "jsonrpc.request.id": traced.request_id,
            "rpc.response.status_code": code,
            "error.type": error,
            "accredit.server": self.meter.server,
            "accredit.verdict": traced.verdict,
        }
        return Span(
            "client" if self.at_server else "server",
            f"{method} {tool}" if tool not in ("", OTHER) else method,
            traced.context,
            traced.parent_id,
            start_ns,
            start_ns + int(seconds * 1e9),
            {name: value for name, value in attributes.items() if value},
            bool(error),
            traced.link,
        )


Operations = tuple[Operation, ...]


class Transports(NamedTuple):
    """How messages come and go, in the conventions' words: "tcp" or "pipe"."""

    from_client: str = "tcp"
    to_server: str = "tcp"


class Meter:
    """What one server's requests are measured by. `names` are those that may be labels; without a `tracer` nothing is
    traced."""

    def __init__(
        self,
        metrics: Metrics,
        tracer: Tracer | None = None,
        *,
        server: str = "",
        names: Names | None = None,
        transports: Transports | None = None,
    ) -> None:
        self.server = server
        self.tracer = tracer
        self.transports = transports or Transports()
        self.server_seconds, self.client_seconds = metrics.server_seconds, metrics.client_seconds
        self._metrics = metrics
        self._names = names or Names()

    # --- the way in ----------------------------------------------------------------------------------

    def begin(self, message: Frame | Batch, began: float, traceparent: bytes | None = None) -> Operations:
        """Begin to measure the requests in a message that came at `began` (`perf_counter`). `traceparent` is that of
        the HTTP request, which is another trace: spans are linked to it."""
        if isinstance(message, Request):
            return (self._begin(message, began, traceparent),)
        frames = message.frames if isinstance(message, Batch) else ()
        return tuple(self._begin(frame, began, traceparent) for frame in frames if isinstance(frame, Request))

    def end(
        self, operations: Operations, error: BaseException | None, *, later: bool, revision: str | None, session: str
    ) -> None:
        """End them with the exchange. `later` says that what has no answer yet gets it on another way."""
        for each in operations:
            if each.traced is not None:
                each.traced.revision, each.traced.session = revision or "", session
            if error is not None:
                each.end(error_of(error))
            elif each.error is not None:
                each.end(each.error)
            elif later:
                each.later = True
            else:
                each.end(OTHER_ERROR)

    def unread(self, error: AccreditError, began: float) -> None:
        """Count a refused request of which nobody knows what it asks."""
        self.server_seconds.observe((OTHER, "", error_of(error), self.server), perf_counter() - began)

    def decided(self, watcher: Watcher | None, error: AccreditError | None) -> None:
        """Count a decision on a call: allowed, or refused with `error`."""
        verdict = decision_of(error)
        self._metrics.decisions.add(verdict)
        if isinstance(watcher, Operation) and watcher.traced is not None:
            watcher.traced.verdict = verdict[0]

    # --- at a server ---------------------------------------------------------------------------------

    def sent(self, message: Frame | Batch, parent: Watcher | None = None) -> tuple[Frame | Batch, Operations]:
        """Begin to measure the requests in a message that goes to the server; return it as it is to go: with the
        context of its trace, if it has one. `parent` is for one that is the gateway's own."""
        if isinstance(message, Request):
            request, operation = self._sent(message, parent)
            return request, (operation,)
        if not isinstance(message, Batch):
            return message, ()
        frames: list[Frame] = []
        operations: list[Operation] = []
        for frame in message.frames:
            if isinstance(frame, Request):
                frame, operation = self._sent(frame, parent)
                operations.append(operation)
            frames.append(frame)
        return _batch_of(message, frames, operations), tuple(operations)

    def is_followed(self, operations: Operations) -> bool:
        """Return whether these end by themselves: there is one, and the exchange at the way in is the same one."""
        if len(operations) != 1:
            return False
        (operation,) = operations
        parent = operation.parent
        if parent is None or parent.meter is not self or parent.below is not None:
            return False
        parent.below = operation
        return True

    def received(self, operations: Operations, error: BaseException | None = None) -> None:
        """End what the server has not answered, as the exchange with it is over."""
        for each in operations:
            if each.error is None and error is not None:
                each.failed(error)
            elif each.error is None:
                each.end(OTHER_ERROR)

    def _begin(self, request: Request, began: float, traceparent: bytes | None) -> Operation:
        operation = Operation(self, self._names.of(request), began)
        request.watcher = operation
        tracer = self.tracer
        if tracer is not None:
            parent = _context_in(request)
            context = tracer.begin(parent)
            if context is not None:
                epoch_ns = unix_ns() - int(perf_counter() * 1e9)
                operation.trace(context, parent.span_id if parent is not None else None, request, epoch_ns)
                if operation.traced is not None and traceparent is not None:
                    operation.traced.link = trace_context(traceparent.decode("latin-1"))
        return operation

    def _sent(self, request: Request, parent: Watcher | None) -> tuple[Request, Operation]:
        own, watcher = request.watcher is None, request.watcher or parent
        if isinstance(watcher, Operation) and watcher.at_server:
            watcher = watcher.parent
            request = copy(request)  # another server has the same one, at the same time
        above = watcher if isinstance(watcher, Operation) else None
        is_same = above is not None and above.meter is self and not own
        labels = above.labels if above is not None and is_same else self._names.of(request)
        # What comes of a request of the gateway's own is not what comes of the client's.
        operation = Operation(self, labels, perf_counter(), True, None if own else above)
        if above is not None and above.traced is not None and self.tracer is not None:
            request = self._traced(request, operation, above.traced)
        request.watcher = operation
        return request, operation

    def _traced(self, request: Request, operation: Operation, above: _Traced) -> Request:
        assert self.tracer is not None  # noqa: S101 - it was looked at
        context = self.tracer.child(above.context)
        operation.trace(context, above.context.span_id, request, above.epoch_ns)
        traceparent = {"traceparent": Raw(to_json(f"00-{context.trace_id}-{context.span_id}-01"))}
        try:
            # What a client's own trace says of its state means nothing in one that began here.
            return request.with_meta(traceparent, without=() if above.parent_id else ("tracestate",))
        except FrameError:
            return request


class Telemetry(NamedTuple):
    """What one process measures by."""

    metrics: Metrics
    tracer: Tracer | None = None

    def meter(self, server: str, names: Names, transports: Transports) -> Meter:
        """Return what one server's requests are measured by."""
        return Meter(self.metrics, self.tracer, server=server, names=names, transports=transports)

    def timed(self, store: ProofStore | None) -> ProofStore | None:
        """Return a store whose answers are timed."""
        return TimedStore(store, self.metrics.store_seconds) if store is not None else None

    def invalid(self, server: str) -> None:
        """Count an invalid answer of a server's, by its name in the configuration."""
        self.metrics.invalid.add((server,))


def _context_in(request: Request) -> TraceContext | None:
    said = request.in_meta("traceparent")
    text = as_string(said) if said is not None else None
    return trace_context(text) if text is not None else None


def _batch_of(batch: Batch, frames: Iterable[Frame], operations: Iterable[Operation]) -> Batch:
    """Return a batch with these members. If none of them is traced its text is what it was."""
    kept = tuple(frames)
    if not any(each.traced for each in operations):
        return Batch(kept, batch.text)
    return Batch(kept, b"[" + b",".join(frame.text for frame in kept) + b"]")


def _session_name(id: str) -> str:
    """Return what names a session without giving it away: whoever has its id can speak in it."""
    return f"sha256:{sha256(id.encode('utf-8', 'surrogatepass')).hexdigest()[:_SESSION_DIGITS]}" if id else ""

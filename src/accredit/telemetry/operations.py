"""Measures one request: on arrival, and at each server that it goes to. Reads clocks.

A request's `watcher` is its operation, so that any code that learns the result can report it. At a server, the first
report counts. On arrival, the last report counts; but if the exchange with the client ends with an error, that error
counts.
"""

from collections.abc import Iterable
from copy import copy
from hashlib import sha256
from time import perf_counter
from typing import NamedTuple

from msgspec import Raw, Struct

from accredit.base.clock import unix_ns
from accredit.errors import AccreditError, FrameError, RequestError
from accredit.jsonrpc.encode import to_json
from accredit.jsonrpc.frames import Failure, Frame, Request, Response, Watcher
from accredit.jsonrpc.objects import as_string
from accredit.jsonrpc.requests import Batch
from accredit.limits import MAX_SAFE_INTEGER
from accredit.ports import ProofStore
from accredit.refusals import BY_WORD
from accredit.telemetry.board import OTHER
from accredit.telemetry.families import CLIENT_SECONDS, SERVER_SECONDS
from accredit.telemetry.labels import OTHER_ERROR, REVISIONS, Names, decision_of, error_of, error_of_response
from accredit.telemetry.metrics import Metrics, time_store
from accredit.telemetry.tracing import Span, SpanKind, SpanQueue, TraceContext, Tracer, trace_context

_SESSION_DIGITS = 32


class _Traced:
    """The span of a traced operation. `code` is the JSON-RPC code of the result so far, and `heard_code` that of the
    server's first answer. Each is set only to a code that is no label of metrics, and is "" otherwise. `request_id` is
    set for numeric ids. `epoch_ns` is the time when `perf_counter` was 0. All spans of a request share it, so that
    setting the clock doesn't shift them apart. If one operation measures the request on arrival and at the server,
    `below` is the context of the span at the server."""

    __slots__ = (
        "below", "code", "context", "epoch_ns", "heard_code", "link", "parent_id", "request_id", "revision", "session",
        "verdict",
    )  # fmt: skip

    def __init__(self, context: TraceContext, parent_id: str | None, request: Request, epoch_ns: int) -> None:
        self.context = context
        self.epoch_ns = epoch_ns
        self.parent_id = parent_id
        is_number = isinstance(request.id, int) and abs(request.id) <= MAX_SAFE_INTEGER
        self.request_id = str(request.id) if is_number else ""
        self.code = self.heard_code = self.revision = self.session = self.verdict = ""
        self.link: TraceContext | None = None
        self.below: TraceContext | None = None

    def note(self, code: str, *, is_first: bool) -> None:
        """Note the code of a result; `is_first` if it is the server's first answer."""
        self.code = code
        if is_first:
            self.heard_code = code


class Operation:
    """One request that is measured. An operation at a server has the operation on arrival as its `parent`. `error` is
    the result so far, None while it is unknown. If `later`, the answer comes separately from the request's own
    exchange, and ends this operation.

    Most requests go to one server only, and end with the exchange with the client: then one operation measures both. In
    that case `sent` is when the request was sent to the server, `heard` is when the server's first answer came (both 0
    before), and `heard_error` is the result in that answer.
    """

    __slots__ = (
        "at_server", "began", "error", "heard", "heard_error", "is_over", "labels", "later", "meter", "parent", "sent",
        "trace_id", "traced",
    )  # fmt: skip

    def __init__(
        self,
        meter: "Meter",
        labels: tuple[str, str],
        began: float,
        parent: "Operation | None" = None,
        at_server: bool = False,
    ) -> None:
        self.meter = meter
        self.labels = labels
        self.began = began
        self.parent = parent
        self.at_server = at_server
        self.sent = began if at_server else 0.0
        self.heard = 0.0
        self.heard_error = ""
        self.error: str | None = None
        self.later = self.is_over = False
        self.trace_id: str | None = None
        self.traced: _Traced | None = None

    def trace(self, context: TraceContext, parent_id: str | None, request: Request, epoch_ns: int) -> _Traced:
        """Give the operation a span."""
        traced = self.traced = _Traced(context, parent_id, request, epoch_ns)
        self.trace_id = context.trace_id
        return traced

    def told(self, revision: str | None, session: str) -> None:
        """Set the span's revision and session."""
        if self.traced is not None:
            self.traced.revision, self.traced.session = revision or "", session

    def answered(self, response: Response) -> None:
        """Report a valid response."""
        error = error_of_response(response, of_tool=self.labels[1] != "")
        code = str(response.code) if error == OTHER_ERROR and isinstance(response, Failure) else ""
        if self.at_server or self.later:
            self._hear(error, code)
            return
        self.error = error
        is_first = not self.heard
        if is_first:
            self.heard, self.heard_error = perf_counter(), error
        if self.traced is not None:
            self.traced.note(code, is_first=is_first)

    def failed(self, error: BaseException) -> None:
        """Report a failure."""
        self._hear(error_of(error))

    def unsent(self) -> None:
        """Report that the request was refused before it reached the server. If the server has answered anything, this
        is ignored."""
        if not self.heard and (not self.at_server or self.error is None):
            self.sent = 0.0
            if self.traced is not None:
                self.traced.below = None

    def end(self, error: str | None = None, later: bool = False) -> None:
        """Count the operation, once: with `error`, or else with the result that was reported. With `later`, an
        operation without a result continues: its answer will come separately."""
        if error is None:
            error = self.error
            if error is None:
                if later:
                    self.later = True
                    return
                error = OTHER_ERROR
        elif self.traced is not None:
            self.traced.code = ""
        was_over, self.is_over = self.is_over, True
        if was_over or (self.at_server and not self.sent):
            return
        now = perf_counter()
        self._count(error, now)
        if self.traced is not None and self.meter.tracer is not None:
            self._put_spans(self.meter.tracer.queue, self.traced, error, now)

    def _count(self, error: str, now: float) -> None:
        meter, ended = self.meter, (self.labels, error)
        if self.at_server:
            meter.asked.observe(ended, now - self.began)
            return
        meter.served.observe(ended, now - self.began)
        if self.sent:
            if not self.heard:
                self.heard, self.heard_error = now, error
            meter.asked.observe((self.labels, self.heard_error), self.heard - self.sent)

    def _hear(self, error: str, code: str = "") -> None:
        self.error = error
        is_first = bool(self.sent) and not self.heard
        if is_first:
            self.heard, self.heard_error = perf_counter(), error
        if self.traced is not None:
            self.traced.note(code, is_first=is_first)
        if self.at_server or self.later:
            self.end()
            if self.parent is not None:
                self.parent._hear(error, code)

    def _put_spans(self, queue: SpanQueue, traced: _Traced, error: str, now: float) -> None:
        if traced.below is not None:
            contexts = traced.below, traced.context.span_id
            at_server = (self.heard_error, traced.heard_code)
            queue.put(self._span(traced, "client", contexts, (self.sent, self.heard), at_server))
        contexts = traced.context, traced.parent_id
        kind: SpanKind = "client" if self.at_server else "server"
        queue.put(self._span(traced, kind, contexts, (self.began, now), (error, traced.code)))

    def _span(
        self,
        traced: _Traced,
        kind: SpanKind,
        contexts: tuple[TraceContext, str | None],
        times: tuple[float, float],
        result: tuple[str, str],
    ) -> Span:
        start_ns, end_ns = (traced.epoch_ns + int(each * 1e9) for each in times)
        (method, tool), (error, code) = self.labels, result
        here, transports = kind == "server", self.meter.transports
        if not code:
            code = error if error.lstrip("-").isdigit() else str(BY_WORD[error].code) if error in BY_WORD else ""
        attributes = {
            "mcp.method.name": method,
            "gen_ai.tool.name": tool,
            "gen_ai.operation.name": "execute_tool" if tool else "",
            "mcp.protocol.version": traced.revision if here and traced.revision in REVISIONS else "",
            "mcp.session.id": _session_name(traced.session) if here else "",
            "network.transport": transports.from_client if here else transports.to_server,
            "jsonrpc.request.id": traced.request_id,
            "rpc.response.status_code": code,
            "error.type": error,
            "accredit.server": self.meter.server,
            "accredit.verdict": traced.verdict if here else "",
        }
        return Span(
            kind,
            f"{method} {tool}" if tool not in ("", OTHER) else method,
            *contexts,
            start_ns,
            end_ns,
            {name: value for name, value in attributes.items() if value},
            bool(error),
            traced.link if here else None,
        )


Operations = tuple[Operation, ...]


class Batched(Struct):
    """The operations of a batch, with the interface of a single `Operation`."""

    operations: Operations

    def told(self, revision: str | None, session: str) -> None:
        """Call `Operation.told` of each."""
        for each in self.operations:
            each.told(revision, session)

    def unsent(self) -> None:
        """Call `Operation.unsent` of each."""
        for each in self.operations:
            each.unsent()

    def end(self, error: str | None = None, later: bool = False) -> None:
        """Call `Operation.end` of each."""
        for each in self.operations:
            each.end(error, later)


class Transports(NamedTuple):
    """The transports to the client and to the server, in the words of the conventions: "tcp" or "pipe"."""

    from_client: str = "tcp"
    to_server: str = "tcp"


class Meter:
    """Measures the requests to one server. `names` are the names that may be labels. Without a `tracer` nothing is
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
        self.served, self.asked = metrics.durations(SERVER_SECONDS, server), metrics.durations(CLIENT_SECONDS, server)
        self._metrics = metrics
        self._names = names or Names()

    # --- the way in ----------------------------------------------------------------------------------

    def begin(
        self, message: Frame | Batch, began: float, traceparent: bytes | None = None
    ) -> Operation | Batched | None:
        """Begin to measure the requests in a message that came at `began` (`perf_counter`). `traceparent` is that of
        the HTTP request. It belongs to another trace, to which the spans are linked."""
        if isinstance(message, Request):
            operation = message.watcher = Operation(self, self._names.of(message), began)
            if self.tracer is not None:
                self._trace(self.tracer, message, operation, traceparent)
            return operation
        if not isinstance(message, Batch):
            return None
        begun = (self.begin(frame, began, traceparent) for frame in message.frames)
        return Batched(tuple(each for each in begun if isinstance(each, Operation)))

    def unread(self, error: AccreditError, began: float) -> None:
        """Count a request that was refused because it could not be read."""
        self.served.observe(((OTHER, ""), error_of(error)), perf_counter() - began)

    def decided(self, watcher: Watcher | None, error: AccreditError | None) -> None:
        """Count a decision on a call: allowed, or refused with `error`."""
        verdict = decision_of(error)
        self._metrics.decisions.add(verdict)
        if isinstance(watcher, Operation) and watcher.traced is not None:
            watcher.traced.verdict = verdict[0]

    # --- at a server ---------------------------------------------------------------------------------

    def in_trace(self, request: Request, operation: Operation) -> Request:
        """If a request is traced, return it with the span at the server as the parent in its `_meta`; otherwise return
        it unchanged."""
        traced = operation.traced
        if traced is None or self.tracer is None:
            return request
        traced.below = self.tracer.child(traced.context)
        return _in_trace(request, traced.below, traced)

    def sent(self, message: Frame | Batch, parent: Watcher | None = None) -> tuple[Frame | Batch, Operations]:
        """Begin to measure the requests in a message to the server. Return the message, in which traced requests name
        their spans. `parent` is given for a request of the gateway's own: it is the operation for which the request is
        made."""
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

    def received(self, operations: Operations, error: BaseException | None = None) -> None:
        """End these operations: the exchange with the server is over. Those that the server has not answered end with
        `error`, if given."""
        for each in operations:
            if each.error is None and error is not None:
                if isinstance(error, RequestError):
                    each.unsent()
                each.failed(error)
            else:
                each.end()

    def _trace(self, tracer: Tracer, request: Request, operation: Operation, traceparent: bytes | None) -> None:
        parent = _context_in(request)
        context = tracer.begin(parent)
        if context is None:
            return
        epoch_ns = unix_ns() - int(perf_counter() * 1e9)
        traced = operation.trace(context, parent.span_id if parent is not None else None, request, epoch_ns)
        if traceparent is not None:
            traced.link = trace_context(traceparent.decode("latin-1"))

    def _sent(self, request: Request, parent: Watcher | None) -> tuple[Request, Operation]:
        own, watcher = request.watcher is None, request.watcher or parent
        if isinstance(watcher, Operation) and watcher.at_server:
            watcher = watcher.parent
            request = copy(request)  # another server has the same one, at the same time
        above = watcher if isinstance(watcher, Operation) else None
        is_same = above is not None and above.meter is self and not own
        labels = above.labels if above is not None and is_same else self._names.of(request)
        # The result of the gateway's own request is not that of the client's.
        operation = Operation(self, labels, perf_counter(), None if own else above, at_server=True)
        if above is not None and above.traced is not None and self.tracer is not None:
            context = self.tracer.child(above.traced.context)
            operation.trace(context, above.traced.context.span_id, request, above.traced.epoch_ns)
            request = _in_trace(request, context, above.traced)
        request.watcher = operation
        return request, operation


class Telemetry(NamedTuple):
    """One process's metrics and tracer."""

    metrics: Metrics
    tracer: Tracer | None = None

    def meter(self, server: str, names: Names, transports: Transports) -> Meter:
        """Return the meter of one server."""
        return Meter(self.metrics, self.tracer, server=server, names=names, transports=transports)

    def timed(self, store: ProofStore | None) -> ProofStore | None:
        """Wrap a store so that its operations are timed; None stays None."""
        return time_store(store, self.metrics.store_seconds) if store is not None else None

    def invalid(self, server: str) -> None:
        """Count an invalid answer of a server. `server` is its name in the configuration."""
        self.metrics.invalid.add((server,))

    def unasked(self, server: str) -> None:
        """Count a body that a server sent in answer to a message that needs none. `server` is its name in the
        configuration."""
        self.metrics.unasked.add((server,))


def _in_trace(request: Request, context: TraceContext, above: _Traced) -> Request:
    """Return a request whose `_meta` has the context of its span at a server."""
    traceparent = {"traceparent": Raw(to_json(f"00-{context.trace_id}-{context.span_id}-01"))}
    try:
        # The client's `tracestate` means nothing in a trace that began here.
        return request.with_meta(traceparent, without=() if above.parent_id else ("tracestate",))
    except FrameError:
        return request


def _context_in(request: Request) -> TraceContext | None:
    said = request.in_meta("traceparent")
    text = as_string(said) if said is not None else None
    return trace_context(text) if text is not None else None


def _batch_of(batch: Batch, frames: Iterable[Frame], operations: Iterable[Operation]) -> Batch:
    """Return a batch of these members. If none of them is traced, its text is that of `batch`."""
    kept = tuple(frames)
    if not any(each.traced for each in operations):
        return Batch(kept, batch.text)
    return Batch(kept, b"[" + b",".join(frame.text for frame in kept) + b"]")


def _session_name(id: str) -> str:
    """Return a name for a session. It doesn't reveal the session's id, which would allow using the session."""
    return f"sha256:{sha256(id.encode('utf-8', 'surrogatepass')).hexdigest()[:_SESSION_DIGITS]}" if id else ""

"""Decides which calls are traced, and queues their spans. Knows the trace id of the current message, for logs and
records. Reads randomness and a clock.

- The decision needs no library. It is made when a message has been read, so an untraced call costs only a look at its
  `_meta` and a counter.
- If a call has a parent (`params._meta.traceparent`, SEP-414), the parent decides: if it is sampled, its trace
  continues; otherwise the call is not traced. But anybody can set that flag. So beyond `PARENT_SAMPLED_PER_SECOND` the
  rate decides, as for a call without a parent.
- Spans go into a bounded queue (`SpanQueue`), as tuples. What does not fit is dropped and counted. Nobody waits.
- The current message is held by a weak reference only. A timer keeps the context in which it was set. With a strong
  reference, each idle connection, session or child process would keep its last message, of up to some megabytes.
"""

import math
import re
import secrets
from collections import deque
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from time import monotonic
from typing import Any, Literal, NamedTuple
from weakref import ref

from accredit.jsonrpc.frames import Frame, Notification, Request
from accredit.jsonrpc.objects import as_string
from accredit.jsonrpc.requests import Batch
from accredit.telemetry.metrics import Number

MAX_WAITING_SPANS = 4_096
"""The most spans of one process that wait to be sent, of some 2 KiB each. A collector that is slow or away costs no
more memory: further spans are dropped, and counted."""
SPANS_AT_ONCE = 256
"""The most spans in one request to the collector: some 10 ms of encoding, and 200 KiB."""
MAX_PARENT_SAMPLED = 200
"""How many calls are traced at once because their callers ask for it. Anybody can ask, by a flag. Beyond this number
the gateway's own rate decides."""
PARENT_SAMPLED_PER_SECOND = 100
"""How many calls a second are traced, over time, because their callers ask for it. At some 50 us each that is half a
percent of one core."""


# W3C Trace Context, section 3.2.2: version, trace id, parent id, flags. No id is all zeros, there is no version ff, and
# only a version after 00 may have more, behind a dash.
_TRACEPARENT = re.compile(r"(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_SPAN_DIGITS = 16
_ID_BYTES = 16
_IDS_AT_ONCE = 64

SpanKind = Literal["server", "client"]

_TRACED = (Request, Notification)
_current: ContextVar[ref[Request | Notification] | None] = ContextVar("accredit_current_message", default=None)


class RandomIds:
    """Makes ids of 128 random bits, for traces and for calls. They are drawn in batches, as each system call for
    randomness lets other threads take the interpreter. Processes must not share a batch: create this object, or first
    draw from it, after forking."""

    __slots__ = ("_stock",)

    def __init__(self) -> None:
        self._stock = b""

    def draw(self) -> str:
        """Return a new unique id, in hex."""
        if len(self._stock) < _ID_BYTES:
            self._stock = secrets.token_bytes(_ID_BYTES * _IDS_AT_ONCE)
        drawn, self._stock = self._stock[:_ID_BYTES], self._stock[_ID_BYTES:]
        return drawn.hex()


class TraceContext(NamedTuple):
    """A parsed `traceparent`."""

    trace_id: str
    span_id: str
    sampled: bool


def trace_context(traceparent: str) -> TraceContext | None:
    """Parse a `traceparent`; None if it is invalid."""
    match = _TRACEPARENT.fullmatch(traceparent)
    if match is None or (match[1] == "00" and match[5]):
        return None
    return TraceContext(match[2], match[3], bool(int(match[4], 16) & 1))


class Span(NamedTuple):
    """A finished span. Times are in unix nanoseconds."""

    kind: SpanKind
    name: str
    context: TraceContext
    parent_id: str | None
    start_ns: int
    end_ns: int
    attributes: Mapping[str, str]
    error: bool
    link: TraceContext | None


class SpanQueue:
    """Spans that wait to be sent. One thread puts them in, another takes them out."""

    def __init__(self, counted: Number, wake: Callable[[], None] = lambda: None) -> None:
        """`counted` counts the dropped spans. `wake` is called when a full batch is waiting."""
        self._spans = deque[Span]()
        self._counted = counted
        self.wake = wake

    def __len__(self) -> int:
        return len(self._spans)

    def put(self, span: Span) -> None:
        """Add a span, or drop it if the queue is full."""
        if len(self._spans) >= MAX_WAITING_SPANS:
            self._counted.add(("dropped",))
            return
        self._spans.append(span)
        if len(self._spans) == SPANS_AT_ONCE:
            self.wake()

    def take(self) -> list[Span]:
        """Remove and return one batch, oldest first."""
        return [self._spans.popleft() for _ in range(min(len(self._spans), SPANS_AT_ONCE))]


class Tracer:
    """Decides for one process which calls are traced. `rate` is from 0 to 1; `lot` returns a random number in [0,
    1)."""

    def __init__(
        self,
        rate: float,
        queue: SpanQueue,
        counted: Number,
        *,
        lot: Callable[[], float] | None = None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self.queue = queue
        self._rate = rate
        self._lot = lot if lot is not None else secrets.SystemRandom().random
        self._counted = counted
        self._clock = clock
        self._ids = RandomIds()
        self._left = self._gap()
        self._room, self._filled = float(MAX_PARENT_SAMPLED), clock()

    def begin(self, parent: TraceContext | None) -> TraceContext | None:
        """Return the context of the span for a call with this parent, or None if it is not traced."""
        if parent is None:
            return self._root() if self._by_rate() else None
        if not parent.sampled:
            return None
        if not self._forced():
            self._counted.add(("not_forced",))
            if not self._by_rate():
                return None
        return self.child(parent)

    def child(self, parent: TraceContext) -> TraceContext:
        """Return the context of a child span."""
        return TraceContext(parent.trace_id, self._ids.draw()[:_SPAN_DIGITS], True)

    def _root(self) -> TraceContext:
        return TraceContext(self._ids.draw(), self._ids.draw()[:_SPAN_DIGITS], True)

    def _by_rate(self) -> bool:
        # How many calls to skip is drawn at once, equivalent to a draw for each call.
        self._left -= 1
        if self._left > 0:
            return False
        self._left = self._gap()
        return True

    def _gap(self) -> float:
        if self._rate <= 0:
            return math.inf
        if self._rate >= 1:
            return 1.0
        return 1.0 + math.floor(math.log1p(-self._lot()) / math.log1p(-self._rate))

    def _forced(self) -> bool:
        now = self._clock()
        more = (now - self._filled) * PARENT_SAMPLED_PER_SECOND
        self._room, self._filled = min(self._room + more, MAX_PARENT_SAMPLED), now
        if self._room < 1:
            return False
        self._room -= 1
        return True


def set_current_message(message: Frame | Batch | None) -> None:
    """Set the current task's message, by a weak reference."""
    _current.set(ref(message) if isinstance(message, _TRACED) else None)


def current_message() -> Request | Notification | None:
    """Return the current task's message, if it is of a type that can belong to a trace."""
    known = _current.get()
    return known() if known is not None else None


def trace_of(message: Frame | Batch | None) -> str | None:
    """Return the trace id that the gateway gave the message, else the one in its `params._meta.traceparent`, if valid:
    32 lower-case hex characters."""
    if not isinstance(message, Request | Notification):
        return None
    if isinstance(message, Request) and message.watcher is not None and message.watcher.trace_id is not None:
        return message.watcher.trace_id
    said = message.in_meta("traceparent")
    context = trace_context(as_string(said) or "") if said is not None else None
    return context.trace_id if context is not None else None


def trace_id() -> str | None:
    """Return the trace id of the current message, or None."""
    return trace_of(current_message())


def trace_field() -> dict[str, Any]:
    """Return the trace id as a field of a log line, or an empty dict if there is none."""
    id = trace_id()
    return {} if id is None else {"trace_id": id}

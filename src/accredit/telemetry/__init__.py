"""Watching it run: what is counted, which calls are traced, and how both leave the process.

What a call touches is plain Python: `Operation` (what is measured of one request), `Meter` (one server's), `Board` (the
counts of all workers, in memory that they share). The libraries, of the extra `accredit[telemetry]`, are loaded where
something is shown (`exposition`) or sent (`export`), and nowhere else.

Nothing that a peer says gets into a metric, a span or a label, but for what is on a list of ours (`labels`), a trace's
ids, and a request's id that is a number.
"""

from accredit.telemetry.board import Board
from accredit.telemetry.labels import Names
from accredit.telemetry.metrics import Metrics
from accredit.telemetry.operations import Batched, Meter, Operation, Operations, Telemetry, Transports
from accredit.telemetry.tracing import SpanQueue, Tracer, trace_context

__all__ = [
    "Batched",
    "Board",
    "Meter",
    "Metrics",
    "Names",
    "Operation",
    "Operations",
    "SpanQueue",
    "Telemetry",
    "Tracer",
    "Transports",
    "trace_context",
]

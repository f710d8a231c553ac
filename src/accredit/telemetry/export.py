"""Sends spans and metrics to a collector: OTLP over HTTP. I/O: its own thread, and the given sender.

OpenTelemetry's message classes come with `accredit[telemetry]`. Only the exporter's thread uses them, and no call waits
for it. If the collector is unavailable for a while, spans are sent again for `EXPORT_KEEP_SECONDS`, at growing
intervals. After that they are dropped and counted; so are spans that find the bounded queue full. Metrics are not sent
again: they are cumulative, so the next message makes up for a lost one. Thus a slow, absent or hostile collector costs
no memory beyond the queue and one message.
"""

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from secrets import SystemRandom
from time import monotonic
from typing import Any, NamedTuple, ParamSpec, Protocol, TypeVar

from accredit import __version__
from accredit.base.clock import unix_ns
from accredit.base.deferred import Deferred
from accredit.base.log_events import log_event
from accredit.errors import CollectorError
from accredit.limits import EXPORT_SECONDS
from accredit.telemetry.messages import encode_metrics, encode_spans
from accredit.telemetry.metrics import Metrics
from accredit.telemetry.tracing import SpanQueue

EXPORT_SPANS_SECONDS = 5.0
"""How many seconds a span may wait for others to be sent with. It is the SDK's default, too."""
EXPORT_METRICS_SECONDS = 60.0
"""How often the collector gets all metrics, in seconds. It is the SDK's default, too."""
EXPORT_LAST_SECONDS = 2.0
"""How many seconds may be taken to send what is left when the process ends. An orchestrator waits for that."""
MAX_EXPORT_LOOKUPS = 4
"""How many look-ups of the collector's name may run at once. A look-up can't be stopped, and a thread waits for
each."""
EXPORT_RETRY_SECONDS, MAX_EXPORT_RETRY_SECONDS = 1.0, 30.0
"""The pause before spans are sent again to a collector that takes nothing for now, in seconds: at first, and at most.
It doubles each time. A part of it is random, so that gateways do not all come at once."""
EXPORT_KEEP_SECONDS = 300.0
"""For how many seconds the same spans, one message of a process, are sent again. A collector restarts in less."""

answers: Any = Deferred("opentelemetry.proto.collector.logs.v1.logs_service_pb2")
protobuf: Any = Deferred("google.protobuf.message")

_log = logging.getLogger("accredit.telemetry")
_P = ParamSpec("_P")
_T = TypeVar("_T")


class Collector(Protocol):
    """Sends messages to a collector. It belongs to one event loop."""

    async def send(self, path: str, body: bytes, timeout: float) -> bytes:
        """Send a message; return the answer. Raises `CollectorError`."""
        ...

    async def aclose(self) -> None:
        """Close connections that are open."""
        ...


class _Message(NamedTuple):
    """An encoded message, its number of spans, and when it was made (`monotonic`)."""

    body: bytes
    spans: int
    since: float


class Lookups(ThreadPoolExecutor):
    """Look-ups of a collector's name. Each has a daemon thread, as a look-up takes a minute if no name server answers.
    At most `most` run at once."""

    def __init__(self, most: int = MAX_EXPORT_LOOKUPS) -> None:
        super().__init__(1)
        self._free = threading.BoundedSemaphore(most)

    def submit(self, fn: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> "Future[_T]":
        """Run a look-up in a thread. Raises `OSError` if too many are running."""
        if not self._free.acquire(blocking=False):
            raise OSError("no name server answers")
        future = Future[_T]()
        future.set_running_or_notify_cancel()  # now nothing cancels it

        def work() -> None:
            try:
                future.set_result(fn(*args, **kwargs))
            except BaseException as error:  # for whoever waits
                future.set_exception(error)
            finally:
                self._free.release()

        threading.Thread(target=work, name="accredit-telemetry-lookup", daemon=True).start()
        return future


class Exporter:
    """Sends the telemetry of one process. `collector` is called in the exporter's thread; `instance` distinguishes this
    process from others."""

    def __init__(
        self, metrics: Metrics, queue: SpanQueue, collector: Callable[[], Collector], service: str, instance: str
    ) -> None:
        self._metrics = metrics
        self._queue = queue
        self._collector = collector
        self._about = {"service.name": service, "service.version": __version__, "service.instance.id": instance}
        self._wake = threading.Event()
        self._stopping = False
        self._problem = ""
        self._kept: _Message | None = None
        self._quiet_until = float("-inf")
        self._pause = EXPORT_RETRY_SECONDS
        self._thread = threading.Thread(target=self._run, name="accredit-telemetry", daemon=True)
        queue.wake = self._wake.set

    def start(self) -> None:
        """Start the exporter's thread."""
        self._thread.start()

    async def stop(self) -> None:
        """Send what is left, within a short limit, and stop."""
        self._stopping = True
        self._wake.set()
        await asyncio.to_thread(self._thread.join, EXPORT_LAST_SECONDS)

    def _run(self) -> None:
        try:
            with asyncio.Runner() as runner:
                runner.get_loop().set_default_executor(Lookups())
                self._serve(runner)
        except Exception as error:  # calls go on without it
            log_event(_log, logging.CRITICAL, "telemetry is sent no more", exc_info=error)

    def _serve(self, runner: asyncio.Runner) -> None:
        collector = runner.run(_make_collector(self._collector))
        metrics_due = monotonic() + EXPORT_METRICS_SECONDS
        while not self._stopping:
            now = monotonic()
            due = min(now + EXPORT_SPANS_SECONDS, metrics_due) if self._kept is None else now
            self._wake.wait(max(due - now, self._quiet_until - now, 0.0))
            self._wake.clear()
            if monotonic() < self._quiet_until:
                continue  # it was a full queue, or the end
            self._send_spans(runner, collector, EXPORT_SECONDS)
            if monotonic() >= max(metrics_due, self._quiet_until):
                metrics_due = monotonic() + EXPORT_METRICS_SECONDS
                self._send_metrics(runner, collector, EXPORT_SECONDS)
        # Each has half of the remaining time; spans beyond one message are dropped.
        self._send_metrics(runner, collector, EXPORT_LAST_SECONDS / 2)
        self._send_spans(runner, collector, EXPORT_LAST_SECONDS / 2)
        with contextlib.suppress(Exception):
            runner.run(collector.aclose())

    def _send_spans(self, runner: asyncio.Runner, collector: Collector, timeout: float) -> None:
        while message := self._kept or self._next():
            self._kept, counted = None, self._metrics.spans
            try:
                rejected = min(self._send(runner, collector, "/v1/traces", message.body, timeout), message.spans)
            except CollectorError as error:
                if error.passing and not self._stopping and monotonic() - message.since < EXPORT_KEEP_SECONDS:
                    self._kept = message
                else:
                    counted.add(("failed",), message.spans)
                return
            counted.add(("sent",), message.spans - rejected)
            if rejected:
                counted.add(("failed",), rejected)
            if self._stopping:
                return

    def _next(self) -> _Message | None:
        spans = self._queue.take()
        return _Message(encode_spans(spans, self._about), len(spans), monotonic()) if spans else None

    def _send_metrics(self, runner: asyncio.Runner, collector: Collector, timeout: float) -> None:
        slot = self._metrics.slot
        message = encode_metrics(slot.mine(), self._about, slot.started, unix_ns())
        with contextlib.suppress(CollectorError):
            self._send(runner, collector, "/v1/metrics", message, timeout)

    def _send(self, runner: asyncio.Runner, collector: Collector, path: str, body: bytes, timeout: float) -> int:
        """Send a message; return how many of its items were rejected. Raises `CollectorError`."""
        try:
            rejected = rejected_count(runner.run(collector.send(path, body, timeout)))
        except CollectorError as error:
            if error.passing:
                pause = self._pause * SystemRandom().uniform(0.5, 1)
                self._quiet_until = monotonic() + max(pause, error.wait)
                self._pause = min(2 * self._pause, MAX_EXPORT_RETRY_SECONDS)
            self._say("the collector takes no telemetry", str(error))
            raise
        self._pause = EXPORT_RETRY_SECONDS
        self._say("the collector takes only a part of the telemetry" if rejected else "", "partial_success")
        return rejected

    def _say(self, problem: str, reason: str = "") -> None:
        """Log a problem when it begins, and again when it is over."""
        if problem and not self._problem:
            log_event(_log, logging.WARNING, problem, reason=reason)
        elif self._problem and not problem:
            log_event(_log, logging.INFO, "the collector takes telemetry again")
        self._problem = problem


def rejected_count(answer: bytes) -> int:
    """Return how many items of a message a collector rejected. All its answers have `partial_success` in the same form,
    so one type reads them all."""
    try:
        return max(0, answers.ExportLogsServiceResponse.FromString(answer).partial_success.rejected_log_records)
    except protobuf.DecodeError:
        return 0


async def _make_collector(collector: Callable[[], Collector]) -> Collector:
    return collector()

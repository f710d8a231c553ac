"""Sends spans and metrics to a collector: OTLP over HTTP. I/O: its own thread, and the given sender.

The OpenTelemetry SDK comes with `accredit[telemetry]`. Only the exporter's thread uses it, and no call waits for it. If
the collector is unavailable for a while, spans are sent again for `EXPORT_KEEP_SECONDS`, at growing intervals. After
that they are dropped and counted; so are spans that find the bounded queue full. Metrics are not sent again: they are
cumulative, so the next message makes up for a lost one. Thus a slow, absent or hostile collector costs no memory beyond
the queue and one message.
"""

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from secrets import SystemRandom
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec, Protocol, TypeVar, cast

from accredit import __version__
from accredit.base.clock import unix_ns
from accredit.base.deferred import Deferred
from accredit.base.log_events import log_event
from accredit.errors import CollectorError
from accredit.limits import EXPORT_SECONDS
from accredit.telemetry.board import Labels
from accredit.telemetry.families import Family
from accredit.telemetry.metrics import Metrics
from accredit.telemetry.span_messages import spans_request
from accredit.telemetry.tracing import Span, SpanQueue

if TYPE_CHECKING:
    from opentelemetry.exporter.otlp.proto.common import metrics_encoder
    from opentelemetry.sdk import resources
    from opentelemetry.sdk.metrics import export as measured
    from opentelemetry.sdk.util import instrumentation
else:
    metrics_encoder = Deferred("opentelemetry.exporter.otlp.proto.common.metrics_encoder")
    resources = Deferred("opentelemetry.sdk.resources")
    measured = Deferred("opentelemetry.sdk.metrics.export")
    instrumentation = Deferred("opentelemetry.sdk.util.instrumentation")

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
_SCOPE = "accredit"
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
        self._service = (service, instance)
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
        encoding = Encoding(*self._service, self._metrics.slot.started)
        metrics_due = monotonic() + EXPORT_METRICS_SECONDS
        while not self._stopping:
            now = monotonic()
            due = min(now + EXPORT_SPANS_SECONDS, metrics_due) if self._kept is None else now
            self._wake.wait(max(due - now, self._quiet_until - now, 0.0))
            self._wake.clear()
            if monotonic() < self._quiet_until:
                continue  # it was a full queue, or the end
            self._send_spans(runner, collector, encoding, EXPORT_SECONDS)
            if monotonic() >= max(metrics_due, self._quiet_until):
                metrics_due = monotonic() + EXPORT_METRICS_SECONDS
                self._send_metrics(runner, collector, encoding, EXPORT_SECONDS)
        # Each has half of the remaining time; spans beyond one message are dropped.
        self._send_metrics(runner, collector, encoding, EXPORT_LAST_SECONDS / 2)
        self._send_spans(runner, collector, encoding, EXPORT_LAST_SECONDS / 2)
        with contextlib.suppress(Exception):
            runner.run(collector.aclose())

    def _send_spans(self, runner: asyncio.Runner, collector: Collector, encoding: "Encoding", timeout: float) -> None:
        while message := self._kept or self._next(encoding):
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

    def _next(self, encoding: "Encoding") -> _Message | None:
        spans = self._queue.take()
        return _Message(encoding.of_spans(spans), len(spans), monotonic()) if spans else None

    def _send_metrics(self, runner: asyncio.Runner, collector: Collector, encoding: "Encoding", timeout: float) -> None:
        with contextlib.suppress(CollectorError):
            self._send(runner, collector, "/v1/metrics", encoding.of_metrics(self._metrics.slot.mine()), timeout)

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


class Encoding:
    """Encodes messages in OTLP, with the SDK. They are from `service`, from its process `instance`, with counts since
    `started`."""

    def __init__(self, service: str, instance: str, started: int) -> None:
        self._about = {"service.name": service, "service.version": __version__, "service.instance.id": instance}
        self._resource = resources.Resource(self._about)  # as it is made here nothing comes from the environment
        self._scope = instrumentation.InstrumentationScope(_SCOPE, __version__)
        self._started = started

    def of_spans(self, spans: Sequence[Span]) -> bytes:
        """Return an `ExportTraceServiceRequest`."""
        return spans_request(spans, self._about, _SCOPE, __version__)

    def of_metrics(self, series: Iterable[tuple[Family, Labels, list[float]]]) -> bytes:
        """Return an `ExportMetricsServiceRequest`."""
        now = unix_ns()
        points: dict[Family, list[Any]] = {}
        for family, labels, numbers in series:
            attributes = {_attribute(family, name): value for name, value in zip(family.labels, labels, strict=True)}
            named = {name: value for name, value in attributes.items() if value}
            points.setdefault(family, []).append(self._point(family, named, numbers, now))
        metrics = [self._metric(family, each) for family, each in points.items()]
        scope = measured.ScopeMetrics(self._scope, metrics, "")
        return _text(
            metrics_encoder.encode_metrics(
                measured.MetricsData([measured.ResourceMetrics(self._resource, [scope], "")])
            )
        )

    def _point(self, family: Family, attributes: dict[str, str], numbers: list[float], now: int) -> object:
        if family.kind != "histogram":
            return measured.NumberDataPoint(attributes, self._started, now, numbers[0])
        *buckets, total = numbers
        counts, unknown = [*map(int, buckets)], cast("Any", None)  # the least and the most are not kept
        return measured.HistogramDataPoint(
            attributes, self._started, now, sum(counts), total, counts, family.bounds, unknown, unknown
        )

    def _metric(self, family: Family, points: list[Any]) -> "measured.Metric":
        cumulative = measured.AggregationTemporality.CUMULATIVE
        data: Any
        if family.kind == "histogram":
            data = measured.Histogram(points, cumulative)
        elif family.kind == "counter":
            data = measured.Sum(points, cumulative, True)
        else:
            data = measured.Gauge(points)
        return measured.Metric(_name(family), family.help, "s" if "seconds" in family.name else "1", data)


async def _make_collector(collector: Callable[[], Collector]) -> Collector:
    return collector()


def _text(message: Any) -> bytes:
    return bytes(message.SerializeToString())


def _name(family: Family) -> str:
    """Return a metric's name in OTLP."""
    if family.otel:
        return family.otel
    return family.name.removesuffix("_total").removesuffix("_seconds").replace("accredit_", "accredit.", 1)


_ATTRIBUTES = {
    "mcp_method_name": "mcp.method.name",
    "gen_ai_tool_name": "gen_ai.tool.name",
    "error_type": "error.type",
    "server": "accredit.server",
}


def _attribute(family: Family, label: str) -> str:
    return _ATTRIBUTES.get(label, f"accredit.{label}") if family.labels else label

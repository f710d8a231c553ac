"""Telemetry goes to its collector, which may be slow, away or hostile: calls wait for none of it, and nothing grows."""

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any, Literal, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.common import metrics_encoder, trace_encoder
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.sdk import resources
from opentelemetry.sdk import trace as sdk
from opentelemetry.sdk.metrics import export as sdk_metrics
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from tests.world.calls import http as answer_of
from tests.world.command import wait_until
from tests.world.measured import Measured, collecting
from tests.world.raw_server import Connection, RawServer

from accredit import __version__
from accredit.errors import CollectorError
from accredit.net.otlp import MAX_COLLECTOR_BYTES, MAX_RETRY_AFTER_SECONDS, Collector
from accredit.telemetry import export
from accredit.telemetry.export import MAX_EXPORT_LOOKUPS, Exporter, rejected_count
from accredit.telemetry.families import DECISIONS, LOG_QUEUE, SERVER_SECONDS, SPANS, Family
from accredit.telemetry.messages import encode_metrics, encode_spans
from accredit.telemetry.tracing import MAX_WAITING_SPANS, SPANS_AT_ONCE, Span, TraceContext

pytestmark = [pytest.mark.holds("telemetry/export"), pytest.mark.holds("telemetry/messages")]

CONTEXT = TraceContext("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331", True)
SPAN = Span("server", "tools/call pay", CONTEXT, "1" * 16, 10**18, 10**18 + 5, {"a": "b"}, True, CONTEXT)
ABOUT = {"service.name": "mail gateway", "service.version": __version__, "service.instance.id": "1"}
SECRET = "s3cr3t-of-the-collector"


def hostile(sends: Callable[[Connection], Awaitable[None]]) -> Callable[[Connection], Awaitable[None]]:
    async def handle(connection: Connection) -> None:
        await connection.request()
        await sends(connection)

    return handle


async def flood(connection: Connection) -> None:
    await connection.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    try:
        for _ in range(100 * MAX_COLLECTOR_BYTES // 4096):
            await connection.send(b"1000\r\n" + b"x" * 4096 + b"\r\n")
    except OSError:
        return
    raise AssertionError("all of it was read")


async def drip(connection: Connection) -> None:
    """A head without an end, a byte at a time."""
    await connection.send(b"HTTP/1.1 200 OK\r\nX: ")
    while not await connection.peer_closed():
        await connection.send(b"x")


async def silence(connection: Connection) -> None:
    await connection.peer_closed()


def sends(text: bytes) -> Callable[[Connection], Awaitable[None]]:
    async def send(connection: Connection) -> None:
        await connection.send(text)

    return send


REDIRECT = ("Location", "http://127.0.0.1:1/" + SECRET)


@pytest.mark.holds("net/otlp", "environment", "bounds", "secrecy")
@pytest.mark.parametrize(
    ("handler", "problem"),
    [
        (sends(answer_of(SECRET.encode(), status="500 " + SECRET)), "status 500"),
        (sends(answer_of(b"", status="302 Found", headers=(REDIRECT,))), "status 302"),
        (sends(answer_of(b"", status="101 Switching Protocols")), None),
        (sends(b"no HTTP " + SECRET.encode()), "RemoteProtocolError"),
        (silence, "no answer within 0.5 s"),
        (sends(b""), "RemoteProtocolError"),
    ],
)
async def test_what_a_collector_does_not_take_is_an_error_that_quotes_nothing_of_it(
    handler: Callable[[Connection], Awaitable[None]], problem: str | None
) -> None:
    async with RawServer(hostile(handler)) as server:
        collector = Collector(server.url)
        with pytest.raises(CollectorError) as refused:
            await collector.send("/v1/traces", b"x", 0.5)
        await collector.aclose()
    assert SECRET not in str(refused.value)
    assert problem is None or str(refused.value) == problem


@pytest.mark.holds("net/otlp", "status")
@pytest.mark.parametrize(
    ("status", "retry_after", "passing", "wait"),
    [
        ("429 Too Many Requests", "7", True, 7),
        ("503 Unavailable", "99999999999999999999", True, MAX_RETRY_AFTER_SECONDS),
        ("503 Unavailable", "-1", True, 0),
        ("503 Unavailable", "\u0663".encode().decode("latin-1"), True, 0),
        ("504 Timeout", "Fri, 31 Dec 9999 23:59:59 GMT", True, MAX_RETRY_AFTER_SECONDS),
        ("504 Timeout", "Sun, 06 Nov 1994 08:49:37 GMT", True, 0),
        ("502 Bad Gateway", "Sun, 06 Nov 99999 08:49:37 +9999", True, 0),
        ("400 Bad Request", "7", False, 7),
        ("500 Error", "", False, 0),
        ("308 Permanent Redirect", "", False, 0),
    ],
)
async def test_what_may_pass_is_what_the_protocol_names__and_nobody_is_told_to_come_next_year(
    status: str, retry_after: str, passing: bool, wait: float
) -> None:
    text = answer_of(b"", status=status, headers=(("Retry-After", retry_after),))
    async with RawServer(hostile(sends(text))) as server:
        collector = Collector(server.url)
        with pytest.raises(CollectorError) as refused:
            await collector.send("/v1/traces", b"x", 10)
        await collector.aclose()
    assert (refused.value.passing, refused.value.wait) == (passing, wait)


@pytest.mark.holds("net/otlp", "status")
async def test_nobody_who_listens_nowhere_has_taken_anything_for_good() -> None:
    collector = Collector("http://127.0.0.1:1")
    with pytest.raises(CollectorError, match="ConnectError") as refused:
        await collector.send("/v1/traces", b"x", 10)
    await collector.aclose()
    assert refused.value.passing


@pytest.mark.holds("net/otlp", "status")
@pytest.mark.parametrize(
    "rest",
    [
        b"Content-Encoding: gzip\r\nContent-Type: application/x-protobuf\r\nContent-Length: 3\r\n\r\n\x1f\x8b\0",
        b"Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}",
        b"Content-Length: 9\r\n\r\nx",
        b"Transfer-Encoding: chunked\r\n\r\nZZ",
    ],
)
async def test_what_was_taken_is_not_sent_again_for_an_answer_that_is_none(rest: bytes) -> None:
    async with RawServer(hostile(sends(b"HTTP/1.1 200 OK\r\n" + rest))) as server:
        collector = Collector(server.url)
        assert await collector.send("/v1/traces", b"x", 10) == b""
        await collector.aclose()


@pytest.mark.holds("net/otlp", "bounds")
async def test_an_answer_without_an_end_is_not_read_to_its_end() -> None:
    async with RawServer(hostile(flood)) as server:
        collector = Collector(server.url)
        await collector.send("/v1/traces", b"x", 20)
        await collector.aclose()


@pytest.mark.holds("net/otlp", "bounds")
@pytest.mark.parametrize("interim", [b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 Early Hints\r\nA: b\r\n\r\n"])
async def test_a_collector_that_only_ever_begins_to_answer_does_not_keep_the_processor_busy(interim: bytes) -> None:
    async def endless(connection: Connection) -> None:
        with contextlib.suppress(OSError):
            while True:
                await connection.send(interim * 2000)

    async with RawServer(hostile(endless)) as server:
        collector = Collector(server.url)
        with pytest.raises(CollectorError, match="RemoteProtocolError") as refused:
            await collector.send("/v1/traces", b"x", 60)
        await collector.aclose()
    assert refused.value.passing  # asked less and less often, then


@pytest.mark.holds("net/otlp", "environment")
async def test_no_proxy_of_the_environment_gets_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")

    with collecting() as found:
        collector = Collector(found.url)
        await collector.send("/v1/traces", b"", 10)
        await collector.aclose()
    assert found.bodies == [b""]


@pytest.mark.holds("net/otlp", "environment")
@pytest.mark.parametrize("value", ["a", "\u00e9\u20ac"])
async def test_a_collector_s_cookies_fill_no_memory__and_what_they_say_is_in_no_message_to_it(value: str) -> None:
    cookies = "".join(f"Set-Cookie: c{number}={value}\r\n" for number in range(100)).encode()
    heads: list[bytes] = []

    async def sets(connection: Connection) -> None:
        for _ in range(2):
            request = await connection.request()
            assert request is not None
            heads.append(request.head)
            await connection.send(b"HTTP/1.1 200 OK\r\n" + cookies + b"Content-Length: 0\r\n\r\n")

    async with RawServer(sets) as server:
        collector = Collector(server.url)
        for _ in range(2):
            await collector.send("/v1/traces", b"x", 10)
        await collector.aclose()
    assert len(heads) == 2
    assert b"cookie" not in heads[1].lower()


class Stuck:
    """A collector that takes nothing, until it may; and `problem` says why it takes nothing then."""

    def __init__(self) -> None:
        self.may = threading.Event()
        self.bodies: list[bytes] = []
        self.refused: list[bytes] = []
        self.problem: CollectorError | None = None
        self.answer = b""

    async def send(self, path: str, body: bytes, timeout: float) -> bytes:
        while not self.may.is_set():
            await asyncio.sleep(0.01)
        if self.problem is not None:
            self.refused.append(body)
            raise self.problem
        self.bodies.append(body)
        return self.answer

    async def aclose(self) -> None: ...


def exporter(measured: Measured, collector: Any) -> Exporter:
    return Exporter(measured.metrics, measured.queue, lambda: collector, "accredit", "1")


def test_a_collector_that_hangs_costs_no_call_and_no_memory_beyond_the_queue() -> None:
    measured, stuck = Measured(), Stuck()
    of = exporter(measured, stuck)
    of.start()
    try:
        before = time.thread_time()
        for _ in range(10 * MAX_WAITING_SPANS):
            measured.queue.put(SPAN)
        assert len(measured.queue) <= MAX_WAITING_SPANS
        dropped = measured.counts(SPANS)["dropped",]
        assert dropped >= 8 * MAX_WAITING_SPANS
        assert time.thread_time() - before < 5
    finally:
        stuck.may.set()
        asyncio.run(of.stop())
    assert stuck.bodies


def test_what_is_refused_for_good_is_counted_and_said_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "accredit.telemetry")
    measured, stuck = Measured(), Stuck()
    stuck.may.set()
    stuck.problem = CollectorError("status 400", passing=False)
    of = exporter(measured, stuck)
    of.start()
    for _ in range(1000):
        measured.queue.put(SPAN)
    wait_until(lambda: measured.counts(SPANS).get(("failed",), 0) > 0)
    stuck.problem = None
    asyncio.run(of.stop())
    counted = measured.counts(SPANS)
    assert counted["failed",] + counted.get(("sent",), 0) + len(measured.queue) == 1000
    assert [record.message for record in caplog.records].count("the collector takes no telemetry") == 1


def test_a_collector_that_is_started_anew_gets_the_spans_of_meanwhile_once__and_no_more_than_fit_are_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(export, "EXPORT_RETRY_SECONDS", 0.01)
    measured, stuck = Measured(), Stuck()
    stuck.may.set()
    stuck.problem = CollectorError("ConnectError")
    of = exporter(measured, stuck)
    of.start()
    for _ in range(2 * MAX_WAITING_SPANS):
        measured.queue.put(SPAN)
    wait_until(lambda: len(stuck.refused) > 2)
    assert len({*stuck.refused}) == 1  # one message, again and again
    assert len(measured.queue) <= MAX_WAITING_SPANS
    stuck.problem = None
    wait_until(lambda: not len(measured.queue))
    wait_until(
        lambda: measured.counts(SPANS).get(("sent",), 0) + measured.counts(SPANS)["dropped",] == 2 * MAX_WAITING_SPANS
    )
    assert stuck.bodies[0] == stuck.refused[0]
    assert ("failed",) not in measured.counts(SPANS)
    asyncio.run(of.stop())


def test_a_collector_that_is_away_for_long_is_given_up__and_asked_less_and_less_often(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(export, "EXPORT_RETRY_SECONDS", 0.001)
    monkeypatch.setattr(export, "EXPORT_KEEP_SECONDS", 0.2)
    measured, stuck = Measured(), Stuck()
    stuck.may.set()
    stuck.problem = CollectorError("status 503")
    of = exporter(measured, stuck)
    of.start()
    for _ in range(SPANS_AT_ONCE):
        measured.queue.put(SPAN)
    wait_until(lambda: measured.counts(SPANS).get(("failed",), 0) == SPANS_AT_ONCE)
    assert len(stuck.refused) < 15  # doubled each time: with the same pause they were hundreds
    asyncio.run(of.stop())


def test_who_is_told_to_come_later_comes_later__and_its_end_does_not_wait_for_that() -> None:
    measured, stuck = Measured(), Stuck()
    stuck.may.set()
    stuck.problem = CollectorError("status 429", wait=3600)
    of = exporter(measured, stuck)
    of.start()
    for _ in range(2):
        for _ in range(SPANS_AT_ONCE):
            measured.queue.put(SPAN)
        wait_until(lambda: len(stuck.refused) == 1)
    stuck.problem = None
    asyncio.run(of.stop())
    assert stuck.bodies


def test_spans_that_a_collector_rejects_in_a_good_answer_are_counted__and_no_more_of_them_than_there_were() -> None:
    measured, stuck = Measured(), Stuck()
    stuck.may.set()
    answer = ExportTraceServiceResponse()
    answer.partial_success.rejected_spans = 2**62
    stuck.answer = answer.SerializeToString()
    of = exporter(measured, stuck)
    of.start()
    for _ in range(SPANS_AT_ONCE):
        measured.queue.put(SPAN)
    wait_until(lambda: measured.counts(SPANS).get(("failed",), 0) == SPANS_AT_ONCE)
    asyncio.run(of.stop())
    assert not measured.counts(SPANS).get(("sent",), 0)


@given(st.binary(max_size=200))
def test_no_answer_of_a_collector_raises(answer: bytes) -> None:
    assert rejected_count(answer) >= 0


@pytest.mark.slow
def test_the_end_does_not_wait_for_a_collector_that_hangs() -> None:
    measured, stuck = Measured(), Stuck()
    of = exporter(measured, stuck)
    of.start()
    asyncio.run(of.stop())  # it comes back
    stuck.may.set()


class Lookup(Stuck):
    """Its name is looked up, and no name server answers."""

    def __init__(self) -> None:
        super().__init__()
        self.threads: set[threading.Thread] = set()
        self.problems: list[str] = []

    async def send(self, path: str, body: bytes, timeout: float) -> bytes:
        try:
            async with asyncio.timeout(0.01):
                await asyncio.get_running_loop().run_in_executor(None, self.look)
        except OSError as error:
            self.problems.append(str(error))
        raise CollectorError("ConnectError")

    def look(self) -> None:
        self.threads.add(threading.current_thread())
        self.may.wait()


def test_the_end_does_not_wait_for_a_name_server_that_is_silent__nor_does_it_fill_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(export, "EXPORT_RETRY_SECONDS", 0.001)
    monkeypatch.setattr(export, "MAX_EXPORT_RETRY_SECONDS", 0.001)
    measured, lookup = Measured(), Lookup()
    of = exporter(measured, lookup)
    of.start()
    try:
        for _ in range(SPANS_AT_ONCE):
            measured.queue.put(SPAN)
        wait_until(lambda: "no name server answers" in lookup.problems)
        asyncio.run(of.stop())
        wait_until(lambda: not [each for each in threading.enumerate() if each.name == "accredit-telemetry"])
        assert len(lookup.threads) == MAX_EXPORT_LOOKUPS
        assert all(each.is_alive() and each.daemon for each in lookup.threads)
    finally:
        lookup.may.set()


def test_spans_and_metrics_are_what_a_collector_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", f"secret={SECRET}")
    monkeypatch.setenv("OTEL_SERVICE_NAME", SECRET)
    measured = Measured()
    measured.metrics.durations(SERVER_SECONDS, "").observe((("tools/call", "pay"), ""), 0.3)
    measured.metrics.decisions.add(("deny", "ratify_expired"))
    measured.metrics.log_queue.set(3)
    texts = encode_spans([SPAN], ABOUT), encode_metrics(measured.metrics.slot.mine(), ABOUT, 1, 2)
    assert SECRET.encode() not in b"".join(texts)
    with collecting() as collector:
        collector.take("/v1/traces", texts[0])
        collector.take("/v1/metrics", texts[1])
    (span,) = collector.spans
    assert (span.trace_id.hex(), span.span_id.hex(), span.parent_span_id.hex()) == (*CONTEXT[:2], "1" * 16)
    assert (span.kind, span.status.code, span.status.message, len(span.links)) == (2, 2, "", 1)
    assert (span.start_time_unix_nano, span.end_time_unix_nano) == (10**18, 10**18 + 5)
    points = collector.points
    attributes = '{"gen_ai.tool.name": "pay", "mcp.method.name": "tools/call"}'
    assert points["mcp.server.operation.duration"] == {attributes: 1}
    assert points["accredit.decisions"] == {'{"accredit.error": "ratify_expired", "accredit.verdict": "deny"}': 1}
    assert points["accredit.log_queue"] == {"{}": 3}
    (metric,) = [
        each
        for scope in collector.metrics[0].resource_metrics[0].scope_metrics
        for each in scope.metrics
        if each.name == "mcp.server.operation.duration"
    ]
    (point,) = metric.histogram.data_points
    assert (metric.unit, list(point.bucket_counts), point.sum) == ("s", [0] * 5 + [1] + [0] * 9, 0.3)
    assert not point.HasField("min")
    resource = {each.key: each.value.string_value for each in collector.traces[0].resource_spans[0].resource.attributes}
    assert (resource["service.name"], resource["service.instance.id"]) == ("mail gateway", "1")


@pytest.mark.parametrize("kind", ["server", "client"])
@pytest.mark.parametrize("parent", [None, "1" * 16])
@pytest.mark.parametrize("link", [None, CONTEXT])
def test_a_span_is_the_message_that_the_sdk_makes_of_one(
    kind: Literal["server", "client"], parent: str | None, link: TraceContext | None
) -> None:
    span = SPAN._replace(kind=kind, parent_id=parent, link=link, error=link is None)
    said = encode_spans([span, span], ABOUT)

    def context(of: TraceContext, *, remote: bool) -> trace.SpanContext:
        return trace.SpanContext(int(of.trace_id, 16), int(of.span_id, 16), remote, trace.TraceFlags(1))

    from_client = kind == "server"
    theirs = sdk.ReadableSpan(
        span.name,
        context(span.context, remote=False),
        context(CONTEXT._replace(span_id=parent), remote=from_client) if parent is not None else None,
        resources.Resource(ABOUT),
        span.attributes,
        links=[trace.Link(context(link, remote=True))] if link is not None else (),
        kind=trace.SpanKind.SERVER if from_client else trace.SpanKind.CLIENT,
        status=trace.Status(trace.StatusCode.ERROR if span.error else trace.StatusCode.UNSET),
        start_time=span.start_ns,
        end_time=span.end_ns,
        instrumentation_scope=InstrumentationScope("accredit", __version__),
    )
    assert ExportTraceServiceRequest.FromString(said) == trace_encoder.encode_spans([theirs, theirs])


def test_metrics_are_the_message_that_the_sdk_makes_of_them() -> None:
    def point(value: float, **attributes: str) -> sdk_metrics.NumberDataPoint:
        return sdk_metrics.NumberDataPoint(attributes, 1, 2, value)

    def metric(family: Family, name: str, unit: str, data: Any) -> sdk_metrics.Metric:
        return sdk_metrics.Metric(name, family.help, unit, data)

    counts, unknown = [1, *[0] * len(SERVER_SECONDS.bounds)], cast("Any", None)
    seconds = sdk_metrics.HistogramDataPoint(
        {"mcp.method.name": "ping"}, 1, 2, 1, 0.5, counts, SERVER_SECONDS.bounds, unknown, unknown
    )
    decisions = [point(3.0, **{"accredit.verdict": "allow"}), point(1.0, **{"accredit.verdict": "deny"})]
    cumulative = sdk_metrics.AggregationTemporality.CUMULATIVE
    theirs = [
        metric(SERVER_SECONDS, "mcp.server.operation.duration", "s", sdk_metrics.Histogram([seconds], cumulative)),
        metric(DECISIONS, "accredit.decisions", "1", sdk_metrics.Sum(decisions, cumulative, True)),
        metric(LOG_QUEUE, "accredit.log_queue", "1", sdk_metrics.Gauge([point(7.0)])),
    ]
    scope = sdk_metrics.ScopeMetrics(InstrumentationScope("accredit", __version__), theirs, "")
    data = sdk_metrics.MetricsData([sdk_metrics.ResourceMetrics(resources.Resource(ABOUT), [scope], "")])
    series = [
        (SERVER_SECONDS, ("ping", "", "", ""), [*map(float, counts), 0.5]),
        (DECISIONS, ("allow", ""), [3.0]),
        (DECISIONS, ("deny", ""), [1.0]),
        (LOG_QUEUE, (), [7.0]),
    ]
    said = ExportMetricsServiceRequest.FromString(encode_metrics(series, ABOUT, 1, 2))
    assert said == metrics_encoder.encode_metrics(data)

"""Telemetry goes to its collector, which may be slow, away or hostile: calls wait for none of it, and nothing grows."""

import asyncio
import logging
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.world.calls import http as answer_of
from tests.world.command import wait_until
from tests.world.measured import Measured, collecting
from tests.world.raw_server import Connection, RawServer
from tests.world.running import run

from accredit.errors import CollectorError
from accredit.limits import MAX_COLLECTOR_BYTES, MAX_WAITING_SPANS
from accredit.net.otlp import Collector
from accredit.telemetry.export import Encoding, Exporter
from accredit.telemetry.families import SPANS
from accredit.telemetry.tracing import Span, TraceContext

pytestmark = pytest.mark.holds("telemetry/export")

CONTEXT = TraceContext("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331", True)
SPAN = Span("server", "tools/call pay", CONTEXT, "1" * 16, 10**18, 10**18 + 5, {"a": "b"}, True, CONTEXT)
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


@pytest.mark.holds("net/otlp", 1, 2, 3)
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
def test_what_a_collector_does_not_take_is_an_error_that_quotes_nothing_of_it(
    handler: Callable[[Connection], Awaitable[None]], problem: str | None
) -> None:
    async def main() -> None:
        async with RawServer(hostile(handler)) as server:
            collector = Collector(server.url)
            with pytest.raises(CollectorError) as refused:
                await collector.send("/v1/traces", b"x", 0.5)
            await collector.aclose()
        assert SECRET not in str(refused.value)
        assert problem is None or str(refused.value) == problem

    run(main())


@pytest.mark.holds("net/otlp", 2)
def test_an_answer_without_an_end_is_not_read_to_its_end() -> None:
    async def main() -> None:
        async with RawServer(hostile(flood)) as server:
            collector = Collector(server.url)
            await collector.send("/v1/traces", b"x", 20)
            await collector.aclose()

    run(main())


@pytest.mark.holds("net/otlp", 1)
def test_no_proxy_of_the_environment_gets_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")

    async def main() -> None:
        collector = Collector(found.url)
        await collector.send("/v1/traces", b"", 10)
        await collector.aclose()

    with collecting() as found:
        asyncio.run(main())
    assert found.bodies == [b""]


class Stuck:
    """A collector that takes nothing, until it may."""

    def __init__(self) -> None:
        self.may = threading.Event()
        self.bodies: list[bytes] = []
        self.fails = False

    async def send(self, path: str, body: bytes, timeout: float) -> None:
        while not self.may.is_set():
            await asyncio.sleep(0.01)
        if self.fails:
            raise CollectorError("no")
        self.bodies.append(body)

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


def test_what_was_not_taken_is_counted_and_said_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "accredit.telemetry")
    measured, stuck = Measured(), Stuck()
    stuck.may.set()
    stuck.fails = True
    of = exporter(measured, stuck)
    of.start()
    for _ in range(1000):
        measured.queue.put(SPAN)
    wait_until(lambda: measured.counts(SPANS).get(("failed",), 0) > 0)
    stuck.fails = False
    asyncio.run(of.stop())
    counted = measured.counts(SPANS)
    assert counted["failed",] + counted.get(("sent",), 0) + len(measured.queue) == 1000
    assert [record.message for record in caplog.records].count("the collector takes no telemetry") == 1


def test_the_end_does_not_wait_for_a_collector_that_hangs() -> None:
    measured, stuck = Measured(), Stuck()
    of = exporter(measured, stuck)
    of.start()
    asyncio.run(of.stop())  # it comes back
    stuck.may.set()


def test_spans_and_metrics_are_what_a_collector_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", f"secret={SECRET}")
    monkeypatch.setenv("OTEL_SERVICE_NAME", SECRET)
    measured = Measured()
    measured.metrics.server_seconds.observe(("tools/call", "pay", "", ""), 0.3)
    measured.metrics.decisions.add(("deny", "ratify_expired"))
    measured.metrics.log_queue.set(3)
    encoding = Encoding("mail gateway", "1", measured.metrics.slot.started)
    texts = encoding.of_spans([SPAN]), encoding.of_metrics(measured.metrics.slot.mine())
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

"""What a gateway of a test's own is measured by, and a collector for what gateways send. I/O: sockets on 127.0.0.1."""

import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest, ExportLogsServiceResponse
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from accredit.telemetry.board import Board
from accredit.telemetry.families import CLIENT_SECONDS, SERVER_SECONDS, Family
from accredit.telemetry.metrics import Metrics
from accredit.telemetry.operations import Telemetry
from accredit.telemetry.tracing import Span, SpanQueue, Tracer

Counts = dict[tuple[str, ...], int]


class Measured:
    """`telemetry` for `create_app`. All is traced unless `rate` says otherwise."""

    def __init__(self, rate: float = 1.0) -> None:
        self.board = Board()
        self.metrics = Metrics(self.board.slot())
        self.queue = SpanQueue(self.metrics.spans)
        self.telemetry = Telemetry(self.metrics, Tracer(rate, self.queue, self.metrics.spans))

    def counts(self, family: Family) -> Counts:
        """How often each series was counted, by its labels."""
        found = self.board.totals()[family]
        many = family.kind == "histogram"
        return {labels: int(sum(numbers[:-1]) if many else numbers[0]) for labels, numbers in found.items()}

    @property
    def served(self) -> Counts:
        """Of the way in."""
        return self.counts(SERVER_SECONDS)

    @property
    def asked(self) -> Counts:
        """Of servers."""
        return self.counts(CLIENT_SECONDS)

    def spans(self) -> list[Span]:
        """Those that are waiting, once."""
        return self.queue.take()


def calls(counts: Counts) -> dict[tuple[str, str], int]:
    """How often tools were called, by tool and error."""
    return {(tool, error): count for (method, tool, error, _), count in counts.items() if method == "tools/call"}


class Collector:
    """What has come: decoded messages by path, and every byte."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.traces: list[ExportTraceServiceRequest] = []
        self.metrics: list[ExportMetricsServiceRequest] = []
        self.logs: list[Any] = []
        self.status = 200
        self.retry_after = ""
        self.rejects = 0
        """How many of each message, as it says."""
        self.url = ""

    def take(self, path: str, body: bytes) -> None:
        """Decode a message."""
        self.bodies.append(body)
        if path == "/v1/traces":
            self.traces.append(ExportTraceServiceRequest.FromString(body))
        elif path == "/v1/logs":
            self.logs.append(ExportLogsServiceRequest.FromString(body))
        else:
            assert path == "/v1/metrics"
            self.metrics.append(ExportMetricsServiceRequest.FromString(body))

    @property
    def spans(self) -> list[Any]:
        """All spans that have come."""
        found = (scope.spans for each in self.traces for of in each.resource_spans for scope in of.scope_spans)
        return [span for spans in found for span in spans]

    @property
    def points(self) -> dict[str, dict[str, float]]:
        """The last metrics that came: numbers (of histograms how many) by name and by attributes, as JSON."""
        found: dict[str, dict[str, float]] = {}
        for of in self.metrics[-1].resource_metrics if self.metrics else ():
            for metric in (each for scope in of.scope_metrics for each in scope.metrics):
                data: Any = getattr(metric, metric.WhichOneof("data") or "")
                for point in data.data_points:
                    named = json.dumps({each.key: each.value.string_value for each in point.attributes}, sort_keys=True)
                    is_histogram = metric.WhichOneof("data") == "histogram"
                    found.setdefault(metric.name, {})[named] = point.count if is_histogram else point.as_double
        return found


@contextmanager
def collecting() -> Generator[Collector]:
    """A collector of OTLP over HTTP, on loopback."""
    collector = Collector()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            collector.take(self.path, self.rfile.read(int(self.headers["content-length"])))
            answer = ExportLogsServiceResponse()
            if collector.rejects:
                answer.partial_success.rejected_log_records = collector.rejects
            body = answer.SerializeToString()
            self.send_response(collector.status)
            for name, value in (("content-type", "application/x-protobuf"), ("retry-after", collector.retry_after)):
                if value:
                    self.send_header(name, value)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    collector.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield collector
    finally:
        server.shutdown()
        thread.join()
        server.server_close()

"""Spans and metrics as OTLP messages. No I/O.

The messages equal those of the SDK's encoders (a test compares them). Spans are made in less than half the time:
encoding is most of the cost of a traced call. The messages of attributes with short values are cached, as most
attributes have only a few values. The message classes come with `accredit[telemetry]`.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from accredit import __version__
from accredit.base.caching import cache_short_values
from accredit.base.deferred import Deferred
from accredit.telemetry.board import Labels
from accredit.telemetry.families import Family
from accredit.telemetry.tracing import Span, TraceContext

MAX_KNOWN_ATTRIBUTES = 1024
"""The most attributes whose message is cached, some 300 bytes each. Most are names of tools and the like, and each is
in thousands of spans."""


# Typed as `Any`: the classes are made at import.
spans_service: Any = Deferred("opentelemetry.proto.collector.trace.v1.trace_service_pb2")
metrics_service: Any = Deferred("opentelemetry.proto.collector.metrics.v1.metrics_service_pb2")
common: Any = Deferred("opentelemetry.proto.common.v1.common_pb2")
resource: Any = Deferred("opentelemetry.proto.resource.v1.resource_pb2")
trace: Any = Deferred("opentelemetry.proto.trace.v1.trace_pb2")
measured: Any = Deferred("opentelemetry.proto.metrics.v1.metrics_pb2")


def encode_spans(spans: Sequence[Span], about: Mapping[str, str]) -> bytes:
    """Return an `ExportTraceServiceRequest`. `about` has the process's attributes."""
    of_scope = trace.ScopeSpans(scope=own_scope(), spans=[_span(each) for each in spans])
    of_process = trace.ResourceSpans(resource=resource_of(about), scope_spans=[of_scope])
    return spans_service.ExportTraceServiceRequest(resource_spans=[of_process]).SerializeToString()


def encode_metrics(
    series: Iterable[tuple[Family, Labels, list[float]]], about: Mapping[str, str], started: int, now: int
) -> bytes:
    """Return an `ExportMetricsServiceRequest` with the counts from `started` to `now` (unix nanoseconds). `about` has
    the process's attributes."""
    points: dict[Family, list[Any]] = {}
    for family, labels, numbers in series:
        named = {_attribute(family, name): value for name, value in zip(family.labels, labels, strict=True) if value}
        of_point = {"attributes": attributes_of(named), "start_time_unix_nano": started, "time_unix_nano": now}
        points.setdefault(family, []).append(_point(family, numbers, of_point))
    of_scope = measured.ScopeMetrics(scope=own_scope(), metrics=[_metric(*each) for each in points.items()])
    of_process = measured.ResourceMetrics(resource=resource_of(about), scope_metrics=[of_scope])
    return metrics_service.ExportMetricsServiceRequest(resource_metrics=[of_process]).SerializeToString()


def resource_of(about: Mapping[str, str]) -> Any:
    """Return the `Resource` with these attributes. Nothing is added from the environment."""
    return resource.Resource(attributes=attributes_of(about))


def own_scope() -> Any:
    """Return the `InstrumentationScope` of all messages."""
    return common.InstrumentationScope(name="accredit", version=__version__)


def attributes_of(named: Mapping[str, str | int]) -> list[Any]:
    """Return attributes (`KeyValue`)."""
    return [_text(value, name) if isinstance(value, str) else _number(value, name) for name, value in named.items()]


def _span(span: Span) -> Any:
    kinds, from_client = trace.Span.SpanKind, span.kind == "server"
    flags = trace.SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK
    if from_client and span.parent_id is not None:
        flags |= trace.SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK
    return trace.Span(
        trace_id=bytes.fromhex(span.context.trace_id),
        span_id=bytes.fromhex(span.context.span_id),
        parent_span_id=bytes.fromhex(span.parent_id or ""),
        name=span.name,
        kind=kinds.SPAN_KIND_SERVER if from_client else kinds.SPAN_KIND_CLIENT,
        start_time_unix_nano=span.start_ns,
        end_time_unix_nano=span.end_ns,
        attributes=attributes_of(span.attributes),
        links=[_link(span.link)] if span.link is not None else (),
        status=trace.Status(code=trace.Status.STATUS_CODE_ERROR if span.error else trace.Status.STATUS_CODE_UNSET),
        flags=flags,
    )


def _link(context: TraceContext) -> Any:
    return trace.Span.Link(
        trace_id=bytes.fromhex(context.trace_id),
        span_id=bytes.fromhex(context.span_id),
        flags=trace.SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK | trace.SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK,
    )


def _point(family: Family, numbers: list[float], of_point: dict[str, Any]) -> Any:
    if family.kind != "histogram":
        if family.kind == "gauge":
            del of_point["start_time_unix_nano"]  # it is no sum over time
        return measured.NumberDataPoint(as_double=numbers[0], **of_point)
    *buckets, total = numbers
    counts = [*map(int, buckets)]
    return measured.HistogramDataPoint(
        count=sum(counts), sum=total, bucket_counts=counts, explicit_bounds=family.bounds, **of_point
    )


def _metric(family: Family, points: list[Any]) -> Any:
    cumulative = measured.AGGREGATION_TEMPORALITY_CUMULATIVE
    data: dict[str, Any]
    if family.kind == "histogram":
        data = {"histogram": measured.Histogram(data_points=points, aggregation_temporality=cumulative)}
    elif family.kind == "counter":
        data = {"sum": measured.Sum(data_points=points, aggregation_temporality=cumulative, is_monotonic=True)}
    else:
        data = {"gauge": measured.Gauge(data_points=points)}
    unit = "s" if "seconds" in family.name else "1"
    return measured.Metric(name=_name(family), description=family.help, unit=unit, **data)


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


@cache_short_values(MAX_KNOWN_ATTRIBUTES)
def _text(value: str, name: str) -> Any:
    return common.KeyValue(key=name, value=common.AnyValue(string_value=value))


def _number(value: int, name: str) -> Any:
    return common.KeyValue(key=name, value=common.AnyValue(int_value=value))

"""Spans as OTLP messages. No I/O.

The messages equal those of the SDK's encoder (a test compares them), but are made in less than half the time: encoding
is most of the cost of a traced call. The messages of attributes with short values are cached, as most attributes have
only a few values. The message classes come with `accredit[telemetry]`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from accredit.base.caching import cache_short_values
from accredit.base.deferred import Deferred
from accredit.telemetry.tracing import Span, TraceContext

MAX_KNOWN_ATTRIBUTES = 1024
"""The most span attributes whose message is cached, some 300 bytes each. Most are names of tools and the like, and each
is in thousands of spans."""


# Typed as `Any`: the classes are made at import.
service: Any = Deferred("opentelemetry.proto.collector.trace.v1.trace_service_pb2")
common: Any = Deferred("opentelemetry.proto.common.v1.common_pb2")
resource: Any = Deferred("opentelemetry.proto.resource.v1.resource_pb2")
trace: Any = Deferred("opentelemetry.proto.trace.v1.trace_pb2")


def spans_request(spans: Sequence[Span], about: Mapping[str, str], scope: str, version: str) -> bytes:
    """Return an encoded `ExportTraceServiceRequest`. `about` has the process's attributes."""
    of_scope = trace.ScopeSpans(
        scope=common.InstrumentationScope(name=scope, version=version), spans=[_span(each) for each in spans]
    )
    of_process = trace.ResourceSpans(resource=resource.Resource(attributes=_pairs(about)), scope_spans=[of_scope])
    return bytes(service.ExportTraceServiceRequest(resource_spans=[of_process]).SerializeToString())


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
        attributes=_pairs(span.attributes),
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


def _pairs(attributes: Mapping[str, str]) -> list[Any]:
    return [_pair(value, name) for name, value in attributes.items()]


@cache_short_values(MAX_KNOWN_ATTRIBUTES)
def _pair(value: str, name: str) -> Any:
    return common.KeyValue(key=name, value=common.AnyValue(string_value=value))

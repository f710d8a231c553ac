"""Log entries as OTLP log records. No I/O.

The body of a log record is the entry's envelope, as `accredit log export` writes it. Attributes describe it; nothing is
verified. The message classes come with `accredit[telemetry]`.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from accredit import __version__
from accredit.attest import CallRecord, Checkpoint, Envelope, Pruning, decode_statement, encode_envelope
from accredit.base.clock import unix_ns
from accredit.base.deferred import Deferred
from accredit.errors import AttestationError
from accredit.telemetry.messages import attributes_of, own_scope, resource_of

# Typed as `Any`: the classes are made at import.
service: Any = Deferred("opentelemetry.proto.collector.logs.v1.logs_service_pb2")
common: Any = Deferred("opentelemetry.proto.common.v1.common_pb2")
logs: Any = Deferred("opentelemetry.proto.logs.v1.logs_pb2")

_INFO = 9


def logs_request(envelopes: Sequence[Envelope]) -> bytes:
    """Return an `ExportLogsServiceRequest` with a log record for each entry."""
    now = unix_ns()
    about = resource_of({"service.name": "accredit", "service.version": __version__})
    of_scope = logs.ScopeLogs(scope=own_scope(), log_records=[_log_record(each, now) for each in envelopes])
    of_process = logs.ResourceLogs(resource=about, scope_logs=[of_scope])
    return service.ExportLogsServiceRequest(resource_logs=[of_process]).SerializeToString()


def _log_record(envelope: Envelope, now: int) -> Any:
    try:
        name, time, facts = _facts(envelope)
        attributes = attributes_of(facts)
        if not 0 <= time < 1 << 63:
            raise ValueError("a time that has no number here")
    except (AttestationError, ValueError, OverflowError):
        name, time, attributes = "accredit.unreadable", now, []  # sent as it is: who verifies says what it is
    return logs.LogRecord(
        time_unix_nano=time,
        observed_time_unix_nano=now,
        severity_number=_INFO,
        event_name=name,
        body=common.AnyValue(string_value=encode_envelope(envelope).decode()),
        attributes=attributes,
    )


def _facts(envelope: Envelope) -> tuple[str, int, dict[str, str | int]]:
    """Return three facts about an entry: the name of its kind, its time in unix nanoseconds, and attributes."""
    said = decode_statement(envelope.payload).predicate
    match said:
        case CallRecord():
            facts: dict[str, str | int | None] = {
                "accredit.log.writer": said.log.writer,
                "accredit.log.sequence": said.log.sequence,
                "accredit.call.id": said.call.id,
                "mcp.method.name": said.call.method,
                "accredit.call.target": said.call.target,
                "accredit.server": said.call.server,
                "accredit.decision.verdict": said.decision.verdict if said.decision else None,
                "accredit.decision.error": said.decision.error if said.decision else None,
                "accredit.outcome.status": said.outcome.status if said.outcome else None,
                "accredit.principal.id": said.authority.principal_id if said.authority else None,
                "accredit.agent.id": said.authority.agent_id if said.authority else None,
            }
            return "accredit.record", _ns(said.times.recorded), {key: value for key, value in facts.items() if value}
        case Checkpoint():
            return "accredit.checkpoint", _ns(said.time), {"accredit.log.writer": said.writer}
        case Pruning():
            return "accredit.pruning", _ns(said.time), {"accredit.log.writer": said.writer}


def _ns(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp() * 1000) * 1_000_000

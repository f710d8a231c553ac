"""The metrics: their names, labels and help. No I/O.

Two have the names of OpenTelemetry's conventions for MCP (semantic-conventions-genai, docs/gen-ai/mcp.md), with `_`
for `.`; our own begin with `accredit_`. docs/reference/metrics.md has a row for each.
"""

from typing import Literal, NamedTuple

SECONDS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
"""The bounds of the histograms of operations, in seconds: those of the conventions."""
SHORT_SECONDS = (0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0)
"""The bounds of the histograms of a store's operations, in seconds."""


class Family(NamedTuple):
    """One metric. `together` says how the workers' values make the total: their sum, or their maximum if all should
    have the same value."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    labels: tuple[str, ...]
    help: str
    bounds: tuple[float, ...] = ()
    together: Literal["sum", "max"] = "sum"
    otel: str = ""
    """The metric's name in OTLP, if it differs."""

    @property
    def width(self) -> int:
        """How many numbers a series has. A histogram has one for each bound, one for what is beyond the last bound, and
        the sum."""
        return len(self.bounds) + 2 if self.bounds else 1


_OPERATION = ("mcp_method_name", "gen_ai_tool_name", "error_type", "server")

SERVER_SECONDS = Family(
    "mcp_server_operation_duration_seconds", "histogram", _OPERATION,
    "Time from a request's arrival to the end of its answer, refused ones included.",
    SECONDS, otel="mcp.server.operation.duration",
)  # fmt: skip
CLIENT_SECONDS = Family(
    "mcp_client_operation_duration_seconds", "histogram", _OPERATION,
    "Time from sending a request to a server to its response.",
    SECONDS, otel="mcp.client.operation.duration",
)  # fmt: skip
DECISIONS = Family(
    "accredit_decisions_total", "counter", ("verdict", "error"),
    "Decisions on calls, by verdict (allow, deny, challenge) and, for a refusal, its data.error.",
)  # fmt: skip
INVALID = Family(
    "accredit_upstream_invalid_total", "counter", ("server",),
    "Answers of servers that were not valid, and so not forwarded (or only observed).",
)  # fmt: skip
UNASKED = Family(
    "accredit_upstream_unasked_total", "counter", ("server",),
    "Bodies that servers have sent in answer to notifications and responses, which are owed none: dropped.",
)  # fmt: skip
STORE_SECONDS = Family(
    "accredit_store_seconds", "histogram", ("op",), "Time that the store took for what a decision asks it.",
    SHORT_SECONDS,
)  # fmt: skip
LOG_TURN_SECONDS = Family(
    "accredit_log_turn_seconds", "histogram", (), "Time to write one turn of records into the log.", SHORT_SECONDS
)
LOG_LEFT = Family(
    "accredit_log_left_open", "gauge", (),
    "Writers of the log that are left open, as what it holds of them does not verify.", together="max",
)  # fmt: skip
CONNECTIONS = Family(
    "accredit_connections", "gauge", ("of",),
    "Connections of clients: open, and the most that there may be at once.",
)  # fmt: skip
LOG_QUEUE = Family("accredit_log_queue", "gauge", (), "Records that wait to be written into the log.")
STORE_SKEW = Family(
    "accredit_store_skew_seconds", "gauge", (),
    "By how much this machine's clock differs from the database's (PostgreSQL).", together="max",
)  # fmt: skip
CONFIG_DIGEST = Family(
    "accredit_config_digest", "gauge", (),
    "The first 12 hex digits of the configuration's digest (policy.digest of records), as a number.", together="max",
)  # fmt: skip
BREAKERS = Family(
    "accredit_breaker_state", "gauge", ("server",), "How many replicas of a server are left out for now.",
    together="max",
)  # fmt: skip
STARTS = Family("accredit_worker_starts_total", "counter", (), "Workers that were started, the first ones included.")
SINK_LAG = Family(
    "accredit_sink_lag_records", "gauge", ("sink",),
    "Records of the log that a sink (`accredit log follow --sink`) does not have yet.", together="max",
)  # fmt: skip
SPANS = Family(
    "accredit_spans_total", "counter", ("outcome",),
    "Spans: sent, dropped (the queue was full), failed (the collector did not take them), or not_forced (a caller asked"
    " for one beyond the rate at which callers may).",
)  # fmt: skip

FAMILIES = (
    SERVER_SECONDS, CLIENT_SECONDS, DECISIONS, INVALID, UNASKED, STORE_SECONDS, LOG_TURN_SECONDS, CONNECTIONS,
    LOG_QUEUE, LOG_LEFT, STORE_SKEW, CONFIG_DIGEST, BREAKERS, STARTS, SINK_LAG, SPANS,
)  # fmt: skip

"""Entries of a log as log records: what is odd in one stops none of the others."""

from pathlib import Path

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from tests.world.logs import Log, read
from tests.world.records import NOW_MS
from tests.world.running import run

from accredit.attest import Envelope, Signature, Stored, encode_envelope
from accredit.telemetry.log_records import logs_request

pytestmark = pytest.mark.holds("telemetry/log_records")

FAR_MS = 253_402_300_000_000
"""In the year 9999: more nanoseconds than a log record can say."""


def envelopes(path: Path, clock_ms: int) -> list[Envelope]:
    async def main() -> None:
        async with Log(path, clock=lambda: clock_ms) as log:
            await log.call()

    run(main())
    with read(path) as log:
        return [each.entry.envelope for each in log.entries() if isinstance(each.entry, Stored)]


def test_what_can_not_be_said_of_an_entry_is_left_out__and_its_envelope_is_there(tmp_path: Path) -> None:
    good, far = envelopes(tmp_path / "good.db", NOW_MS), envelopes(tmp_path / "far.db", FAR_MS)
    every = [Envelope(b"no JSON", (Signature("key", b"1"),)), *far, *good]
    request = ExportLogsServiceRequest.FromString(logs_request(every))
    records = request.resource_logs[0].scope_logs[0].log_records
    assert [each.body.string_value for each in records] == [encode_envelope(each).decode() for each in every]
    assert records[0].event_name == "accredit.unreadable"
    assert "accredit.unreadable" in {each.event_name for each in records[1 : 1 + len(far)]}
    assert {each.event_name for each in records[1 + len(far) :]} == {"accredit.record", "accredit.checkpoint"}

"""Calls that are recorded with their proofs, as the gateway records them: decided on real proofs. I/O: the log."""

from pathlib import Path

import pytest
from tests.unit.ratify.world import NOW
from tests.world.decisions import VERIFIER, Deployment
from tests.world.logs import Log, records_in
from tests.world.records import OK
from tests.world.running import run

from accredit.attest import CallRecord, Statement, Stored, decode_statement
from accredit.gateway.call import Call
from accredit.gateway.counters import Counters
from accredit.gateway.recording.recorder import Recorder
from accredit.gateway.settings import RecordSettings
from accredit.jsonrpc.frames import Request
from accredit.jsonrpc.requests import decode_request
from accredit.policy.guarded_call import GuardedCall
from accredit.ports import Records
from accredit.stores.audit_log.reading import LogReader

SETTINGS = RecordSettings(VERIFIER, policy_digest="d1" * 32)
INBOX = b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"list_inbox"}}'


@pytest.fixture
def calls_come_now(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls come when their proofs are made."""
    monkeypatch.setattr("accredit.gateway.recording.recorder.unix_ms", lambda: NOW * 1000)


async def record(
    port: Records,
    settings: RecordSettings,
    asked: GuardedCall,
    text: bytes = INBOX,
    *,
    hides: bool = False,
    by: Deployment | None = None,
    at: int = NOW,
) -> None:
    """Records a call as the gateway does, on what is decided of it at a time."""
    request = decode_request(text)
    assert isinstance(request, Request)
    decision = (by or Deployment()).decides(asked, at)
    recorder = Recorder(port, settings, Counters(), hides_sessions=hides)
    call = Call(session=asked.session_id)
    call.decide(decision)
    opened = await recorder.begin(request, call, decision.refusal)
    if opened is not None:
        await opened.settle(OK)


def recorded(
    path: Path, *asked: GuardedCall, text: bytes = INBOX, settings: RecordSettings = SETTINGS, hides: bool = False
) -> CallRecord:
    """Records calls; returns the decision on the last."""

    async def main() -> None:
        async with Log(path) as log:
            for each in asked:
                await record(log.port, settings, each, text, hides=hides)

    run(main())
    return [each for each in records_in(path) if each.decision is not None][-1]


def statement_of(log: LogReader, record: CallRecord) -> Statement:
    """The statement of a decision."""
    (found,) = [
        each.entry.envelope.payload
        for each in log.of_calls(record.call.id)
        if isinstance(each.entry, Stored) and (said := each.record()) and said.decision is not None
    ]
    return decode_statement(found)

"""What a gateway knows of a call, and the payloads that say it. No I/O: place and time are arguments.

Texts for people are clipped; what was not to be recorded must not be handed in.
"""

from msgspec import Raw, Struct
from msgspec.structs import replace

from accredit.attest.canonical import RecordedParams
from accredit.attest.statements import (
    NO_PARAMS,
    Call,
    CallRecord,
    Checkpoint,
    Outcome,
    Place,
    PolicyDigest,
    Pruning,
    RecordedAuthority,
    RecordedDecision,
    RecordedToken,
    Statement,
    Times,
    clipped,
    encode_statement,
    timestamp,
)


class CallDecision(Struct, frozen=True, kw_only=True):
    """A call on which was decided. `call.params` is left empty; `received_ms` is in unix milliseconds.

    `policy_digest` says by which configuration: the SHA-256 of its effective values (`config.digest`). The decision is
    `enforced` where what it says is what happens.

    `certificates` is the chain of the proof, a JSON array, leaf first: `authority.chain_sha256` is the SHA-256 of it.
    """

    gateway: str
    call: Call
    params: RecordedParams
    decision: RecordedDecision
    received_ms: int
    policy_digest: str
    enforced: bool = True
    authority: RecordedAuthority | None = None
    token: RecordedToken | None = None
    certificates: bytes | None = None


def decision_payload(decided: CallDecision, place: Place, now_ms: int) -> bytes:
    """Return the record of a decision. Raises `AttestationError` for a text that can't be written."""
    call, said = decided.call, decided.decision
    if decided.params.text is not None:
        call = replace(call, params=Raw(decided.params.text))
    reason = None if said.reason is None else clipped(said.reason)
    record = CallRecord(
        gateway=decided.gateway,
        phase="decision",
        call=call,
        times=_times(decided.received_ms, now_ms),
        log=place,
        decision=replace(said, reason=reason, enforced=decided.enforced),
        authority=decided.authority,
        token=decided.token,
        policy=PolicyDigest(digest=decided.policy_digest),
    )
    return encode_statement(Statement(record, decided.params.sha256))


def outcome_payload(decided: CallDecision, outcome: Outcome, place: Place, now_ms: int) -> bytes:
    """Return the record of an outcome. Raises `AttestationError` for a text that can't be written."""
    if outcome.detail is not None:
        outcome = replace(outcome, detail=clipped(outcome.detail))
    record = CallRecord(
        gateway=decided.gateway,
        phase="outcome",
        call=decided.call,
        times=_times(decided.received_ms, now_ms),
        log=place,
        outcome=outcome,
        policy=PolicyDigest(digest=decided.policy_digest),
    )
    return encode_statement(Statement(record, decided.params.sha256))


def unknown_payload(
    decision: Statement, record: CallRecord, detail: str, place: Place, now_ms: int, policy_digest: str
) -> bytes:
    """Return the record that closes a call whose writer has died: `decision` is the statement of its decision. Where
    that is of version 1, which does not say by which policy it was made, `policy_digest` is that of who closes the
    call."""
    closed = CallRecord(
        gateway=record.gateway,
        phase="outcome",
        call=replace(record.call, params=NO_PARAMS),
        times=Times(received=record.times.received, recorded=timestamp(now_ms)),
        log=place,
        outcome=Outcome(status="unknown", detail=detail),
        policy=record.policy or PolicyDigest(digest=policy_digest),
    )
    return encode_statement(Statement(closed, decision.sha256))


def checkpoint_payload(writer: str, count: int, head: str, now_ms: int) -> bytes:
    """Return a checkpoint: the writer's chain has `count` records, the last of which has the SHA-256 `head`."""
    return encode_statement(Statement(Checkpoint(writer=writer, count=count, time=timestamp(now_ms)), head))


def pruning_payload(pruning: Pruning, head: str) -> bytes:
    """Return a note of pruning; `head` is the SHA-256 of the last record that it covers."""
    return encode_statement(Statement(pruning, head))


def _times(received_ms: int, now_ms: int) -> Times:
    return Times(received=timestamp(received_ms), recorded=timestamp(now_ms))

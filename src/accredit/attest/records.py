"""Makes the payloads of a call's records from what the gateway knows. No I/O: time and log position are arguments.

Texts for people are clipped. Nothing else is left out, so data that must not be recorded must not be passed in.
"""

from msgspec import Raw
from msgspec.structs import replace

from accredit.attest.canonical import CallDecision, RecordedParams
from accredit.attest.statements import (
    NO_PARAMS,
    CallRecord,
    Checkpoint,
    Outcome,
    Place,
    PolicyDigest,
    Pruning,
    Statement,
    Times,
    clip_text,
    decode_statement,
    encode_statement,
    milliseconds,
    timestamp,
)
from accredit.errors import AttestationError


def decided_again(payload: bytes, policy_digest: str) -> CallDecision:
    """Rebuild a decision from its record, with only what the outcome's record needs. Raises `AttestationError`.

    `policy_digest` is used for a record of version 1, which names none.
    """
    statement = decode_statement(payload)
    record = statement.predicate
    if not isinstance(record, CallRecord) or record.decision is None:
        raise AttestationError("not the record of a decision")
    return CallDecision(
        gateway=record.gateway,
        call=replace(record.call, params=NO_PARAMS),
        params=RecordedParams(statement.sha256),
        decision=record.decision,
        received_ms=milliseconds(record.times.received),
        policy_digest=record.policy.digest if record.policy is not None else policy_digest,
    )


def decision_payload(decided: CallDecision, place: Place, now_ms: int) -> bytes:
    """Return the record of a decision; `now_ms` is in unix milliseconds. Raises `AttestationError` for a text that
    can't be encoded."""
    call, decision = decided.call, decided.decision
    if decided.params.text is not None:
        call = replace(call, params=Raw(decided.params.text))
    reason = None if decision.reason is None else clip_text(decision.reason)
    record = CallRecord(
        gateway=decided.gateway,
        phase="decision",
        call=call,
        times=Times(received=timestamp(decided.received_ms), recorded=timestamp(now_ms)),
        log=place,
        decision=replace(decision, reason=reason, enforced=decision.enforced is not False),
        authority=decided.authority,
        token=decided.token,
        policy=PolicyDigest(digest=decided.policy_digest),
    )
    return encode_statement(Statement(record, decided.params.sha256))


def outcome_payload(decided: CallDecision, outcome: Outcome, place: Place, now_ms: int) -> bytes:
    """Return the record of an outcome; `now_ms` is in unix milliseconds. Raises `AttestationError` for a text that
    can't be encoded."""
    if outcome.detail is not None:
        outcome = replace(outcome, detail=clip_text(outcome.detail))
    record = CallRecord(
        gateway=decided.gateway,
        phase="outcome",
        call=decided.call,
        times=Times(received=timestamp(decided.received_ms), recorded=timestamp(now_ms)),
        log=place,
        outcome=outcome,
        policy=PolicyDigest(digest=decided.policy_digest),
    )
    return encode_statement(Statement(record, decided.params.sha256))


def unknown_payload(
    decision: Statement,
    record: CallRecord,
    detail: str,
    place: Place,
    now_ms: int,
    policy_digest: str,
) -> bytes:
    """Return the record that closes a call whose writer has died. `decision` is the statement with the call's decision,
    and `record` its predicate.

    A decision of version 1 does not name its policy. Then `policy_digest`, that of the closing process, is recorded.
    """
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
    """Return a note of pruning. `head` is the SHA-256 of the last record that it covers."""
    return encode_statement(Statement(pruning, head))

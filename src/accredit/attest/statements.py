"""Statements: in-toto v1, with the three predicates of the log. No I/O.

The predicates are a call's record (`urn:accredit:tool-call:v3`, `tool-call.v3.schema.json` beside this file), a
checkpoint of a writer's chain (`urn:accredit:log-checkpoint:v1`), and the note that replaces pruned records
(`urn:accredit:log-pruning:v1`). Records of versions 1 and 2 can always be read. A payload is accepted only if:

- [statement] it is one JSON object with the members that in-toto names, the right `_type`, and one subject with a
  SHA-256;
- [predicate] its predicate has the members of its type and version, and nothing else;
- [phase] the members that its phase (decision or outcome) requires are there, and the subject fits the predicate.

Members without a value are left out. Times are RFC 3339, UTC, with milliseconds. Signatures and chains are not checked
here.
"""

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Annotated, Literal, TypeVar

import msgspec
from msgspec import Meta, Raw, Struct

from accredit.errors import AttestationError
from accredit.limits import MAX_RECORDED_TEXT, MAX_SAFE_INTEGER

_STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
CALL_TYPES = {version: f"urn:accredit:tool-call:v{version}" for version in (1, 2, 3)}
WRITTEN = 3
"""The version in which records of calls are written."""
CALL_TYPE, CALL_TYPE_V1 = CALL_TYPES[WRITTEN], CALL_TYPES[1]
_CHECKPOINT_TYPE = "urn:accredit:log-checkpoint:v1"
_PRUNING_TYPE = "urn:accredit:log-pruning:v1"

GENESIS = "0" * 64
"""The `previous` of a writer's first record, which has none before it."""

_Sha256 = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
_WriterId = Annotated[str, Meta(pattern="^[0-9a-f]{32}$")]
_Sequence = Annotated[int, Meta(ge=1, le=MAX_SAFE_INTEGER)]
_Time = Annotated[str, Meta(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z$")]
_TraceId = Annotated[str, Meta(pattern="^[0-9a-f]{32}$")]
_Verdict = Literal["allow", "deny", "challenge"]
OutcomeStatus = Literal[
    "ok", "tool_error", "error", "input_required", "task", "upstream_invalid", "timeout", "cancelled", "unknown"
]

NO_PARAMS = Raw()
"""The `params` of a call whose arguments are not recorded in full."""

_OF_PROOF = ("proof", "proof_sha256", "verifier_id", "request_sha256", "call_sha256", "granted_scope")
"""The members that version 3 added to `authority`."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LATEST_MS = 253_402_300_799_999  # the end of the year 9999


class _Part(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    pass


class Call(_Part, frozen=True):
    """The call that a record is about. `id` is the same in both records of the call: 16 random bytes as 32 hex
    characters.

    `target` is the tool's or prompt's name, or the resource's URI. If the call is part of a multi-round-trip request,
    `flow` identifies that request, and `round` (from 1) counts within it. `params` is set if arguments are recorded in
    full.

    Version 2 added `definition`, the pinned SHA-256 of the tool's definition; `trace`, the client's trace id; and
    `server`, the server's name if there are several. Version 3 added `protocol` and `client`. `protocol` is set if the
    request is not MCP's. Then `method` is the method in that protocol, and `target` is the route of an HTTP API, or the
    skill or task of an A2A agent. `client` is set if the call came through the login of an OAuth client: it is the
    client's id, and the gateway has signed the proof with the key of that client's agent.
    """

    id: _WriterId
    method: str
    target: str | None = None
    session: str | None = None
    revision: str | None = None
    flow: str | None = None
    round: Annotated[int, Meta(ge=1, le=MAX_SAFE_INTEGER)] | None = None
    params: Raw = NO_PARAMS
    definition: _Sha256 | None = None
    trace: _TraceId | None = None
    server: str | None = None
    protocol: Literal["http", "authorize", "a2a"] | None = None
    client: str | None = None


class RecordedDecision(_Part, frozen=True):
    """What was decided. `error` is a code for programs, `reason` is for people.

    Version 2 added `enforced` and the verdict `challenge`. `enforced` is false if decisions were only observed; if it
    is absent, they were enforced. The verdict `challenge` is for a call whose client was asked to sign a challenge.
    """

    verdict: _Verdict
    error: str | None = None
    reason: str | None = None
    enforced: bool | None = None

    @property
    def goes_on(self) -> bool:
        """Whether the call has an outcome: it was allowed, or decisions were only observed. Such a call reached its
        server, or its outcome says that it was refused after all."""
        return self.verdict == "allow" or self.enforced is False


class RecordedAuthority(_Part, frozen=True):
    """The authority on which a call was made: the ids of the principal, the agent and the certificates (leaf first);
    the SHA-256 of the chain (the RFC 8785 form of the array of certificates); the scope that the call needed; and
    whether the proof was bound to the call.

    Version 3 added the rest: whether the proof is kept, and the SHA-256 of its text (`canonical`); for a bound proof,
    its verifier, and the SHA-256 of the request and of the request's params; and, of the scopes that the call accepts,
    those that the chain grants.
    """

    principal_id: str
    agent_id: str
    cert_ids: tuple[str, ...]
    chain_sha256: _Sha256
    scope: str
    bound: bool
    principal_name: str | None = None
    proof: Literal["kept", "digest"] | None = None
    proof_sha256: _Sha256 | None = None
    verifier_id: str | None = None
    request_sha256: _Sha256 | None = None
    call_sha256: _Sha256 | None = None
    granted_scope: str | None = None


class RecordedToken(_Part, frozen=True):
    """The token that came with the call: its subject and the SHA-256 of its text, never the text itself."""

    issuer: str
    subject: str
    sha256: _Sha256
    jti: str | None = None
    kid: str | None = None


class Outcome(_Part, frozen=True):
    """How a forwarded call ended. `result` comes from `result_digest`.

    Version 2 added the status `task`: the server has accepted the call as a task, whose result comes later.
    """

    status: OutcomeStatus
    detail: str | None = None
    result: dict[Literal["rfc8785-sha256", "sha256"], _Sha256] | None = None


class Times(_Part, frozen=True):
    """When the call arrived, and when this record was made."""

    received: _Time
    recorded: _Time


class Place(_Part, frozen=True):
    """A record's place in the log: its writer, its sequence (the number among that writer's records, from 1), and the
    SHA-256 of the previous record's payload."""

    writer: _WriterId
    sequence: _Sequence
    previous: _Sha256


class PolicyDigest(_Part, frozen=True):
    """Identifies the configuration that decided: the SHA-256 of its effective values, in RFC 8785 form."""

    digest: _Sha256


class CallRecord(_Part, frozen=True):
    """The predicate of a call's record. `gateway` is the verifier's id (`[gateway] id`). Version 2 added `policy`."""

    gateway: str
    phase: Literal["decision", "outcome"]
    call: Call
    times: Times
    log: Place
    decision: RecordedDecision | None = None
    authority: RecordedAuthority | None = None
    token: RecordedToken | None = None
    outcome: Outcome | None = None
    policy: PolicyDigest | None = None

    @property
    def goes_on(self) -> bool:
        """Whether the record is a decision after which an outcome follows."""
        return self.decision is not None and has_outcome(self.call, self.decision)


class Checkpoint(_Part, frozen=True):
    """A checkpoint: so far, a writer's chain has `count` records. The statement's subject is the SHA-256 of the last
    one's payload, called the chain's head."""

    writer: _WriterId
    count: _Sequence
    time: _Time


class Pruning(_Part, frozen=True):
    """A note that records 1 to `last` of a writer, all from before `before`, were pruned. The statement's subject is
    the SHA-256 of the last one's payload. `digests_sha256` is the SHA-256 of the digests of all of them (32 bytes
    each), in order."""

    writer: _WriterId
    last: _Sequence
    before: _Time
    digests_sha256: _Sha256
    time: _Time


def has_outcome(call: Call, decision: RecordedDecision) -> bool:
    """Return whether a call has an outcome. A request that another proxy asks about has none here, as that proxy
    forwards it."""
    return decision.goes_on and call.protocol != "authorize"


Predicate = CallRecord | Checkpoint | Pruning
_Kind = TypeVar("_Kind", CallRecord, Checkpoint, Pruning)


class Statement(Struct, frozen=True):
    """A statement: its predicate, and the SHA-256 of its subject. `version` is that of a call's predicate."""

    predicate: Predicate
    sha256: str
    version: int = WRITTEN


class _Digests(Struct, frozen=True, forbid_unknown_fields=True):
    sha256: _Sha256


class _Subject(Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    digest: _Digests


class _Wire(Struct, frozen=True, forbid_unknown_fields=True):
    type: str = msgspec.field(name="_type")
    subject: Annotated[tuple[_Subject, ...], Meta(min_length=1, max_length=1)]
    predicate_type: str = msgspec.field(name="predicateType")
    predicate: Predicate | Raw


class _RawWire(_Wire, frozen=True):
    predicate: Raw


_encode = msgspec.json.Encoder().encode
_decode_wire = msgspec.json.Decoder(_RawWire).decode
_decoder_of_calls = msgspec.json.Decoder(CallRecord)
_DECODERS = {
    **dict.fromkeys(CALL_TYPES.values(), _decoder_of_calls),
    _CHECKPOINT_TYPE: msgspec.json.Decoder(Checkpoint),
    _PRUNING_TYPE: msgspec.json.Decoder(Pruning),
}


@lru_cache(maxsize=64)  # calls at the same moment share their times
def timestamp(at_ms: int) -> str:
    """Return unix milliseconds as RFC 3339. A time that RFC 3339 can't express becomes the nearest one that it can."""
    at = _EPOCH + timedelta(milliseconds=min(max(at_ms, 0), _LATEST_MS))
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def milliseconds(text: str) -> int:
    """Return the unix milliseconds of a time in a record."""
    return round((datetime.fromisoformat(text) - _EPOCH) / timedelta(milliseconds=1))


def clip_text(text: str) -> str:
    """Return a text for people as it is recorded: clipped, and without characters that can't be encoded."""
    return text[:MAX_RECORDED_TEXT].encode("utf-8", "replace").decode("utf-8")


def encode_statement(statement: Statement) -> bytes:
    """Return the statement's payload. Raises `AttestationError` for a text that can't be encoded (a lone surrogate)."""
    predicate = statement.predicate
    wire = _Wire(
        _STATEMENT_TYPE,
        (_Subject(_subject_name(predicate), _Digests(statement.sha256)),),
        _type_of(statement),
        predicate,
    )
    try:
        return _encode(wire)
    except UnicodeEncodeError:
        raise AttestationError("a lone surrogate in a record") from None


def decode_statement(payload: bytes) -> Statement:
    """Read a statement, and check [statement], [predicate] and [phase]. Raises `AttestationError`."""
    try:
        wire = _decode_wire(payload)
        if wire.type != _STATEMENT_TYPE:
            raise AttestationError("not an in-toto statement of version 1")
        decoder = _DECODERS.get(wire.predicate_type)
        if decoder is None:
            raise AttestationError("a predicate of a type that is not known")
        predicate = decoder.decode(wire.predicate)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise AttestationError("not a statement of this log") from None
    (subject,) = wire.subject
    if subject.name != _subject_name(predicate):
        raise AttestationError("the subject is not what the predicate is about")
    version = WRITTEN
    if isinstance(predicate, CallRecord):
        _check_phase(predicate)
        version = int(wire.predicate_type[-1])
        if not _IS_OF_VERSION[version](predicate):
            raise AttestationError("the record has not the members of its version")
    return Statement(predicate, subject.digest.sha256, version)


def _check_phase(record: CallRecord) -> None:
    is_decision = record.phase == "decision"
    if is_decision != (record.decision is not None) or is_decision != (record.outcome is None):
        raise AttestationError("the record has not the members of its phase")


def _is_version_1(record: CallRecord) -> bool:
    """Return whether the record has no member that a later version added."""
    call, decision, outcome = record.call, record.decision, record.outcome
    added = (
        record.policy,
        call.definition,
        call.trace,
        call.server,
        call.protocol,
        call.client,
        decision and decision.enforced,
    )
    if any(member is not None for member in added) or _says_of_proof(record.authority):
        return False
    return not (decision and decision.verdict == "challenge") and not (outcome and outcome.status == "task")


def _is_version_2(record: CallRecord) -> bool:
    """Return whether the record has the members that version 2 requires, and none that version 3 added."""
    return (
        _has_policy(record)
        and not _says_of_proof(record.authority)
        and record.call.protocol is record.call.client is None
    )


def _is_version_3(record: CallRecord) -> bool:
    """Return whether the record has the members that version 3 requires. A proof not bound to a call is never kept."""
    authority = record.authority
    if not _has_policy(record) or authority is None:
        return _has_policy(record)
    if authority.proof is None or authority.proof_sha256 is None:
        return False
    if authority.bound:
        return None not in (authority.verifier_id, authority.request_sha256)
    of_call = (authority.verifier_id, authority.request_sha256, authority.call_sha256)
    return authority.proof == "digest" and not any(of_call)


def _has_policy(record: CallRecord) -> bool:
    return record.policy is not None and (record.decision is None or record.decision.enforced is not None)


def _says_of_proof(authority: RecordedAuthority | None) -> bool:
    """Return whether an authority has any member that version 3 added."""
    return authority is not None and any(getattr(authority, name) is not None for name in _OF_PROOF)


_IS_OF_VERSION = {1: _is_version_1, 2: _is_version_2, 3: _is_version_3}


def _type_of(statement: Statement) -> str:
    match statement.predicate:
        case CallRecord():
            return CALL_TYPES[statement.version]
        case Checkpoint():
            return _CHECKPOINT_TYPE
        case Pruning():
            return _PRUNING_TYPE


def _subject_name(predicate: Predicate) -> str:
    if isinstance(predicate, CallRecord):
        call = predicate.call
        return call.method if call.target is None else f"{call.method}/{call.target}"
    return f"log/{predicate.writer}"

"""What `accredit log show` runs: prints a call in words, or its statements as JSON; and what its record proves."""

from collections.abc import Iterator, Mapping, Sequence
from typing import cast

import msgspec

from accredit.attest import CallRecord, Envelope, LogKey, RecordKey, Stored, decode_statement, verify_envelope
from accredit.cli.actions.log_names import Names, drill_mark, named, one_call
from accredit.cli.actions.log_place import understood
from accredit.cli.actions.output import BAD, GOOD, QUIET, Words, print_facts, print_json, say
from accredit.cli.actions.wording import escaped
from accredit.errors import AttestationError
from accredit.policy.evidence import Auditor, Evidence, Part, sentence
from accredit.ratify import HybridPublicKey
from accredit.stores import LogStore, open_log
from accredit.stores.audit_log.reading import LogReader

_NEGATIVE = 1
_PARTS = ("allowed", "signed", "recorded")


def show_call(
    store: LogStore,
    call_id: str,
    trusted: Sequence[LogKey | RecordKey],
    people: Mapping[HybridPublicKey, str],
    names: Names,
    *,
    as_json: bool,
) -> int:
    """Show the records of the call whose id begins with `call_id`; return the exit code. `people` are those whose
    delegations count, by their keys. Raises `ConfigurationError`."""
    with understood(), open_log(store) as log:
        whole_id = one_call(log, call_id)
        if whole_id is None:
            return _NEGATIVE
        records = records_of(log, whole_id)
        certificates = _certificates(log, records[0][0]) if records else None
    faults = [_fault(envelope, trusted) for _, envelope in records]
    evidence = None
    if trusted and records and not any(faults):
        evidence = evidence_of(*records[0], certificates, None, Auditor(people))
    if as_json:
        statements = [
            {"statement": msgspec.json.decode(envelope.payload), "signatures_good": _good(fault, trusted)}
            for (_, envelope), fault in zip(records, faults, strict=True)
        ]
        members = evidence_members(records[0][0], evidence) if records else {}
        print_json({"call": whole_id, "statements": statements, **members})
    else:
        for (record, _), fault in zip(records, faults, strict=True):
            print_record(record, _verdict(fault, trusted), names)
        if evidence is not None:
            print_evidence(records[0][0], evidence, names)
    return _NEGATIVE if any(faults) or faults_of(evidence) else 0


def records_of(log: LogReader, call_id: str) -> list[tuple[CallRecord, Envelope]]:
    """Return the records of a call with their envelopes, in order. Raises `AttestationError`."""
    found = [
        (entry.number, record, entry.entry.envelope)
        for entry in log.of_calls(call_id)
        if isinstance(entry.entry, Stored) and (record := entry.record()) and record.call.id == call_id
    ]
    return [(record, envelope) for _, record, envelope in sorted(found, key=lambda each: each[0])]


def evidence_of(
    record: CallRecord, envelope: Envelope, certificates: bytes | None, proof: bytes | None, auditor: Auditor
) -> Evidence | None:
    """Return what the record of an allowed call, whose signature was verified, proves; None for another record."""
    if record.decision is None or record.decision.verdict != "allow":
        return None
    return auditor.judge(decode_statement(envelope.payload), certificates, proof)


def faults_of(evidence: Evidence | None) -> list[str]:
    """Return what contradicts a record, in words."""
    parts = () if evidence is None else zip(_PARTS, (evidence.allowed, evidence.signed), strict=False)
    return [f"{name}: {part.why}" for name, part in parts if part.verified is False]


def evidence_members(record: CallRecord, evidence: Evidence | None) -> dict[str, object]:
    """Return the parts of what a record proves for programs, each None for another record."""
    parts = None if evidence is None else _parts(record, evidence)
    found: dict[str, object] = {name: None if parts is None else parts[name]._asdict() for name in _PARTS}
    return found | {"unanswered": () if evidence is None else evidence.unanswered}


def print_evidence(record: CallRecord, evidence: Evidence, names: Names) -> None:
    """Print what a record proves, for people."""
    say(sentence(record, evidence, names))
    print_facts([(name, _words(part)) for name, part in _parts(record, evidence).items()])
    if evidence.unanswered:
        say(f"not answered by the record: {', '.join(map(escaped, evidence.unanswered))}", QUIET)
    say("whether it was taken back before, and what came of it, is the gateway's word", QUIET)
    say("")


def _parts(record: CallRecord, evidence: Evidence) -> dict[str, Part]:
    recorded = Part(record.gateway, record.times.recorded, True)
    return dict(zip(_PARTS, (evidence.allowed, evidence.signed, recorded), strict=True))


def _words(part: Part) -> Words:
    if part.verified is None:
        return Words(f"can't be told: {part.why}", QUIET)
    return Words("verified", GOOD) if part.verified else Words(f"BAD: {escaped(part.why)}", BAD)


def _certificates(log: LogReader, decision: CallRecord) -> bytes | None:
    """Return the chain that a call was made on, if it can be read."""
    if decision.authority is None:
        return None
    try:
        return log.certificates(decision.authority.chain_sha256)
    except AttestationError:
        return None


def print_record(record: CallRecord, signature: Words, names: Names) -> None:
    """Print a record in words: each member that its predicate has. `names` are shown beside ids."""
    members: dict[str, object] = msgspec.to_builtins(record)
    say(f"{record.phase} {record.log.writer}/{record.log.sequence}{drill_mark(record.call)}")
    print_facts([*_facts("", members, names), ("signature", signature)])
    say("")


def _facts(prefix: str, members: Mapping[str, object], names: Names) -> Iterator[tuple[str, str]]:
    for name, value in members.items():
        if isinstance(value, dict):
            yield from _facts(f"{prefix}{name}.", cast("dict[str, object]", value), names)
        elif isinstance(value, str):
            yield f"{prefix}{name}", named(value, names)
        else:
            yield f"{prefix}{name}", msgspec.json.encode(value).decode()


def _fault(envelope: Envelope, keys: Sequence[LogKey | RecordKey]) -> str | None:
    if not keys:
        return None
    try:
        verify_envelope(envelope, keys)
    except AttestationError as error:
        return str(error)
    return None


def _good(fault: str | None, keys: Sequence[LogKey | RecordKey]) -> bool | None:
    return fault is None if keys else None


def _verdict(fault: str | None, keys: Sequence[LogKey | RecordKey]) -> Words:
    if not keys:
        return Words("not checked: name the gateway's public key with --key", QUIET)
    return Words(f"BAD: {fault}", BAD) if fault else Words("good", GOOD)

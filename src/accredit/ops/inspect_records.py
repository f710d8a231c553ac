"""Describes attestations for `accredit inspect`: a call's bundle, or a single envelope, which counts as a bundle of
one."""

from collections.abc import Mapping, Sequence

import msgspec

from accredit.attest import CallBundle, CallRecord, Envelope, LogKey, RecordKey, Statement, decode_statement
from accredit.attest.statements import Predicate
from accredit.base.clock import unix_ms
from accredit.errors import AttestationError
from accredit.ops.log_record import Names, envelope_fault, print_evidence, print_record, signature_words
from accredit.policy.evidence import NO_EVIDENCE, Auditor, Evidence
from accredit.ratify import HybridPublicKey
from accredit.terminal.output import Words, print_facts, print_result, say

_Keys = Sequence[LogKey | RecordKey]
_People = Mapping[HybridPublicKey, str]


def print_bundle(bundle: CallBundle, keys: _Keys, people: _People, names: Names) -> bool:
    """Print the bundle. Return whether something is bad: a signature, or evidence that contradicts the record."""
    statements: list[dict[str, object]] = []
    for envelope in _envelopes(bundle):
        fault = envelope_fault(envelope, keys)
        good = None if not keys else fault is None
        statements.append({"statement": _raw(envelope), "fault": fault, "signatures_good": good})
        _print(envelope, signature_words(fault, has_keys=bool(keys)), names)
    proved = _verify_first_record(bundle, keys, people)
    members = NO_EVIDENCE if proved is None else proved[1].members(proved[0], names)
    print_result({"type": "attestation", "statements": statements, **members})
    if proved is not None:
        print_evidence(*proved, names)
    return any(each["fault"] for each in statements) or (proved is not None and bool(proved[1].faults))


def _verify_first_record(bundle: CallBundle, keys: _Keys, people: _People) -> tuple[CallRecord, Evidence] | None:
    """Return the first record and its evidence. Return None if the record does not verify, or is not that of an allowed
    call."""
    if not keys or not bundle.envelopes or envelope_fault(bundle.envelopes[0], keys):
        return None
    statement = decode_statement(bundle.envelopes[0].payload)
    evidence = Auditor(people, now=unix_ms() // 1000).judge(statement, bundle.certificates, bundle.proof)
    record = statement.predicate
    return None if evidence is None or not isinstance(record, CallRecord) else (record, evidence)


def _envelopes(bundle: CallBundle) -> list[Envelope]:
    return [*bundle.envelopes, *([] if bundle.checkpoint is None else [bundle.checkpoint])]


def _print(envelope: Envelope, verdict: Words, names: Names) -> None:
    statement = _statement(envelope)
    if statement is None:
        say("what is no statement of a log")
        print_facts([("signature", verdict)])
    elif isinstance(statement.predicate, CallRecord):
        print_record(statement.predicate, verdict, names)
    else:
        say("a checkpoint or a note of pruning")
        print_facts([*_summary(statement.predicate), ("head", statement.sha256), ("signatures", verdict)])


def _summary(predicate: Predicate) -> list[tuple[str, str]]:
    members: dict[str, object] = msgspec.to_builtins(predicate)
    return [(name, str(value)) for name, value in members.items()]


def _statement(envelope: Envelope) -> Statement | None:
    try:
        return decode_statement(envelope.payload)
    except AttestationError:
        return None


def _raw(envelope: Envelope) -> object:
    return msgspec.json.decode(envelope.payload) if _statement(envelope) else None

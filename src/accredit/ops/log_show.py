"""Implements `accredit log show`: prints a call in words or its statements as JSON, and what its record proves."""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from accredit.attest import CallRecord, Envelope, Stored, decode_statement
from accredit.base.clock import unix_ms
from accredit.ops.log_names import known_names, one_call
from accredit.ops.log_place import LogSource, as_configuration_errors, gateway_names_in
from accredit.ops.log_record import envelope_fault, print_evidence, print_record, signature_words
from accredit.policy.evidence import NO_EVIDENCE, Auditor
from accredit.stores.audit_log.reading import LogReader
from accredit.terminal.output import print_result


def run_show(
    *,
    call_id: str,
    source: LogSource,
    key: Sequence[Path],
    known: Sequence[Path],
    root: Sequence[Path],
) -> int:
    """Run `accredit log show`; return the exit code. Raises `ConfigurationError`."""
    names = {**gateway_names_in(key), **known_names(known, source)}
    trusted, people = source.keys(key), source.people(root)
    with as_configuration_errors(), source.place().open_log() as log:
        whole_id = one_call(log, call_id)
        if whole_id is None:
            return 1
        records = records_of(log, whole_id)
        kept = log.kept_of(records[0][0]) if records else (None, None)
        proof = log.shown_of(records[0][0], unix_ms() // 1000) if records else None
    faults = [envelope_fault(envelope, trusted) for _, envelope in records]
    evidence = None
    if trusted and records and not any(faults):
        evidence = Auditor(people, only_these=bool(root)).judge(decode_statement(records[0][1].payload), *kept)
    statements = [
        {"statement": msgspec.json.decode(envelope.payload), "signatures_good": fault is None if trusted else None}
        for (_, envelope), fault in zip(records, faults, strict=True)
    ]
    members = NO_EVIDENCE if evidence is None else evidence.members(records[0][0], names)
    shown = None if proof is None else msgspec.json.decode(proof)
    print_result({"call": whole_id, "statements": statements, "proof": shown, **members})
    for (record, _), fault in zip(records, faults, strict=True):
        print_record(record, signature_words(fault, has_keys=bool(trusted)), names)
    if evidence is not None:
        print_evidence(records[0][0], evidence, names)
    return 1 if any(faults) or (evidence is not None and evidence.faults) else 0


def records_of(log: LogReader, call_id: str) -> list[tuple[CallRecord, Envelope]]:
    """Return the records of a call with their envelopes, in order. Raises `AttestationError`."""
    found = [
        (entry.number, record, entry.entry.envelope)
        for entry in log.of_calls(call_id)
        if isinstance(entry.entry, Stored) and (record := entry.record()) and record.call.id == call_id
    ]
    return [(record, envelope) for _, record, envelope in sorted(found, key=lambda each: each[0])]

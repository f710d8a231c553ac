"""What `accredit log show` runs: prints a call in words, or its statements as JSON."""

from collections.abc import Iterator, Mapping, Sequence
from typing import cast

import msgspec

from accredit.attest import CallRecord, Envelope, LogKey, RecordKey, Stored, verify_envelope
from accredit.cli.actions.log_names import Names, drill_mark, named, one_call
from accredit.cli.actions.log_place import understood
from accredit.cli.actions.output import BAD, GOOD, QUIET, Words, print_facts, print_json, say
from accredit.errors import AttestationError
from accredit.stores import LogStore, open_log
from accredit.stores.audit_log.reading import LogReader

_NEGATIVE = 1


def show_call(
    store: LogStore, call_id: str, trusted: Sequence[LogKey | RecordKey], names: Names, *, as_json: bool
) -> int:
    """Show the records of the call whose id begins with `call_id`; return the exit code. Raises
    `ConfigurationError`."""
    with understood(), open_log(store) as log:
        whole_id = one_call(log, call_id)
        if whole_id is None:
            return _NEGATIVE
        records = records_of(log, whole_id)
    faults = [_fault(envelope, trusted) for _, envelope in records]
    if as_json:
        statements = [
            {"statement": msgspec.json.decode(envelope.payload), "signatures_good": _good(fault, trusted)}
            for (_, envelope), fault in zip(records, faults, strict=True)
        ]
        print_json({"call": whole_id, "statements": statements})
    else:
        for (record, _), fault in zip(records, faults, strict=True):
            print_record(record, _verdict(fault, trusted), names)
    return _NEGATIVE if any(faults) else 0


def records_of(log: LogReader, call_id: str) -> list[tuple[CallRecord, Envelope]]:
    """Return the records of a call with their envelopes, in order. Raises `AttestationError`."""
    found = [
        (entry.number, record, entry.entry.envelope)
        for entry in log.of_calls(call_id)
        if isinstance(entry.entry, Stored) and (record := entry.record()) and record.call.id == call_id
    ]
    return [(record, envelope) for _, record, envelope in sorted(found, key=lambda each: each[0])]


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

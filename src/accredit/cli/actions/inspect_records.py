"""What `accredit inspect` says about attestations: a call's bundle, or one envelope as a bundle of one."""

from collections.abc import Sequence

import msgspec

from accredit.attest import (
    CallBundle,
    CallRecord,
    Envelope,
    LogKey,
    RecordKey,
    Statement,
    decode_statement,
    verify_envelope,
)
from accredit.attest.statements import Predicate
from accredit.cli.actions.log_show import print_record
from accredit.cli.actions.output import BAD, GOOD, QUIET, Words, print_facts, print_json, say
from accredit.errors import AttestationError

_Keys = Sequence[LogKey | RecordKey]


def print_bundle(bundle: CallBundle, keys: _Keys) -> bool:
    """Print it for people. Return whether a signature is bad."""
    faults = [_print(envelope, keys) for envelope in _envelopes(bundle)]
    return any(faults)


def print_bundle_members(bundle: CallBundle, keys: _Keys) -> bool:
    """Print it for programs. Return whether a signature is bad."""
    statements: list[dict[str, object]] = []
    for envelope in _envelopes(bundle):
        fault = _fault(envelope, keys)
        good = None if not keys else fault is None
        statements.append({"statement": _raw(envelope), "fault": fault, "signatures_good": good})
    print_json({"type": "attestation", "statements": statements})
    return any(each["fault"] for each in statements)


def _envelopes(bundle: CallBundle) -> list[Envelope]:
    return [*bundle.envelopes, *([] if bundle.checkpoint is None else [bundle.checkpoint])]


def _print(envelope: Envelope, keys: _Keys) -> bool:
    fault = _fault(envelope, keys)
    if fault:
        verdict = Words(f"BAD: {fault}", BAD)
    elif keys:
        verdict = Words("good", GOOD)
    else:
        verdict = Words("not checked: name the gateway's public key with --key", QUIET)
    statement = _statement(envelope)
    if statement is None:
        say("what is no statement of a log")
        print_facts([("signature", verdict)])
    elif isinstance(statement.predicate, CallRecord):
        print_record(statement.predicate, verdict, {})
    else:
        say("a checkpoint or a note of pruning")
        print_facts([*_summary(statement.predicate), ("head", statement.sha256), ("signatures", verdict)])
    return fault is not None


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


def _fault(envelope: Envelope, keys: _Keys) -> str | None:
    try:
        if keys:
            verify_envelope(envelope, keys)
        else:
            decode_statement(envelope.payload)
    except AttestationError as error:
        return str(error)
    return None

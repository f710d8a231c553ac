"""Prints the record of a call, and what it proves. I/O: stdout."""

from collections.abc import Iterator, Mapping, Sequence
from typing import cast

import msgspec

from accredit.attest import Call, CallRecord, Envelope, LogKey, RecordKey, decode_statement, verify_envelope
from accredit.base.text import escape_text
from accredit.errors import AttestationError
from accredit.limits import SHORT_ID_CHARS
from accredit.policy.drill import is_drill
from accredit.policy.evidence import Evidence, in_words, sentence
from accredit.terminal.output import BAD, GOOD, QUIET, Words, print_facts, say

Names = Mapping[str, str]
"""The names of known keys' holders, by id."""
_STYLES = {True: GOOD, None: QUIET, False: BAD}


def id_with_name(holder_id: str, names: Names, *, short: bool = False) -> str:
    """Return an id with its holder's name, if that is known."""
    shown = holder_id[:SHORT_ID_CHARS] if short else holder_id
    return f"{names[holder_id]} ({shown})" if holder_id in names else shown


def drill_mark(call: Call) -> str:
    """Return a mark for a call made by `accredit drill`; "" for others."""
    return " (a drill)" if is_drill(call.method, call.target) else ""


def envelope_fault(envelope: Envelope, keys: Sequence[LogKey | RecordKey]) -> str | None:
    """Return why an envelope does not verify, or None. Without keys, only its statement is read."""
    try:
        if keys:
            verify_envelope(envelope, keys)
        else:
            decode_statement(envelope.payload)
    except AttestationError as error:
        return str(error)
    return None


def signature_words(fault: str | None, *, has_keys: bool) -> Words:
    """Return what is known of the signatures of an envelope with this fault, for people."""
    if fault:
        return Words(f"BAD: {fault}", BAD)
    return Words("good", GOOD) if has_keys else Words("not checked: name the gateway's public key with --key", QUIET)


def print_record(record: CallRecord, signature: Words, names: Names) -> None:
    """Print each member of a record. Ids that are in `names` are shown with their names."""
    members: dict[str, object] = msgspec.to_builtins(record)
    say(f"{record.phase} {record.log.writer}/{record.log.sequence}{drill_mark(record.call)}")
    print_facts([*_facts("", members, names), ("signature", signature)])
    say("")


def _facts(prefix: str, members: Mapping[str, object], names: Names) -> Iterator[tuple[str, str]]:
    for name, value in members.items():
        if isinstance(value, dict):
            yield from _facts(f"{prefix}{name}.", cast("dict[str, object]", value), names)
        elif isinstance(value, str):
            yield f"{prefix}{name}", id_with_name(value, names)
        else:
            yield f"{prefix}{name}", msgspec.json.encode(value).decode()


def print_evidence(record: CallRecord, evidence: Evidence, names: Names) -> None:
    """Print what a verified record proves, for people."""
    say(sentence(record, evidence, names))
    facts = [(name, in_words(name, part, names), part.verified) for name, part in evidence.parts(record).items()]
    print_facts(
        [(name, Words(text if is_good else escape_text(text), _STYLES[is_good])) for name, text, is_good in facts]
    )
    if evidence.unanswered:
        say(f"not answered by the record: {', '.join(map(escape_text, evidence.unanswered))}", QUIET)
    say("whether it was taken back before, and what came of it, is the gateway's word", QUIET)
    say("")

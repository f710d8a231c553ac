"""Implements `accredit log list`. With -f it polls the log until interrupted."""

import contextlib
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import click
from msgspec import Struct
from msgspec.structs import replace

from accredit.attest import CallBundle, CallRecord, LogKey, RecordKey, Stored, timestamp
from accredit.base.clock import unix_ms
from accredit.base.standard import is_for_programs
from accredit.base.text import one_line
from accredit.errors import ConfigurationError
from accredit.limits import FOLLOW_SECONDS, SHORT_ID_CHARS
from accredit.ops.log_names import known_names, one_party
from accredit.ops.log_place import LogSource, as_configuration_errors, gateway_names_in, moment
from accredit.ops.log_record import Names, drill_mark, id_with_name
from accredit.ops.log_verify import ONE_CALL
from accredit.policy.evidence import NO_EVIDENCE, Auditor, Evidence, who_allowed
from accredit.signing.documents import read_document
from accredit.stores import LogStore
from accredit.stores.audit_log.calls import (
    STATUSES,
    CallRow,
    FiledRecord,
    join_as_they_end,
    join_newest_first,
    read_call_records,
)
from accredit.stores.audit_log.proven import Prover
from accredit.stores.audit_log.reading import LogAway, LogReader, NumberedEntry
from accredit.terminal.output import BAD, Words, print_table, say, tell
from accredit.terminal.progress import Progress

_HEADINGS = ("received", "call", "target", "decision", "outcome", "agent")
_SERVER = 2
"""The position of the column that the server's is inserted before."""
_TO_THE_SECOND = len("2026-08-01T12:00:00")
_NO_CALL = (
    "note: no call is on record yet. If you have made one, it went past this gateway, or [attest] mode is off:"
    " `accredit doctor` looks"
)
_Kept = Callable[[CallRecord], tuple[bytes | None, bytes | None]]
"""A function that returns the chain and the proof that are stored for a call; None for what is not stored."""


class Filter(Struct, frozen=True):
    """Which calls to list; a None member matches any call. Times are in unix milliseconds: `after` inclusive, `before`
    exclusive."""

    target: str | None = None
    server: str | None = None
    principal_id: str | None = None
    agent_id: str | None = None
    verdict: str | None = None
    outcome: str | None = None
    after: int | None = None
    before: int | None = None

    def passes(self, row: CallRow) -> bool:
        """Return whether to list a call."""
        authority = row.decision.authority
        received = row.decision.times.received
        return (
            self.target in (None, row.decision.call.target)
            and self.server in (None, row.decision.call.server)
            and self.principal_id in (None, authority.principal_id if authority else "")
            and self.agent_id in (None, authority.agent_id if authority else "")
            and self.verdict in (None, row.verdict)
            and self.outcome in (None, row.status)
            and (self.after is None or received >= timestamp(self.after))
            and (self.before is None or received < timestamp(self.before))
        )


class Listing(Struct, frozen=True, kw_only=True):
    """How to show calls: at most `limit` existing ones and, with `follow`, all new ones after these. `names` maps key
    ids to names. If there are `keys`, calls are verified with them."""

    limit: int
    follow: bool
    names: Names
    auditor: Auditor
    keys: Sequence[LogKey | RecordKey] = ()

    def judged(self, row: CallRow, kept: _Kept) -> "Judged":
        """Verify a call by its records and its `kept` chain and proof."""
        if not self.keys:
            return Judged(row)
        prover = Prover(self.keys)
        fault = next((fault for fault in map(prover.fault, row.entries) if fault is not None), None)
        statement = row.entries[0].statement() if fault is None else None
        evidence = self.auditor.judge(statement, *kept(row.decision)) if statement is not None else None
        return Judged(row, next(iter(evidence.faults), None) if evidence is not None else fault, evidence)

    def members(self, call: "Judged") -> dict[str, object]:
        """Return a call's JSON members; `verified` is None without keys."""
        evidence = call.evidence
        proved = NO_EVIDENCE if evidence is None else evidence.members(call.row.decision, self.names)
        verified = call.fault is None if self.keys else None
        return {**call.row.members(self.names), "verified": verified, **proved}


class Judged(NamedTuple):
    """A call, why it does not verify (`fault`), and what it proves (`evidence`). Without keys, both are None."""

    row: CallRow
    fault: str | None = None
    evidence: Evidence | None = None


def read_filter(*, after: str | None, before: str | None, **exact: str | None) -> Filter:
    """Read the options that say which calls to list. Raises `ConfigurationError`."""
    return Filter(
        **exact,
        after=None if after is None else moment("--after", after),
        before=None if before is None else moment("--before", before),
    )


def run_list(
    *,
    file: Path | None,
    source: LogSource,
    wanted: Filter,
    limit: int,
    follow: bool,
    key: Sequence[Path],
    known: Sequence[Path],
    root: Sequence[Path],
) -> int:
    """Run `accredit log list`; return the exit code. Raises `ConfigurationError`."""
    if file is not None and source.config is None:
        source = LogSource(str(file))  # a file's log is nobody's here
    auditor = Auditor(source.people(root), only_these=bool(root), now=unix_ms() // 1000)
    names = {**gateway_names_in(key), **known_names(known, source)}
    listing = Listing(limit=limit, follow=follow, names=names, auditor=auditor, keys=source.keys(key))
    return show_calls(source.place(), wanted, listing) if file is None else show_bundle(file, wanted, listing)


def show_calls(store: LogStore, wanted: Filter, listing: Listing) -> int:
    """List calls; return the exit code. Raises `ConfigurationError`."""
    if wanted.outcome not in (None, *STATUSES):
        raise ConfigurationError(f"--outcome {wanted.outcome}: not a status", f"name one of {', '.join(STATUSES)}")
    with as_configuration_errors(), store.open_log() as log:
        with Progress("looking through the log", unit="entries") as progress:
            chosen = _with_whole_ids(wanted, log, listing)
            if chosen is None:
                return 1
            found = join_newest_first(read_call_records(progress.over(log.newest_first())))
            most = min(listing.limit, sys.maxsize)  # no program counts further
            rows = [listing.judged(row, log.kept_of) for row in islice(filter(chosen.passes, found), most)]
        if not listing.follow:
            log.release()  # whoever takes what is printed may take long
            _print(rows, listing)
            if not rows and not is_for_programs():
                tell(_NO_CALL if wanted == Filter() else "note: no call on record passes these filters")
            return 0
        open_calls = {each.record.call.id: each for each in read_call_records(log.open_calls())}
        _print([call for call in reversed(rows) if call.row.status != "open"], listing)
        with contextlib.suppress(KeyboardInterrupt):
            for row in filter(chosen.passes, _following(log, open_calls)):
                call = listing.judged(row, log.kept_of)
                if is_for_programs():
                    click.echo(json.dumps(listing.members(call)))
                else:
                    say(_line(call, listing))
    return 0


def show_bundle(path: Path, wanted: Filter, listing: Listing) -> int:
    """List the call of a bundle; return the exit code. Raises `ConfigurationError`."""
    bundle = read_document(path)
    if listing.follow:
        raise ConfigurationError(f"{path} is a file, in which no more calls will come", "leave -f out")
    if not isinstance(bundle, CallBundle):
        raise ConfigurationError(f"{path} is no bundle of one call", ONE_CALL)
    kept = bundle.certificates, bundle.proof
    told = read_call_records(NumberedEntry(0, Stored(envelope)) for envelope in reversed(bundle.envelopes))
    with as_configuration_errors():
        rows = [listing.judged(row, lambda _: kept) for row in join_newest_first(told)]
    _print([call for call in rows if wanted.passes(call.row)], listing)
    return 0


def _with_whole_ids(wanted: Filter, log: LogReader, listing: Listing) -> Filter | None:
    """Return the filter with whole ids in place of prefixes. If a prefix does not match exactly one id, print the
    reason on stderr and return None."""
    names, keys = listing.names, listing.keys
    principal_id = (
        None if wanted.principal_id is None else one_party(log, wanted.principal_id, names, keys, "principal")
    )
    agent_id = None if wanted.agent_id is None else one_party(log, wanted.agent_id, names, keys, "agent")
    if (principal_id is None) != (wanted.principal_id is None) or (agent_id is None) != (wanted.agent_id is None):
        return None
    return replace(wanted, principal_id=principal_id, agent_id=agent_id)


def _following(log: LogReader, open_calls: dict[str, FiledRecord]) -> Iterator[CallRow]:
    """Yield calls that come after the log's current state. If the log is replaced by another one, print a note and read
    the new one from its beginning.

    Raises `StoreUnavailable`.
    """
    position, waits = log.position(), False
    while True:
        log.release()  # no older state of it is kept alive meanwhile
        time.sleep(FOLLOW_SECONDS)
        try:
            log.renew()
            new = log.after(position)
            if new is None:
                tell(f"note: {log.name} is another log now, and shown from its beginning")
                open_calls, new = {}, log.entries()
            still_open = dict(open_calls)
            rows = list(join_as_they_end(read_call_records(new), still_open))
            position, open_calls = log.position(), still_open
        except LogAway as error:
            if not waits:
                tell(f"note: {error}; waiting for the log")
            waits = True
            continue
        waits = False
        yield from rows


def _print(calls: Sequence[Judged], listing: Listing) -> None:
    if is_for_programs():
        for call in calls:
            click.echo(json.dumps(listing.members(call)))
    else:
        several = any(call.row.decision.call.server for call in calls)
        headings = (*_HEADINGS[:_SERVER], "server", *_HEADINGS[_SERVER:]) if several else _HEADINGS
        allowed = ("allowed by",) if listing.keys else ()
        print_table((*headings, *allowed), (_cells(call, listing, several=several) for call in calls))
        if not listing.keys and calls:
            tell("note: nothing of this is verified: name the gateway's public key with --key")


def _cells(listed: Judged, listing: Listing, *, several: bool) -> tuple[Words | str, ...]:
    # A terminal is too narrow for whole ids, and every command accepts prefixes.
    short = sys.stdout.isatty()
    row, fault, evidence = listed
    call, authority = row.decision.call, row.decision.authority
    decision = row.decision.decision
    verdict = " ".join(filter(None, [row.verdict, decision.error if decision else ""]))
    # If the call was refused after all (`gateway.recording.recorder`), it ended in an error: then this is not said.
    passed = decision is not None and decision.enforced is False and row.verdict == "deny" and row.status != "error"
    if passed:
        verdict = f"passed (would be: {verdict})"
    if fault is not None:
        verdict = f"BAD: {fault}; it says {verdict}"
    return (
        f"{row.decision.times.received[:_TO_THE_SECOND]}Z" if short else row.decision.times.received,
        call.id[:SHORT_ID_CHARS] if short else call.id,
        *([call.server or ""] if several else []),
        f"{call.target or call.method}{drill_mark(call)}",
        Words(verdict, BAD if (row.verdict == "deny" and not passed) or fault is not None else ""),
        row.status,
        id_with_name(authority.agent_id, listing.names, short=short) if authority else "",
        *([who_allowed(evidence.allowed) if evidence is not None else ""] if listing.keys else []),
    )


def _line(call: Judged, listing: Listing) -> str:
    return "  ".join(
        one_line(cell.text if isinstance(cell, Words) else cell)
        for cell in _cells(call, listing, several=bool(call.row.decision.call.server))
    )

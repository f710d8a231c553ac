"""The log of calls for the page: a paged list, and one call's story (what its records say). Blocking I/O: reads the
store, in a few threads.

- [verification] Each shown call is verified with the keys that the desk was given, and is marked if a record of it does
  not verify. In a story, each record that does not verify is marked. The story is told from those that verify, if there
  are any.
- [evidence] Who allowed a call, and who signed it, is shown only from a record that verifies, by the evidence kept with
  it (`policy.evidence`). A person is named only if theirs is one of the keys that the desk was given. That goes for the
  list, too.
- [no-key] Without a key nothing is verified, and the page says so. Calls are counted without verification, and the page
  says so beside their rate.
"""

import asyncio
import re
from base64 import b64encode
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from itertools import islice
from typing import Any, NamedTuple, TypeVar

from accredit.attest import (
    CallBundle,
    CallRecord,
    Envelope,
    LogKey,
    RecordKey,
    Stored,
    decode_statement,
    encode_call_bundle,
    encode_envelope,
    sha256_hex,
    timestamp,
)
from accredit.base.caching import RecentlyUsed
from accredit.base.clock import unix_ms
from accredit.base.text import date_time
from accredit.consent.shown import in_quotes
from accredit.console.api import Said, Work
from accredit.console.call_filter import CallFilter, read_filter, values_of
from accredit.console.views import fold_ids
from accredit.errors import AttestationError, DeskError, StoreUnavailable, WireError
from accredit.limits import SHORT_ID_CHARS
from accredit.pins.shown import visible_text
from accredit.policy.constraint_words import constraint
from accredit.policy.evidence import Auditor, Evidence, in_words, sentence, who_allowed
from accredit.ratify import DelegationCert, HybridPublicKey
from accredit.ratify.structures import decode_chain
from accredit.stores import LogStore
from accredit.stores.audit_log.proven import Prover
from accredit.stores.audit_log.reading import Bookmark, LogReader, NumberedEntry

CALLS_A_PAGE = 50
"""How many calls the desk's page shows at once. More are loaded at the end of the list."""
CALLS_LOOKED_AT = 20_000
"""How many entries of the log are scanned for one page of calls (some 0.3 s). If a filter matches few of them, the page
is short, and the next one continues from there."""
OUTCOMES_LOOKED_AT = 512
"""How many entries beyond a page are scanned for the outcomes of its calls. If a call's outcome is further away, the
page says only that the call has ended."""
MAX_BOOKMARKS = 10_000
"""For how many listed calls the position in the log is remembered: 4 MiB, and 200 pages of the list. Other calls are
found by the log's index of calls."""
MAX_LOG_LOOKS = 2
"""How many pages of the log are read at one time. Each takes a thread and a connection to the store."""


_Found = TypeVar("_Found")
_ID_CHARS = 8
_MINUTE_MS, _HOUR_MS = 60_000, 3_600_000
GOOD, UNCHECKED = "good", "not checked"
_CALL_ID = re.compile(r"[0-9a-f]{32}")


class LogPages:
    """Reads the log in a store. `names` returns the known names by id. `keys` verify the log's records. `people` are
    the keys of those who may have allowed calls, with their names. `words` are options by which `accredit log` finds
    this log."""

    def __init__(
        self,
        store: LogStore,
        names: Callable[[], Mapping[str, str]],
        keys: Sequence[LogKey | RecordKey] = (),
        people: Mapping[HybridPublicKey, str] | None = None,
        words: str = "",
    ) -> None:
        self.store = store
        self.words = visible_text(words)
        self.names = names
        self.keys = keys
        self.prover = Prover(keys)
        self._auditor = Auditor(people or {})
        self._looks = asyncio.Semaphore(MAX_LOG_LOOKS)
        self._bookmarks = RecentlyUsed[str, Bookmark](MAX_BOOKMARKS)
        """Log positions of listed calls, so that opening one needs no scan."""

    async def calls(self, said: Said) -> Said:
        """Return a page of the calls that match the filter `q`, newest first, and where the next page begins (None:
        this is the last one); `before` is where it begins. Raises `DeskError`, as the other three do."""
        before = said.get("before")
        if before is not None and type(before) is not int:
            raise DeskError("query", "a page begins with a number")
        wanted = read_filter(str(said.get("q", "")), unix_ms())
        return await self.look(lambda log: self._page(log, wanted, before))

    async def rate(self, said: Said) -> Said:
        """Return the number of calls that match the filter `q` in each minute of the last hour."""
        now = unix_ms()
        wanted = read_filter(str(said.get("q", "")), now)
        return await self.look(lambda log: _rate(log, wanted, self.names(), now))

    async def story(self, _said: Said, call_id: str) -> Said:
        """Return everything in the log about a call."""
        return await self.look(lambda log: self._story(log, call_id))

    async def bundle(self, _said: Said, call_id: str) -> Said:
        """Return a call's bundle, which proves to others what happened."""
        return await self.look(lambda log: _bundle(log, call_id, self._bookmarks.get(call_id)))

    async def look(self, read: Callable[[LogReader], _Found]) -> _Found:
        """Open the log and run `read` on it, in a thread. Raises `DeskError`."""

        def work() -> _Found:
            with self.store.open_log() as log:
                return read(log)

        async with self._looks:
            try:
                return await asyncio.to_thread(work)
            except StoreUnavailable as error:
                raise DeskError("unavailable", f"the log can't be read now: {error}") from None
            except AttestationError as error:
                said = in_quotes(str(error))  # it may quote what somebody has written there
                raise DeskError("damaged", f"the log is damaged: “{said}”") from None

    def _page(self, log: LogReader, wanted: CallFilter, before: int | None) -> dict[str, Any]:
        """Return a page, and remember the positions of its calls. `since` in it is the time of the last call that was
        scanned."""
        names, still_open = self.names(), _open_calls(log)
        found: list[dict[str, Any]] = []
        outcomes: dict[str, tuple[str, NumberedEntry]] = {}
        looked, since, following = 0, "", None
        for each in log.newest_first(None if before is None else before + OUTCOMES_LOOKED_AT):
            record = record_of(each)
            if record is not None and record.outcome is not None:
                outcomes[record.call.id] = (record.outcome.status, each)
            if before is not None and each.number >= before:
                continue
            looked += 1
            if record is not None and record.decision is not None:
                outcome, ended = outcomes.pop(record.call.id, ("open", None))
                since, status = record.times.received, _status(record, outcome, still_open)
                if wanted.passes(since, values_of(record, status, names)):
                    verdict = self._verdict(log, each, record, ended)
                    found.append({**_call_row(record, status, names), **verdict})
                    self._bookmarks.put(record.call.id, Bookmark(each.number, record.log.writer, record.log.sequence))
                if since < wanted.after:
                    break
            if len(found) == CALLS_A_PAGE or looked == CALLS_LOOKED_AT:
                following = each.number
                break
        return {"calls": found, "next": following, "since": since, "checked": self.prover.has_keys}

    def _verdict(
        self, log: LogReader, decision: NumberedEntry, record: CallRecord, outcome: NumberedEntry | None
    ) -> dict[str, Any]:
        """Return whether a call's records verify and, if they do, who allowed it. `params` is the digest of its params:
        it joins a refused call with the same call that was made again."""
        signature = signature_of([decision] if outcome is None else [decision, outcome], self.prover)
        statement, evidence = decision.statement(), None
        if statement is not None and signature == GOOD:
            evidence = self._auditor.judge(statement, *log.kept_of(record))
        is_shown = evidence is not None and (evidence.allowed.who or evidence.allowed.verified is False)
        return {
            "params": statement.sha256 if statement is not None else "",
            "signature": signature,
            "by": visible_text(who_allowed(evidence.allowed)) if evidence is not None and is_shown else "",
            "by_is_bad": evidence is not None and evidence.allowed.verified is False,
        }

    def _story(self, log: LogReader, call_id: str) -> dict[str, Any]:
        names = self.names()
        found, still_open = _records(log, call_id, self._bookmarks.get(call_id))
        told = [_record_row(each, self.prover) for each in found]
        good = [each for each, one in zip(found, told, strict=True) if one["signature"] == GOOD]
        records = good or found
        decision = next((each for each in records if each.record.phase == "decision"), records[0])
        ended = next((each.record.outcome.status for each in records if each.record.outcome is not None), "open")
        chain, proof = log.kept_of(decision.record)
        evidence = self._auditor.judge(decode_statement(decision.envelope.payload), chain, proof) if good else None
        of_call = decision.record.decision
        return {
            **_call_row(decision.record, _status(decision.record, ended, still_open), names),
            "reason": visible_text((of_call.reason if of_call else None) or ""),
            "method": decision.record.call.method,
            "chain": [_link(cert, names) for cert in _certificates(chain)],
            "records": told,
            "proved": None if evidence is None else _describe_evidence(decision.record, evidence, names),
            "good": bool(good),
            "keys": {each.id: b64encode(each.ed25519).decode() for each in self.keys if isinstance(each, LogKey)},
            "checked": self.prover.has_keys,
            "words": self.words,
        }


class CallsPart:
    """The section of calls: the list of a log, and a call's story, which may be in any log. `pages` is the log that is
    shown first. `others` are those of further gateways, by the gateways' ids; one in the same store is left out."""

    def __init__(self, pages: LogPages, others: Mapping[str, LogPages] = {}) -> None:
        own = next((id for id, each in others.items() if each is pages), "")
        self._logs = {own: pages}
        for id, each in others.items():
            if each.store.name not in {one.store.name for one in self._logs.values()}:
                self._logs[id] = each

    def routes(self) -> Mapping[str, Work]:
        """Return the routes."""
        return {
            "GET /api/calls": self._calls,
            "GET /api/calls/rate": self._rate,
            "GET /api/calls/{call_id}": partial(self._find, LogPages.story),
            "GET /api/calls/{call_id}/bundle": partial(self._find, LogPages.bundle),
        }

    async def _calls(self, said: Said) -> Said:
        return {**await self._log(said).calls(said), "logs": self._choices()}

    async def _rate(self, said: Said) -> Said:
        return await self._log(said).rate(said)

    def _log(self, said: Said) -> LogPages:
        """Return the log that a page asks for, by default the first. Raises `DeskError`."""
        wanted = said.get("log")
        if wanted is not None and wanted not in self._logs:
            raise DeskError("unknown", "no gateway of this desk has such a log")
        return next(iter(self._logs.values())) if wanted is None else self._logs[str(wanted)]

    def _choices(self) -> list[list[str]]:
        """Return id and name of each gateway, if there are several logs to choose from."""
        if len(self._logs) == 1:
            return []
        names = next(iter(self._logs.values())).names()
        return [[id, _name(id, names) if id else "the store in desk.toml"] for id in self._logs]

    async def _find(self, read: Callable[[LogPages, Said, str], Awaitable[Said]], said: Said, call_id: str) -> Said:
        """Return what the first log that knows a call says of it. Raises `DeskError`."""
        logs = [*self._logs.values()]
        for each in logs[:-1]:
            try:
                return await read(each, said, call_id)
            except DeskError as error:
                if error.error != "unknown":
                    raise
        return await read(logs[-1], said, call_id)


def signature_of(entries: Iterable[NumberedEntry], prover: Prover) -> str:
    """Return whether entries verify: `GOOD`, "BAD: ..." or `UNCHECKED`."""
    if not prover.has_keys:
        return UNCHECKED
    fault = next((each for each in map(prover.fault, entries) if each is not None), None)
    return GOOD if fault is None else visible_text(f"BAD: {fault}")


def _rate(log: LogReader, wanted: CallFilter, names: Mapping[str, str], now: int) -> dict[str, Any]:
    """Count calls, newest first. `whole` is False if the last hour has more entries than are
    scanned."""
    begin = now - _HOUR_MS
    minutes = [0] * (_HOUR_MS // _MINUTE_MS)
    statuses: dict[str, str] = {}
    still_open, earliest = _open_calls(log), timestamp(begin)
    looked = 0
    for looked, each in enumerate(islice(log.newest_first(), CALLS_LOOKED_AT), 1):
        record = record_of(each)
        if record is not None and record.outcome is not None:
            statuses[record.call.id] = record.outcome.status
        if record is None or record.decision is None:
            continue
        since = record.times.received
        if since < earliest:
            looked = 0
            break
        status = _status(record, statuses.pop(record.call.id, "open"), still_open)
        place = (_ms_of(since) - begin) // _MINUTE_MS
        if 0 <= place < len(minutes) and wanted.passes(since, values_of(record, status, names)):
            minutes[place] += 1
    return {"minutes": minutes, "until": timestamp(now), "whole": looked < CALLS_LOOKED_AT}


def _ms_of(text: str) -> int:
    """Return a record's time in unix milliseconds; 0 if it is not a time."""
    with suppress(ValueError):
        return int(datetime.fromisoformat(text).timestamp() * 1_000)
    return 0


def record_of(entry: NumberedEntry) -> CallRecord | None:
    """Return an entry's record, unverified. Return None for any other entry, and for a record that can't be read, so
    that it hides no others."""
    with suppress(AttestationError):
        return entry.record()
    return None


def _status(decision: CallRecord, outcome: str, still_open: frozenset[str]) -> str:
    """Return how a call ended. It is `open` only if the store says so, and `ended` if its outcome was not among the
    scanned entries."""
    if decision.decision is None or not decision.decision.goes_on:
        return outcome if outcome != "open" else ""
    return "ended" if outcome == "open" and decision.call.id not in still_open else outcome


def _open_calls(log: LogReader) -> frozenset[str]:
    return frozenset(record.call.id for record in map(record_of, log.open_calls()) if record is not None)


def _call_row(record: CallRecord, status: str, names: Mapping[str, str]) -> dict[str, Any]:
    call, decision, authority = record.call, record.decision, record.authority
    return {
        "call": call.id,
        "received": record.times.received,
        "target": visible_text(call.target or call.method),
        "server": visible_text(call.server or ""),
        "agent": _name(authority.agent_id, names) if authority else "",
        "agent_key": visible_text(authority.agent_id) if authority else "",
        "session": sha256_hex(call.session.encode())[:_ID_CHARS] if call.session else "",
        "principal": _name(authority.principal_id, names) if authority else "",
        "decision": decision.verdict if decision else "",
        "enforced": decision.enforced is not False if decision else True,
        "error": visible_text((decision.error if decision else None) or ""),
        "outcome": status,
    }


def _describe_evidence(decision: CallRecord, evidence: Evidence, names: Mapping[str, str]) -> dict[str, Any]:
    """Return what a record proves: a sentence, its parts, and which questions it leaves open."""
    parts = evidence.parts(decision).items()
    return {
        "sentence": visible_text(sentence(decision, evidence, names)),
        "parts": [
            [name, fold_ids(visible_text(in_words(name, part, names)), {}), part.verified] for name, part in parts
        ],
        "unanswered": visible_text(", ".join(evidence.unanswered)),
    }


def _bundle(log: LogReader, call_id: str, since: Bookmark | None) -> dict[str, Any]:
    """Return the call's bundle, as `accredit log export --call ID --bundle` writes it."""
    found, _ = _records(log, call_id, since)
    decision = found[0].record
    chain = log.certificates(decision.authority.chain_sha256) if decision.authority else None
    covering = log.covering(decision.log.writer, decision.log.sequence)
    checkpoint = covering.entry.envelope if covering and isinstance(covering.entry, Stored) else None
    proof = log.shown_of(decision, unix_ms() // 1000)
    bundle = CallBundle(tuple(each.envelope for each in found), chain, checkpoint, proof)
    return {"bundle": encode_call_bundle(bundle).decode()}


class _Record(NamedTuple):
    """A record of a call, with its entry and its envelope there."""

    entry: NumberedEntry
    record: CallRecord
    envelope: Envelope


def _records(log: LogReader, call_id: str, since: Bookmark | None) -> tuple[list[_Record], frozenset[str]]:
    """Return the records of a call, in order, and the ids of open calls. Raises `DeskError` if there are no records."""
    if not _CALL_ID.fullmatch(call_id):  # part of an id would match other calls' entries
        raise DeskError("unknown", "a call's id has 32 characters")
    still_open = _open_calls(log)
    found: list[_Record] = []
    for begin in (None,) if since is None else (since, None):
        entries = log.of_calls(call_id) if begin is None else log.holding(call_id, begin)
        found = _of_call(entries, call_id, is_open=call_id in still_open)
        if _is_whole(found, is_open=call_id in still_open):
            break
    if not found:
        raise DeskError("unknown", "the log holds no record of this call; older ones may be pruned")
    return sorted(found, key=lambda each: each.entry.number), still_open


def _of_call(entries: Iterable[NumberedEntry], call_id: str, *, is_open: bool) -> list[_Record]:
    """Collect a call's records; stop reading once they are complete."""
    found: list[_Record] = []
    for each in entries:
        record = each.record()
        if isinstance(each.entry, Stored) and record is not None and record.call.id == call_id:
            found.append(_Record(each, record, each.entry.envelope))
            if _is_whole(found, is_open=is_open):
                break
    return found


def _is_whole(found: Iterable[_Record], *, is_open: bool) -> bool:
    """Return whether these records cover a call from its decision to its end or, if it is open, to now."""
    records = [each.record for each in found]
    allowed = [each.decision.verdict == "allow" for each in records if each.decision is not None]
    return bool(allowed) and (is_open or not allowed[0] or any(each.outcome is not None for each in records))


def _certificates(chain: bytes | None) -> list[DelegationCert]:
    """Decode the certificates of a chain, root first; none if it can't be read."""
    with suppress(WireError):
        return list(reversed(decode_chain(chain or b"")))
    return []


def _link(cert: DelegationCert, names: Mapping[str, str]) -> dict[str, str]:
    return {
        "who": _name(cert.issuer_id, names),
        "lets": _name(cert.subject_id, names),
        "scopes": ", ".join(map(visible_text, cert.scope)),
        "constraints": fold_ids(visible_text("; ".join(map(constraint, cert.constraints))), names),
        "until": date_time(cert.expires_at),
        "certificate": visible_text(cert.cert_id),
    }


def _record_row(found: _Record, prover: Prover) -> dict[str, Any]:
    record = found.record
    if record.decision is not None:
        said = (record.decision.verdict, record.decision.error)
    else:
        said = (record.outcome.status, record.outcome.detail) if record.outcome else ()
    return {
        "at": record.times.recorded,
        "place": visible_text(f"{record.log.writer[:SHORT_ID_CHARS]} / {record.log.sequence}"),
        "says": visible_text(" ".join(each for each in said if each)),
        "signature": signature_of([found.entry], prover),
        "envelope": encode_envelope(found.envelope).decode(),
    }


def _name(holder_id: str, names: Mapping[str, str]) -> str:
    text = visible_text(holder_id)
    return visible_text(names[holder_id]) if holder_id in names else f"{text[:_ID_CHARS]}…"

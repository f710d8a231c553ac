"""The log of calls for the page: a list that goes on where it ended, and one call's story. Blocking I/O: reads the
store, in threads of which there are few.

Nothing is verified to list calls: the list says what the log says. A story says of each record whether its signature
is good, by the keys that the desk was given; without a key it says so.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import msgspec

from accredit.attest import CallRecord, Envelope, LogKey, RecordKey, Stored, verify_envelope
from accredit.base.clock import unix_ms
from accredit.console.call_filter import CallFilter, read_filter
from accredit.console.views import timestamp
from accredit.errors import AttestationError, DeskError, StoreUnavailable, WireError
from accredit.limits import CALLS_A_PAGE, CALLS_LOOKED_AT, MAX_LOG_LOOKS, OUTCOMES_LOOKED_AT, SHORT_ID_CHARS
from accredit.pins.shown import shown
from accredit.policy.constraint_words import constraint
from accredit.ratify import DelegationCert
from accredit.stores import LogStore, open_log
from accredit.stores.audit_log.calls import CallRow
from accredit.stores.audit_log.reading import LogReader

_Found = TypeVar("_Found")
_MAX_CHAIN_BYTES = 131_072
_ID_CHARS = 8


class LogPages:
    """The log at a store. `names` gives the known names by id; `keys` verify its records."""

    def __init__(
        self, store: LogStore, names: Callable[[], Mapping[str, str]], keys: Sequence[LogKey | RecordKey] = ()
    ) -> None:
        self._store = store
        self._names = names
        self._keys = keys
        self._looks = asyncio.Semaphore(MAX_LOG_LOOKS)

    async def calls(self, text: str, before: int | None) -> dict[str, Any]:
        """Return a page of the calls that pass a filter, the newest first, and where the next page begins (None: there
        is none). Raises `DeskError`."""
        wanted, names = read_filter(text, unix_ms()), self._names()
        return await self._look(lambda log: _page(log, wanted, names, before))

    async def story(self, call_id: str) -> dict[str, Any]:
        """Return all that the log says of a call. Raises `DeskError`."""
        names = self._names()
        return await self._look(lambda log: _story(log, call_id, names, self._keys))

    async def _look(self, read: Callable[[LogReader], _Found]) -> _Found:
        def work() -> _Found:
            with open_log(self._store) as log:
                return read(log)

        async with self._looks:
            try:
                return await asyncio.to_thread(work)
            except StoreUnavailable as error:
                raise DeskError("unavailable", f"the log can't be read now: {error}") from None
            except AttestationError as error:
                raise DeskError("damaged", f"the log is damaged: {error}") from None


def _page(log: LogReader, wanted: CallFilter, names: Mapping[str, str], before: int | None) -> dict[str, Any]:
    found: list[dict[str, Any]] = []
    outcomes: dict[str, CallRecord] = {}
    still_open = {record.call.id for each in log.open_calls() if (record := each.record()) is not None}
    looked, last = 0, None
    for each in log.newest_first(None if before is None else before + OUTCOMES_LOOKED_AT):
        record = each.record()
        if record is not None and record.phase == "outcome":
            outcomes[record.call.id] = record
        if before is not None and each.number >= before:
            continue
        looked, last = looked + 1, each.number
        if record is not None and record.phase == "decision":
            row = CallRow(record, outcomes.pop(record.call.id, None))
            if wanted.passes(row, names):
                found.append(_listed(row, names, is_open=record.call.id in still_open))
        is_before_all = record is not None and record.times.received < wanted.after
        if len(found) == CALLS_A_PAGE or looked == CALLS_LOOKED_AT:
            return {"calls": found, "next": last}
        if is_before_all:
            break
    return {"calls": found, "next": None}


def _listed(row: CallRow, names: Mapping[str, str], *, is_open: bool) -> dict[str, Any]:
    call, decision, authority = row.decision.call, row.decision.decision, row.decision.authority
    status = "ended" if row.status == "open" and not is_open else row.status
    return {
        "call": call.id,
        "received": row.decision.times.received,
        "target": shown(call.target or call.method),
        "server": shown(call.server or ""),
        "agent": _name(authority.agent_id, names) if authority else "",
        "principal": _name(authority.principal_id, names) if authority else "",
        "decision": row.verdict,
        "enforced": decision.enforced is not False if decision else True,
        "error": shown((decision.error if decision else None) or ""),
        "outcome": status,
    }


def _story(
    log: LogReader, call_id: str, names: Mapping[str, str], keys: Sequence[LogKey | RecordKey]
) -> dict[str, Any]:
    found = sorted(_records(log, call_id), key=lambda each: each[0])
    if not found:
        raise DeskError("unknown", "the log holds no record of this call; older ones may be pruned")
    records = [record for _, record, _ in found]
    decision = next((each for each in records if each.phase == "decision"), records[0])
    outcome = next((each for each in records if each.phase == "outcome"), None)
    still_open = {record.call.id for each in log.open_calls() if (record := each.record()) is not None}
    row = CallRow(decision, outcome)
    chain = log.certificates(decision.authority.chain_sha256) if decision.authority else None
    return {
        **_listed(row, names, is_open=call_id in still_open),
        "reason": shown((decision.decision.reason if decision.decision else None) or ""),
        "method": decision.call.method,
        "chain": [_link(cert, names) for cert in _certificates(chain)],
        "records": [_record(record, envelope, keys) for _, record, envelope in found],
        "checked": bool(keys),
    }


def _records(log: LogReader, call_id: str) -> Iterator[tuple[int, CallRecord, Envelope]]:
    for each in log.holding(call_id):
        record = each.record()
        if record is not None and isinstance(each.entry, Stored) and record.call.id == call_id:
            yield each.number, record, each.entry.envelope


def _certificates(chain: bytes | None) -> list[DelegationCert]:
    """Return the certificates of a chain, whoever's word comes first: the root's. Of one that can't be read none."""
    if chain is None or len(chain) > _MAX_CHAIN_BYTES:
        return []
    with suppress(WireError, ValueError, RecursionError):
        texts: list[msgspec.Raw] = msgspec.json.decode(chain, type=list[msgspec.Raw])
        return [DelegationCert.decode(bytes(text)) for text in reversed(texts)]
    return []


def _link(cert: DelegationCert, names: Mapping[str, str]) -> dict[str, str]:
    return {
        "who": _name(cert.issuer_id, names),
        "lets": _name(cert.subject_id, names),
        "scopes": ", ".join(map(shown, cert.scope)),
        "constraints": shown("; ".join(map(constraint, cert.constraints))),
        "until": timestamp(cert.expires_at),
        "certificate": shown(cert.cert_id),
    }


def _record(record: CallRecord, envelope: Envelope, keys: Sequence[LogKey | RecordKey]) -> dict[str, str]:
    signature = "not checked"
    if keys:
        try:
            verify_envelope(envelope, keys)
            signature = "good"
        except AttestationError as error:
            signature = f"BAD: {error}"
    if record.decision is not None:
        says = " ".join(each for each in (record.decision.verdict, record.decision.error) if each)
    else:
        says = (
            " ".join(each for each in (record.outcome.status, record.outcome.detail) if each) if record.outcome else ""
        )
    place = f"{record.log.writer[:SHORT_ID_CHARS]} / {record.log.sequence}"
    return {"at": record.times.recorded, "place": shown(place), "says": shown(says), "signature": shown(signature)}


def _name(holder_id: str, names: Mapping[str, str]) -> str:
    text = shown(holder_id)
    return shown(names[holder_id]) if holder_id in names else f"{text[:_ID_CHARS]}…"

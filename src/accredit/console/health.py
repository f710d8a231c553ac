"""The page "Health": the gateways' health, the log's verification and growth, and the revocation lists. Reads the log,
the lists and gateways' `/readyz`.

- [checkpoint] A writer's records are counted by its latest checkpoint, if that is signed by a key that the desk was
  given. A forged checkpoint counts nothing. Without a key nothing is checked, and the page says so.
- [on-request] The whole log is verified only on request, and only if it is short. For longer ones there is `accredit
  log verify`.
- [growth] The log's growth, and whether proofs are only observed, are taken from the newest records that verify or,
  without a key, from the newest records.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime
from itertools import islice
from typing import Any

from msgspec import to_builtins

from accredit.attest import Checkpoint, timestamp
from accredit.base.clock import unix_ms, unix_seconds
from accredit.console.api import Said, Work
from accredit.console.gateways import GatewayHealth, Gateways
from accredit.console.lists import SeenList
from accredit.console.log_pages import CALLS_LOOKED_AT, GOOD, UNCHECKED, LogPages, signature_of
from accredit.console.people import People
from accredit.errors import AttestationError, DeskError
from accredit.limits import SHORT_ID_CHARS
from accredit.pins.shown import visible_text
from accredit.stores.audit_log.proven import Prover
from accredit.stores.audit_log.reading import LogReader

MAX_SHOWN_WRITERS = 50
"""How many writers of a log the page names. Each start of a gateway's process adds one."""
RATE_ENTRIES = 1_000
"""How many of a log's newest entries are read for its growth, by their times."""


_DAY_MS = 86_400_000
_LEAST_MS = 600_000
"""The shortest span of time, in milliseconds, from which records per day are extrapolated."""


class HealthPart:
    """The health of the gateways and the log, and the lists that `people` has read."""

    def __init__(
        self, gateways: Gateways, people: People, names: Callable[[], Mapping[str, str]], log: LogPages | None
    ) -> None:
        self._gateways = gateways
        self._people = people
        self._names = names
        self._log = log

    def routes(self) -> Mapping[str, Work]:
        """Return the routes. There is one for verification only if there is a log."""
        routes: dict[str, Work] = {"GET /api/health": self._health, "GET /api/health/gateways": self._asked}
        return routes if self._log is None else {**routes, "GET /api/health/verify": self._verify}

    async def _health(self, _said: Said) -> Said:
        names = self._names()
        known = await self._people.known()
        lists = [_list(each, names) for each in known.lists]
        return {**await self._looked(), "lists": lists, "now": unix_seconds(), "checked": self._has_keys}

    @property
    def _has_keys(self) -> bool:
        return self._log is not None and self._log.prover.has_keys

    async def _looked(self) -> dict[str, Any]:
        if self._log is None:
            return {"log": None, "problem": ""}
        prover = self._log.prover
        try:
            log = await self._log.look(lambda found: _log(found, prover))
        except DeskError as error:
            return {"log": None, "problem": error.reason}
        log["words"] = self._log.words
        size = self._log.store.log_bytes()
        return {"log": log if size is None else {**log, "bytes": size}, "problem": ""}

    async def _asked(self, _said: Said) -> Said:
        names = self._names()
        lists = [each.sha256 for each in (await self._people.known()).lists if not each.fault]
        said = await self._gateways.ask(lists)
        return {"gateways": [_gateway(each, names) for each in said], "more": self._gateways.not_asked}

    async def _verify(self, _said: Said) -> Said:
        if self._log is None or not self._has_keys:
            raise DeskError("no_key", "this desk was given no key of the gateway's")
        keys = self._log.keys

        def verify(log: LogReader) -> dict[str, Any]:
            if log.count() > CALLS_LOOKED_AT:
                raise DeskError("long", "the log is too long to be verified here: `accredit log verify` does it")
            report = log.verify(keys)
            fault = f"{report.fault.place}: {report.fault.reason}" if report.fault else ""
            return {"valid": report.valid, "records": report.records, "fault": visible_text(fault)}

        return {**await self._log.look(verify), "at": timestamp(unix_ms())}


def _log(log: LogReader, prover: Prover) -> dict[str, Any]:
    counted: dict[str, tuple[Checkpoint, str]] = {}
    for each in log.latest_checkpoints():
        said = each.statement()
        if said and isinstance(said.predicate, Checkpoint):
            counted[said.predicate.writer] = (said.predicate, signature_of([each], prover))
    heads = sorted(log.heads(), key=lambda each: counted[each.writer][0].time if each.writer in counted else "~")
    writers = [_writer(each.writer, each.sequence, counted.get(each.writer)) for each in reversed(heads)]
    return {
        "entries": log.count(),
        **_growth(log, prover),
        "writers": writers[:MAX_SHOWN_WRITERS],
        "writers_more": max(0, len(writers) - MAX_SHOWN_WRITERS),
        "uncounted": sum(each["records"] - each["counted"] for each in writers),
    }


def _writer(writer: str, records: int, found: tuple[Checkpoint, str] | None) -> dict[str, Any]:
    checkpoint, signature = found or (None, "")
    return {
        "writer": visible_text(writer[:SHORT_ID_CHARS]),
        "records": records,
        "counted": min(checkpoint.count, records) if checkpoint and signature in (GOOD, UNCHECKED) else 0,
        "at": checkpoint.time if checkpoint is not None else "",
        "signature": signature,
    }


def _growth(log: LogReader, prover: Prover) -> dict[str, Any]:
    """Return the time of the newest record, the records per day according to the newest ones, and whether the newest
    call was only observed: the gateway then refuses no call for lack of authority."""
    times: list[float] = []
    enforced: list[bool] = []
    for each in islice(log.newest_first(), RATE_ENTRIES):
        with suppress(AttestationError, ValueError, OverflowError):  # a record's time may be no real date
            if prover.has_keys and prover.fault(each) is not None:
                continue
            record = each.record()
            times += [datetime.fromisoformat(record.times.recorded).timestamp()] if record is not None else []
            enforced += [record.decision.enforced is not False] if record is not None and record.decision else []
    span = (max(times) - min(times)) * 1000 if times else 0
    return {
        "newest": timestamp(round(max(times) * 1000)) if times else "",
        "a_day": round(len(times) * _DAY_MS / span) if span >= _LEAST_MS else None,
        "by": len(times),
        "observed": not all(enforced[:1]),
    }


def _gateway(gateway: GatewayHealth, names: Mapping[str, str]) -> dict[str, Any]:
    called = [names[each] for each in gateway.ids if each in names]
    said = to_builtins(gateway)
    return {
        **said,
        "address": visible_text(gateway.address),
        "ids": [visible_text(each) for each in gateway.ids],
        "parts": {visible_text(name): value for name, value in gateway.parts.items()},
        "name": visible_text(called[0]) if called else "",
    }


def _list(seen: SeenList, names: Mapping[str, str]) -> dict[str, Any]:
    return {
        "where": visible_text(seen.where),
        "issuer": visible_text(names.get(seen.issuer_id, seen.issuer_id[:SHORT_ID_CHARS])),
        "updated_at": seen.updated_at,
        "count": len(seen.revoked),
        "fault": visible_text(seen.fault),
    }

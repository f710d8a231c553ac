"""What `accredit log list` runs. With -f it looks into the file again and again, until it is interrupted."""

import contextlib
import json
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

import typer
from msgspec import Struct

from accredit.attest import CallRecord, timestamp
from accredit.cli.delegations.paper import BAD, Words, print_table
from accredit.cli.records.calls import STATUSES, CallRow, joined_as_they_end, joined_newest_first
from accredit.cli.records.place import understood
from accredit.cli.text import one_line
from accredit.errors import ConfigurationError
from accredit.limits import FOLLOW_SECONDS
from accredit.stores.log_file import LogFile, Numbered

_HEADINGS = ("received", "call", "target", "decision", "outcome", "agent")


class Filter(Struct, frozen=True):
    """Which calls are wanted; None for any. Times are unix milliseconds, `after` inclusive."""

    target: str | None = None
    principal_id: str | None = None
    agent_id: str | None = None
    verdict: str | None = None
    outcome: str | None = None
    after: int | None = None
    before: int | None = None

    def passes(self, row: CallRow) -> bool:
        """Whether a call is wanted."""
        authority = row.decision.authority
        received = row.decision.times.received
        return (
            self.target in (None, row.decision.call.target)
            and self.principal_id in (None, authority.principal_id if authority else "")
            and self.agent_id in (None, authority.agent_id if authority else "")
            and self.verdict in (None, row.verdict)
            and self.outcome in (None, row.status)
            and (self.after is None or received >= timestamp(self.after))
            and (self.before is None or received < timestamp(self.before))
        )


def show_calls(path: Path, wanted: Filter, *, limit: int, follow: bool, as_json: bool) -> None:
    """Lists calls. Raises `ConfigurationError`."""
    if wanted.outcome not in (None, *STATUSES):
        raise ConfigurationError(f"--outcome {wanted.outcome}: not a status", f"name one of {', '.join(STATUSES)}")
    with understood(), LogFile(path) as log:
        last = next((entry.number for entry in log.newest_first()), 0)
        entries = (entry for entry in log.newest_first() if entry.number <= last)
        rows = list(islice(filter(wanted.passes, joined_newest_first(_records(entries))), limit))
        if not follow:
            _print(rows, as_json=as_json)
            return
        _print([row for row in reversed(rows) if row.status != "open"], as_json=as_json)
        open_calls = {row.decision.call.id: row.decision for row in rows if row.status == "open"}
        with contextlib.suppress(KeyboardInterrupt):
            for row in filter(wanted.passes, _following(log, last, open_calls)):
                typer.echo(json.dumps(row.members()) if as_json else _line(row))


def _following(log: LogFile, last: int, open_calls: dict[str, CallRecord]) -> Iterator[CallRow]:
    while True:
        new = list(log.entries(after=last))
        last = new[-1].number if new else last
        yield from joined_as_they_end(_records(new), open_calls)
        time.sleep(FOLLOW_SECONDS)


def _records(entries: Iterable[Numbered]) -> Iterator[CallRecord]:
    for entry in entries:
        record = entry.record()
        if record is not None:
            yield record


def _print(rows: Sequence[CallRow], *, as_json: bool) -> None:
    if as_json:
        for row in rows:
            typer.echo(json.dumps(row.members()))
    else:
        print_table(_HEADINGS, map(_cells, rows))


def _cells(row: CallRow) -> tuple[Words | str, ...]:
    call, authority = row.decision.call, row.decision.authority
    error = row.decision.decision.error if row.decision.decision else None
    return (
        row.decision.times.received,
        call.id,
        call.target or call.method,
        Words(f"{row.verdict} {error or ''}".rstrip(), BAD if row.verdict == "deny" else ""),
        row.status,
        authority.agent_id if authority else "",
    )


def _line(row: CallRow) -> str:
    return "  ".join(one_line(cell.text if isinstance(cell, Words) else cell) for cell in _cells(row))

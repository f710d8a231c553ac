"""Implements `accredit log prune`."""

from functools import partial
from pathlib import Path

import click

from accredit.attest import timestamp
from accredit.base.text import several
from accredit.keys import load_log_signer
from accredit.ops.log_place import LogSource, as_configuration_errors, moment
from accredit.stores import LogStore
from accredit.terminal.output import print_result, say
from accredit.terminal.progress import Progress


def run_prune(*, before: str, key: Path, source: LogSource) -> int:
    """Run `accredit log prune`; return the exit code. Raises `ConfigurationError`."""
    trusted = (source if source.config is None else LogSource(config=source.config)).keys(())  # others that sign it
    place, before_ms, signer = source.place(), moment("--before", before), load_log_signer(key)
    with as_configuration_errors():
        with place.open_log():
            pass  # what is no log is refused, not made into one
        with Progress("pruning", unit="records") as progress:
            report = place.prune(signer, trusted, before_ms, partial(setattr, progress, "done"))
    told = {"pruned": report.records, "overwritten": report.overwritten, "before": timestamp(before_ms)}
    print_result(told)
    say(f"pruned {several(report.records, 'record')} from before {timestamp(before_ms)}")
    if report.overwritten:
        return 0
    click.echo(f"what was pruned is still in {_where(place)}\nprune again later", err=True)
    return 1


def _where(store: LogStore) -> str:
    if store.file is not None:
        return f"{store.file.name}-wal, as somebody reads the log"
    return "a table of the database, as somebody reads the log, or as its day is not over"

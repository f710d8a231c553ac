"""Implements `accredit log prune`."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import click

from accredit.attest import LogSigner, timestamp
from accredit.base.clock import unix_ms
from accredit.cli.actions.log_place import as_configuration_errors, keys_to_show_with, log_store, moment
from accredit.cli.actions.output import print_json, say
from accredit.cli.actions.wording import several
from accredit.cli.progress import Progress
from accredit.keys import load_log_signer
from accredit.stores import LogStore, SqliteFile, open_log
from accredit.stores.audit_log import pruning
from accredit.stores.audit_log.author import Keys
from accredit.stores.audit_log.pruning import PruneReport
from accredit.stores.postgres import log_pruning


def run_prune(*, before: str, key: Path, store: str | None, config: Path | None, as_json: bool) -> int:
    """Run `accredit log prune`; return the exit code. Raises `ConfigurationError`."""
    trusted = keys_to_show_with((), store if config is None else None, config)
    return prune_log(log_store(store, config), key, trusted, moment("--before", before), as_json=as_json)


def prune_log(store: LogStore, key: Path, trusted: Keys, before_ms: int, *, as_json: bool) -> int:
    """Prune the log and return the exit code. `trusted` are other keys that sign it. Raises `ConfigurationError`."""
    signer = load_log_signer(key)
    with as_configuration_errors():
        with open_log(store):
            pass  # what is no log is refused, not made into one
        with Progress("pruning", unit="records") as progress:
            report = _prune(store, signer, trusted, before_ms, partial(setattr, progress, "done"))
    if as_json:
        told = {"pruned": report.records, "overwritten": report.overwritten, "before": timestamp(before_ms)}
        print_json(told)
    else:
        say(f"pruned {several(report.records, 'record')} from before {timestamp(before_ms)}")
    if report.overwritten:
        return 0
    click.echo(f"what was pruned is still in {_where(store)}\nprune again later", err=True)
    return 1


def _prune(
    store: LogStore, signer: LogSigner, trusted: Keys, before_ms: int, on_progress: Callable[[int], None]
) -> PruneReport:
    now_ms = unix_ms()
    if isinstance(store, SqliteFile):
        return pruning.prune(
            store.path, signer, before_ms=before_ms, now_ms=now_ms, on_progress=on_progress, trusted=trusted
        )
    return log_pruning.prune(
        store, signer, before_ms=before_ms, now_ms=now_ms, on_progress=on_progress, trusted=trusted
    )


def _where(store: LogStore) -> str:
    if isinstance(store, SqliteFile):
        return f"{store.path.name}-wal, as somebody reads the log"
    return "a table of the database, as somebody reads the log, or as its day is not over"

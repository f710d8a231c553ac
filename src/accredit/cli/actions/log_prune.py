"""What `accredit log prune` runs."""

from pathlib import Path

import typer
from rich.console import Console
from rich.progress import Progress

from accredit.attest import timestamp
from accredit.base.clock import unix_ms
from accredit.cli.actions.log_place import understood
from accredit.cli.actions.output import print_json, say
from accredit.cli.actions.wording import several
from accredit.keys import load_log_signer
from accredit.stores.audit_log.pruning import prune
from accredit.stores.audit_log.reader import LogFile


def prune_log(path: Path, key: Path, before_ms: int, *, as_json: bool) -> int:
    """Prune the log and return the exit code. Raises `ConfigurationError`."""
    signer = load_log_signer(key)
    console = Console(stderr=True)
    with understood():
        with LogFile(path):
            pass  # what is no log is refused, not made into one
        with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
            task = progress.add_task("pruning", total=None)
            report = prune(
                path,
                signer,
                before_ms=before_ms,
                now_ms=unix_ms(),
                on_progress=lambda so_far: progress.update(task, completed=so_far),
            )
    if as_json:
        told = {"pruned": report.records, "overwritten": report.overwritten, "before": timestamp(before_ms)}
        print_json(told)
    else:
        say(f"pruned {several(report.records, 'record')} from before {timestamp(before_ms)}")
    if report.overwritten:
        return 0
    typer.echo(f"what was pruned is still in {path.name}-wal, as somebody reads the log\nprune again later", err=True)
    return 1

"""What `accredit log prune` runs."""

from pathlib import Path

import typer
from rich.console import Console
from rich.progress import Progress

from accredit.attest import timestamp
from accredit.cli.delegations.paper import print_json, say
from accredit.cli.delegations.words import several
from accredit.cli.records.place import understood
from accredit.keys import load_log_signer
from accredit.stores.log import clock_ms
from accredit.stores.log_file import LogFile
from accredit.stores.log_pruning import prune


def prune_log(path: Path, key: Path, before_ms: int, *, as_json: bool) -> int:
    """Prunes the log; the exit code. Raises `ConfigurationError`."""
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
                now_ms=clock_ms(),
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

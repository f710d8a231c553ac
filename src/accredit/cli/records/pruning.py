"""What `accredit log prune` runs."""

from pathlib import Path

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


def prune_log(path: Path, key: Path, before_ms: int, *, as_json: bool) -> None:
    """Prunes the log. Raises `ConfigurationError`."""
    signer = load_log_signer(key)
    console = Console(stderr=True)
    with understood():
        with LogFile(path):
            pass  # what is no log is refused, not made into one
        with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
            task = progress.add_task("pruning", total=None)
            count = prune(
                path,
                signer,
                before_ms=before_ms,
                now_ms=clock_ms(),
                on_progress=lambda so_far: progress.update(task, completed=so_far),
            )
    if as_json:
        print_json({"pruned": count, "before": timestamp(before_ms)})
    else:
        say(f"pruned {several(count, 'record')} from before {timestamp(before_ms)}")

"""Hosts' own programs. A running Claude Desktop would undo an edit of its file, so the edit is refused. Entries of
Claude Code are added and removed by its own program, `claude`.

I/O: reads `/proc` (on macOS it asks `ps`), and runs Claude Code's `claude`.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

from accredit.base.text import excerpt
from accredit.errors import ConfigurationError
from accredit.hosts.table import Entry

MAX_PROCESSES = 65_536
"""The most processes that are searched for a host that must not run. Linux allows up to 4,194,304; a person's machine
has some 500."""
HOST_PROGRAM_SECONDS = 60.0
"""How many seconds a host's own program may take to write an entry. Claude Code takes 1.4."""


_DESKTOP = {"linux": {"claude-desktop", "Claude"}, "darwin": {"Claude"}}
"""The names of Claude Desktop's process. On Linux it is packaged by others, under two names."""


def check_not_running(host: str) -> None:
    """Refuse to edit Claude Desktop's file while it runs: it would overwrite the edit. Raises `ConfigurationError`."""
    if host == "claude-desktop" and not _DESKTOP.get(sys.platform, set()).isdisjoint(_running()):
        raise ConfigurationError(
            "Claude Desktop is running, and writes its own state over this file", "quit it, and run the command again"
        )


def _running() -> Iterator[str]:
    """Yield the names of this user's processes, looking at `MAX_PROCESSES` at most."""
    if sys.platform == "darwin":
        done = _run(["/bin/ps", "-x", "-o", "comm="])
        yield from (Path(line.strip()).name for line in islice(done.stdout.splitlines(), MAX_PROCESSES))
        return
    try:
        with os.scandir("/proc") as found:
            processes = [Path(each.path) for each in islice(found, MAX_PROCESSES) if each.name.isdigit()]
    except OSError:  # no /proc: nothing can be said
        return
    for each in processes:
        try:
            if each.stat().st_uid == os.geteuid():
                yield (each / "comm").read_text("utf-8", "replace").rstrip("\n")
        except OSError:
            continue  # it has ended


def claude_program(environ: Mapping[str, str]) -> str | None:
    """Return the path of Claude Code's own program; None where there is none."""
    found = shutil.which("claude", path=environ.get("PATH", os.defpath))
    return found if found is not None and os.path.isabs(found) else None


def claude_add(program: str, name: str, entry: Entry) -> list[str]:
    """Return the command by which Claude Code adds an entry for all projects of a user."""
    return [program, "mcp", "add-json", "--scope", "user", name, json.dumps(entry)]


def claude_remove(program: str, name: str) -> list[str]:
    """Return the command by which Claude Code removes an entry."""
    return [program, "mcp", "remove", "--scope", "user", name]


def run_program(command: Sequence[str]) -> None:
    """Run a host's program to its end. Raises `ConfigurationError` if it fails."""
    done = _run(command)
    if done.returncode != 0:
        said = excerpt((done.stderr or done.stdout).strip())
        raise ConfigurationError(f"{' '.join(command[:3])} failed: {said}", "run it by hand, or see --dry-run")


def _run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(  # noqa: S603 - no shell, and a whole path
            command, check=False, capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL,
            cwd="/", timeout=HOST_PROGRAM_SECONDS,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        raise ConfigurationError(f"{command[0]} can't be run, or does not end", "run it by hand") from None

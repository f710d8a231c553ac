"""Implements `accredit pin`: shows how a server differs from `accredit.lock`, and updates the lock after approval.

- The server is asked as `accredit init` asks it. Each tool's new, removed or changed text is shown as a model would
  read it; invisible characters appear as code points, and look-alike names are marked.
- Nothing is written without approval, at the terminal or by `--yes`. Without approval the exit code is 1.
- Only this server's part of the lock changes. A damaged lock is not replaced: it may hold other servers' pins.
- Pins of a server that the configuration does not have are shown and, if approved, removed.
"""

import os
import sys
from pathlib import Path
from typing import NamedTuple

import click
from msgspec import to_builtins

from accredit.asking.listing import ServerListing
from accredit.asking.reaching import Reach
from accredit.asking.server import ask_configured
from accredit.base.standard import is_for_programs
from accredit.config.load import load
from accredit.config.pins import lock_file, lock_name, read_lock_file, stale_pins
from accredit.config.servers import only_server, view, views
from accredit.errors import ConfigurationError, LockError
from accredit.keys import write_file
from accredit.pins.compare import Change, changes
from accredit.pins.definitions import Definitions
from accredit.pins.lock import LOCK_FILE, UPSTREAM, Lock, read_lock, write_lock
from accredit.pins.shown import visible_text
from accredit.terminal.output import BAD, GOOD, QUIET, print_result, say, tell


class Approval(NamedTuple):
    """What an approval is about: the lock's path, the server, and the names of all configured servers; and whether the
    change is approved already."""

    path: Path
    server: str = UPSTREAM
    agreed: bool = False
    configured: frozenset[str] = frozenset({UPSTREAM})


def run_pin(
    *,
    name: str | None,
    config: Path | None,
    yes: bool,
    reach: Reach,
) -> int:
    """Run `accredit pin`; return the exit code. Raises `ConfigurationError`."""
    loaded = load(config, os.environ, {})
    path = lock_file(loaded)
    if path is None:
        raise ConfigurationError("there is no configuration, beside which a lock would be", "name one with --config")
    if name is not None and name in stale_pins(loaded):
        return drop_pins(Approval(path, name, yes))
    servers = loaded.config.servers.by_name
    name = only_server(loaded) if name is None else name
    if servers and name is None:
        several = ", ".join(each.server for each in views(loaded))
        raise ConfigurationError("[servers] names several, and pin approves one", f"name one of {several}")
    server = view(loaded, name) if servers and name is not None else loaded
    offer = ask_configured(server, reach)
    configured = frozenset(servers) or frozenset({lock_name(loaded)})
    return pin_offer(Approval(path, name or lock_name(server), yes, configured), offer)


def pin_offer(approval: Approval, offer: ServerListing) -> int:
    """Show the differences, and write them if approved; return the exit code. Raises `ConfigurationError`."""
    lock = read_lock_file(approval.path) if os.path.lexists(approval.path) else {}
    if approval.server not in {*approval.configured, *lock}:
        raise ConfigurationError(
            f"no server is called {approval.server!a}", f"leave the name out: the server of [upstream] is {UPSTREAM}"
        )
    found = definitions_of(offer)
    text = lock_text({**lock, approval.server: found})
    different = changes(lock.get(approval.server, Definitions({})), found)
    if approval.server in lock and not different:
        taken = True
    else:
        show(different, offer)
        taken = approval.agreed or (not is_for_programs() and _confirm())
        if taken:
            write_file(approval.path, text, replace=True)
    listed = [to_builtins(change) for change in different]
    print_result({"server": approval.server, "pinned": taken, "set": found.set_sha256, "changes": listed})
    if taken and not different and approval.server in lock:
        say(f"nothing has changed: {len(found.tools)} tools are as they are pinned")
    elif taken:
        say(
            f"wrote {approval.path}: {len(found.tools)} tools pinned; `accredit reload` has a gateway that runs take it"
        )
    return 0 if taken else 1


def drop_pins(approval: Approval) -> int:
    """Remove the pins of a server that no longer exists, if approved; return the exit code. Raises
    `ConfigurationError`."""
    lock = read_lock_file(approval.path)
    tools = sorted(lock.pop(approval.server).tools)
    say(f"{approval.server}: no server of the configuration; {len(tools)} tools of it are pinned")
    for tool in tools:
        say(f"  - {visible_text(tool)}", BAD)
    taken = approval.agreed or (not is_for_programs() and _confirm())
    if taken:
        write_file(approval.path, lock_text(lock), replace=True)
    print_result({"server": approval.server, "dropped": taken, "tools": tools})
    if taken:
        say(f"wrote {approval.path}: nothing is pinned of {approval.server}")
    return 0 if taken else 1


def definitions_of(offer: ServerListing) -> Definitions:
    """Return a server's definitions, exactly as it sent them. Raises `ConfigurationError`."""
    if offer.definitions is None:
        raise ConfigurationError("nobody saw the definitions as they came", "ask the server by its URL or command")
    return offer.definitions


def lock_text(lock: Lock) -> bytes:
    """Return the text of a lock, after a check that it can be read. Raises `ConfigurationError` for what can't be
    pinned."""
    try:
        text = write_lock(lock)
        read_lock(text)
        return text
    except LockError as error:
        raise ConfigurationError(
            f"nothing can be pinned: {error}", "correct the server: clients may see another tool than the gateway"
        ) from None


def show(different: list[Change], offer: ServerListing) -> None:
    """Print each difference with its diff."""
    for change in different:
        say(change.text, BAD if change.problem != "new_definition" else "")
        for note in change.notes:
            say(f"  ! {note}", BAD)
        for line in change.diff:
            say(f"  {line}", GOOD if line.startswith("+") else BAD)
    if offer.two_faced:
        names = ", ".join(map(visible_text, sorted(offer.two_faced)))
        say(f"note: clients that can do less are told something else of {names}: their calls will be refused", QUIET)


def _confirm() -> bool:
    if not sys.stdin.isatty():
        tell(f"{LOCK_FILE} was not written: --yes approves this")
        return False
    return click.confirm("Has all of this been read, and is it approved?", err=True)

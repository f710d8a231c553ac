"""What `accredit install` and `uninstall` run. I/O: hosts' files, the terminal.

1. An entry is taken for `accredit`'s own if it starts `accredit connect`. One of that name that is somebody else's is
   neither replaced nor taken out.
2. Nothing is written before a person at the terminal has said yes, or `--yes` has.
3. An entry holds no secret: paths, a URL without user or password, and options.
"""

import os
import shlex
import sys
from functools import partial
from pathlib import Path
from typing import NamedTuple

import typer

from accredit.base.text import one_line
from accredit.cli.actions.install_entry import Wanted
from accredit.cli.actions.output import BAD, GOOD, QUIET, Words, print_json, print_table, say
from accredit.errors import ConfigurationError
from accredit.hosts.drift import HostState, host_states, is_own
from accredit.hosts.edit import Edit, Place, apply, edited, entries, read_host_file
from accredit.hosts.installed import installed, remember
from accredit.hosts.programs import check_not_running, claude_add, claude_program, claude_remove, run_program
from accredit.hosts.table import Entry, Host, Places, find_host, project_file
from accredit.hosts.undo import restored, without
from accredit.keys.places import state_folder


class Wish(NamedTuple):
    """The host, the entry's name, and the options of both commands."""

    host: str
    name: str | None
    project: bool
    dry_run: bool
    yes: bool
    as_json: bool


def install_entry(wish: Wish, url: str | None, config: Path | None, server: str | None) -> int:
    """Write the entry; return the exit code. Raises `ConfigurationError`."""
    host, file = _place(wish)
    wanted = Wanted.read(url, config, server, wish.name)
    place = Place(host, file, wanted.name)
    entry = host.entry(wanted.name, wanted.words(host.hold))
    old = read_host_file(file)
    there = entries(host, old).get(wanted.name) if old is not None else None
    if there is not None and not is_own(host.words(there)):
        raise ConfigurationError(
            f"{file} has a server {wanted.name} that is not accredit's", "name this one otherwise: --name N"
        )
    new = edited(place, old or b"", entry)
    edit = Edit(file, old, new, host.name, {wanted.name: entry})
    program = None if wish.project or host.name != "claude-code" or there is not None else claude_program(os.environ)
    command = claude_add(program, wanted.name, entry) if program is not None and new != old else None
    if new != old and not wish.as_json:
        say(f"{host.name}: {file} gets the server {wanted.name}:")
        for line in host.text.put("", (host.table, wanted.name), entry).splitlines():
            typer.echo(f"  {one_line(line)}")
    return _finish(wish, edit, place, entry, command)


def uninstall_entry(wish: Wish, *, restore: bool) -> int:
    """Take the entry out, or put the file back; return the exit code. Raises `ConfigurationError`."""
    host, file = _place(wish)
    place = Place(host, file, wish.name or "")
    old = read_host_file(file)
    found = {} if old is None else entries(host, old)
    own = [name for name, entry in found.items() if is_own(host.words(entry))]
    if place.name and place.name not in found and not restore and _forgotten(place):
        say(f"{file}: the server {place.name} is gone already")
        return 0
    if not place.name:
        if len(own) != 1:
            what = f"{len(own)} servers of {file} are accredit's" if own else f"no server of {file} is accredit's"
            raise ConfigurationError(what, f"name one: --name {own[0]}" if own else "nothing has to be taken out")
        place = place._replace(name=own[0])
    elif not restore and place.name not in own:
        why = "is not accredit's" if place.name in found else "is not there"
        raise ConfigurationError(f"{file}: the server {place.name} {why}", "accredit install --list shows what is")
    edit = restored(place) if restore else without(place)
    program = None if wish.project or restore or host.name != "claude-code" else claude_program(os.environ)
    command = claude_remove(program, place.name) if program is not None else None
    if edit.new != old and not wish.as_json:
        say(f"{host.name}: {file} {'is put back as it was before' if restore else 'loses'} the server {place.name}")
    return _finish(wish, edit, place, None, command)


def list_hosts(*, as_json: bool) -> int:
    """Print every host, with what is installed in it; return the exit code."""
    states = host_states(os.environ, Path.cwd())
    if as_json:
        print_json({"hosts": [_members(each) for each in states]})
        return 0
    print_table(("host", "state", "file"), [(each.host, _shown(each), str(each.file)) for each in states])
    return 0


def _finish(wish: Wish, edit: Edit, place: Place, entry: Entry | None, command: list[str] | None) -> int:
    """Make the edit, if it is one and somebody wants it (rule 2), and say what was done."""
    changed, backup = edit.new != edit.old, None
    if changed and command is not None and not wish.as_json:
        say(f"by: {shlex.join(command)}")
    if changed and not wish.dry_run:
        if not _agreed(wish):
            say("nothing was changed")
            return 1
        check_not_running(place.host.name if not wish.project else "")
        program = None if command is None else partial(run_program, command)
        backup = apply(edit, state_folder(os.environ), program)
        _check_done(edit, place, entry)
    if wish.as_json:
        print_json(
            {"host": place.host.name, "file": str(place.file), "name": place.name, "entry": entry,
             "changed": changed and not wish.dry_run, "backup": None if backup is None else str(backup)}
        )  # fmt: skip
    elif not changed:
        say(f"nothing to do: {place.file} is as it should be")
    elif not wish.dry_run:
        say(f"{'removed' if command is None and edit.new is None else 'wrote'} {place.file}", GOOD)
        say(f"what it was before: {backup}", QUIET)
        say(f"restart {place.host.name} to have it take this up")
    return 0


def _forgotten(place: Place) -> bool:
    """Forget an entry that was installed, and say whether it was."""
    state = state_folder(os.environ)
    known = any((each.file, each.name) == (str(place.file), place.name) for each in installed(state))
    if known:
        remember(state, place.host.name, place.file, {place.name: None})
    return known


def _agreed(wish: Wish) -> bool:
    if wish.yes:
        return True
    if not sys.stdin.isatty():
        raise ConfigurationError("there is nobody to ask whether this is wanted", "say --yes, or run it in a terminal")
    return typer.confirm("Write this?", default=False, err=True)


def _check_done(edit: Edit, place: Place, entry: Entry | None) -> None:
    """Check what is there now, which a host's own program may have written: the entry as it is wanted, or none."""
    data = read_host_file(edit.file)
    there = None if data is None else entries(place.host, data).get(place.name)
    if place.host.words(there) != place.host.words(entry):
        raise ConfigurationError(f"{edit.file} does not hold what it should now", "look at it, and at what is kept")


def _place(wish: Wish) -> tuple[Host, Path]:
    host = find_host(wish.host)
    return host, project_file(host, Path.cwd()) if wish.project else host.file(Places(os.environ))


def _members(state: HostState) -> dict[str, object]:
    every = {each.state for each in state.entries}
    return {
        "host": state.host, "file": str(state.file), "found": state.found, "installed": bool(every - {"gone"}),
        "stale": "stale" in every, "entries": [each._asdict() for each in state.entries], "problem": state.problem,
    }  # fmt: skip


def _shown(state: HostState) -> Words:
    if state.problem is not None:
        return Words(f"can't be read: {state.problem}", BAD)
    bad = [f"{each.name} is {each.state}: {each.why}" for each in state.entries if each.state != "installed"]
    good = [each.name for each in state.entries if each.state == "installed"]
    if bad:
        return Words("; ".join(bad + ([f"installed: {', '.join(good)}"] if good else [])), BAD)
    if good:
        return Words(f"installed ({', '.join(good)})", GOOD)
    return Words("found") if state.found else Words("not found", QUIET)

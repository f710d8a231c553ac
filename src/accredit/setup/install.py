"""Implements `accredit install` and `uninstall`. I/O: hosts' files, the terminal.

- An entry is ours if it starts `accredit connect`. Another entry of the same name is neither replaced nor removed.
- Nothing is written before the user agrees at the terminal, or gave `--yes`.
- An entry holds no secret: only paths, options, and a URL without user or password.
"""

import os
import shlex
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from accredit.base.deferred import Deferred
from accredit.base.standard import is_for_programs
from accredit.errors import ConfigurationError
from accredit.hosts.drift import HostState, host_states, is_own, why_changed
from accredit.hosts.edit import Edit, EntryLocation, apply, edit_entry, entries, read_host_file
from accredit.hosts.installed import read_installed, remember
from accredit.hosts.programs import check_not_running, claude_add, claude_program, claude_remove, run_program
from accredit.hosts.table import Entry, Host, Places, plain
from accredit.hosts.undo import plan_restore, without
from accredit.keys.places import config_folder, state_folder
from accredit.setup.install_entry import InstallOptions, NewEntry, agent_of, confirm_write, place_of
from accredit.terminal.output import BAD, GOOD, QUIET, Words, print_result, print_table, say, say_whole, tell
from accredit.terminal.progress import Progress

if TYPE_CHECKING:
    from accredit.setup import adopt as adopting
else:
    adopting = Deferred("accredit.setup.adopt")  # loads the configuration, which an entry does without


def run_install(
    *,
    host: str | None,
    name: str | None,
    url: str | None,
    config: Path | None,
    server: str | None,
    adopt: bool,
    passphrase_file: Path | None,
    project: bool,
    dry_run: bool,
    yes: bool,
    list_all: bool,
) -> int:
    """Run `accredit install`; return the exit code. Raises `ConfigurationError`."""
    if list_all:
        if host is not None:
            raise ConfigurationError("--list is of all hosts", f"leave {host} out")
        return list_hosts()
    if host is None:
        raise ConfigurationError("no host is named", "accredit install --list shows which there are")
    wish = InstallOptions(host, name, project=project, dry_run=dry_run, yes=yes)
    if url is not None and config is not None:
        raise ConfigurationError("--url and --config are given", "keep the one that names your gateway")
    if not adopt:
        if passphrase_file is not None:
            raise ConfigurationError("--passphrase-file is for --adopt, which signs", "leave it out")
        return install_entry(wish, url, config, server)
    if url is not None or server is not None:
        raise ConfigurationError("--adopt puts servers into a configuration", "name that alone: --config FILE")
    if config is None:
        raise ConfigurationError(
            "--adopt: no configuration is named", "name a file, which is made if it is not there: --config FILE"
        )
    return adopting.adopt_servers(wish, config, passphrase_file)


def run_uninstall(*, host: str, name: str | None, project: bool, restore: bool, dry_run: bool, yes: bool) -> int:
    """Run `accredit uninstall`; return the exit code. Raises `ConfigurationError`."""
    wish = InstallOptions(host, name, project=project, dry_run=dry_run, yes=yes)
    return uninstall_entry(wish, restore=restore)


def install_entry(wish: InstallOptions, url: str | None, config: Path | None, server: str | None) -> int:
    """Write the entry; return the exit code. Raises `ConfigurationError`."""
    host, file = place_of(wish)
    wanted = NewEntry.read(url, config, server, wish.name)
    place = EntryLocation(host, file, wanted.name)
    old = read_host_file(file)
    there = entries(host, old).get(wanted.name)
    entry = host.entry(wanted.name, wanted.words(host.hold, host.words(there)))
    if there is not None and not is_own(host.words(there)):
        raise ConfigurationError(
            f"{file} has a server {wanted.name} that is not accredit's", "name this one otherwise: --name N"
        )
    is_there = old is not None and there is not None and why_changed(entry, plain(there)) is None
    new = old if is_there else edit_entry(place, old or b"", entry)  # else it would be written in our style
    edit = Edit(file, old, new, host.name, {wanted.name: entry})
    program = None if wish.project or host.name != "claude-code" or there is not None else claude_program(os.environ)
    command = claude_add(program, wanted.name, entry) if program is not None and new != old else None
    others = [] if wish.project else host.other_files(Places(os.environ), file)
    if others and not is_for_programs():
        tell(f"note: {host.name} may read another file, by its version: {', '.join(map(str, others))}")
        tell(f"  if it does not show the server, name that one: {host.variable}=FILE accredit install {host.name}")
    key = config_folder(os.environ) / "agent.key"
    if "--key" not in host.words(entry) and not is_for_programs():
        tell("note: the entry names no key: a gateway that asks for proofs refuses its calls. Make one, then repeat:")
        tell(f"  accredit keys new {shlex.quote(str(key))} --kind agent")
    if new != old:
        say_whole(f"{host.name}: {file} gets the server {wanted.name}:")
        for line in host.text.put("", (host.table, wanted.name), entry).splitlines():
            say_whole(f"  {line}")
    return _finish(wish, edit, place, entry, command)


def uninstall_entry(wish: InstallOptions, *, restore: bool) -> int:
    """Remove the entry, or restore the file; return the exit code. Raises `ConfigurationError`."""
    host, file = place_of(wish)
    if restore:
        return _restore(wish, host, file)
    found = entries(host, read_host_file(file))
    own = [name for name, entry in found.items() if is_own(host.words(entry))]
    if wish.name is not None and wish.name not in found and _forget_entry(host, file, wish.name):
        say(f"{file}: the server {wish.name} is gone already")
        return 0
    if wish.name is None and len(own) != 1:
        what = f"{len(own)} servers of {file} are accredit's" if own else f"no server of {file} is accredit's"
        all_at_once = ", or have the file put back as it was before all of them: --restore"
        raise ConfigurationError(
            what, f"name one: --name {shlex.quote(own[0])}{all_at_once}" if own else "nothing has to be taken out"
        )
    if wish.name is not None and wish.name not in own:
        why = "is not accredit's" if wish.name in found else "is not there"
        raise ConfigurationError(f"{file}: the server {wish.name} {why}", "accredit install --list shows what is")
    place = EntryLocation(host, file, wish.name or own[0])
    edit = without(place, state_folder(os.environ))
    comes_back = place.name in entries(host, edit.new)
    by_program = not wish.project and host.name == "claude-code" and not comes_back
    program = claude_program(os.environ) if by_program else None
    if not is_for_programs():
        gets = "gets its own server back in the place of" if comes_back else "loses the server"
        say(f"{host.name}: {file} {gets} {place.name}")
        if not comes_back and agent_of(host.words(found[place.name])) is not None:
            tell(f"warning: {place.name} was {host.name}'s own, and what it said is not kept any more:")
            tell("  only the configuration that it was adopted into says how its server is started")
    return _finish(wish, edit, place, None, claude_remove(program, place.name) if program is not None else None)


def _restore(wish: InstallOptions, host: Host, file: Path) -> int:
    """Restore the whole file as it was before the named entry, or before all of ours."""
    names = {wish.name} if wish.name is not None else _own_names(host, file)
    if not names:
        raise ConfigurationError(f"no server of {file} is accredit's", "nothing has to be put back")
    edit = plan_restore(host, file, names, state_folder(os.environ))
    if edit.new != edit.old:
        say_whole(f"{host.name}: {file} is put back as it was before {', '.join(sorted(names))}")
    return _finish(wish, edit, EntryLocation(host, file, min(names)), None, None)


def _own_names(host: Host, file: Path) -> set[str]:
    """Return the names of our entries, present or once installed."""
    names = {each.name for each in read_installed(state_folder(os.environ)) if each.file == str(file)}
    with suppress(ConfigurationError):  # a broken file is put back all the same
        there = entries(host, read_host_file(file))
        names |= {name for name, entry in there.items() if is_own(host.words(entry))}
    return names


def list_hosts() -> int:
    """Print every host and its entries; return the exit code."""
    states = host_states(os.environ, Path.cwd())
    print_result({"hosts": [_members(each) for each in states]})
    print_table(("host", "state", "file"), [(each.host, _describe_state(each), str(each.file)) for each in states])
    return 0


def _finish(
    wish: InstallOptions, edit: Edit, place: EntryLocation, entry: Entry | None, command: list[str] | None
) -> int:
    """Make the edit if it changes anything and the user agrees, and report it."""
    changed, backup = edit.new != edit.old, None
    if changed and command is not None:
        say_whole(f"by: {shlex.join(command)}")
    if changed and not wish.dry_run:
        if not confirm_write(wish):
            say("nothing was changed")
            return 1
        check_not_running(place.host.name if not wish.project else "")
        program = None if command is None else partial(run_program, command)
        with Progress(f"writing {place.file}"):
            backup = apply(edit, state_folder(os.environ), program)
        _check_done(edit, place)
    print_result(
        {"host": place.host.name, "file": str(place.file), "name": place.name, "entry": entry,
         "changed": changed and not wish.dry_run, "backup": None if backup is None else str(backup)}
    )  # fmt: skip
    if not changed:
        say_whole(f"nothing to do: {place.file} is as it should be")
    elif not wish.dry_run:
        say_whole(f"{'removed' if command is None and edit.new is None else 'wrote'} {place.file}", GOOD)
        say_whole(f"what it was before: {backup}", QUIET)
        say(f"restart {place.host.name} to have it take this up")
    return 0


def _forget_entry(host: Host, file: Path, name: str) -> bool:
    """Forget an installed entry; return whether there was one."""
    state = state_folder(os.environ)
    known = any((each.file, each.name) == (str(file), name) for each in read_installed(state))
    if known:
        remember(state, host.name, file, {name: None})
    return known


def _check_done(edit: Edit, place: EntryLocation) -> None:
    """Check that the file now has the wanted entry, or no entry if it was to be removed: a host's own program may have
    written the file."""
    data = read_host_file(edit.file)
    if data == edit.new:
        return
    now, wanted = (entries(place.host, each).get(place.name) for each in (data, edit.new))
    if place.host.words(now) != place.host.words(wanted):
        raise ConfigurationError(f"{edit.file} does not hold what it should now", "look at it, and at what is kept")


def _members(state: HostState) -> dict[str, object]:
    every = {each.state for each in state.entries}
    return {
        "host": state.host, "file": str(state.file), "found": state.found, "installed": bool(every - {"gone"}),
        "stale": "stale" in every, "entries": [each._asdict() for each in state.entries], "problem": state.problem,
    }  # fmt: skip


def _describe_state(state: HostState) -> Words:
    if state.problem is not None:
        return Words(f"can't be read: {state.problem}; {state.remedy}", BAD)
    bad = [f"{each.name} is {each.state}: {each.why}" for each in state.entries if each.state != "installed"]
    good = [each.name for each in state.entries if each.state == "installed"]
    if bad:
        return Words("; ".join(bad + ([f"installed: {', '.join(good)}"] if good else [])), BAD)
    if good:
        return Words(f"installed ({', '.join(good)})", GOOD)
    return Words("found") if state.found else Words("not found", QUIET)

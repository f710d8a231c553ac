"""Implements `accredit install HOST --adopt`: puts a host's own servers behind a gateway. I/O: the host's file, a
configuration and files beside it, keys, the terminal.

The steps come in this order. So after a crash the host's file works, be it old or new, and running the command again
finishes the job:

1. read the host's own servers and plan all changes; nothing is written before the user agrees;
2. find or make the person's key and one agent key per host, and sign a delegation that permits nothing: it only
   identifies the caller;
3. write each credential to a file of mode 0600 in a folder of mode 0700; then the gateway's key, if it is new; then the
   configuration, mode 0600;
4. last, replace the servers in the host's file with `accredit connect`, in one step. The old content is kept beside the
   file until it is restored.

No credential is printed or written to the host's file.
"""

import contextlib
import os
import shlex
import stat
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import click

from accredit.base.clock import unix_seconds
from accredit.base.files import SHARED_FOLDER, make_folder
from accredit.base.standard import is_for_programs, words_before_result
from accredit.client.presenter import GRANTS
from accredit.config.attest import GATEWAY_KEY_FILE
from accredit.console.settings import find_key, read_settings
from accredit.errors import ConfigurationError
from accredit.hosts.drift import is_own
from accredit.hosts.edit import Edit, apply, entries, read_host_file, replace_entries
from accredit.hosts.foreign import Folders, Own, SkippedEntry, own_servers
from accredit.hosts.programs import check_not_running
from accredit.hosts.table import Entry, Host, Places
from accredit.keys import public_path, replace_file, write_file
from accredit.keys.own_files import check_own_folder, fault_of_file
from accredit.keys.places import DELEGATION, config_folder, state_folder
from accredit.limits import MAX_SAID_CHARS
from accredit.setup import adopt_text as text
from accredit.setup.adopt_plan import Adopted, Plan, Root, plan, unset, wanting_sign_in
from accredit.setup.install_entry import AGENTS, InstallOptions, confirm_write, connect_words, endpoint, place_of
from accredit.setup.own_grant import fault_of_grant, sign_own
from accredit.setup.own_keys import (
    AGENT_KEY,
    OWNER_KEY,
    OwnKey,
    Passphrases,
    has_person_key,
    kept_key,
    own_config_folder,
    person_key,
)
from accredit.terminal.output import GOOD, QUIET, print_json, say, say_whole, tell
from accredit.terminal.progress import Progress

MAX_ADOPTED = 100
"""The most servers of a host's own that are put behind one gateway at once. With twenty, hosts already grow
unwieldy."""


_SIGN_IN = (
    "it asks for a sign-in (HTTP 401), which the host does for you, and a gateway can't",
    "it stays as it was; with a token of your own in its headers it can be adopted",
)


class _Job(NamedTuple):
    """All that one adoption needs: the host's file and its bytes, the planned changes, the agent's key and its
    delegation."""

    wish: InstallOptions
    host: Host
    file: Path
    old: bytes
    entries: Mapping[str, Entry]
    plan: Plan
    left: Sequence[SkippedEntry]
    agent: Path
    delegation: Path


def adopt_servers(wish: InstallOptions, config: Path, passphrase_file: Path | None) -> int:
    """Put a host's own servers behind a gateway; return the exit code. Raises `ConfigurationError`."""
    host, file = place_of(wish)
    check_own_folder(config.absolute().parent, "name a file in a folder of your own")
    fault = fault_of_file(config) if config.exists() else None
    if fault is not None:
        raise ConfigurationError(f"{config} may be somebody else's: {fault.text}", fault.command or "name another file")
    old = read_host_file(file)
    if old is None:
        raise ConfigurationError(
            f"there is no {file}: {host.name} has no servers of its own",
            "`accredit up -- COMMAND` protects a server and offers to put it there; `accredit install --list` names"
            " the hosts of this machine",
        )
    folders = Folders(Places(os.environ).home, Path.cwd() if wish.project else None)
    with Progress(f"reading {file}"):
        found = own_servers(host, old, folders)
    if wish.name is not None:
        found = [each for each in found if each.name == wish.name]
    own = [each for each in found if isinstance(each, Own)]
    if len(own) > MAX_ADOPTED:
        raise ConfigurationError(
            f"{file} has {len(own)} servers, more than {MAX_ADOPTED}", "name those that you want, one by one: --name N"
        )
    with Progress("asking servers behind URLs"):
        signed_in = [] if wish.project else wanting_sign_in(own)  # a project's file may be somebody else's
    left = [
        *(each for each in found if isinstance(each, SkippedEntry)),
        *(SkippedEntry(name, *_SIGN_IN) for name in signed_in),
    ]
    own = [each for each in own if each.name not in signed_in]
    with Progress("working out what to write"):
        job = _job(wish, host, file, old, own, config.absolute())
    job = job._replace(left=[*left, *job.left])
    if not job.entries:
        return _nothing(job)
    if not is_for_programs():
        _show(job)
    if wish.dry_run:
        return _report(job, None)
    if not confirm_write(wish):
        say("nothing was changed")
        return 1
    check_not_running(host.name if not wish.project else "")
    own = [each.own for each in job.plan.adopted]
    if not wish.yes and (values := _ask_for_unset(own)):
        own = [text.with_values(each, values) for each in own]
        job = _job(wish, host, file, old, own, config.absolute())._replace(left=job.left)
    with words_before_result():
        _make_keys(job, Passphrases(passphrase_file))
    _write(job.plan)
    backup = apply(
        Edit(file, old, replace_entries(host, file, old, job.entries), host.name, job.entries, adopts=True),
        state_folder(os.environ),
    )
    return _report(job, backup)


def _job(wish: InstallOptions, host: Host, file: Path, old: bytes, own: Sequence[Own], config: Path) -> _Job:
    """Plan all changes (step 1), leaving out servers whose entries can't be edited safely."""
    folder = config_folder(os.environ)
    agent = folder / AGENTS / host.name / AGENT_KEY
    delegation = agent.with_name(DELEGATION)
    person = folder / OWNER_KEY
    if has_person_key(os.environ) and (public_path(person).exists() or not person.exists()):
        person = find_key(read_settings(os.environ))  # else it is about to be made, or to get its public half
    left: list[SkippedEntry] = []
    while True:
        planned = plan(config, own, host.name, Root("Owner", public_path(person)))
        entries = {each.own.name: _entry(host, planned, each, [agent, delegation]) for each in planned.adopted}
        unsafe = [] if not entries else _unsafe(host, file, old, entries)
        if not unsafe:
            return _Job(wish, host, file, old, entries, planned, [*left, *planned.left], agent, delegation)
        left += [
            SkippedEntry(name, "it stands in a form that can't be edited safely", "write it otherwise")
            for name in unsafe
        ]
        own = [each for each in own if each.name not in unsafe]


def _unsafe(host: Host, file: Path, old: bytes, entries: Mapping[str, Entry]) -> list[str]:
    """Return the names of entries that can't be replaced without changing something else."""
    with contextlib.suppress(ConfigurationError):
        replace_entries(host, file, old, entries)
        return []
    found: list[str] = []
    for name, entry in entries.items():
        try:
            replace_entries(host, file, old, {name: entry})
        except ConfigurationError:
            found.append(name)
    return found or [*entries]


def _entry(host: Host, planned: Plan, adopted: Adopted, files: Sequence[Path]) -> Entry:
    words = connect_words(endpoint(planned.loaded, adopted.server), files, host.hold)
    entry = host.entry(adopted.own.name, words)
    kept = {name: value for name, value in adopted.own.kept.items() if name not in entry or name == "enabled"}
    return {**entry, **kept}


def _ask_for_unset(own: Sequence[Own]) -> dict[str, str]:
    """Ask the user for the values of variables that the host uses and that are not set. Variables left empty are not in
    the result."""
    if not sys.stdin.isatty():
        return {}
    found: dict[str, str] = {}
    for name in unset(own):
        tell(f"{name} is not set here. Its value is kept in a file that only you can read; empty: it stays a variable,")
        answer = click.prompt(f"{name}", default="", hide_input=True, show_default=False, err=True)
        if answer:
            found[name] = answer
    return found


def _make_keys(job: _Job, passphrases: Passphrases) -> None:
    """Find or make the keys, and sign the delegation (step 2)."""
    try:
        own_config_folder(os.environ)
        folder = job.agent.parent
        check_own_folder(folder, "let nobody else write there")
        make_folder(folder)
        make_folder(folder / GRANTS)  # what is put there is presented, too
        person = person_key(os.environ, passphrases)
        name = f"{job.host.name} of {os.environ.get('USER') or 'this machine'}"[:64]
        agent = kept_key(job.agent, "agent", name)
        if not _still_counts(job.delegation, person, agent):
            sign_own(person, agent, job.delegation, passphrases, replace=True)
    finally:
        passphrases.forget()


def _still_counts(file: Path, person: OwnKey, agent: OwnKey) -> bool:
    """Return whether the file holds a valid delegation from this person to this agent."""
    try:
        return file.is_file() and not fault_of_grant(file, agent.about, {person.about.public_key}, unix_seconds())
    except ConfigurationError:
        return False


def _write(planned: Plan) -> None:
    """Write the credentials and the configuration (step 3)."""
    if planned.old is None:
        make_folder(planned.file.parent, SHARED_FOLDER)
    if planned.secrets:
        folder = planned.file.parent / text.SECRETS
        if os.path.lexists(folder) and not stat.S_ISDIR(folder.lstat().st_mode):
            raise ConfigurationError(f"{folder} is no folder", "move it away")
        check_own_folder(folder, "let nobody else write there: credentials are kept in it")
        make_folder(folder)
        if not os.path.lexists(folder / ".gitignore"):
            write_file(folder / ".gitignore", b"*\n", private=True)
    for path, data in planned.secrets.items():
        if not os.path.lexists(path):
            write_file(path, data, private=True)
    if planned.old is None:
        kept_key(planned.file.parent / GATEWAY_KEY_FILE, "gateway", "gateway")
        write_file(planned.file, planned.new, private=True)
    elif planned.new != planned.old:
        replace_file(planned.file, planned.new, old=planned.old)


def _show(job: _Job) -> None:
    """Show what will be written, without secrets. In a dry run, and for a project (its commands may be somebody
    else's), show each line; otherwise only the files' names."""
    planned = job.plan
    if not (job.wish.dry_run or job.wish.project):
        _show_files(job)
        _tell_left(job)
        return
    if planned.new != planned.old:
        say_whole(f"{planned.file} {'gets' if planned.old is not None else 'is made'}:")
        _say_lines(job, planned.shown)
    for path in planned.secrets:
        say_whole(f"{path} gets a value that may be a credential (mode 0600)")
    say_whole(f"{job.host.name}: {job.file} gets, in the places of its own servers:")
    for name, entry in job.entries.items():
        _say_lines(job, job.host.text.put("", (job.host.table, name), entry))
    _tell_left(job)


def _show_files(job: _Job) -> None:
    """Show which files will be written, and why."""
    planned = job.plan
    say_whole(f"{', '.join(job.entries)}: behind a gateway of your own, which this writes:")
    if planned.new != planned.old:
        what = (
            "the servers are added to this gateway" if planned.old is not None else "the gateway's configuration, new"
        )
        say_whole(f"  {planned.file}: {what}")
    for path in planned.secrets:
        say_whole(f"  {path}: a value that may be a credential, in a file that only you can read")
    say_whole(f"  {job.file}: each starts `accredit connect` instead; as it was before, it is kept beside this file")
    tell("--dry-run shows every line of it, and writes nothing")


def _say_lines(job: _Job, shown: str) -> None:
    """Print lines with the servers' own words. A project's file may be somebody else's, so its lines are folded: then
    their text can't imitate a line of our output."""
    for line in shown.splitlines():
        (say if job.wish.project else say_whole)(f"  {line}".rstrip())


def _tell_left(job: _Job) -> None:
    for each in job.left:
        tell(f"left as it is: {each.name[:MAX_SAID_CHARS]}: {each.why}")
        tell(f"  {each.remedy}")


def _nothing(job: _Job) -> int:
    if is_for_programs():
        return _report(job, None)
    _tell_left(job)
    if job.wish.name is not None and not job.left:
        raise ConfigurationError(f"{job.file} has no server {job.wish.name!a} of its own", "accredit install --list")
    say(f"nothing to do: {job.file} has no {'other ' if job.left else ''}servers of its own")
    return (
        1 if job.left and not any(is_own(job.host.words(each)) for each in entries(job.host, job.old).values()) else 0
    )


def _report(job: _Job, backup: Path | None) -> int:
    planned = job.plan
    config = shlex.quote(str(planned.file))
    notes = [*_notes(job)]
    if is_for_programs():
        adopted = [{"name": each.own.name, "server": each.server} for each in planned.adopted]
        print_json(
            {"host": job.host.name, "file": str(job.file), "config": str(planned.file), "adopted": adopted,
             "left": [each._asdict() for each in job.left], "secrets": [str(each) for each in planned.secrets],
             "notes": notes, "changed": backup is not None, "backup": None if backup is None else str(backup)}
        )  # fmt: skip
        return 0 if job.entries or not job.left else 1
    for note in notes:
        tell(f"note: {note}")
    if backup is None:
        return 0
    say_whole(
        f"wrote {planned.file}, and {job.file}: {len(job.entries)} of {job.host.name}'s servers are behind it", GOOD
    )
    say_whole(f"what {job.host.name} had before, credentials included: {backup}", QUIET)
    say("")
    say("next:")
    named = shlex.quote(str(config))
    say_whole(f"  accredit up --config {named}    # where it runs already: accredit reload --config {named}")
    say_whole(f"  and restart {job.host.name}. To undo this: accredit uninstall {job.host.name} --restore")
    return 0


def _notes(job: _Job) -> list[str]:
    planned = job.plan
    notes = [
        f"{each.own.name} is {each.server} in {planned.file.name}"
        for each in planned.adopted
        if each.server != each.own.name
    ]
    notes += [
        f"set {name} before the gateway starts: it is not set here"
        for name in unset([each.own for each in planned.adopted])
    ]
    if planned.loaded.config.proofs.mode != "observe":
        notes.append(
            f"{planned.file.name} has proofs.mode = {planned.loaded.config.proofs.mode!a}: agents are not told apart"
        )
    if job.wish.project:
        notes.append(f"the gateway runs what {job.file} says, as you: read it, if somebody else wrote it")
        notes.append(
            f"{job.file} leads to this machine's gateway now: whoever shares the project needs one of their own"
        )
    return notes

"""Checks the person's folder: permissions, key files and their modes, and delegations. I/O: files."""

from collections.abc import Iterator
from pathlib import Path

from accredit.base.clock import unix_seconds
from accredit.console.settings import DESK_FILE, find_key, keys_in, read_settings
from accredit.errors import ConfigurationError
from accredit.keys import KeyFile, LockedKeyFile, PrivateKeyFile, load_public_key, public_path, read_key
from accredit.keys.own_files import fault_of_folder
from accredit.keys.places import DELEGATION
from accredit.limits import MAX_KEY_FILES
from accredit.ops.doctor.engine import Result, bad, command_line, faulty, good, into_file, note
from accredit.ops.doctor.surroundings import Surroundings
from accredit.setup.own_grant import fault_of_grant, grant_command
from accredit.setup.own_keys import AGENT_KEY

_OTHERS = 0o077


def look_at_keys(at: Surroundings) -> Iterator[Result]:
    """Yield findings about keys and delegations."""
    folder = at.folder
    if not folder.is_dir():
        yield note("keys", f"there are no keys in {folder}", "`accredit up URL` makes them")
        return
    fault = fault_of_folder(folder)
    if fault is not None:
        yield bad("keys", fault.text, "take that right away: who writes there signs in your name", fault.command)
    files = sorted({*folder.glob("*.key"), *folder.glob("agents/*/*.key")})[:MAX_KEY_FILES]
    found = [finding for path in files for finding in look_at_key(path)]
    yield from found
    yield from _person(at)
    if not found and files:
        yield good("keys", f"{len(files)} private keys in {folder}, which only you can read")
    for key in files:
        grant = key.with_name(DELEGATION)
        if key.name == AGENT_KEY and grant.is_file():
            yield from look_at_grant(at, key, grant)


def look_at_key(path: Path) -> Iterator[Result]:
    """Yield what is wrong with a private key and its public half."""
    try:
        mode = path.stat().st_mode
        if mode & _OTHERS:
            what = f"{path} is a private key that others can read (mode {mode & 0o7777:04o})"
            remedy = "take that right away, and think of the key as known to whoever could read it"
            yield bad("keys", what, remedy, command_line("chmod", "600", str(path)))
            return
        key = read_key(path)
    except OSError as error:
        yield bad("keys", f"can't look at {path}: {error.strerror}", "name the key that is meant, or make one")
        return
    except ConfigurationError as error:
        yield faulty("keys", error)
        return
    if not isinstance(key, PrivateKeyFile | LockedKeyFile):
        yield bad("keys", f"{path} is a public key under a private one's name", "put the private key there")
        return
    yield from _public_half(path, key.public())
    if key.kind == "human" and isinstance(key, PrivateKeyFile):
        yield note("keys", f"{path} has no passphrase: any program of yours can sign with it", "make one that has")


def _public_half(path: Path, about: KeyFile) -> Iterator[Result]:
    public = public_path(path)
    command = into_file(str(public), "accredit", "keys", "show", str(path), "--public")
    try:
        if load_public_key(public) != about:
            yield bad("keys", f"{public} is not the public half of {path}", "make it again from that", command)
    except ConfigurationError:
        yield bad("keys", f"{path} has no public half that can be read", "make it again from that", command)


def _person(at: Surroundings) -> Iterator[Result]:
    try:
        settings = read_settings(at.environ)
    except ConfigurationError:
        return  # which the look at the desk says
    found = keys_in(at.folder)
    if settings.key_file is None and len(found) > 1:
        file = at.folder / DESK_FILE
        names = ", ".join(each.name for each in found)
        line = f'[desk]\\nkey_file = "{found[0].name}"\\n'
        command = "" if file.exists() else into_file(str(file), "printf", line)
        yield bad("keys", f"there are several human keys: {names}", f"name yours in {file}: key_file", command)
        return
    try:
        find_key(settings)
    except ConfigurationError as error:
        yield note("keys", error.what, error.remedy)


def look_at_grant(at: Surroundings, key: Path, grant: Path) -> Iterator[Result]:
    """Yield findings on whether a delegation is valid for an agent."""
    file = at.file if at.is_own and at.loaded is not None else None
    observes = at.loaded is not None and at.loaded.config.proofs.mode != "required"
    command = grant_command(file, at.person_key, key, grant, observes=observes)
    command = command if command.isascii() and command.isprintable() else ""
    try:
        fault = fault_of_grant(grant, load_public_key(public_path(key)), at.roots, unix_seconds(), at.revoked)
    except ConfigurationError as error:
        if not public_path(key).is_file():
            return  # which the look at the key says
        yield bad("keys", error.what, "sign another", command)
        return
    if fault is None:
        yield good("keys", f"{grant} counts")
    elif fault.is_bad:
        yield bad("keys", fault.text, "sign another", command)
    else:
        yield note("keys", fault.text, "sign another", command)

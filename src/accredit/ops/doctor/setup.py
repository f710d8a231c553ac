"""Checks the configuration and its store: owners, permissions, and whether a gateway would accept them. I/O: files; a
database only if the configuration is the person's own.

A store's file is read by `stores.sqlite.untouched`, which leaves it as it is.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from accredit.app.assemble import revocation_lists
from accredit.config.build import build_all_settings
from accredit.config.listen import check_no_loop, tls_context
from accredit.config.load import Loaded
from accredit.config.named_files import named_files
from accredit.config.store import store_of
from accredit.errors import ConfigurationError, StoreUnavailable
from accredit.gateway.settings import ProofSettings
from accredit.keys.own_files import fault_of_file, fault_of_folder
from accredit.ops.doctor.engine import MIGRATE, Result, bad, command_line, faulty, good, note
from accredit.ops.doctor.surroundings import Surroundings
from accredit.stores import InMemory, LogStore
from accredit.stores.sqlite.schema import SCHEMA
from accredit.stores.sqlite.untouched import DAMAGE_REMEDY, schema_version


def look_at_configuration(at: Surroundings) -> Iterator[Result]:
    """Yield findings about the configuration."""
    if at.file is None:
        yield note("configuration", "there is none here", "`accredit up URL` makes one; --config FILE names another")
        return
    fault = fault_of_file(at.file)
    if fault is not None:
        yield bad("configuration", fault.text, "take that right away: who writes there decides", fault.command)
    if not at.is_own:
        what = f"{at.file} was not made by accredit up: it may be somebody else's"
        yield note("configuration", what, "read it; with --config FILE its database is looked at, too")
    if at.loaded is None:
        if at.problem is not None:
            yield faulty("configuration", at.problem)
        return
    yield from _look_at_folders(at.loaded)
    try:
        servers = build_all_settings(at.loaded, at.environ)
        check_no_loop(at.loaded.config.gateway, servers)
        tls_context(at.loaded.config.gateway)
        _check_lists(at.loaded, servers[0].proofs)
    except ConfigurationError as error:
        yield bad("configuration", error.what, error.remedy, _command(at, at.loaded))
        return
    mode = at.loaded.config.proofs.mode
    if mode != "required":
        yield note("configuration", f'proofs.mode is "{mode}": no call is refused for want of a proof')
    yield good("configuration", f"{at.file} is one that a gateway takes")


def _look_at_folders(loaded: Loaded) -> Iterator[Result]:
    """Yield the folders that a server's command runs in and that others can write to."""
    for each in named_files(loaded):
        fault = fault_of_folder(each.path) if each.use.is_folder else None
        if fault is not None:
            remedy = "take that right away: who writes there may change what the server's command runs"
            yield bad("configuration", f"{each.name}: {fault.text}", remedy, fault.command)


def _check_lists(loaded: Loaded, proofs: ProofSettings | None) -> None:
    """Check that each named revocation list file exists and is valid. Raises `ConfigurationError`."""
    if proofs is not None and proofs.judged:
        nowhere = InMemory()
        revocation_lists(loaded, proofs, nowhere, nowhere.open(), None)


def _command(at: Surroundings, loaded: Loaded) -> str:
    """Return the command that copies the person's public key to the missing key file of the only root; "" if that can't
    help."""
    public = at.person_key.with_name(f"{at.person_key.name}.pub")
    roots = loaded.config.proofs.roots
    missing = Path(roots[0].public_key_file) if len(roots) == 1 else None
    if at.file is None or missing is None or missing.parent != at.file.parent or not public.is_file():
        return ""
    return command_line("cp", str(public), str(missing)) if not os.path.lexists(missing) else ""


def look_at_store(at: Surroundings) -> Iterator[Result]:
    """Yield findings about the store."""
    if at.loaded is None or at.file is None:
        return
    try:
        store = store_of(at.loaded)
    except ConfigurationError as error:
        yield faulty("store", error)
        return
    if store.file is not None:
        yield from _look_at_file(store.file)
    elif store.lasting is not None:
        yield from _look_at_database(at, store.lasting)
    elif at.loaded.config.proofs.mode != "off":
        table = command_line('\\n[store]\\nurl = "sqlite:///accredit.db"\\n')
        command = "" if ("store", "url") in at.loaded.origins else f"printf {table} >> {command_line(str(at.file))}"
        what = "the store is in memory: with a restart it is forgotten which proofs were used"
        yield note("store", what, 'set store.url = "sqlite:///accredit.db"', command)


def _look_at_file(path: Path) -> Iterator[Result]:
    if not os.path.lexists(path):
        yield good("store", f"{path} is made when the gateway starts")
        return
    fault = fault_of_file(path)
    if fault is not None:
        yield bad("store", fault.text, "take that right away: who writes there decides what was used", fault.command)
        return
    aside = command_line("mv", str(path), f"{path}.damaged")
    try:
        version = schema_version(path, check=True)
    except StoreUnavailable as error:
        what = f"{path} can't be read: {error}"
        yield bad("store", what, DAMAGE_REMEDY, aside)
        return
    if version > len(SCHEMA):
        yield bad("store", f"{path} was made by a newer accredit", "install that one")
    else:
        yield good("store", f"{path} can be read")


def _look_at_database(at: Surroundings, store: LogStore) -> Iterator[Result]:
    if not at.is_own:
        yield note("store", f"{store.name} was not asked", "with --config FILE it is")
        return
    try:
        there = store.schema_state()
    except (StoreUnavailable, ConfigurationError) as error:
        yield bad("store", f"{store.name}: {error}", "look whether it runs, and whether this user may connect")
        return
    found, known, _ = there
    if found == known:
        yield good("store", f"{store.name} has schema {found}, which is current")
    elif there.serves:
        what = f"{store.name} has schema {found}: gateways run on it, and {known} is current"
        yield note("store", what, f"once all gateways are of this version, {MIGRATE}")
    elif found is None or found < known:
        command = command_line("accredit", "store", "migrate", "--config", str(at.file))
        yield bad("store", f"{store.name} lacks tables of accredit", f"have them made; or {MIGRATE}", command)
    else:
        yield bad("store", f"{store.name} has tables of a newer accredit", "install that one")

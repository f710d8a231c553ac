"""Checks the configuration and its store: owners, permissions, and whether a gateway would accept them. I/O: files; a
database only if the configuration is the person's own.

A store's file is opened without creating anything beside it, and checked only as far as time allows.
"""

import os
import sqlite3
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from accredit.app.assemble import revocation_lists
from accredit.cli.actions.doctor.engine import MIGRATE, Result, bad, command_line, faulty, good, note
from accredit.cli.actions.doctor.surroundings import Surroundings
from accredit.cli.actions.own_files import fault_of_file
from accredit.config import Loaded, build_all_settings, store_of
from accredit.config.listen import check_no_loop, tls_context
from accredit.errors import ConfigurationError, StoreUnavailable
from accredit.gateway.settings import ProofSettings
from accredit.stores import InMemory, PostgresDatabase, SqliteFile, open_store
from accredit.stores.postgres import migration
from accredit.stores.sqlite.database import check_regular
from accredit.stores.sqlite.schema import SCHEMA

DOCTOR_STORE_SECONDS = 2.0
"""How long a store's file is checked for damage: a large one is not read to its end."""


_STEPS_BETWEEN_LOOKS = 10_000


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


def _check_lists(loaded: Loaded, proofs: ProofSettings | None) -> None:
    """Check that each named revocation list file exists and is valid. Raises `ConfigurationError`."""
    if proofs is not None and proofs.judged:
        nowhere = InMemory()
        revocation_lists(loaded, proofs, nowhere, open_store(nowhere), None)


def _command(at: Surroundings, loaded: Loaded) -> str:
    """Return the command that restores the only root's missing public key from the person's own key; "" if that can't
    help."""
    public = at.person_key.with_name(f"{at.person_key.name}.pub")
    roots = loaded.config.proofs.roots
    if at.file is None or len(roots) != 1 or not public.is_file() or "/" in roots[0].public_key_file:
        return ""
    missing = at.file.with_name(roots[0].public_key_file)
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
    if isinstance(store, InMemory):
        if at.loaded.config.proofs.mode != "off":
            table = command_line('\\n[store]\\nurl = "sqlite:///accredit.db"\\n')
            command = "" if ("store", "url") in at.loaded.origins else f"printf {table} >> {command_line(str(at.file))}"
            what = "the store is in memory: with a restart it is forgotten which proofs were used"
            yield note("store", what, 'set store.url = "sqlite:///accredit.db"', command)
    elif isinstance(store, SqliteFile):
        yield from _sqlite(store.path)
    else:
        yield from _postgres(at, store)


def _sqlite(path: Path) -> Iterator[Result]:
    if not os.path.lexists(path):
        yield good("store", f"{path} is made when the gateway starts")
        return
    fault = fault_of_file(path)
    if fault is not None:
        yield bad("store", fault.text, "take that right away: who writes there decides what was used", fault.command)
        return
    aside = command_line("mv", str(path), f"{path}.damaged")
    try:
        version = _version(path)
    except (sqlite3.Error, StoreUnavailable) as error:
        what = f"{path} can't be read: {error}"
        remedy = "restore it from a backup; or begin a new one, and keep this: what was recorded is in it"
        yield bad("store", what, remedy, aside)
        return
    if version > len(SCHEMA):
        yield bad("store", f"{path} was made by a newer accredit", "install that one")
    else:
        yield good("store", f"{path} can be read")


def _version(path: Path) -> int:
    """Check the file for at most `DOCTOR_STORE_SECONDS`; return the version of its tables. Raises `sqlite3.Error` and
    `StoreUnavailable`."""
    late_at = time.monotonic() + DOCTOR_STORE_SECONDS
    with reading_only(path) as connection:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        try:
            (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
        except sqlite3.OperationalError:  # it is large, and good as far as was read
            if time.monotonic() <= late_at:
                raise
            found = "ok"
        if found != "ok":
            raise sqlite3.DatabaseError(str(found))
        return int(version)


@contextmanager
def reading_only(path: Path) -> Generator[sqlite3.Connection]:
    """Open a store's file, creating nothing beside it, for at most `DOCTOR_STORE_SECONDS`. Raises `sqlite3.Error`, and
    `StoreUnavailable` for anything but a regular file."""
    check_regular(path)
    late_at = time.monotonic() + DOCTOR_STORE_SECONDS
    how = "immutable=1" if is_still(path) else "mode=ro"
    connection = sqlite3.connect(f"file:{quote(str(path.absolute()))}?{how}", uri=True, timeout=DOCTOR_STORE_SECONDS)
    try:
        connection.set_progress_handler(lambda: int(time.monotonic() > late_at), _STEPS_BETWEEN_LOOKS)
        yield connection
    finally:
        connection.close()


def is_still(path: Path) -> bool:
    """Return whether nobody writes to a store's file (it has no WAL). It can then be read without creating a WAL."""
    return not path.with_name(f"{path.name}-wal").exists()


def _postgres(at: Surroundings, store: PostgresDatabase) -> Iterator[Result]:
    if not at.is_own:
        yield note("store", f"{store.name} was not asked", "with --config FILE it is")
        return
    try:
        there = migration.status(store)
    except (StoreUnavailable, ConfigurationError) as error:
        yield bad("store", f"{store.name}: {error}", "look whether it runs, and whether this user may connect")
        return
    found, known = there
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

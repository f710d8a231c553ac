"""Reads a store's file so that it and its folder stay as they are: nothing is created, upgraded or kept open. Blocking
I/O, for at most `UNTOUCHED_SECONDS`."""

import os
import shlex
import sqlite3
import time
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import quote

from accredit.base.text import one_line
from accredit.errors import ConfigurationError, StoreUnavailable
from accredit.stores.sqlite.database import check_regular

UNTOUCHED_SECONDS = 2.0
"""How long a store's file may be read, or checked for damage. A large file is not read to its end."""

DAMAGE_REMEDY = "restore it from a backup; or begin a new one, and keep this: what was recorded is in it"
_STEPS_BETWEEN_LOOKS = 10_000
_PRIMARY = 0xFF  # the low byte of SQLite's extended error codes
_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def schema_version(path: Path, *, check: bool = False) -> int:
    """Return the version of a file's tables. With `check`, also look for damage, as far as time allows. Raises
    `StoreUnavailable`."""
    late_at = time.monotonic() + UNTOUCHED_SECONDS
    with reading_only(path) as connection:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        try:
            (found,) = connection.execute("PRAGMA quick_check(1)").fetchone() if check else ("ok",)
        except sqlite3.OperationalError:  # it is large, and good as far as was read
            if time.monotonic() <= late_at:
                raise
            found = "ok"
        if found != "ok":
            raise StoreUnavailable(str(found))
        return int(version)


def find_damage(path: Path, seconds: float | None = UNTOUCHED_SECONDS) -> str | None:
    """Return how a store's file is damaged, anywhere in it. Return None if it is intact, as far as could be read within
    `seconds` (None: to its end), or can't be opened, or does not exist. Others may write to it meanwhile."""
    check_regular(path)
    if not os.path.exists(path):
        return None
    late_at = float("inf") if seconds is None else time.monotonic() + seconds
    address = f"file:{quote(str(path.absolute()))}?mode=ro"
    try:
        with closing(sqlite3.connect(address, uri=True, timeout=UNTOUCHED_SECONDS)) as connection:
            connection.set_progress_handler(lambda: int(time.monotonic() > late_at), _STEPS_BETWEEN_LOOKS)
            (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.Error as error:
        return str(error) if getattr(error, "sqlite_errorcode", 0) & _PRIMARY in _DAMAGE else None
    return None if found == "ok" else one_line(str(found))


def damage_error(path: Path, damage: str) -> ConfigurationError:
    """Return the error for a damaged file of a store."""
    aside = shlex.join(["mv", str(path), f"{path}.damaged"])
    return ConfigurationError(f"{path} can't be read: {damage}", f"{DAMAGE_REMEDY}: {aside}")


@contextmanager
def reading_only(path: Path) -> Generator[sqlite3.Connection]:
    """Open a file for reading. Raises `StoreUnavailable` for anything but a regular file, and for every error of
    SQLite."""
    check_regular(path)
    late_at = time.monotonic() + UNTOUCHED_SECONDS
    how = "immutable=1" if is_still(path) else "mode=ro"
    try:
        connection = sqlite3.connect(f"file:{quote(str(path.absolute()))}?{how}", uri=True, timeout=UNTOUCHED_SECONDS)
        try:
            connection.set_progress_handler(lambda: int(time.monotonic() > late_at), _STEPS_BETWEEN_LOOKS)
            yield connection
        finally:
            connection.close()
    except sqlite3.Error as error:
        raise StoreUnavailable(str(error)) from None


def is_still(path: Path) -> bool:
    """Return whether a file has no write-ahead log (WAL): then nobody writes to it, and it can be read without creating
    a WAL."""
    return not path.with_name(f"{path.name}-wal").exists()

"""Parses a store's URL, and reads the revocation lists of a store."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import asdict

from accredit.base.deferred import Deferred
from accredit.errors import ConfigurationError
from accredit.ports import ProofStore
from accredit.ratify import HybridPublicKey
from accredit.stores.kinds import InMemory
from accredit.stores.postgres.address import SCHEME, parse_address

if TYPE_CHECKING:
    from accredit.stores import lasting, revocation
    from accredit.stores.postgres import driver
else:  # a gateway that keeps nothing between calls does without them, and they take 3 MiB
    lasting, revocation = Deferred("accredit.stores.lasting"), Deferred("accredit.stores.revocation")
    driver = Deferred("accredit.stores.postgres.driver")

_MEMORY = "memory:"
_SQLITE = "sqlite:///"
_REMEDY = (
    "write memory: for one process, sqlite:///FILE for all processes of this machine, or postgresql://USER@HOST/DATABASE"
    " for many machines"
)


def store_url_fault(url: str) -> str | None:
    """Return what is wrong with a store's URL, or None. Files are not examined. The text follows the setting's name in
    an error message, and does not quote the URL, which may hold a password."""
    if url.startswith(SCHEME):
        try:
            parse_address(url)
        except ConfigurationError as error:
            return error.what.removeprefix("store.url").lstrip(": ")
    elif url != _MEMORY and not url.startswith(_SQLITE):
        return f'should be "{_MEMORY}" or begin with "{_SQLITE}" or "{SCHEME}"'
    return None


def parse_store_url(url: str, folder: Path) -> "lasting.StoreUrl":
    """Parse a store's URL; a file's path is relative to `folder`. Raises `ConfigurationError`."""
    if url == _MEMORY:
        return InMemory()
    if url.startswith(SCHEME):
        driver.require_driver()
        return lasting.PostgresDatabase(**asdict(parse_address(url)))
    name = url.removeprefix(_SQLITE)
    if name == url:
        scheme = url.partition(":")[0]
        raise ConfigurationError(f"store.url: {scheme!r} is no store of this version of accredit", _REMEDY)
    if not name.isprintable() or not name.strip("/") or name.endswith("/") or "?" in name or "#" in name:
        raise ConfigurationError(f"store.url: {url!r} names no file", _REMEDY)
    path = folder / name
    if not path.parent.is_dir():
        raise ConfigurationError(f"store.url: there is no folder {path.parent}", "make it, or name another file")
    return lasting.SqliteFile(path)


def open_revocations(
    url: "lasting.StoreUrl",
    opened: ProofStore,
    files: Iterable[Path],
    keys: Mapping[str, HybridPublicKey],
    on_problem: Callable[[str], None],
    before: "revocation.RevocationLists | None" = None,
) -> "revocation.RevocationLists":
    """Return the revocation lists in `files` and in the opened store, after reading them. `before` is the object that
    had the lists until now, if any. Raises `ConfigurationError`."""
    lists = revocation.RevocationLists(files, keys, store=url.list_source(opened), on_problem=on_problem, before=before)
    lists.load()
    return lists
